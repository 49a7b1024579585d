"""What the clients do, without doing it: each call says what to send and goes on with the answer.

So that the sync and the async client share every line that knows the API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import httpx
import numpy as np

from service.client.tensors import message_from_arrays, outputs_from_message
from service.errors import BuildFailed, DeadlineExceeded, Fault, ServiceError, problem_type

Json = dict[str, Any]
Array = np.ndarray[Any, np.dtype[Any]]
Report = Callable[[Json], None]
T = TypeVar("T")
URL = "http://127.0.0.1:8000"
HOUR = 3600.0
TIMEOUT = httpx.Timeout(10, read=300, write=300)


@dataclass(frozen=True)
class Ask:
    """A request; its answer's body goes to `save` where that is given."""

    method: str
    path: str
    options: Mapping[str, Any] = field(default_factory=dict)
    save: Path | None = None


@dataclass(frozen=True)
class Pause:
    seconds: float


Call = Generator[Ask | Pause, httpx.Response, T]


def get_json(path: str, **query: Any) -> Call[Json]:
    response = yield Ask("GET", path, {"params": {name: value for name, value in query.items() if value is not None}})
    return parsed(response)


def post_json(path: str, body: Json | None = None) -> Call[Json]:
    response = yield Ask("POST", path, {} if body is None else {"json": body})
    return parsed(response)


def patch_json(path: str, body: Json) -> Call[Json]:
    response = yield Ask("PATCH", path, {"json": body})
    return parsed(response)


def delete(path: str) -> Call[None]:
    yield Ask("DELETE", path)


def text(path: str) -> Call[str]:
    response = yield Ask("GET", path)
    return response.text


def content(path: str, save: Path | None = None) -> Call[bytes]:
    response = yield Ask("GET", path, save=save)
    return b"" if save else response.content


def build_onnx(model: Path, options: Json, data: Sequence[Path]) -> Call[Json]:
    with ExitStack() as stack:
        parts: list[tuple[str, Any]] = [("options", (None, json.dumps(options), "application/json"))]
        for name, path in [("model", model), *(("data", each) for each in data)]:
            parts.append((name, (path.name, stack.enter_context(path.open("rb")), "application/octet-stream")))
        response = yield Ask("POST", "/engines", {"files": parts})
    return parsed(response)


def wait(reference: str, report: Report | None, timeout: float) -> Call[Json]:
    waited, pause = 0.0, 0.05
    while True:
        engine = yield from get_json(f"/engines/{reference}")
        if report:
            report(engine)
        if engine["status"] in ("ready", "failed", "cancelled"):
            return _ready(engine)
        if waited >= timeout:
            raise DeadlineExceeded(f"engine {_title(engine)} is {engine['status']} after {timeout:g} s")
        yield Pause(pause)
        waited, pause = waited + pause, min(pause * 1.5, 1.0)


def infer(
    reference: str, inputs: Mapping[str, Array], outputs: Sequence[str] | None, parameters: Mapping[str, Any]
) -> Call[dict[str, Array]]:
    headers, body = message_from_arrays(inputs, outputs, parameters)
    response = yield Ask("POST", f"/engines/{reference}/infer", {"content": body, "headers": headers})
    return outputs_from_message(response.headers, response.content)


def _ready(engine: Json) -> Json:
    if engine["status"] == "ready":
        return engine
    why = (engine["error"] or {}).get("detail", f"it was {engine['status']}")
    raise BuildFailed(f"engine {_title(engine)} was not built: {why}")


def _title(engine: Json) -> str:
    return f"{engine['name']}:{engine['version']}"


def parsed(response: httpx.Response) -> Json:
    answer: Json = response.json()
    return answer


def error_from_response(response: httpx.Response) -> ServiceError:
    """The service's own error again, or one that shows what else answered."""
    try:
        problem = response.json()
        faults = [Fault(each["pointer"], each["detail"]) for each in problem.get("errors", [])]
        kind = _kinds().get(problem["type"], ServiceError)
        error = kind(problem["detail"], faults)
    except (ValueError, KeyError, TypeError, AttributeError):
        error = ServiceError(f"status {response.status_code}, and no problem details: {response.text[:200]}")
    if "retry-after" in response.headers:
        error.retry_after = float(response.headers["retry-after"])
    return error


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name once it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _kinds() -> dict[str, type[ServiceError]]:
    return {problem_type(kind): kind for kind in ServiceError.__subclasses__()}
