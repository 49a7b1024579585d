"""What every backend can do: say what this host allows, build a model into a plan, load a plan into a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class TensorInfo:
    """An engine's input or output; -1 is a dynamic dimension."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Range:
    """One input's shapes (or, where `values`, its values) within a profile."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    values: bool = False


Profile = Mapping[str, Range]


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do on this host. Crosses from the catalogue's child to the API as JSON."""

    backend: str
    version: str
    buildable: bool
    """Whether it can build here at all; else `reason` says why not."""
    targets: tuple[str, ...]
    """GPU targets (`sm_86`) it can build for here; empty for a CPU backend."""
    runnable: bool
    """Whether plans for `host_target` run here; else `reason` says why not."""
    host_target: str | None = None
    reason: str | None = None
    kernels: tuple[OperatorKernel, ...] = ()
    """Operators that the backend has kernels for, where it can say; empty where it cannot."""


@dataclass(frozen=True)
class OperatorKernel:
    """ONNX operator `name` of `domain` from opset `since` to `until`, for these datatypes (by type parameter)."""

    domain: str
    name: str
    since: int
    until: int
    datatypes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class BuildRequest:
    """A checked model, in a folder of its own with its external data beside it."""

    model: Path
    targets: tuple[str, ...]
    profiles: tuple[dict[str, Range], ...]


@dataclass(frozen=True)
class Image:
    """One kernel image as it stands in the plan. `target` is `sm_86`, or `compute_120` for PTX."""

    target: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PluginUse:
    """A plugin as it stands in the plan: one entry of `fields` a node, `ptx` for GPUs newer than all of `kernels`."""

    name: str
    version: str
    namespace: str
    nodes: int
    fields: tuple[dict[str, Any], ...]
    kernels: tuple[Image, ...] = ()
    ptx: Image | None = None


@dataclass(frozen=True)
class Built:
    """A finished plan and what is known of it."""

    plan: Path
    backend_version: str
    targets: tuple[str, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    plugins: tuple[PluginUse, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Everything but where the plan lies."""
        return {name: value for name, value in asdict(self).items() if name != "plan"}


class Progress(Protocol):
    def __call__(self, phase: str, fraction: float) -> None:
        """Reports how far a build is; `fraction` (0 to 1) never falls. Raises BuildCancelled to stop the build."""


class Session(Protocol):
    """A loaded engine. `run` may be called from several threads at once."""

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """The named outputs, in that order. Raises ExecutionFailed."""

    def close(self) -> None:
        """Gives back what the engine holds."""


class Backend(Protocol):
    name: str

    def capabilities(self) -> Capabilities: ...

    def build(self, request: BuildRequest, out: Path, progress: Progress) -> Built:
        """Writes the plan to `out`. Raises BuildFailed with the reason."""

    def load(self, plan: Path) -> Session:
        """Raises Conflict where this host cannot execute the plan."""
