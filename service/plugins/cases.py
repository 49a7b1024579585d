"""What a plugin's `cases.py` is made of: nodes to try, with tensors to be drawn for them.

CASES = [Case("odd row", {"x": Drawn((3, 129), "FP16")}, {"scale": 2.0})]

def oracle(plugin, inputs):  # optional: {name: array} -> one array an output, computed in float64
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from service.datatypes import DATATYPES, datatype_from_numpy
from service.plugins.plugin import CudaPlugin
from service.plugins.tensors import TensorType

Array = np.ndarray[Any, np.dtype[Any]]
Oracle = Callable[[CudaPlugin, Mapping[str, Array]], Sequence[Array]]

TOLERANCES = {"FP32": 2e-5, "FP16": 2e-3, "BF16": 1.6e-2}
"""Largest relative error: two units in the last place of the half types, more where FP32 adds in another order."""

ODD_LENGTHS = (1, 31, 32, 33, 127, 129, 255, 257, 1023, 1025)
"""Rows at which kernels go wrong: just below and above what a warp, a block or a vector access takes."""


@dataclass(frozen=True)
class Drawn:
    """A tensor to be drawn.

    `how` is "normal" (floats with the standard deviation `scale`; integers over their whole range), "extreme" (floats,
    half of them zeros of both signs and the largest and smallest there are), or "constant" (every element is `scale`).
    """

    shape: tuple[int, ...]
    datatype: str = "FP32"
    how: str = "normal"
    scale: float = 1.0

    def draw(self, generator: np.random.Generator) -> Array:
        dtype = DATATYPES[self.datatype].numpy
        if self.how == "constant":
            return np.full(self.shape, self.scale).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return generator.integers(limits.min, limits.max, self.shape, dtype=dtype, endpoint=True)
        if dtype.kind == "b":
            return generator.integers(0, 2, self.shape).astype(dtype)
        values = generator.standard_normal(self.shape) * self.scale
        if self.how == "extreme":
            values = np.where(
                generator.random(self.shape) < 0.5, values, generator.choice(_extremes(dtype), self.shape)
            )
        return values.astype(dtype)


@dataclass(frozen=True)
class Case:
    """One node to try. Inputs not named are absent; `outputs` is how many of them the node has (None: all).

    `tolerance` replaces that of the outputs' types; where all outputs may be close to zero by cancellation, errors
    count relative to `floor`. Where `fault` is set, the node must be refused, with that in the text of the fault.
    `peer` is False where ONNX Runtime's kernel for the operator that the plugin takes over cannot do the same.
    """

    name: str
    inputs: Mapping[str, Drawn]
    fields: Mapping[str, Any] = field(default_factory=dict)
    outputs: int | None = None
    tolerance: float | None = None
    floor: float = 0.0
    fault: str = ""
    peer: bool = True

    def draw(self) -> dict[str, Array]:
        """The inputs, the same ones every time."""
        generator = np.random.default_rng(zlib.crc32(self.name.encode()))
        return {name: drawn.draw(generator) for name, drawn in self.inputs.items()}

    def types(self, plugin: type[CudaPlugin]) -> list[TensorType | None]:
        """The inputs' types in the plugin's order."""
        return [
            TensorType(self.inputs[tensor.name].datatype, self.inputs[tensor.name].shape)
            if tensor.name in self.inputs
            else None
            for tensor in plugin.inputs
        ]

    def output_names(self, plugin: type[CudaPlugin]) -> list[str]:
        return [tensor.name for tensor in plugin.outputs[: self.outputs]]

    def error_of(self, got: Array, expected: Array) -> float:
        return error_between(got, expected, self.floor)

    def tolerance_for(self, expected: Array) -> float:
        """Largest error allowed; 0 for types that are no floats."""
        datatype = datatype_from_numpy(expected.dtype)
        return self.tolerance if self.tolerance is not None else TOLERANCES.get(datatype.name if datatype else "", 0.0)


def cases_of(plugin: type[CudaPlugin]) -> tuple[list[Case], Oracle | None]:
    """What `cases.py` beside the plugin's module holds. Raises ModuleNotFoundError where there is none."""
    module = importlib.import_module(f"{plugin.__module__.rpartition('.')[0]}.cases")
    return list(module.CASES), getattr(module, "oracle", None)


def error_between(got: Array, expected: Array, floor: float = 0.0) -> float:
    """The largest error relative to an element or, where that is larger, to the root mean square of all or to `floor`.

    Infinite where shapes or types differ, or NaN and infinity stand in different places.
    """
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    actual, wanted = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(actual[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    actual, wanted = actual[finite], wanted[finite]
    difference = np.abs(actual - wanted)
    if not difference.any():
        return 0.0
    return float(np.max(difference / np.maximum(np.abs(wanted), max(floor, np.sqrt(np.mean(wanted**2))))))


def _extremes(dtype: np.dtype[Any]) -> Array:
    """Of FP16 the largest there are; of wider types such that squares and products stay in the range of FP32."""
    limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    large = min(float(limits.max), 1e15)
    small = float(limits.smallest_subnormal)
    return np.array([0.0, -0.0, large, -large, small, -small, float(limits.tiny), 1.0])
