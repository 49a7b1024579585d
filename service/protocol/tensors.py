"""Tensors to and from the wire: exactly the type that they claim, exactly as many elements."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from service.backends.base import Array
from service.datatypes import DATATYPES
from service.protocol.faults import DataFault, shown
from service.protocol.nesting import Locate, flattened
from service.protocol.rounding import narrow, shorten

FLOATING = ("FP64", "FP32", "FP16", "BF16")
_NUMBERS = TypeAdapter(list[float], config=ConfigDict(ser_json_inf_nan="constants"))
_INTEGERS = TypeAdapter(list[int])
_BOOLEANS = TypeAdapter(list[bool])


def decode_json(data: Any, datatype: str, shape: Sequence[int]) -> Array:
    """The tensor whose elements `data` lists, nested as the shape says or flat. Raises DataFault.

    Floats are rounded to the nearest of the type; what lies beyond the type is refused.
    """
    flat, locate = flattened(data, shape)
    allowed: set[type] = {bool} if datatype == "BOOL" else {int, float} if datatype in FLOATING else {int}
    if not set(map(type, flat)) <= allowed:
        index = next(index for index, value in enumerate(flat) if type(value) not in allowed)
        expected = "true or false" if datatype == "BOOL" else "a number" if datatype in FLOATING else "an integer"
        raise DataFault(locate(index), f"expected {expected} for {datatype}, got {shown(flat[index])}")
    array = _floats(flat, datatype, locate) if datatype in FLOATING else _integers(flat, datatype, locate)
    return array.reshape(shape)


def _integers(flat: list[Any], datatype: str, locate: Locate) -> Array:
    dtype = DATATYPES[datatype].numpy
    try:
        return np.array(flat, dtype)
    except OverflowError:
        limits = np.iinfo(dtype)
        index = next(index for index, value in enumerate(flat) if not limits.min <= value <= limits.max)
        detail = f"expected {limits.min} to {limits.max} for {datatype}, got {shown(flat[index])}"
        raise DataFault(locate(index), detail) from None


def _floats(flat: list[Any], datatype: str, locate: Locate) -> Array:
    try:
        array = narrow(np.array(flat, np.float64), datatype)
    except OverflowError:  # an integer that no double reaches
        index = next(index for index, value in enumerate(flat) if abs(value) > sys.float_info.max)
    else:
        if np.isfinite(array).all():
            return array
        index = int(np.flatnonzero(~np.isfinite(array))[0])
    raise DataFault(locate(index), f"beyond the largest {datatype}: {shown(flat[index])}")


def encode_json(array: Array, datatype: str) -> bytes:
    """The elements as a flat JSON list; floats in as few digits as tell them apart.

    JSON has no word for what is not finite: infinities are written as 1e999 and -1e999, which readers take for
    infinite, and NaN as null.
    """
    flat = array.reshape(-1)
    if datatype not in FLOATING:
        return (_BOOLEANS if datatype == "BOOL" else _INTEGERS).dump_json(flat.tolist())
    doubles = shorten(flat, datatype)
    written = _NUMBERS.dump_json(doubles.tolist())
    if np.isfinite(doubles).all():
        return written
    return written.replace(b"Infinity", b"1e999").replace(b"NaN", b"null")


def decode_binary(body: bytes, offset: int, size: int, datatype: str, shape: Sequence[int]) -> Array:
    """The tensor that lies in the body, little-endian and row-major; not copied. Raises DataFault."""
    dtype = DATATYPES[datatype].numpy
    expected = math.prod(shape) * dtype.itemsize
    if size != expected:
        raise DataFault("", f"expected {expected} bytes for {datatype} {list(shape)}, got {size}")
    if size > len(body) - offset:
        raise DataFault("", f"expected {size - max(len(body) - offset, 0)} more bytes behind the JSON")
    if not size:
        return np.empty(shape, dtype)
    array = np.frombuffer(body, dtype, size // dtype.itemsize, offset).reshape(shape)
    if datatype == "BOOL" and array.view(np.uint8).max() > 1:
        raise DataFault("", "expected bytes of 0 or 1 for BOOL")
    return array


def encode_binary(array: Array) -> memoryview:
    """The elements, little-endian and row-major; not copied where they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
