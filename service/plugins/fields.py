"""A plugin's fields: declared once with a type annotation, checked wherever a value comes in.

    class ScaleBias(CudaPlugin):
        scale: float = field(1.0, "factor applied to every element")
        sizes: list[int] = required("one a level", minimum=1)

`float` is TensorRT's FLOAT32, `int` INT32, `str` CHAR, `bytes` INT8 (base64 in JSON), `list[int]` and `list[float]` the
same with a length. TensorRT turns an integer beyond 32 bits into 0 without a word, so ranges are checked here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)

Value = int | float | str | bytes | list[int] | list[float]

# annotation -> (TensorRT's PluginFieldType, length, what a user calls it)
_KINDS: dict[str, tuple[str, int | None, str]] = {
    "int": ("INT32", 1, "an integer"),
    "float": ("FLOAT32", 1, "a number"),
    "str": ("CHAR", None, "a string"),
    "bytes": ("INT8", None, "a base64 string"),
    "list[int]": ("INT32", None, "a list of integers"),
    "list[float]": ("FLOAT32", None, "a list of numbers"),
}


class FieldFault(ValueError):
    """A value that a field cannot take; the text says what was expected."""


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True)
class Field:
    """One declared field. `name` and `kind` are filled in from the class body."""

    default: Any
    description: str = ""
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    name: str = ""
    kind: str = ""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def type(self) -> str:
        """TensorRT's `PluginFieldType` by name."""
        return _KINDS[self.kind][0]

    @property
    def length(self) -> int | None:
        """1 for a scalar, None for a list, a string or bytes."""
        return _KINDS[self.kind][1]

    def parse(self, given: Any) -> Value:
        """The field's value from JSON or an ONNX attribute. Raises FieldFault."""
        if self.kind.startswith("list["):
            if not isinstance(given, list | tuple):
                raise FieldFault(f"expected {self._expected}, got {_name_of(given)}")
            return [self._checked(self._scalar(item, self.kind[5:-1])) for item in given]
        value: Value = self._checked(self._scalar(given, self.kind))
        return value

    @property
    def _expected(self) -> str:
        return _KINDS[self.kind][2]

    def _scalar(self, given: Any, kind: str) -> Any:
        reader = {"int": _integer, "float": _number, "str": _text, "bytes": _binary}[kind]
        try:
            return reader(given)
        except TypeError:
            raise FieldFault(f"expected {self._expected}, got {_name_of(given)}") from None

    def _checked(self, value: Any) -> Any:
        if self.choices and value not in self.choices:
            raise FieldFault(f"expected one of {', '.join(map(str, self.choices))}, got {value}")
        if self.minimum is not None and value < self.minimum:
            raise FieldFault(f"expected at least {self.minimum}, got {value}")
        if self.maximum is not None and value > self.maximum:
            raise FieldFault(f"expected at most {self.maximum}, got {value}")
        return value


def field(
    default: Any,
    description: str = "",
    *,
    choices: Sequence[Any] = (),
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """Declares a field with a default."""
    return Field(default, description, tuple(choices), minimum, maximum)


def required(description: str = "", **limits: Any) -> Any:
    """Declares a field that every node must give."""
    return field(REQUIRED, description, **limits)


def collect_fields(namespace: Mapping[str, Any], annotations: Mapping[str, str], owner: str) -> tuple[Field, ...]:
    """The fields of a class body, in order. Raises TypeError on an annotation or default that no field can have."""
    fields = []
    for name, declared in namespace.items():
        if not isinstance(declared, Field):
            continue
        kind = annotations.get(name, "").replace("typing.", "").lower()
        if kind not in _KINDS:
            raise TypeError(f"{owner}.{name}: expected an annotation out of {', '.join(_KINDS)}, got {kind or 'none'}")
        if name.startswith("_") or name in ("plugin_version", "plugin_namespace"):
            raise TypeError(f"{owner}.{name}: the name is reserved")
        complete = Field(**{**declared.__dict__, "name": name, "kind": kind})
        if not complete.required:
            complete.parse(jsonable(complete.default))
        fields.append(complete)
    return tuple(fields)


def jsonable(value: Any) -> Any:
    """A field's value as JSON carries it: bytes become base64."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _integer(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError
    if not INT32_MIN <= given <= INT32_MAX:
        raise FieldFault(f"expected an integer of 32 bits, got {given}")
    return given


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError
    if not abs(given) <= FLOAT32_MAX:  # NaN is not either; an integer may be too large for math.isfinite
        raise FieldFault(f"expected a finite number in the range of FP32, got {given}")
    return float(given)


def _text(given: Any) -> str:
    if isinstance(given, bytes):
        try:
            given = given.decode()
        except UnicodeDecodeError:
            raise FieldFault("expected a string in UTF-8") from None
    if not isinstance(given, str):
        raise TypeError
    if "\0" in given:
        raise FieldFault("expected a string without NUL characters")
    return given


def _binary(given: Any) -> bytes:
    if isinstance(given, bytes):
        return given
    if not isinstance(given, str):
        raise TypeError
    try:
        return base64.b64decode(given, validate=True)
    except binascii.Error as error:
        raise FieldFault(f"expected base64: {error}") from None


def _name_of(given: Any) -> str:
    names = {bool: "a boolean", str: "a string", dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(given), "a number")
