"""Whether tensors are what an engine takes: its signature, and its profiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.backends.base import Array, Profile, Range, TensorInfo
from service.datatypes import DATATYPES
from service.errors import Fault
from service.protocol.faults import shown

LARGEST = 2**63 - 1


def shape_fault(shape: Any, info: TensorInfo) -> tuple[str, str] | None:
    """What is wrong with a shape as it came in JSON: a pointer within it and a sentence; None if nothing is."""
    if type(shape) is not list:
        return "", f"expected a list of integers, got {shown(shape)}"
    for index, dim in enumerate(shape):
        if type(dim) is not int or not 0 <= dim <= LARGEST:
            return f"/{index}", f"expected an integer of 0 or more, got {shown(dim)}"
    if len(shape) != len(info.shape):
        return "", f"expected {len(info.shape)} dimensions, as {described(info)} has, got {len(shape)}"
    for index, (dim, wanted) in enumerate(zip(shape, info.shape, strict=True)):
        if wanted not in (-1, dim):
            return f"/{index}", f"expected {wanted}, as {described(info)} says, got {dim}"
    # Zeros aside, since NumPy multiplies without them.
    if math.prod(dim or 1 for dim in shape) * DATATYPES[info.datatype].itemsize > LARGEST:
        return "", "expected a tensor that can be addressed"
    return None


def described(info: TensorInfo) -> str:
    """An input or output in a word: `FP32 [-1, 8]`."""
    return f"{info.datatype} {list(info.shape)}"


def profile_faults(
    inputs: Mapping[str, Array], profiles: Sequence[Profile], pointers: Mapping[str, str]
) -> Iterator[Fault]:
    """A fault for each input that keeps the request out of every profile. `pointers`: where each input stands.

    One profile must take all inputs. Where none does, the one that most inputs fit says which do not.
    """
    if not profiles or any(not _outside(inputs, profile) for profile in profiles):
        return
    for name in min((_outside(inputs, profile) for profile in profiles), key=len):
        ranges = [profile[name] for profile in profiles if name in profile]
        possible = " or ".join(dict.fromkeys(map(_spelled, ranges)))
        together = ", in one profile with the other inputs" if any(_fits(inputs[name], each) for each in ranges) else ""
        what = "values" if ranges[0].values else "a shape"
        yield Fault(pointers[name], f"expected {what} {possible}{together}, got {_found(inputs[name], ranges[0])}")


def _outside(inputs: Mapping[str, Array], profile: Profile) -> list[str]:
    return [name for name, limits in profile.items() if name in inputs and not _fits(inputs[name], limits)]


def _fits(array: Array, limits: Range) -> bool:
    found = _found(array, limits)
    return len(found) == len(limits.min) and all(
        low <= got <= high for low, got, high in zip(limits.min, found, limits.max, strict=True)
    )


def _found(array: Array, limits: Range) -> list[int]:
    """The array's shape or, where those are limited, its values: as many as can matter."""
    values: list[int] = array.reshape(-1)[: len(limits.min) + 1].tolist() if limits.values else list(array.shape)
    return values


def _spelled(limits: Range) -> str:
    return f"from {list(limits.min)} to {list(limits.max)}"
