"""Profiles against the network's inputs."""

from __future__ import annotations

import pytest
from onnx import helper

from service.backends.base import Range
from service.datatypes import DATATYPES
from service.network.bodies import Faults
from service.network.description import InputRange
from service.network.profiles import check_profiles


def value(name, datatype, shape):
    return helper.make_tensor_value_info(name, DATATYPES[datatype].onnx, shape)


INPUTS = [value("x", "FP32", ["batch", 8]), value("static", "FP32", [2, 3])]
X = {"min": [1, 8], "opt": [4, 8], "max": [64, 8]}


def check(inputs, *profiles):
    faults = Faults()
    given = [{name: InputRange(**each) for name, each in profile.items()} for profile in profiles]
    found = check_profiles(inputs, given, faults)
    return {fault.pointer: fault.detail for fault in faults} or found


def test_ranges_and_what_is_static():
    static = {"min": [2, 3], "opt": [2, 3], "max": [2, 3]}
    assert check(INPUTS, {"x": X, "static": static}) == ({"x": Range((1, 8), (4, 8), (64, 8))},)


def test_several_profiles():
    large = {"min": [64, 8], "opt": [64, 8], "max": [128, 8]}
    assert len(check(INPUTS, {"x": X}, {"x": large})) == 2


def test_needed_for_dynamic_dimensions_only():
    assert check(INPUTS[1:]) == ()
    assert check(INPUTS) == {"/profiles": "dynamic dimensions need a profile with min, opt and max: x [batch, 8]"}
    assert check(INPUTS, {"x": X}, {}) == {"/profiles/1": "x [batch, 8] is dynamic, and not given"}


def test_an_unnamed_dimension_is_dynamic_too():
    assert check([value("x", "FP32", [None])]).keys() == {"/profiles"}


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({"min": [5, 8]}, "/min", "expected min <= opt, got 5 > 4 at index 0"),
        ({"max": [3, 8]}, "/max", "expected opt <= max, got 4 > 3 at index 0"),
        ({"min": [1, 7]}, "/min/1", "expected 8"),
        ({"opt": [1]}, "/opt", "expected 2 dimensions"),
        ({"max": [1, 8, 1]}, "/max", "expected 2 dimensions"),
    ],
)
def test_ranges_that_do_not_fit(changed, pointer, said):
    assert said in check(INPUTS, {"x": {**X, **changed}})[f"/profiles/0/x{pointer}"]


def test_unknown_inputs():
    assert check(INPUTS, {"x": X, "a/b": X})["/profiles/0/a~1b"] == "no input of this name; there are x, static"


def test_a_dimension_that_two_inputs_share_has_one_range():
    inputs = [value("a", "FP32", ["n"]), value("b", "FP32", ["n"])]
    one, other = {"min": [1], "opt": [2], "max": [4]}, {"min": [1], "opt": [2], "max": [8]}
    assert check(inputs, {"a": one, "b": one})
    assert check(inputs, {"a": one, "b": other}).keys() == {"/profiles/0/b"}


def test_values_of_an_input_that_sets_shapes():
    inputs = [value("shape", "INT64", [2]), value("length", "INT32", [])]
    two = {"values": {"min": [1, 1], "opt": [2, 2], "max": [4, 4]}}
    one = {"values": {"min": [-1], "opt": [2], "max": [4096]}}
    (profile,) = check(inputs, {"shape": two, "length": one})
    assert profile == {
        "shape": Range((1, 1), (2, 2), (4, 4), values=True),
        "length": Range((-1,), (2,), (4096,), values=True),
    }


@pytest.mark.parametrize(
    ("info", "values", "pointer", "said"),
    [
        (("v", "FP32", [1]), ([1], [1], [1]), "", "INT32 or INT64"),
        (("v", "INT64", ["n"]), ([1], [1], [1]), "", "known length"),
        (("v", "INT64", [1, 1]), ([1], [1], [1]), "", "rank 0 or 1"),
        (("v", "INT64", [2]), ([1], [1, 1], [1, 1]), "/min", "expected 2 values"),
        (("v", "INT32", [1]), ([1], [1], [2**31]), "/max", "INT32"),
        (("v", "INT64", [1]), ([3], [1], [4]), "/min", "expected min <= opt"),
    ],
)
def test_values_that_do_not_fit(info, values, pointer, said):
    given = {"values": dict(zip(("min", "opt", "max"), values, strict=True))}
    assert said in check([value(*info)], {"v": given})[f"/profiles/0/v/values{pointer}"]
