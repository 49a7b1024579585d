"""Shapes against an engine's signature and its profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.backends.base import Range, TensorInfo
from service.errors import Fault
from service.protocol.conformance import profile_faults, shape_fault

INFO = TensorInfo("x", "FP32", (-1, 8))
SMALL = {"x": Range((1, 8), (4, 8), (16, 8)), "y": Range((1,), (4,), (16,))}
LARGE = {"x": Range((32, 8), (32, 8), (64, 8)), "y": Range((32,), (32,), (64,))}
AT = {"x": "/inputs/0/shape", "y": "/inputs/1/shape"}


@pytest.mark.parametrize("shape", [[1, 8], [0, 8], [2**40, 8]])
def test_dynamic_dimensions_take_any_size(shape: list[int]) -> None:
    assert shape_fault(shape, INFO) is None


@pytest.mark.parametrize(
    ("shape", "pointer", "detail"),
    [
        ([-1, 8], "/0", "expected an integer of 0 or more, got -1"),
        ([True, 8], "/0", "expected an integer of 0 or more, got true"),
        ([2.0, 8], "/0", "expected an integer of 0 or more, got 2.0"),
        (["2", 8], "/0", "expected an integer of 0 or more, got the string '2'"),
        ([18446744073709551616, 8], "/0", "expected an integer of 0 or more, got 18446744073709551616"),
        ([2, 7], "/1", "expected 8, as FP32 [-1, 8] says, got 7"),
        ([2], "", "expected 2 dimensions, as FP32 [-1, 8] has, got 1"),
        ([2**62, 8], "", "expected a tensor that can be addressed"),
        (None, "", "expected a list of integers, got null"),
        ({}, "", "expected a list of integers, got an object"),
    ],
)
def test_shapes_that_do_not_fit(shape: Any, pointer: str, detail: str) -> None:
    assert shape_fault(shape, INFO) == (pointer, detail)


def test_an_empty_tensor_may_not_be_too_large_either() -> None:
    info = TensorInfo("x", "FP32", (-1, -1, -1))
    assert shape_fault([0, 2**40, 2**40], info) == ("", "expected a tensor that can be addressed")
    assert shape_fault([0, 2**30, 2**30], info) is None
    np.empty((0, 2**30, 2**30), np.float32)


def faults(x: int, y: int, *profiles: dict[str, Range]) -> list[Fault]:
    arrays = {"x": np.empty((x, 8), np.float32), "y": np.empty(y, np.float32)}
    return [*profile_faults(arrays, profiles, AT)]


def test_shapes_within_one_profile() -> None:
    assert faults(1, 16, SMALL, LARGE) == faults(32, 64, SMALL, LARGE) == faults(17, 0) == []


def test_outside_every_profile_names_what_is_possible() -> None:
    said = "expected a shape from [1, 8] to [16, 8] or from [32, 8] to [64, 8], got [17, 8]"
    assert faults(17, 4, SMALL, LARGE) == [Fault("/inputs/0/shape", said)]
    [first, second] = faults(65, 65, SMALL)
    assert (first.pointer, second.pointer) == ("/inputs/0/shape", "/inputs/1/shape")


def test_one_profile_has_to_take_all_inputs() -> None:
    [fault] = faults(4, 40, SMALL, LARGE)
    assert fault.detail == (
        "expected a shape from [1] to [16] or from [32] to [64], in one profile with the other inputs, got [40]"
        if fault.pointer == "/inputs/1/shape"
        else "expected a shape from [1, 8] to [16, 8] or from [32, 8] to [64, 8], in one profile with the other inputs,"
        " got [4, 8]"
    )


def test_values_have_ranges_too() -> None:
    profile = {"n": Range((1, 1), (4, 4), (16, 16), values=True)}
    at = {"n": "/inputs/0/shape"}
    assert not [*profile_faults({"n": np.array([1, 16])}, [profile], at)]
    [fault] = profile_faults({"n": np.array([1, 17])}, [profile], at)
    assert fault.detail == "expected values from [1, 1] to [16, 16], got [1, 17]"
    assert [*profile_faults({"n": np.zeros(10**6, np.int64)}, [profile], at)]
