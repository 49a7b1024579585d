"""Attributes from JSON."""

from __future__ import annotations

import pytest
from onnx import AttributeProto, helper, numpy_helper

from service.network.attributes import AttributeFault, attribute_from_json

A = AttributeProto
TENSOR = {"datatype": "INT64", "shape": [2], "data": [1, 2]}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (A.INT, 3, 3),
        (A.INT, "FP16", 10),
        (A.FLOAT, 2, 2.0),
        (A.FLOAT, 0.5, 0.5),
        (A.STRING, "ä", "ä".encode()),
        (A.INTS, [], []),
        (A.INTS, [1, -1], [1, -1]),
        (A.FLOATS, [1, 0.5], [1.0, 0.5]),
        (A.STRINGS, ["a"], [b"a"]),
        (None, 1, 1),
        (None, 1.0, 1.0),
        (None, [1, 2], [1, 2]),
        (None, [1, 2.5], [1.0, 2.5]),
        (None, ["a"], [b"a"]),
    ],
)
def test_values_take_the_declared_type(kind, value, expected):
    attribute = attribute_from_json("a", value, kind)
    assert helper.get_attribute_value(attribute) == expected
    assert kind in (None, attribute.type)


def test_a_tensor():
    attribute = attribute_from_json("value", TENSOR, A.TENSOR)
    assert numpy_helper.to_array(attribute.t).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (A.INT, 1.0, "expected an integer, got a number"),
        (A.INT, True, "got a boolean"),
        (A.INT, "FP", "got a string"),
        (A.INT, 2**63, "64 bits"),
        (A.FLOAT, "1", "expected a number"),
        (A.FLOAT, float("inf"), "finite"),
        (A.FLOAT, 10**400, "finite"),
        (A.STRING, 1, "expected a string"),
        (A.INTS, 1, "expected a list of integers, got an integer"),
        (A.INTS, [1, "a"], "expected a list of integers, got a string"),
        (A.GRAPH, {}, "upload an ONNX file"),
        (A.TENSOR, 1, "expected a tensor"),
        (A.TENSOR, {**TENSOR, "x": 1}, "no key x"),
        (A.TENSOR, {**TENSOR, "datatype": []}, "datatype"),
        (A.TENSOR, {**TENSOR, "shape": [-1]}, "shape"),
        (A.TENSOR, {**TENSOR, "data": [1]}, "expected 2 elements"),
        (A.TENSOR, {"datatype": "INT64", "shape": [2]}, "data or base64"),
        (A.TENSOR, {"datatype": "INT64", "shape": [2], "base64": 1}, "base64"),
        (None, None, "expected an integer, got null"),
        (None, [1, None], "got null"),
    ],
)
def test_other_values_are_refused(kind, value, said):
    with pytest.raises(AttributeFault, match=said):
        attribute_from_json("a", value, kind)
