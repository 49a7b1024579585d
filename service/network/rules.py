"""Plugins' own rules within ONNX's shape inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from service.datatypes import DATATYPES, datatype_from_onnx
from service.network.graph import Placement
from service.plugins.plugin import PluginFault
from service.plugins.tensors import TensorType
from service.shape_rules.messages import FINAL


@dataclass
class PluginRules:
    """The plugins of one graph while it is inferred. `faults` is what is wrong with nodes, by index in the skeleton."""

    nodes: Sequence[NodeProto]
    placements: Mapping[str, Placement]
    faults: dict[int, list[PluginFault]] = field(default_factory=dict)

    def apply(self, question: GraphProto) -> GraphProto:
        """The types of one node's outputs, none where something is wrong with it."""
        index = int(question.name)
        node = self.nodes[index]
        plugin = self.placements[node.name].plugin
        assert plugin is not None
        given = [
            tensor_type(each.type) if name else None for name, each in zip(node.input, question.input, strict=True)
        ]
        try:
            faults = list(plugin.input_faults(given))
            types = [] if faults else plugin.infer(given)
        except Exception as error:  # whatever a stranger's check does
            faults, types = [PluginFault(f"{plugin.name} cannot say: {type(error).__name__}: {error}")], []
        if faults:
            self.faults[index] = faults
        known = [type_proto(kind) if kind.datatype else TypeProto() for kind in types[: len(node.output)]]
        return GraphProto(name="" if faults else FINAL, output=[ValueInfoProto(type=kind) for kind in known])


def tensor_type(given: TypeProto | None) -> TensorType:
    """What the SDK calls a type: names instead of ONNX's numbers, None where unknown."""
    if given is None or not given.HasField("tensor_type"):
        return TensorType()
    found = datatype_from_onnx(given.tensor_type.elem_type)
    datatype = found.name if found else _onnx_name(given.tensor_type.elem_type)
    if not given.tensor_type.HasField("shape"):
        return TensorType(datatype)
    dims = given.tensor_type.shape.dim
    return TensorType(
        datatype, tuple(each.dim_value if each.HasField("dim_value") else each.dim_param or None for each in dims)
    )


def _onnx_name(number: int) -> str | None:
    return TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() and number else None


def type_proto(kind: TensorType) -> TypeProto:
    """The other way round."""
    result = TypeProto()
    result.tensor_type.elem_type = DATATYPES[kind.datatype or ""].onnx
    if kind.shape is not None:
        result.tensor_type.shape.SetInParent()
        for dim in kind.shape:
            added = result.tensor_type.shape.dim.add()
            if isinstance(dim, int):
                added.dim_value = dim
            elif dim is not None:
                added.dim_param = dim
    return result
