"""One node against what its operator declares: how many tensors, which attributes."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, NodeProto

from service.network.bodies import escaped, shorten
from service.network.graph import Graph
from service.network.operators import Signature, near

Found = Iterator[tuple[str, str]]
"""Pointers and what is wrong there."""

_KINDS: dict[int, str] = {
    AttributeProto.FLOAT: "a number",
    AttributeProto.INT: "an integer",
    AttributeProto.STRING: "a string",
    AttributeProto.TENSOR: "a tensor",
    AttributeProto.GRAPH: "a graph",
    AttributeProto.SPARSE_TENSOR: "a sparse tensor",
    AttributeProto.FLOATS: "a list of numbers",
    AttributeProto.INTS: "a list of integers",
    AttributeProto.STRINGS: "a list of strings",
}


def check_operator(graph: Graph, node: NodeProto, known: Signature) -> Found:
    """Everything wrong with the node by itself."""
    pointer = graph.pointers[node.name]
    yield from _arity(node, known, pointer)
    yield from _presence(graph, node, known)
    yield from _attributes(node, known, f"{pointer}/{graph.words.attributes}")
    yield from _limits(node, known, f"{pointer}/{graph.words.attributes}")


def _arity(node: NodeProto, known: Signature, pointer: str) -> Found:
    for what, count, fewest, most in (
        ("inputs", len(node.input), known.fewest_inputs, known.most_inputs),
        ("outputs", len(node.output), known.fewest_outputs, known.most_outputs),
    ):
        if not fewest <= count <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} or more" if most > 10**6 else f"{fewest} to {most}"
            yield pointer, f"{known.name} has {wanted} {what}, got {count}"


def _presence(graph: Graph, node: NodeProto, known: Signature) -> Found:
    for index, (name, parameter) in enumerate(zip(node.input, known.inputs, strict=False)):
        if not name and parameter.required:
            yield graph.input_pointer(node, index), f"{known.name} requires the input {parameter.name}"
    for index, (name, parameter) in enumerate(zip(node.output, known.outputs, strict=False)):
        if not name and parameter.required:
            yield graph.output_pointer(node, index), f"{known.name} requires a name for its output {parameter.name}"


def _attributes(node: NodeProto, known: Signature, pointer: str) -> Found:
    seen: set[str] = set()
    for attribute in node.attribute:
        at = f"{pointer}/{escaped(attribute.name)}"
        if attribute.name in seen:
            yield at, "the attribute is given twice"
        seen.add(attribute.name)
        if attribute.name not in known.attributes:
            names = tuple(known.attributes)
            has = near(attribute.name, names) or f"; it has {', '.join(names) or 'none'}"
            yield at, f"{known.name} has no attribute {shorten(attribute.name)}{has}"
        elif attribute.ref_attr_name:
            yield at, "refers to a function's parameter, but stands in no function"
        elif attribute.type != known.attributes[attribute.name]:
            wanted = _KINDS.get(known.attributes[attribute.name], "another type")
            yield at, f"expected {wanted}, got {_KINDS.get(attribute.type, 'another type')}"
    for name in sorted(known.required - seen):
        yield f"{pointer}/{name}", f"{known.name} requires this attribute"


def _limits(node: NodeProto, known: Signature, pointer: str) -> Found:
    """Values that ONNX's own rules take at their word, and reserve memory for."""
    for attribute in node.attribute:
        if known.name == "Split" and attribute.name == "num_outputs" and attribute.i != len(node.output):
            yield f"{pointer}/num_outputs", f"expected {len(node.output)}, the number of outputs, got {attribute.i}"
