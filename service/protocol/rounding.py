"""Numbers between JSON's doubles and narrower floats: to the nearest one, and back in few digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from service.backends.base import Array
from service.datatypes import DATATYPES

Doubles = np.ndarray[Any, np.dtype[np.float64]]

DIGITS = {"FP32": (9, 8, 7, 6), "FP16": (5, 4, 3), "BF16": (4, 3, 2)}
"""Decimal digits: the first number always tells neighbours apart, the last are the most that any decimal keeps."""

POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])
"""The powers of ten that doubles hold exactly."""


def narrow(values: Doubles, datatype: str) -> Array:
    """The nearest numbers of the type, ties to even; infinite where the type does not reach."""
    with np.errstate(over="ignore", invalid="ignore"):
        if datatype == "BF16":
            # The cast goes by way of FP32, and rounding twice is not rounding to the nearest.
            return _rounded_to_odd(values).astype(DATATYPES[datatype].numpy)
        return values.astype(DATATYPES[datatype].numpy)


def _rounded_to_odd(values: Doubles) -> Array:
    """FP32, cut off, with the last bit set where that lost something: a second rounding then knows ties from others."""
    near = values.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    bits -= np.abs(back) > np.abs(values)
    bits |= back != values
    return near


def shorten(array: Array, datatype: str) -> Doubles:
    """Doubles of few digits that are nearest to the same numbers of the type: 0.1 instead of 0.0999755859375."""
    with np.errstate(all="ignore"):
        result: Doubles = array.astype(np.float64)
        exponents = np.floor(np.log10(np.abs(result)))
        exponents[~np.isfinite(exponents)] = 0
        for digits in DIGITS.get(datatype, ()):
            scale = POWERS[np.clip(digits - 1 - exponents, 0, len(POWERS) - 1).astype(np.intp)]
            short = np.rint(result * scale) / scale
            np.copyto(result, short, where=narrow(short, datatype) == array)
    return result
