"""Types and shapes of every tensor, by ONNX's rules and the plugins' own; what is wrong is said at its node."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Collection, Sequence

from onnx import GraphProto, NodeProto, TypeProto

from service.network.bodies import shorten
from service.network.graph import Graph, Inferred, Types
from service.network.rules import PluginRules, tensor_type
from service.network.skeleton import Skeleton, type_of
from service.network.type_checks import type_faults
from service.network.walking import bodies
from service.plugins.plugin import PluginFault
from service.plugins.shapes import render
from service.shape_rules.runner import shared

# `(op_type:If, node name: 3): [ShapeInferenceError] Inference error(s): (op_type:Add, node name: 4): ...`
_AT = re.compile(r"\(op_type:[^,()]*, node name: (\d+)\): ")
_MARKS = re.compile(r"\[(?:Shape|Type)InferenceError\]\s*|Inference error\(s\):\s*")


def infer(graph: Graph, unsound: Collection[str], declared: Types) -> Inferred:
    """The types of all tensors that have one. `declared` are those that the user states.

    Nodes in `unsound` are passed over: their outputs are unknown, and nothing is said about what follows from that.
    """
    skeleton = Skeleton(graph, unsound, declared)
    rules = PluginRules(skeleton.nodes, graph.placements)
    inferred, text = shared().infer(skeleton.model, rules.apply)
    said = _by_node(text)
    views: dict[int, Types] = {}
    types = _look(inferred.graph, {}, views)
    for index, node in enumerate(skeleton.nodes):
        _report(graph, node, views.get(index, {}), rules.faults.get(index, []), said.get(index))
    if text and not said:
        graph.faults.report(graph.words.graph, f"types cannot be inferred: {shorten(_cleaned(text))}")
    return Inferred(types, {node.name: views[index] for index, node in enumerate(skeleton.nodes) if index in views})


def _by_node(text: str) -> dict[int, str]:
    matches = list(_AT.finditer(text))
    ends = [*(match.start() for match in matches), len(text)][1:]
    said = {int(match[1]): text[match.end() : end] for match, end in zip(matches, ends, strict=False)}
    cleaned = {index: _cleaned(each) for index, each in said.items()}
    return {index: each for index, each in cleaned.items() if each}


def _cleaned(text: str) -> str:
    return _MARKS.sub("", text).strip()


def _look(graph: GraphProto, outer: Types, views: dict[int, Types]) -> Types:
    """What each node sees: the types of its own graph, and of those around it. Bodies side by side share names."""
    own: dict[str, TypeProto] = {}
    seen = ChainMap(own, outer)  # type: ignore[arg-type]
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.WhichOneof("value"):
            own[info.name] = info.type
    for tensor in graph.initializer:
        own[tensor.name] = type_of(tensor.data_type, tensor.dims)
    for node in graph.node:
        views[int(node.name)] = seen
        for _, body in bodies(node):
            _look(body, seen, views)
    return own if not outer else seen


def _report(graph: Graph, node: NodeProto, types: Types, faults: Sequence[PluginFault], said: str | None) -> None:
    for fault in faults:
        placement = graph.placements[node.name]
        graph.faults.report(placement.spots.get(fault.subject) or graph.pointers[node.name], fault.detail)
    mistyped = list(type_faults(graph, node, types))
    for pointer, detail in mistyped:
        graph.faults.report(pointer, detail)
    # Where an input's type is unknown, whatever made it so is the fault (or nothing is).
    if said and not mistyped and all(name in types for name in node.input if name):
        graph.faults.report(graph.pointers[node.name], f"{node.op_type}: {said}; {_inputs(node, types)}")


def _inputs(node: NodeProto, types: Types) -> str:
    shown = []
    for name in filter(None, node.input):
        kind = tensor_type(types[name])
        shape = render(kind.shape) if kind.shape is not None else "of unknown rank"
        shown.append(f"{shorten(name)} is {kind.datatype} {shape}")
    return ", ".join(shown) or "it has no inputs"
