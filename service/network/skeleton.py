"""What ONNX's shape inference is given of a graph: everything that types follow from, and nothing that is large.

Large constants become inputs of their type, so that weights are neither copied nor looked at, and no tensor points to a
file. Nodes that ONNX has no rules for are left out, plugins' nodes become the one operator whose rule is ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from service.network.graph import Alike, Graph
from service.network.operators import STANDARD_DOMAINS
from service.network.walking import bodies
from service.plugins.references import IR_VERSION
from service.shape_rules.messages import PLUGIN, RULES_DOMAIN

MOST_ELEMENTS = 1024
"""Of a constant that may say something about shapes."""


class Skeleton:
    """`model` with nodes named by their index in `nodes`."""

    def __init__(self, graph: Graph, skipped: Collection[str], declared: Mapping[str, TypeProto]) -> None:
        opsets = [*graph.model.opset_import, helper.make_opsetid(RULES_DOMAIN, 1)]
        self.model = ModelProto(ir_version=IR_VERSION, opset_import=opsets)
        self.model.graph.name = "skeleton"
        self.nodes: list[NodeProto] = []
        self._alike: dict[Alike, int] = {}
        self._graph, self._skipped, self._declared = graph, skipped, declared
        self._known: set[str] = set()
        source, target = graph.model.graph, self.model.graph
        for given in source.input:
            self._declare(given.name, given.type)
        for tensor in source.initializer:
            self._keep(tensor, target)
        for sparse in source.sparse_initializer:
            self._declare(sparse.values.name, type_of(sparse.values.data_type, sparse.dims))
        for node in source.node:
            self._add(node, target)
        target.output.extend(ValueInfoProto(name=each.name) for each in source.output)

    def _keep(self, tensor: TensorProto, target: GraphProto, name: str = "") -> None:
        """A small constant as it is, of a large one its type: as an input, or in a body as a constant without data."""
        name = name or tensor.name
        if target is not self.model.graph:
            target.initializer.append(tensor if is_small(tensor) else _without_data(tensor, name))
        elif is_small(tensor) and name not in self._known:
            self._known.add(name)
            target.initializer.append(tensor)
        else:
            self._declare(name, type_of(tensor.data_type, tensor.dims))

    def _declare(self, name: str, kind: TypeProto) -> None:
        if name not in self._known:
            self._known.add(name)
            self.model.graph.input.append(ValueInfoProto(name=name, type=kind))

    def _add(self, node: NodeProto, target: GraphProto) -> None:
        if node.name in self._graph.placements:
            self._add_plugin(node, target)
        elif node.name in self._skipped or node.domain not in STANDARD_DOMAINS:
            for name in node.output:
                if name in self._declared and node.name not in self._skipped:
                    self._declare(name, self._declared[name])
        elif not self._add_constant(node, target):
            copy = target.node.add()
            copy.CopyFrom(node)
            copy.ClearField("doc_string")
            self._name(copy, node)
            for _, body in bodies(copy):
                self._rewrite(body)

    def _name(self, copy: NodeProto, node: NodeProto) -> None:
        copy.name = str(len(self.nodes))
        self.nodes.append(node)

    def _add_plugin(self, node: NodeProto, target: GraphProto) -> None:
        if self._graph.placements[node.name].plugin is None:
            for name in node.output:
                if name in self._declared:
                    self._declare(name, self._declared[name])
        elif node.name not in self._skipped:
            copy = target.node.add(op_type=PLUGIN, domain=RULES_DOMAIN, input=node.input, output=node.output)
            alike = self._alike.setdefault(self._graph.placements[node.name].alike(node), len(self._alike))
            copy.attribute.append(_integer("index", len(self.nodes)))
            copy.attribute.append(_integer("alike", alike))
            self._name(copy, node)

    def _add_constant(self, node: NodeProto, target: GraphProto) -> bool:
        """Whether the node is a Constant whose tensor is too large to be looked at."""
        if node.op_type != "Constant" or node.domain != "" or len(node.output) != 1:
            return False
        for attribute in node.attribute:
            if attribute.name == "value" and not is_small(attribute.t):
                self._keep(attribute.t, target, node.output[0])
                return True
        return False

    def _rewrite(self, body: GraphProto) -> None:
        originals = list(body.node)
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in originals]
        tensors = [TensorProto.FromString(each.SerializeToString()) for each in body.initializer]
        del body.node[:], body.initializer[:]
        for tensor in tensors:
            self._keep(tensor, body)
        for node in nodes:
            self._add(node, body)


def _integer(name: str, value: int) -> AttributeProto:
    return AttributeProto(name=name, type=AttributeProto.INT, i=value)


def is_small(tensor: TensorProto) -> bool:
    """Whether the tensor's data is there and may be looked at."""
    return (
        tensor.data_location != TensorProto.EXTERNAL and math.prod(tensor.dims) <= MOST_ELEMENTS and _has_data(tensor)
    )


def _without_data(tensor: TensorProto, name: str) -> TensorProto:
    return TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims)


_DATA = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def _has_data(tensor: TensorProto) -> bool:
    return 0 in tensor.dims or any(getattr(tensor, kind) for kind in _DATA)


def type_of(datatype: int, dims: Collection[int | None]) -> TypeProto:
    """A tensor's type; None (and what is no size) is an unknown dimension."""
    return helper.make_tensor_type_proto(datatype, [None if dim is None or dim < 0 else dim for dim in dims])
