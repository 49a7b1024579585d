"""Data of constants: exactly what datatype and shape say, or a fault."""

from __future__ import annotations

import base64

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from service.datatypes import DATATYPES
from service.network.constants import DataFault, tensor_from_base64, tensor_from_numbers


@pytest.mark.parametrize("datatype", DATATYPES)
def test_numbers_and_base64_give_the_same_tensor(datatype):
    kind = DATATYPES[datatype]
    numbers = [True, False] if datatype == "BOOL" else [1, 2]
    expected = np.array(numbers, kind.numpy)
    text = base64.b64encode(expected.tobytes()).decode()
    for tensor in (
        tensor_from_numbers("c", datatype, [2, 1], [[numbers[0]], [numbers[1]]]),
        tensor_from_numbers("c", datatype, [2, 1], numbers),
        tensor_from_base64("c", datatype, [2, 1], text),
    ):
        assert (tensor.data_type, list(tensor.dims), tensor.raw_data) == (kind.onnx, [2, 1], expected.tobytes())


def test_halves_are_rounded_to_the_nearest():
    tensor = tensor_from_numbers("c", "BF16", [3], [1.0, 0.1, -3.3e38])
    assert tensor.raw_data == np.array([1.0, 0.1, -3.3e38], ml_dtypes.bfloat16).tobytes()
    assert numpy_helper.to_array(tensor_from_numbers("c", "FP16", [], 0.1)) == np.float16(0.1)


@pytest.mark.parametrize("shape", [[0], [0, 4], [3, 0]])
def test_empty_tensors(shape):
    nested = [[] for _ in range(shape[0])]
    assert tensor_from_numbers("c", "FP32", shape, []).raw_data == b""
    assert tensor_from_numbers("c", "FP32", shape, nested).raw_data == b""
    assert tensor_from_base64("c", "FP32", shape, "").raw_data == b""


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "said"),
    [
        ("FP32", [2], [1], "expected 2 elements"),
        ("FP32", [2], [1, 2, 3], "expected 2 elements"),
        ("FP32", [2, 2], [[1, 2], [3]], "nested"),
        ("FP32", [2, 2], [1, 2, [3], 4], "nested"),
        ("FP32", [2], [[1], [2]], "got a list at element 0"),
        ("FP32", [2], None, "got null"),
        ("FP32", [2], {"a": 1}, "got an object"),
        ("FP32", [2], [1, "2"], "got a string at element 1"),
        ("FP32", [2], [1, True], "got a boolean"),
        ("FP32", [1], [None], "got null"),
        ("FP32", [1], [1e39], "FP32"),
        ("FP32", [1], [float("nan")], "finite"),
        ("FP32", [1], [10**400], "FP32"),
        ("FP16", [2], [1, 70000], "FP16, got 70000 at 1"),
        ("BF16", [1], [3.4e38], "BF16"),
        ("FP8", [1], [500], "FP8"),
        ("INT64", [1], [2.0], "integers"),
        ("INT64", [1], [2**63], "INT64"),
        ("INT8", [1], [128], "-128 to 127"),
        ("UINT8", [1], [-1], "0 to 255"),
        ("UINT8", [1], [10**4000], "a larger number"),
        ("BOOL", [1], [1], "true or false"),
        ("FP32", [2**31 - 1] * 3, [1], "nested"),
    ],
)
def test_what_is_not_exact_is_refused(datatype, shape, data, said):
    with pytest.raises(DataFault, match=said) as caught:
        tensor_from_numbers("c", datatype, shape, data)
    assert caught.value.key == "data"


@pytest.mark.parametrize(
    ("datatype", "text", "said"),
    [
        ("FP32", "AAAA", "expected 8 bytes"),
        ("FP32", "AAAAAAAAAAA", "expected base64"),
        ("FP32", "AAAA AAAAAAA=", "expected base64"),
        ("FP32", "ä", "expected base64"),
        ("BOOL", "AgE=", "0 or 1"),
        ("FP16", "AHwAAA==", "finite"),
    ],
)
def test_base64_that_is_not_exact_is_refused(datatype, text, said):
    with pytest.raises(DataFault, match=said) as caught:
        tensor_from_base64("c", datatype, [2], text)
    assert caught.value.key == "base64"


@given(
    st.sampled_from(sorted(DATATYPES)),
    st.lists(st.integers(0, 3), max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3), lambda each: st.lists(each)
    ),
)
def test_any_data_is_a_tensor_or_a_fault(datatype, shape, data):
    try:
        tensor = tensor_from_numbers("c", datatype, shape, data)
    except DataFault:
        return
    assert len(tensor.raw_data) == int(np.prod(shape)) * DATATYPES[datatype].itemsize
