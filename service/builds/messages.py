"""What crosses the border between a worker and the builder, its child: one job in, a line of JSON an event out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Job:
    """Written as JSON into the job's folder, where `model.onnx` and its external data lie and `plan` will.

    `profiles` maps inputs to `Range` fields.
    """

    backend: str
    targets: tuple[str, ...]
    profiles: tuple[dict[str, dict[str, Any]], ...]
    memory: int
    """Bytes of private memory that the builder may take."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        given: dict[str, Any] = json.loads(text)
        for name in ("targets", "profiles"):
            given[name] = tuple(given[name])
        return cls(**given)


@dataclass(frozen=True)
class Advanced:
    """`fraction` (0 to 1) never falls during a build."""

    phase: str
    fraction: float
    kind: Literal["advanced"] = "advanced"


@dataclass(frozen=True)
class Finished:
    """The plan lies in the folder; `built` is `Built.to_json`."""

    built: dict[str, Any]
    kind: Literal["finished"] = "finished"


@dataclass(frozen=True)
class Failed:
    """The build ended with a reason for the user."""

    detail: str
    kind: Literal["failed"] = "failed"


Event = Advanced | Finished | Failed


def event_line(event: Event) -> bytes:
    return json.dumps(asdict(event)).encode() + b"\n"


def event_from_line(line: bytes) -> Event:
    """Raises ValueError for a line that is no event: a child that dies may leave half of one."""
    given = json.loads(line)
    kinds: dict[str, type[Event]] = {"advanced": Advanced, "finished": Finished, "failed": Failed}
    return kinds[given["kind"]](**given)
