"""A network on its way to an engine: an ONNX model, and where each part of it stands in what the user sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto, TypeProto

from service.network.bodies import Faults
from service.plugins.plugin import CudaPlugin

NATIVE_DOMAIN = "trt.plugins"
"""Of a node whose plugin is a creator of TensorRT or of a library: there is no class of ours, and no function."""
FAULTY_DOMAIN = "planforge.faulty"
"""Of a node that something is wrong with already: nothing more is said about it, and its outputs stay unknown."""
CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Words:
    """How the parts of a graph are called in the body, for pointers into it."""

    graph: str
    inputs: str
    constants: str
    nodes: str
    outputs: str
    attributes: str


JSON_WORDS = Words("/network", "inputs", "constants", "nodes", "outputs", "attributes")
FILE_WORDS = Words("/model/graph", "input", "initializer", "node", "output", "attribute")


Alike = tuple[type[Any], str, tuple[bool, ...], int]


@dataclass(frozen=True)
class Placement:
    """A plugin's node. `spots` leads from a field or tensor, as the plugin calls it, to where the user wrote it.

    `plugin` is None for a native creator; `fields` are then those that were given.
    """

    name: str
    version: str
    namespace: str
    targets: tuple[str, ...]
    fields: Mapping[str, Any]
    spots: Mapping[str, str]
    plugin: CudaPlugin | None = None

    @property
    def title(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def alike(self, node: NodeProto) -> Alike:
        """Equal for nodes of one plugin with equal fields, and with the same tensors present."""
        return type(self.plugin), repr(self.fields), tuple(map(bool, node.input)), len(node.output)


Types = Mapping[str, TypeProto]
"""By a tensor's name."""


@dataclass(frozen=True)
class Inferred:
    """`types` are those of the outermost graph, `views` what a node (by name) sees: bodies share names."""

    types: Types
    views: Mapping[str, Types]

    def seen_by(self, node: NodeProto) -> Types:
        return self.views.get(node.name, self.types)


@dataclass
class Graph:
    """`pointers` has every node's unique name, `tensors` every input and constant of the outermost graph.

    `data` are external tensors' files by location, `faults` what is already known to be wrong.
    """

    model: ModelProto
    words: Words
    pointers: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    data: dict[str, Path] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)

    def input_pointer(self, node: NodeProto, index: int) -> str:
        return f"{self.pointers[node.name]}/{self.words.inputs}/{index}"

    def output_pointer(self, node: NodeProto, index: int) -> str:
        return f"{self.pointers[node.name]}/{self.words.outputs}/{index}"


class Names:
    """Gives out names that nothing else has, as near as can be to those wished for."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def unique(self, base: str) -> str:
        name = base
        while name in self._taken:
            self._next[base] = self._next.get(base, 1) + 1
            name = f"{base}_{self._next[base]}"
        self._taken.add(name)
        return name
