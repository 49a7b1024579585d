"""A plugin as an ONNX node, and back: the one place that knows how fields travel as attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, NodeProto, TensorProto

from service.plugins.fields import Field
from service.plugins.plugin import CudaPlugin

RESERVED = ("plugin_version", "plugin_namespace")


def plugin_node(
    plugin: CudaPlugin, inputs: Sequence[str], outputs: Sequence[str], name: str, overload: str = ""
) -> NodeProto:
    """The node that TensorRT's parser takes for the plugin. Absent inputs are ""; those at the end are left out.

    Only fields that were given become attributes, so that the node says what its author said.
    """
    node = NodeProto(op_type=plugin.name, domain=plugin.namespace, name=name, overload=overload)
    node.input.extend(_without_empty_tail(inputs))
    node.output.extend(_without_empty_tail(outputs))
    node.attribute.extend(
        attribute_from_value(declared, plugin.given_values[declared.name])
        for declared in plugin.fields
        if declared.name in plugin.given
    )
    node.attribute.append(onnx.helper.make_attribute("plugin_version", plugin.version))
    node.attribute.append(onnx.helper.make_attribute("plugin_namespace", plugin.namespace))
    return node


def attribute_from_value(declared: Field, value: Any) -> AttributeProto:
    """A field's value as the attribute that the parser turns into a plugin field of the declared type."""
    if declared.kind == "bytes":
        raw = TensorProto(data_type=TensorProto.INT8, dims=[len(value)], raw_data=value)
        return onnx.helper.make_attribute(declared.name, raw)
    kinds = {
        "int": AttributeProto.INT,
        "float": AttributeProto.FLOAT,
        "str": AttributeProto.STRING,
        "list[int]": AttributeProto.INTS,
        "list[float]": AttributeProto.FLOATS,
    }
    return onnx.helper.make_attribute(declared.name, value, attr_type=kinds[declared.kind])


def values_from_attributes(attributes: Iterable[AttributeProto]) -> dict[str, Any]:
    """A node's attributes by name, as `CudaPlugin` takes them; version and namespace are not among them."""
    return {attribute.name: _value(attribute) for attribute in attributes if attribute.name not in RESERVED}


def _value(attribute: AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return value.raw_data if value.raw_data else onnx.numpy_helper.to_array(value).tobytes()
    return list(value) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def _without_empty_tail(names: Sequence[str]) -> list[str]:
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return kept
