"""An uploaded ONNX file to the graph that a JSON description is lowered to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from service.network.bodies import shorten
from service.network.completion import function_of, variant_of
from service.network.external import Tensors
from service.network.functions import expand, of_plugins
from service.network.graph import FILE_WORDS, Graph, Names
from service.network.placing import faulty
from service.network.reading import read_model, refused
from service.network.takeover import adopt, names_plugin
from service.network.walking import all_graphs, all_tensors, attribute_tensors, bodies
from service.plugins.catalogue import Catalogue

MOST_NODES = 100_000


class HasNodes(Protocol):
    """A graph or a function."""

    @property
    def node(self) -> Iterable[NodeProto]: ...


def import_model(path: Path, parts: Mapping[str, Path], catalogue: Catalogue, max_nodes: int = MOST_NODES) -> Graph:
    """The model as a graph; `parts` are uploaded files of external data, by location. Reads no other file.

    What is wrong with single nodes, tensors and functions is in its `faults`. Raises InvalidRequest for a file that is
    no ONNX model, or one too new or too large to be looked at.
    """
    model = read_model(path)
    _check_count(model, max_nodes)
    graph = Graph(model, FILE_WORDS)
    _check_tensors(graph, parts)
    brought = of_plugins(model, catalogue)
    importing = _Importing(graph, catalogue)
    importing.mark(model.graph, FILE_WORDS.graph)
    for index, function in enumerate(model.functions):
        importing.mark(function, f"/model/functions/{index}")
    expand(model, catalogue, max_nodes, graph.faults)
    _reduce(graph)
    importing.place(model.graph)
    _check_brought(graph, brought)
    return graph


def _check_count(model: ModelProto, most: int) -> None:
    count = sum(len(each.node) for each in all_graphs(model.graph)) + sum(len(each.node) for each in model.functions)
    if count > most:
        raise refused("/model/graph/node", f"expected at most {most} nodes, got {count}")


def _check_tensors(graph: Graph, parts: Mapping[str, Path]) -> None:
    tensors = Tensors(parts, graph.faults, graph.data)
    for tensor, pointer in all_tensors(graph.model.graph, FILE_WORDS.graph, FILE_WORDS):
        tensors.check(tensor, pointer)
    for index, function in enumerate(graph.model.functions):
        at = f"/model/functions/{index}"
        for number, node in enumerate(function.node):
            for attribute in node.attribute:
                pointer = f"{at}/node/{number}/attribute/{attribute.name}"
                for tensor, spot in attribute_tensors(attribute, pointer, FILE_WORDS):
                    tensors.check(tensor, spot)
        for attribute in function.attribute_proto:
            for tensor, spot in attribute_tensors(attribute, f"{at}/attribute_proto/{attribute.name}", FILE_WORDS):
                tensors.check(tensor, spot)


def _reduce(graph: Graph) -> None:
    """Leaves what was checked and is needed: no training, no devices, no notes."""
    model, outermost = graph.model, graph.model.graph
    for field in ("training_info", "metadata_props", "configuration", "doc_string"):
        model.ClearField(field)
    constants = {tensor.name for tensor in outermost.initializer}
    for index, tensor in enumerate(outermost.initializer):
        graph.tensors.setdefault(tensor.name, f"{FILE_WORDS.graph}/{FILE_WORDS.constants}/{index}")
    kept: list[ValueInfoProto] = []
    for index, given in enumerate(outermost.input):
        # Before IR version 4 every constant had to be an input too; it stays a constant.
        if given.name not in constants:
            graph.tensors.setdefault(given.name, f"{FILE_WORDS.graph}/{FILE_WORDS.inputs}/{index}")
            kept.append(_dynamic(ValueInfoProto.FromString(given.SerializeToString())))
    del outermost.input[:]
    outermost.input.extend(kept)
    for each in all_graphs(outermost):
        for field in ("quantization_annotation", "metadata_props", "doc_string"):
            each.ClearField(field)


def _dynamic(given: ValueInfoProto) -> ValueInfoProto:
    """Exporters write -1 for a dimension that is dynamic."""
    for dim in given.type.tensor_type.shape.dim if given.type.HasField("tensor_type") else ():
        if dim.dim_value == -1:
            dim.Clear()
    return given


class _Importing:
    """Gives every node a name of its own, and plugins their nodes.

    While functions are expanded a node is called `@` and a number, which the copies that arise keep at the front.
    """

    def __init__(self, graph: Graph, catalogue: Catalogue) -> None:
        self.graph, self.catalogue = graph, catalogue
        self.marked: list[tuple[str, str]] = []
        self.names = Names()

    def mark(self, owner: HasNodes, pointer: str) -> None:
        for index, node in enumerate(owner.node):
            at = f"{pointer}/{FILE_WORDS.nodes}/{index}"
            self.marked.append((node.name, at))
            node.name = f"@{len(self.marked) - 1}"
            node.domain = "" if node.domain == "ai.onnx" else node.domain
            node.ClearField("metadata_props")
            node.ClearField("device_configurations")
            for name, body in bodies(node):
                self.mark(body, f"{at}/{FILE_WORDS.attributes}/{name}")

    def place(self, graph: GraphProto, inside: str = "") -> None:
        opset = next((each.version for each in self.graph.model.opset_import if each.domain == ""), 1)
        nodes = [self._named(node) for node in graph.node]
        for node in nodes:
            if inside and (
                self.catalogue.taker(node.domain, node.op_type) or names_plugin(self.catalogue, node, opset)
            ):
                detail = f"{shorten(node.op_type)} is a plugin, and cannot stand in the body of {inside}"
                self.graph.faults.report(self.graph.pointers[node.name], detail)
                node.CopyFrom(faulty(node.name, list(node.input), list(node.output)))
            elif not inside:
                adopted = adopt(self.graph, self.catalogue, node, opset)
                if adopted is not node:
                    node.CopyFrom(adopted)
            for _, body in bodies(node):
                self.place(body, shorten(node.op_type))

    def _named(self, node: NodeProto) -> NodeProto:
        number = node.name.removeprefix("@").partition("__")[0]
        name, pointer = self.marked[int(number)] if number.isdecimal() else ("", FILE_WORDS.graph)
        usable = name if name.isprintable() and len(name) <= 512 else ""
        node.name = self.names.unique(usable or f"{shorten(node.op_type)}_{number}")
        self.graph.pointers[node.name] = pointer
        return node


def _check_brought(graph: Graph, brought: Mapping[str, FunctionProto]) -> None:
    """A model that this service gave out has its plugins' functions in it. Any other body would never be run."""
    if not brought:
        return
    ours = set()
    for node in graph.model.graph.node:
        placement = graph.placements.get(node.name)
        if placement is not None and placement.plugin is not None:
            ours.add(function_of(variant_of(placement.plugin, node)).SerializeToString(deterministic=True))
    for pointer, function in brought.items():
        if function.SerializeToString(deterministic=True) not in ours:
            title = shorten(f"{function.domain}.{function.name}")
            detail = (
                f"{title} is a plugin here, and this body is not the one that it has; remove or rename the function"
            )
            graph.faults.report(pointer, detail)
