"""A model's tensors: each has exactly its data, and external data lies in an uploaded part or nowhere.

ONNX Runtime and TensorRT alike would read a location from the working directory, whatever file of the server's it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from service.network.bodies import Faults, shorten

MOST_RANK = 64
SMALL = 4096
"""Bytes of external data that moves into the model, where it can be looked at."""
_NUMBER = re.compile(r"[0-9]{1,18}")
_TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_PAIRED = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
_ODD_BITS = {number: _BITS[name] for name, number in TensorProto.DataType.items() if name in _BITS}
"""Bits of the types that do not fill bytes."""


class TensorFault(ValueError):
    """A tensor that is not what it says; the text says what was expected."""


@dataclass
class Tensors:
    """Checks a model's tensors one by one. `parts` are the uploaded files by location.

    `data` has the files that tensors still need, by the location that the tensors now have: one of ours, so that no
    user's name becomes a file's. What is small, shapes above all, moves into the model.
    """

    parts: Mapping[str, Path]
    faults: Faults
    data: dict[str, Path] = field(default_factory=dict)
    _locations: dict[str, str] = field(default_factory=dict)

    def check(self, tensor: TensorProto, pointer: str) -> None:
        try:
            count = _count(tensor)
            if tensor.data_location == TensorProto.EXTERNAL:
                self._check_external(tensor, count)
            else:
                _check_own(tensor, count)
                del tensor.external_data[:]
        except TensorFault as fault:
            self.faults.report(pointer, f"the tensor {shorten(tensor.name) or 'without a name'}: {fault}")
            empty(tensor)

    def _check_external(self, tensor: TensorProto, count: int) -> None:
        if tensor.data_type == TensorProto.STRING:
            raise TensorFault("strings cannot be external")
        said = _entries(tensor)
        location = said["location"]
        part = self.parts.get(location)
        if "/" in location or "\\" in location or "\0" in location or part is None:
            uploaded = ", ".join(map(shorten, self.parts)) or "none"
            raise TensorFault(f"its location {shorten(location)!r} is no uploaded part (uploaded: {uploaded})")
        size, offset = _size(tensor.data_type, count), _number(said, "offset", 0)
        length = _number(said, "length", size)
        if length != size:
            raise TensorFault(f"expected a length of {size} bytes in {shorten(location)!r}, got {length}")
        available = part.stat().st_size
        if offset + length > available:
            ends = f"its data ends at byte {offset + length} of {shorten(location)!r}"
            raise TensorFault(f"{ends}, and the part has {available} bytes")
        empty(tensor)
        if size <= SMALL:
            tensor.raw_data = _read(part, offset, size)
        else:
            self._refer(tensor, location, offset, length)

    def _refer(self, tensor: TensorProto, location: str, offset: int, length: int) -> None:
        ours = self._locations.setdefault(location, f"external_{len(self._locations)}")
        self.data[ours] = self.parts[location]
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", ours), ("offset", str(offset)), ("length", str(length))):
            tensor.external_data.add(key=key, value=value)


def _entries(tensor: TensorProto) -> dict[str, str]:
    said: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in said:
            raise TensorFault(f"{shorten(entry.key)} is given twice for its external data")
        said[entry.key] = entry.value
    if not said.get("location"):
        raise TensorFault("expected a location of its external data")
    return said


def _number(said: Mapping[str, str], key: str, default: int) -> int:
    text = said.get(key)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        where = f"in {shorten(said['location'])!r}"
        raise TensorFault(f"expected a number of bytes as {key} {where}, got {shorten(text)!r}")
    return int(text)


def _read(part: Path, offset: int, size: int) -> bytes:
    with part.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def _count(tensor: TensorProto) -> int:
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_type == TensorProto.UNDEFINED:
        raise TensorFault(f"unknown type {tensor.data_type}")
    if len(tensor.dims) > MOST_RANK:
        raise TensorFault(f"expected at most {MOST_RANK} dimensions, got {len(tensor.dims)}")
    if any(dim < 0 for dim in tensor.dims):
        raise TensorFault(f"expected no dimension below zero, got {list(tensor.dims)}")
    if tensor.HasField("segment"):
        raise TensorFault("tensors in segments are not supported")
    return math.prod(tensor.dims)


def _size(datatype: int, count: int) -> int:
    """Bytes of so many elements."""
    if datatype in _ODD_BITS:
        return -(-count * _ODD_BITS[datatype] // 8)
    return count * int(np.dtype(helper.tensor_dtype_to_np_dtype(datatype)).itemsize)


def _check_own(tensor: TensorProto, count: int) -> None:
    """Raises TensorFault unless the data in the model is as much as the shape says."""
    if tensor.data_type == TensorProto.STRING:
        _expect(count, len(tensor.string_data), "strings")
    elif tensor.HasField("raw_data"):
        _expect(_size(tensor.data_type, count), len(tensor.raw_data), "bytes")
    else:
        kept = helper.tensor_dtype_to_field(tensor.data_type)
        elements = count * 2 if tensor.data_type in _PAIRED else count
        if _ODD_BITS.get(tensor.data_type) in (2, 4):  # those are packed in this form too
            elements = _size(tensor.data_type, count)
        _expect(elements, len(getattr(tensor, kept)), "elements")


def _expect(wanted: int, found: int, what: str) -> None:
    if wanted != found:
        raise TensorFault(f"expected {wanted} {what} for its shape, got {found}")


def empty(tensor: TensorProto) -> None:
    """Takes the data away, whatever form it has; name, type and shape stay."""
    for kind in (*_TYPED, "raw_data", "data_location", "external_data"):
        tensor.ClearField(kind)
