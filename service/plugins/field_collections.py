"""Typed fields to TensorRT's field collections and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.plugins.fields import Field
from service.plugins.plugin import CudaPlugin

INPUTS, OUTPUTS, IMAGES, DIGEST, REVISION = "_inputs", "_outputs", "_images", "_digest", "_revision"
"""Fields of the SDK's own, beside the declared ones: which inputs are present, how many outputs, the kernel images or
their digest, and the plugin's code that made the plan."""

_OWN = {INPUTS: "list[int]", OUTPUTS: "int", IMAGES: "bytes", DIGEST: "str", REVISION: "str"}
_TYPES = {
    "int": "INT32",
    "float": "FLOAT32",
    "str": "CHAR",
    "bytes": "INT8",
    "list[int]": "INT32",
    "list[float]": "FLOAT32",
}
_NUMPY = {"INT32": np.int32, "FLOAT32": np.float32, "CHAR": np.int8, "INT8": np.int8}

Array = np.ndarray[Any, np.dtype[Any]]


class Collection:
    """A TensorRT field collection that owns what it points to: `PluginField` keeps a pointer, not a copy."""

    def __init__(self, trt: Any, declared: Sequence[Field], values: Mapping[str, Any]) -> None:
        kinds = _kinds(declared)
        self._arrays = {name: _encode(kinds[name], value) for name, value in values.items()}
        self._fields = [
            trt.PluginField(name, array, getattr(trt.PluginFieldType, _TYPES[kinds[name]]))
            for name, array in self._arrays.items()
        ]
        self.tensorrt = trt.PluginFieldCollection(self._fields)


def declaration(trt: Any, declared: Sequence[Field]) -> Collection:
    """What a creator says that it takes: every field, without data. Undeclared attributes never arrive."""
    return Collection(trt, declared, dict.fromkeys(_kinds(declared), b""))


def read_fields(plugin: type[CudaPlugin], collection: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declared fields and the SDK's own, by name. The copy is ours: TensorRT's memory is gone after the call."""
    kinds = _kinds(plugin.fields)
    values = {each.name: _decode(kinds[each.name], _copy(each)) for each in collection if each.name in kinds}
    own = {name: values.pop(name) for name in _OWN if name in values}
    return values, own


def read_integers(collection: Any) -> dict[str, int]:
    """The integer fields of a collection, whatever they are called."""
    return {each.name: int(each.data[0]) for each in collection if each.type.name == "INT32" and each.size == 1}


def _kinds(declared: Sequence[Field]) -> dict[str, str]:
    return {each.name: each.kind for each in declared} | _OWN


def _encode(kind: str, value: Any) -> Array:
    if isinstance(value, str):
        value = value.encode() + b"\0"
    if isinstance(value, bytes):
        return np.frombuffer(value, _NUMPY[_TYPES[kind]])
    return np.atleast_1d(np.asarray(value, _NUMPY[_TYPES[kind]]))


def _decode(kind: str, data: Array) -> Any:
    match kind:
        case "str":
            return data.tobytes().split(b"\0", 1)[0].decode()
        case "bytes":
            return data.tobytes()
        case "list[int]" | "list[float]":
            return data.tolist()
    return data.tolist()[0]


def _copy(each: Any) -> Array:
    return np.array([], np.int8) if each.size == 0 else np.array(each.data)
