"""The declarations a plugin is made of, and what it sees of a tensor before and during an execution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from service.datatypes import DATATYPES, Datatype
from service.plugins.shapes import Dim, ShapePattern


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor before any data: a datatype's name and a shape, each None where unknown."""

    datatype: str | None = None
    shape: tuple[Dim, ...] | None = None


@dataclass(frozen=True)
class Tensor:
    """An input or output as declared.

    `like` names the input whose datatype it has and, where `shape` (a pattern, see `shapes`) is not given, whose shape.
    """

    name: str
    datatypes: tuple[str, ...] = ()
    description: str = ""
    like: str = ""
    shape: str = ""
    optional: bool = False

    @cached_property
    def pattern(self) -> ShapePattern | None:
        return ShapePattern(self.shape) if self.shape else None


@dataclass(frozen=True)
class Operator:
    """An ONNX operator that the plugin takes over, readable in both directions.

    `inputs` and `outputs` are the plugin's names in the operator's order; None stands where the operator has something
    that the plugin has not, and a node that uses it is refused. An attribute becomes the field of its own name, or the
    one that `renamed` says; one in `ignored` does not change what is computed, one in `fixed` has one allowed value.
    """

    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def domain(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def op_type(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class View:
    """A tensor of one execution. `address` is on the device; the data is dense and row-major."""

    address: int
    datatype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def short(self) -> str:
        """How kernels abbreviate the datatype: `f16`."""
        return self.type.short

    @property
    def type(self) -> Datatype:
        return DATATYPES[self.datatype]


@dataclass(frozen=True)
class Call:
    """One execution as `launch` sees it: `call["x"]` is a View, or None for an input or output that is not there."""

    tensors: Mapping[str, View]
    workspace: int = 0
    """Device address of as many bytes as the plugin's `workspace` asked for."""

    def __getitem__(self, name: str) -> View:
        view = self.tensors.get(name)
        if view is None:
            raise KeyError(name)
        return view

    def get(self, name: str) -> View | None:
        return self.tensors.get(name)

    def is_empty(self, outputs: Iterable[Tensor]) -> bool:
        """Whether no output has an element, so that there is nothing to do (and no grid to launch)."""
        return not any(view.size for tensor in outputs if (view := self.get(tensor.name)))


Argument = View | int | float | None


@dataclass(frozen=True)
class Launch:
    """One kernel launch. In `arguments` a View or None is a pointer, an int a `long long`, a float a `float`."""

    kernel: str
    grid: tuple[int, int, int] | int
    block: tuple[int, int, int] | int
    arguments: tuple[Argument, ...]
    shared: int = 0
    """Dynamic shared memory, bytes."""
