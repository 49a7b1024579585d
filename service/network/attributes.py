"""Attributes of an operator, from JSON to ONNX."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, helper

from service.datatypes import DATATYPES
from service.network.bodies import name_of, shorten
from service.network.constants import DataFault, tensor_from_base64, tensor_from_numbers
from service.plugins.fields import FLOAT32_MAX

_KEYS = {"datatype", "shape", "data", "base64"}
_WANTED: dict[int, str] = {
    AttributeProto.FLOAT: "a number",
    AttributeProto.INT: "an integer",
    AttributeProto.STRING: "a string",
    AttributeProto.TENSOR: "a tensor ({datatype, shape, data})",
    AttributeProto.FLOATS: "a list of numbers",
    AttributeProto.INTS: "a list of integers",
    AttributeProto.STRINGS: "a list of strings",
}
_ELEMENTS: dict[int, int] = {
    AttributeProto.FLOATS: AttributeProto.FLOAT,
    AttributeProto.INTS: AttributeProto.INT,
    AttributeProto.STRINGS: AttributeProto.STRING,
}


class AttributeFault(ValueError):
    """A value that the attribute cannot take; the text says what was expected."""


def attribute_from_json(name: str, value: Any, kind: int | None) -> AttributeProto:
    """The attribute, of the type that the operator declares (None: the one that the value suggests).

    Where an integer stands for a datatype, as Cast's `to`, a datatype's name may be given. Raises AttributeFault.
    """
    if kind is None:
        kind = _suggested(value)
    if kind not in _WANTED:
        raise AttributeFault("an attribute of this type cannot be written in JSON; upload an ONNX file")
    if kind == AttributeProto.TENSOR:
        return helper.make_attribute(name, _tensor(value))
    if kind in _ELEMENTS:
        if not isinstance(value, list):
            raise AttributeFault(f"expected {_WANTED[kind]}, got {name_of(value)}")
        elements = [_scalar(each, _ELEMENTS[kind], _WANTED[kind]) for each in value]
        return helper.make_attribute(name, elements, attr_type=kind)
    return helper.make_attribute(name, _scalar(value, kind, _WANTED[kind]), attr_type=kind)


def _scalar(value: Any, kind: int, wanted: str) -> Any:
    if kind == AttributeProto.INT and isinstance(value, str) and value in DATATYPES:
        return DATATYPES[value].onnx
    expected: dict[int, Any] = {AttributeProto.FLOAT: int | float, AttributeProto.INT: int, AttributeProto.STRING: str}
    if isinstance(value, bool) or not isinstance(value, expected[kind]):
        raise AttributeFault(f"expected {wanted}, got {name_of(value)}")
    if kind == AttributeProto.FLOAT and not abs(value) <= FLOAT32_MAX:
        raise AttributeFault(f"expected a finite number in the range of FP32, got {shorten(str(value))}")
    if kind == AttributeProto.INT and not -(2**63) <= value < 2**63:
        raise AttributeFault("expected an integer of 64 bits")
    return float(value) if kind == AttributeProto.FLOAT else value


def _suggested(value: Any) -> int:
    """The type for an operator of whose attributes nothing is known here."""
    if isinstance(value, list) and all(isinstance(each, int) and not isinstance(each, bool) for each in value):
        return AttributeProto.INTS
    if isinstance(value, list):
        return AttributeProto.STRINGS if value and isinstance(value[0], str) else AttributeProto.FLOATS
    if isinstance(value, dict):
        return AttributeProto.TENSOR
    if isinstance(value, str):
        return AttributeProto.STRING
    return AttributeProto.FLOAT if isinstance(value, float) else AttributeProto.INT


def _tensor(value: Any) -> Any:
    if not isinstance(value, dict):
        raise AttributeFault(f"expected {_WANTED[AttributeProto.TENSOR]}, got {name_of(value)}")
    odd = value.keys() - _KEYS
    if odd:
        raise AttributeFault(f"a tensor has no key {shorten(min(odd))}")
    datatype, shape = value.get("datatype"), value.get("shape")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise AttributeFault(f"expected a tensor's datatype out of {', '.join(DATATYPES)}")
    if not isinstance(shape, list) or not all(type(each) is int and 0 <= each < 2**31 for each in shape):
        raise AttributeFault("expected a tensor's shape, a list of integers")
    if ("data" in value) == ("base64" in value):
        raise AttributeFault("expected either data or base64 in a tensor")
    try:
        if "data" in value:
            return tensor_from_numbers("", datatype, shape, value["data"])
        if not isinstance(value["base64"], str):
            raise AttributeFault("expected a string of base64")
        return tensor_from_base64("", datatype, shape, value["base64"])
    except DataFault as fault:
        raise AttributeFault(fault.detail) from None
