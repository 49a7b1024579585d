"""Through a graph and the bodies of control flow in it."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from service.network.graph import Words


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
