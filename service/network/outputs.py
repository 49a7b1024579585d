"""An engine's outputs: what was inferred of them against what the user states."""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnx import TypeProto, ValueInfoProto

from service.backends.base import TensorInfo
from service.network.bodies import shorten
from service.network.datatypes import engine_faults
from service.network.graph import Graph
from service.network.rules import tensor_type, type_proto
from service.plugins.shapes import Dim, differ, render
from service.plugins.tensors import TensorType

MOST_ELEMENTS = 2**62


def check_outputs(
    graph: Graph, types: Mapping[str, TypeProto], declared: Mapping[str, TypeProto]
) -> list[ValueInfoProto]:
    """The outputs with the best that is known of them; inputs and outputs that no request can carry are faults."""
    at = f"{graph.words.graph}/{graph.words.outputs}"
    outputs = graph.model.graph.output
    pointers = {output.name: f"{at}/{index}" for index, output in enumerate(outputs)}
    inputs = {each.name: graph.tensors[each.name] for each in graph.model.graph.input}
    input_types = {each.name: each.type for each in graph.model.graph.input}
    for pointer, detail in [*engine_faults(inputs, input_types), *engine_faults(pointers, types)]:
        graph.faults.report(pointer, detail)
    for name, kind in input_types.items():
        if kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape"):
            graph.faults.report(inputs[name], f"expected a shape, {shorten(name)} has none")
    _check_sizes(graph, {**input_types, **types})
    return [
        ValueInfoProto(name=output.name, type=_merged(graph, pointers[output.name], output.name, types, declared))
        for output in outputs
    ]


def _merged(
    graph: Graph, pointer: str, name: str, types: Mapping[str, TypeProto], declared: Mapping[str, TypeProto]
) -> TypeProto:
    found, said = tensor_type(types.get(name)), tensor_type(declared.get(name))
    datatype = found.datatype or said.datatype
    if found.datatype and said.datatype and found.datatype != said.datatype:
        graph.faults.report(pointer, f"{shorten(name)} is declared as {said.datatype}, but is {found.datatype}")
    shape = _merged_shape(graph, pointer, name, found.shape, said.shape)
    if (datatype is None or shape is None) and not graph.faults:
        missing = "type" if datatype is None else "rank"
        wanted = '{"name": ..., "datatype": ..., "shape": [...]}'
        graph.faults.report(
            pointer, f"the {missing} of {shorten(name)} cannot be inferred; state the output as {wanted}"
        )
    return type_proto(TensorType(datatype or "FP32", shape)) if not graph.faults else TypeProto()


def _merged_shape(
    graph: Graph, pointer: str, name: str, found: tuple[Dim, ...] | None, said: tuple[Dim, ...] | None
) -> tuple[Dim, ...] | None:
    if found is None or said is None:
        return said if found is None else found
    if len(found) != len(said) or any(map(differ, found, said)):
        graph.faults.report(pointer, f"{shorten(name)} is declared as {render(said)}, but is {render(found)}")
        return None
    return tuple(
        ours if isinstance(ours, int) or theirs is None else theirs for ours, theirs in zip(found, said, strict=True)
    )


def _check_sizes(graph: Graph, types: Mapping[str, TypeProto]) -> None:
    """Tensors with a dimension below zero, or with more elements than can be counted."""
    made_at = dict(graph.tensors)
    for node in graph.model.graph.node:
        made_at.update((name, graph.output_pointer(node, index)) for index, name in enumerate(node.output))
    for name, kind in types.items():
        dims = [dim for dim in tensor_type(kind).shape or () if isinstance(dim, int)]
        if name in made_at and any(dim < 0 for dim in dims):
            graph.faults.report(made_at[name], f"{shorten(name)} would have a dimension below zero: {dims}")
        elif name in made_at and 0 not in dims and math.prod(dims) >= MOST_ELEMENTS:
            graph.faults.report(made_at[name], f"{shorten(name)} would have 2^62 elements or more: {dims}")


def tensor_info(given: ValueInfoProto) -> TensorInfo:
    """How an engine says it; -1 is a dynamic dimension."""
    kind = tensor_type(given.type)
    shape = tuple(dim if isinstance(dim, int) else -1 for dim in kind.shape or ())
    return TensorInfo(given.name, kind.datatype or "", shape)
