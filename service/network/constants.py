"""A constant's data, from numbers or base64 to the exact bytes of its datatype."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from service.datatypes import DATATYPES, Datatype
from service.network.bodies import name_of


class DataFault(ValueError):
    """Data that is not exactly what datatype and shape say; `key` is where, beside the text."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(detail)
        self.key, self.detail = key, detail


def tensor_from_numbers(name: str, datatype: str, shape: Sequence[int], data: Any) -> TensorProto:
    """A tensor of numbers, nested as the shape is or flat. Raises DataFault."""
    kind = DATATYPES[datatype]
    return _tensor(name, kind, shape, _packed(_flat(data, shape), kind))


def tensor_from_base64(name: str, datatype: str, shape: Sequence[int], text: str) -> TensorProto:
    """A tensor of little-endian bytes. Raises DataFault."""
    kind, count = DATATYPES[datatype], math.prod(shape)
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataFault("base64", f"expected base64: {error}") from None
    if len(raw) != count * kind.itemsize:
        wanted = f"{count * kind.itemsize} bytes for {count} elements of {datatype}"
        raise DataFault("base64", f"expected {wanted}, got {len(raw)}")
    _refuse_odd_bytes(raw, kind)
    return _tensor(name, kind, shape, raw)


def _tensor(name: str, kind: Datatype, shape: Sequence[int], raw: bytes) -> TensorProto:
    return TensorProto(name=name, data_type=kind.onnx, dims=shape, raw_data=raw)


def _refuse_odd_bytes(raw: bytes, kind: Datatype) -> None:
    array = np.frombuffer(raw, kind.numpy)
    if kind.name == "BOOL" and np.frombuffer(raw, np.uint8).max(initial=0) > 1:
        raise DataFault("base64", "expected bytes of 0 or 1 for BOOL")
    if kind.numpy.kind not in "biu" and not np.isfinite(array).all():
        raise DataFault("base64", "expected finite numbers")


def _flat(data: Any, shape: Sequence[int]) -> list[Any]:
    """All elements in order. Nothing is trusted to be as long as the shape says before it is counted."""
    count = math.prod(shape)
    if not isinstance(data, list):
        data = [data] if not shape else data
    if not isinstance(data, list):
        raise DataFault("data", f"expected a list, got {name_of(data)}")
    if not any(isinstance(each, list) for each in data) and (len(data) == count or len(shape) < 2):
        return _counted(data, count, shape)
    level = [data]
    for dimension in shape:
        if any(not isinstance(each, list) or len(each) != dimension for each in level):
            raise DataFault("data", f"expected lists nested as the shape {list(shape)}, or {count} numbers")
        level = list(chain.from_iterable(level))
    return _counted(level, count, shape)


def _counted(flat: list[Any], count: int, shape: Sequence[int]) -> list[Any]:
    if len(flat) != count:
        raise DataFault("data", f"expected {count} elements for the shape {list(shape)}, got {len(flat)}")
    return flat


def _packed(flat: list[Any], kind: Datatype) -> bytes:
    allowed: set[type] = {bool} if kind.name == "BOOL" else {int} if kind.numpy.kind in "iu" else {int, float}
    wrong = set(map(type, flat)) - allowed
    if wrong:
        index = next(index for index, each in enumerate(flat) if type(each) in wrong)
        raise DataFault("data", f"expected {_expected(kind)}, got {name_of(flat[index])} at element {index}")
    return _integers(flat, kind) if kind.numpy.kind in "biu" else _reals(flat, kind)


def _expected(kind: Datatype) -> str:
    return "true or false" if kind.name == "BOOL" else "integers" if kind.numpy.kind in "iu" else "numbers"


def _integers(flat: list[int], kind: Datatype) -> bytes:
    if kind.name != "BOOL":
        limits = np.iinfo(kind.numpy)
        outside = next((each for each in flat if not limits.min <= each <= limits.max), None)
        if outside is not None:
            shown = str(outside) if outside.bit_length() < 200 else "a larger number"
            raise DataFault("data", f"expected {limits.min} to {limits.max} for {kind.name}, got {shown}")
    return np.array(flat, kind.numpy).tobytes()


def _reals(flat: list[float], kind: Datatype) -> bytes:
    largest = float(ml_dtypes.finfo(kind.numpy).max)  # type: ignore[no-untyped-call]
    try:
        wide = np.array(flat, np.float64)
        with np.errstate(over="ignore"):
            narrow = wide.astype(kind.numpy)
    except OverflowError:
        raise DataFault("data", f"expected at most {largest:g} for {kind.name}") from None
    beyond = ~np.isfinite(wide) | ~np.isfinite(narrow)
    if beyond.any():
        index = int(beyond.argmax())
        raise DataFault("data", f"expected finite numbers to {largest:g} for {kind.name}, got {flat[index]} at {index}")
    return narrow.tobytes()
