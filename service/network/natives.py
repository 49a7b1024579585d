"""Nodes of creators that TensorRT or a library brings: only their fields are known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import AttributeProto, TensorProto, helper

from service.network.bodies import name_of
from service.plugins.catalogue import Entry
from service.plugins.fields import FLOAT32_MAX, INT32_MAX, INT32_MIN
from service.plugins.plugin import PluginFault

# TensorRT's parser makes a FLOAT32, INT32 or CHAR field of a plain attribute, any other of a tensor.
_TENSORS = {
    "FLOAT16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FLOAT64": TensorProto.DOUBLE,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT64": TensorProto.INT64,
}


def native_attributes(entry: Entry, given: Mapping[str, Any]) -> tuple[list[AttributeProto], list[PluginFault]]:
    """The node's attributes, version and namespace among them, and what is wrong with its fields."""
    types = {each["name"]: each["type"] for each in entry["fields"]}
    attributes, faults = [], []
    for name, value in given.items():
        if name not in types:
            known = ", ".join(types) or "none"
            faults.append(PluginFault(f"{entry['name']} has no field of this name; it has {known}", name))
            continue
        try:
            attributes.append(_attribute(name, types[name], value))
        except (TypeError, ValueError, OverflowError):
            faults.append(PluginFault(f"expected {types[name]}, got {name_of(value)}", name))
    for key in ("version", "namespace"):
        attributes.append(helper.make_attribute(f"plugin_{key}", entry[key]))
    return attributes, faults


def _attribute(name: str, kind: str, value: Any) -> AttributeProto:
    """Raises TypeError or ValueError for a value that is not of the kind."""
    if isinstance(value, bytes):
        value = value.decode()
    if kind == "CHAR":
        if not isinstance(value, str) or "\0" in value:
            raise TypeError
        return helper.make_attribute(name, value)
    values = value if isinstance(value, list | tuple) else [value]
    real = kind.startswith(("FLOAT", "BF"))
    if not all(isinstance(each, int | float if real else int) and not isinstance(each, bool) for each in values):
        raise TypeError
    if kind in _TENSORS:
        return helper.make_attribute(name, helper.make_tensor(name, _TENSORS[kind], [len(values)], values))
    low, high = (-FLOAT32_MAX, FLOAT32_MAX) if real else (INT32_MIN, INT32_MAX)
    if kind not in ("FLOAT32", "INT32") or not all(low <= each <= high for each in values):
        raise ValueError
    converted = [float(each) if real else each for each in values]
    single, many = (AttributeProto.FLOAT, AttributeProto.FLOATS) if real else (AttributeProto.INT, AttributeProto.INTS)
    is_list = isinstance(value, list | tuple)
    return helper.make_attribute(name, converted if is_list else converted[0], attr_type=many if is_list else single)
