"""An engine, as the hosts see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from service.hosting.process import HostProcess


class Servable(Protocol):
    """What the hosts need to know of an engine; `inputs`, `outputs` and `serving` are as api.md gives them."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def serving(self) -> Mapping[str, Any]: ...
    @property
    def inputs(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def outputs(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def profiles(self) -> Sequence[Mapping[str, Any]]:
        """Each maps inputs to the fields of a `Range`."""


@dataclass(frozen=True)
class Batching:
    """Requests wait up to `max_delay_us` for each other, and up to `max_batch` rows run as one."""

    max_batch: int
    max_delay_us: int = 500


@dataclass(frozen=True)
class Serving:
    """How an engine is served."""

    instances: int = 1
    """How many runs at once."""
    queue: int = 64
    """How many more requests may wait."""
    timeout_us: int = 0
    """How long a request may take that does not say; 0: as the service has it."""
    warmup: bool = False
    """Whether it is run before it counts as loaded."""
    pinned: bool = False
    """Whether it never gives way to others."""
    batching: Batching | None = None

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Serving:
        known = {name: given[name] for name in cls.__dataclass_fields__ if given.get(name) is not None}
        if "batching" in known:
            known["batching"] = Batching(**known["batching"])
        return cls(**known)


@dataclass(frozen=True)
class Loaded:
    """An engine in a host process, under the name that it has there."""

    process: HostProcess
    name: str
