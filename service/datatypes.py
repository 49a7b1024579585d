"""The tensor types everything here speaks: Open Inference Protocol names, with their ONNX and NumPy counterparts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Datatype:
    """One element type. `onnx` is the number in `onnx.TensorProto.DataType`."""

    name: str
    onnx: int
    numpy: np.dtype[Any]
    short: str
    """How kernels and TensorRT people abbreviate it (`f16`)."""

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.numpy.itemsize


_ALL = (
    Datatype("BOOL", 9, np.dtype(np.bool_), "b8"),
    Datatype("UINT8", 2, np.dtype(np.uint8), "u8"),
    Datatype("UINT16", 4, np.dtype(np.uint16), "u16"),
    Datatype("UINT32", 12, np.dtype(np.uint32), "u32"),
    Datatype("UINT64", 13, np.dtype(np.uint64), "u64"),
    Datatype("INT8", 3, np.dtype(np.int8), "i8"),
    Datatype("INT16", 5, np.dtype(np.int16), "i16"),
    Datatype("INT32", 6, np.dtype(np.int32), "i32"),
    Datatype("INT64", 7, np.dtype(np.int64), "i64"),
    Datatype("FP16", 10, np.dtype(np.float16), "f16"),
    Datatype("BF16", 16, np.dtype(ml_dtypes.bfloat16), "bf16"),
    Datatype("FP32", 1, np.dtype(np.float32), "f32"),
    Datatype("FP64", 11, np.dtype(np.float64), "f64"),
    Datatype("FP8", 17, np.dtype(ml_dtypes.float8_e4m3fn), "f8"),
)

DATATYPES: dict[str, Datatype] = {datatype.name: datatype for datatype in _ALL}
_BY_ONNX: dict[int, Datatype] = {datatype.onnx: datatype for datatype in _ALL}
_BY_NUMPY: dict[np.dtype[Any], Datatype] = {datatype.numpy: datatype for datatype in _ALL}

WIRE_DATATYPES: tuple[str, ...] = tuple(name for name in DATATYPES if name != "FP8")
"""What a request or an engine's own inputs and outputs may have: FP8 exists only inside a network."""

FLOATS: tuple[str, ...] = ("FP32", "FP16", "BF16")
"""What most plugins compute in."""


def datatype_from_onnx(number: int) -> Datatype | None:
    """The datatype of an ONNX element type, or None where the protocol has no name for it."""
    return _BY_ONNX.get(number)


def datatype_from_numpy(dtype: np.dtype[Any]) -> Datatype | None:
    """The datatype of a NumPy array's elements, or None where the protocol has no name for it."""
    return _BY_NUMPY.get(dtype)
