"""A plugin's node as the ONNX operator that the plugin takes over."""

from __future__ import annotations

import onnx
from onnx import NodeProto

from service.plugins.nodes import attribute_from_value
from service.plugins.plugin import CudaPlugin
from service.plugins.tensors import Operator


def operator_node(plugin: CudaPlugin, operator: Operator, node: NodeProto) -> NodeProto:
    """The operator's node that computes what the plugin's `node` does, with the same tensors and name.

    What only the operator has is left at its default; an attribute that the plugin ignores is left out.
    """
    inputs = dict(zip((tensor.name for tensor in plugin.inputs), node.input, strict=False))
    outputs = dict(zip((tensor.name for tensor in plugin.outputs), node.output, strict=False))
    renamed = {ours: theirs for theirs, ours in operator.renamed.items()}
    result = onnx.helper.make_node(
        operator.op_type,
        _placed(operator.inputs, inputs),
        _placed(operator.outputs, outputs),
        node.name,
        domain=operator.domain,
    )
    for declared in plugin.fields:
        attribute = attribute_from_value(declared, plugin.values[declared.name])
        attribute.name = renamed.get(declared.name, declared.name)
        result.attribute.append(attribute)
    return result


def _placed(order: tuple[str | None, ...], names: dict[str, str]) -> list[str]:
    placed = [names.get(each, "") if each else "" for each in order]
    while placed and not placed[-1]:
        placed.pop()
    return placed
