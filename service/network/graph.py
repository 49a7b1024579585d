"""A network on its way to an engine: an ONNX model, and where each part of it stands in what the user sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from service.network.bodies import Faults
from service.plugins.plugin import CudaPlugin

NATIVE_DOMAIN = "trt.plugins"
"""Of a node whose plugin is a creator of TensorRT or of a library: there is no class of ours, and no function."""
FAULTY_DOMAIN = "planforge.faulty"
"""Of a node that something is wrong with already: nothing more is said about it, and its outputs stay unknown."""
CONTRIB = "com.microsoft"
SMALL = 4096
"""Bytes of a constant that is read for what it says about shapes."""


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


def bodies(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs that a node carries (branches of an If, the body of a Loop), with their attributes' names."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for body in attribute.graphs:
            yield attribute.name, body


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph itself and every body in it, outer ones first."""
    yield graph
    for node in graph.node:
        if node.attribute:
            for _, body in bodies(node):
                yield from all_graphs(body)


def all_tensors(graph: GraphProto, pointer: str, words: Words) -> Iterator[tuple[TensorProto, str]]:
    """Every tensor of a graph and its bodies: initializers, sparse ones' parts, attributes; with where it stands."""
    for index, tensor in enumerate(graph.initializer):
        yield tensor, f"{pointer}/{words.constants}/{index}"
    for index, sparse in enumerate(graph.sparse_initializer):
        yield sparse.values, f"{pointer}/sparse_initializer/{index}/values"
        yield sparse.indices, f"{pointer}/sparse_initializer/{index}/indices"
    for index, node in enumerate(graph.node):
        yield from _node_tensors(node, f"{pointer}/{words.nodes}/{index}", words)


def _node_tensors(node: NodeProto, pointer: str, words: Words) -> Iterator[tuple[TensorProto, str]]:
    for attribute in node.attribute:
        yield from attribute_tensors(attribute, f"{pointer}/{words.attributes}/{attribute.name}", words)


def attribute_tensors(attribute: AttributeProto, pointer: str, words: Words) -> Iterator[tuple[TensorProto, str]]:
    """Every tensor in an attribute, whatever type the attribute says it has."""
    if attribute.HasField("t"):
        yield attribute.t, pointer
    for index, tensor in enumerate(attribute.tensors):
        yield tensor, f"{pointer}/{index}"
    for sparse in [
        *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
        *attribute.sparse_tensors,
    ]:
        yield sparse.values, f"{pointer}/values"
        yield sparse.indices, f"{pointer}/indices"
    for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
        yield from all_tensors(body, pointer, words)


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
