"""Nodes that nothing depends on, taken out of a graph before TensorRT sees it."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto


def prune(graph: GraphProto) -> None:
    """Leaves the nodes that the graph's outputs depend on.

    TensorRT-RTX 1.7.1 frees the plugin of a layer that it removes as unused twice, and the process ends.
    """
    needed = {output.name for output in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(filter(None, node.output)):
            needed.update(used_names(node))
            kept.append(node)
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(reversed(kept))


def used_names(node: NodeProto) -> Iterator[str]:
    """The tensors that a node reads, those that the bodies of its control flow take from outside included."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
            yield from (output.name for output in body.output)
            for inner in body.node:
                yield from used_names(inner)
