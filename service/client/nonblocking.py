"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from service.client import calls
from service.client.calls import HOUR, TIMEOUT, URL, Array, Ask, Call, Json, Report, T, error_from_response, written


class AsyncClient:
    """`Client` for asyncio. `reference`: an engine's id, `NAME` or `NAME:3`. Every method raises ServiceErrors.

    `httpx.HTTPError` says that the service could not be reached.
    """

    def __init__(self, url: str = URL, **options: Any) -> None:
        """`options` are httpx's."""
        self._http = httpx.AsyncClient(**{"base_url": url, "timeout": TIMEOUT, **options})

    async def plugins(self) -> list[Json]:
        listed: list[Json] = (await self._do(calls.get_json("/plugins")))["plugins"]
        return listed

    async def plugin(self, name: str, version: str | None = None, namespace: str | None = None) -> Json:
        return await self._do(calls.get_json(f"/plugins/{name}", version=version, namespace=namespace))

    async def build_json(self, body: Json) -> Json:
        """Queues a build of a network described in JSON; gives the engine."""
        return await self._do(calls.post_json("/engines", body))

    async def build_onnx(self, model: Path, options: Json, data: Sequence[Path] = ()) -> Json:
        """Queues a build of an ONNX file. `data`: its external data, named as the model names it."""
        return await self._do(calls.build_onnx(model, options, data))

    async def wait(self, reference: str, report: Report | None = None, timeout: float = HOUR) -> Json:
        """The engine once it is ready. Raises BuildFailed, and DeadlineExceeded after `timeout` seconds.

        `report` is called with the engine after every look.
        """
        return await self._do(calls.wait(reference, report, timeout))

    async def engine(self, reference: str) -> Json:
        return await self._do(calls.get_json(f"/engines/{reference}"))

    async def engines(
        self, name: str | None = None, status: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Json:
        """A page: `engines`, newest first, and `next`, the cursor of the page after."""
        return await self._do(calls.get_json("/engines", name=name, status=status, limit=limit, cursor=cursor))

    async def infer(
        self,
        reference: str,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, Array]:
        """Outputs by name. `parameters` are the request's: `reference` (true or false), `timeout` (microseconds)."""
        return await self._do(calls.infer(reference, inputs, outputs, parameters or {}))

    async def plan(self, reference: str) -> bytes:
        return await self._do(calls.content(f"/engines/{reference}/plan"))

    async def save_plan(self, reference: str, path: Path) -> None:
        """Writes the plan to `path` as it arrives."""
        await self._do(calls.content(f"/engines/{reference}/plan", path))

    async def model(self, reference: str) -> bytes:
        return await self._do(calls.content(f"/engines/{reference}/model"))

    async def log(self, reference: str) -> str:
        return await self._do(calls.text(f"/engines/{reference}/log"))

    async def load(self, reference: str) -> Json:
        """Returns once the engine is in memory; `loaded` and `memory` (bytes) tell of it."""
        return await self._do(calls.post_json(f"/engines/{reference}/load"))

    async def unload(self, reference: str) -> Json:
        return await self._do(calls.post_json(f"/engines/{reference}/unload"))

    async def change_serving(self, reference: str, **serving: Any) -> Json:
        """Changes the given keys of `serving`."""
        return await self._do(calls.patch_json(f"/engines/{reference}", {"serving": serving}))

    async def cancel(self, reference: str) -> Json:
        return await self._do(calls.post_json(f"/engines/{reference}/cancel"))

    async def delete(self, reference: str) -> None:
        await self._do(calls.delete(f"/engines/{reference}"))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _do(self, call: Call[T]) -> T:
        answer: httpx.Response | None = None
        while True:
            try:
                step = call.send(answer)  # type: ignore[arg-type]  # a generator starts with None
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Ask):
                answer = await self._ask(step)
            else:
                await asyncio.sleep(step.seconds)

    async def _ask(self, ask: Ask) -> httpx.Response:
        async with self._http.stream(ask.method, ask.path, **ask.options) as response:
            if response.is_error:
                await response.aread()
                raise error_from_response(response)
            if ask.save is None:
                await response.aread()
                return response
            with written(ask.save) as file:
                async for data in response.aiter_bytes():
                    file.write(data)
            return response
