"""What a TensorRT engine takes and gives, read once when it is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.datatypes import DATATYPES
from service.plugins.shell import DATATYPES as FROM_TENSORRT

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """`profiles` has, for each profile, the smallest and largest shape of each input that has one."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    datatypes: Mapping[str, str]
    on_host: frozenset[str]
    profiles: tuple[Mapping[str, tuple[Shape, Shape]], ...]

    @classmethod
    def of(cls, trt: Any, engine: Any) -> Signature:
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        inputs = tuple(name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT)
        # Of an input whose values set shapes the values count, and TensorRT checks them.
        shaped = [name for name in inputs if not engine.is_shape_inference_io(name)]
        return cls(
            inputs,
            outputs=tuple(name for name in names if name not in inputs),
            datatypes={name: FROM_TENSORRT[engine.get_tensor_dtype(name).name] for name in names},
            on_host=frozenset(name for name in names if engine.get_tensor_location(name) == trt.TensorLocation.HOST),
            profiles=tuple(
                {name: _limits(engine, name, index) for name in shaped}
                for index in range(engine.num_optimization_profiles)
            ),
        )

    def profile_for(self, shapes: Mapping[str, Shape]) -> int | None:
        """The first profile that all shapes lie in."""
        for index, limits in enumerate(self.profiles):
            if all(_within(shapes[name], *limits[name]) for name in limits):
                return index
        return None

    def dtype(self, name: str) -> np.dtype[Any]:
        return DATATYPES[self.datatypes[name]].numpy

    def size(self, name: str, shape: Shape) -> int:
        """Bytes."""
        return math.prod(shape) * self.dtype(name).itemsize


def _limits(engine: Any, name: str, profile: int) -> tuple[Shape, Shape]:
    low, _, high = engine.get_tensor_profile_shape(name, profile)
    return tuple(low), tuple(high)


def _within(shape: Shape, low: Shape, high: Shape) -> bool:
    return len(low) == len(shape) and all(a <= dim <= b for a, dim, b in zip(low, shape, high, strict=True))
