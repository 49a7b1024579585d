"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from service.client import calls
from service.client.calls import HOUR, TIMEOUT, URL, Array, Ask, Call, Json, Report, T, error_from_response, written


class Client:
    """Waits for each answer. `reference`: an engine's id, `NAME` or `NAME:3`. Every method raises ServiceErrors.

    `httpx.HTTPError` says that the service could not be reached.
    """

    def __init__(self, url: str = URL, **options: Any) -> None:
        """`options` are httpx's."""
        self._http = httpx.Client(**{"base_url": url, "timeout": TIMEOUT, **options})

    def plugins(self) -> list[Json]:
        listed: list[Json] = self._do(calls.get_json("/plugins"))["plugins"]
        return listed

    def plugin(self, name: str, version: str | None = None, namespace: str | None = None) -> Json:
        return self._do(calls.get_json(f"/plugins/{name}", version=version, namespace=namespace))

    def build_json(self, body: Json) -> Json:
        """Queues a build of a network described in JSON; gives the engine."""
        return self._do(calls.post_json("/engines", body))

    def build_onnx(self, model: Path, options: Json, data: Sequence[Path] = ()) -> Json:
        """Queues a build of an ONNX file. `data`: its external data, named as the model names it."""
        return self._do(calls.build_onnx(model, options, data))

    def wait(self, reference: str, report: Report | None = None, timeout: float = HOUR) -> Json:
        """The engine once it is ready. Raises BuildFailed, and DeadlineExceeded after `timeout` seconds.

        `report` is called with the engine after every look.
        """
        return self._do(calls.wait(reference, report, timeout))

    def engine(self, reference: str) -> Json:
        return self._do(calls.get_json(f"/engines/{reference}"))

    def engines(
        self, name: str | None = None, status: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Json:
        """A page: `engines`, newest first, and `next`, the cursor of the page after."""
        return self._do(calls.get_json("/engines", name=name, status=status, limit=limit, cursor=cursor))

    def infer(
        self,
        reference: str,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, Array]:
        """Outputs by name. `parameters` are the request's: `reference` (true or false), `timeout` (microseconds)."""
        return self._do(calls.infer(reference, inputs, outputs, parameters or {}))

    def plan(self, reference: str) -> bytes:
        return self._do(calls.content(f"/engines/{reference}/plan"))

    def save_plan(self, reference: str, path: Path) -> None:
        """Writes the plan to `path` as it arrives."""
        self._do(calls.content(f"/engines/{reference}/plan", path))

    def model(self, reference: str) -> bytes:
        return self._do(calls.content(f"/engines/{reference}/model"))

    def log(self, reference: str) -> str:
        return self._do(calls.text(f"/engines/{reference}/log"))

    def load(self, reference: str) -> Json:
        """Returns once the engine is in memory; `loaded` and `memory` (bytes) tell of it."""
        return self._do(calls.post_json(f"/engines/{reference}/load"))

    def unload(self, reference: str) -> Json:
        return self._do(calls.post_json(f"/engines/{reference}/unload"))

    def change_serving(self, reference: str, **serving: Any) -> Json:
        """Changes the given keys of `serving`."""
        return self._do(calls.patch_json(f"/engines/{reference}", {"serving": serving}))

    def cancel(self, reference: str) -> Json:
        return self._do(calls.post_json(f"/engines/{reference}/cancel"))

    def delete(self, reference: str) -> None:
        self._do(calls.delete(f"/engines/{reference}"))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, call: Call[T]) -> T:
        answer: httpx.Response | None = None
        while True:
            try:
                step = call.send(answer)  # type: ignore[arg-type]  # a generator starts with None
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Ask):
                answer = self._ask(step)
            else:
                time.sleep(step.seconds)

    def _ask(self, ask: Ask) -> httpx.Response:
        with self._http.stream(ask.method, ask.path, **ask.options) as response:
            if response.is_error:
                response.read()
                raise error_from_response(response)
            if ask.save is None:
                response.read()
                return response
            with written(ask.save) as file:
                for data in response.iter_bytes():
                    file.write(data)
            return response
