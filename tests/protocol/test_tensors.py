"""Tensors on the wire: what goes in comes out, and nothing else comes in."""

from __future__ import annotations

import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from service.datatypes import DATATYPES, WIRE_DATATYPES
from service.protocol.faults import DataFault
from service.protocol.rounding import narrow, shorten
from service.protocol.tensors import decode_binary, decode_json, encode_binary, encode_json

FLOATS = ("FP64", "FP32", "FP16", "BF16")
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def strict(text: bytes) -> Any:
    """JSON as the standard has it: without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any]]:
    """Any bits of any datatype, any rank, empty ones too."""
    datatype = DATATYPES[draw(st.sampled_from(WIRE_DATATYPES))]
    shape = draw(hn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    if datatype.name == "BOOL":
        return datatype.name, draw(hn.arrays(np.bool_, shape))
    return datatype.name, draw(hn.arrays(BITS[datatype.itemsize], shape)).view(datatype.numpy)


def same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@given(tensors(), st.integers(0, 9), st.binary(max_size=9))
def test_binary_comes_back_bit_by_bit(drawn: tuple[str, Any], before: int, after: bytes) -> None:
    datatype, array = drawn
    blob = bytes(encode_binary(array))
    assert blob == array.tobytes()
    body = b"j" * before + blob + after
    assert same(decode_binary(body, before, len(blob), datatype, array.shape), array)


@given(tensors(), st.booleans())
def test_json_comes_back_bit_by_bit(drawn: tuple[str, Any], nested: bool) -> None:
    datatype, array = drawn
    if datatype in FLOATS:
        array = np.where(np.isfinite(array), array, np.zeros_like(array)).astype(array.dtype)
    data = strict(encode_json(array, datatype))
    if nested:
        data = np.array(data, object).reshape(array.shape).tolist()
    assert same(decode_json(data, datatype, array.shape), array)


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_every_number_of_16_bits_survives_json(datatype: str) -> None:
    array = np.arange(2**16, dtype=np.uint16).view(DATATYPES[datatype].numpy)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        array = array[np.isfinite(array.astype(np.float64))]
    assert same(decode_json(strict(encode_json(array, datatype)), datatype, array.shape), array)


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "BF16"])
def test_numbers_are_written_in_few_digits(datatype: str) -> None:
    array = narrow(np.array([0.1, -2.5, 0.3, 100.0, 0.0, 1e-5]), datatype)
    assert strict(encode_json(array, datatype)) == [0.1, -2.5, 0.3, 100.0, 0.0, 1e-5]


@given(hn.arrays(np.uint32, 64))
def test_few_digits_are_the_same_number(bits: Any) -> None:
    array = bits.view(np.float32)
    array = array[np.isfinite(array)]
    assert same(shorten(array, "FP32").astype(np.float32), array)


@pytest.mark.parametrize("datatype", FLOATS)
def test_what_is_not_finite_stays_json(datatype: str) -> None:
    array = np.array([1.0, np.inf, -np.inf, np.nan]).astype(DATATYPES[datatype].numpy)
    text = encode_json(array, datatype)
    assert text == b"[1.0,1e999,-1e999,null]"
    np.testing.assert_array_equal(np.array(strict(text), np.float64), array.astype(np.float64))


def nearest_bf16(value: float) -> float:
    """By exact arithmetic on doubles, in range: scaled to 8 bits, rounded half to even, scaled back."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 2**8), exponent - 8)


@given(st.floats(2.0**-120, 2.0**120), st.booleans())
def test_bf16_is_the_nearest(value: float, negative: bool) -> None:
    value = -value if negative else value
    assert float(decode_json([value], "BF16", [1])[0]) == nearest_bf16(value)


@given(st.integers(0x0080, 0x7EFF), st.integers(-3, 3))
def test_bf16_is_rounded_once_beside_a_tie(bits: int, step: int) -> None:
    low = float(np.uint16(bits).view(ml_dtypes.bfloat16))
    tie = low + float(np.uint16(bits + 1).view(ml_dtypes.bfloat16))
    value = tie / 2 * (1 + step * 2.0**-52)
    assert float(decode_json([value], "BF16", [1])[0]) == nearest_bf16(value)


@pytest.mark.parametrize(
    ("datatype", "largest", "beyond"),
    [
        ("FP16", 65519.999, 65520.0), ("BF16", 3.395e38, 3.4e38), ("FP32", 3.4028235e38, 3.4028236e38),
        ("FP64", 1.7976931348623157e308, 10**309),
    ],
)  # fmt: skip
def test_floats_beyond_their_type_are_refused(datatype: str, largest: float, beyond: float) -> None:
    assert np.isfinite(decode_json([largest, -largest], datatype, [2]).astype(np.float64)).all()
    with pytest.raises(DataFault, match=f"beyond the largest {datatype}") as fault:
        decode_json([0.0, -beyond], datatype, [2])
    assert fault.value.pointer == "/1"


@pytest.mark.parametrize("datatype", [name for name in WIRE_DATATYPES if "INT" in name])
def test_integers_beyond_their_type_are_refused(datatype: str) -> None:
    limits = np.iinfo(DATATYPES[datatype].numpy)
    array = decode_json([limits.min, limits.max], datatype, [2])
    assert array.tolist() == [limits.min, limits.max]
    for beyond in (limits.min - 1, limits.max + 1, 10**4000):
        with pytest.raises(DataFault, match=f"expected {limits.min} to {limits.max}") as fault:
            decode_json([[0], [beyond]], datatype, [2, 1])
        assert fault.value.pointer == "/1/0" and len(fault.value.detail) < 200


@pytest.mark.parametrize(
    ("datatype", "wrong"),
    [
        ("INT32", 2.0), ("INT32", True), ("INT32", "2"), ("INT32", None), ("INT32", {}), ("INT32", []),
        ("BOOL", 1), ("BOOL", 0.0), ("BOOL", "true"), ("BOOL", None),
        ("FP32", True), ("FP32", "2"), ("FP32", None), ("FP16", "NaN"), ("FP64", []),
    ],
)  # fmt: skip
def test_types_are_exact(datatype: str, wrong: Any) -> None:
    good = datatype == "BOOL" or 1
    for data, shape, pointer in (([good, wrong], [2], "/1"), ([[good], [wrong]], [2, 1], "/1/0")):
        with pytest.raises(DataFault, match=r"^expected .*, got ") as fault:
            decode_json(data, datatype, shape)
        assert fault.value.pointer == pointer


def test_floats_take_integers() -> None:
    assert decode_json([1, 2.5, -3], "FP32", [3]).tolist() == [1, 2.5, -3]


@pytest.mark.parametrize(
    ("data", "shape", "pointer", "detail"),
    [
        ([1, 2, 3], [2, 2], "", "expected 4 elements, as the shape [2, 2] says, got 3"),
        ([[1, 2]], [2, 2], "", "expected 2 elements, as the shape [2, 2] says, got 1"),
        ([[1, 2], [3]], [2, 2], "/1", "expected 2 elements, as the shape [2, 2] says, got 1"),
        ([[1, 2], 3], [2, 2], "/1", "expected a list, as its neighbours, got 3"),
        ([1, [2, 3], 4], [2, 2], "", "expected 4 elements, as the shape [2, 2] says, got 3"),
        ([1, 2, 3, [4]], [2, 2], "/3", "expected a number for FP32, got a list"),
        ([[[1]], [[2]]], [2, 1], "/0/0", "expected a number for FP32, got a list"),
        ([[1, 2], [3, 4]], [2, 1, 2], "/0", "expected 1 elements, as the shape [2, 1, 2] says, got 2"),
        ([[[1], [2]], [[3], 4]], [2, 2, 1], "/1/1", "expected a list, as its neighbours, got 4"),
        (5, [1], "", "expected a list, got 5"),
        ({}, [1], "", "expected a list, got an object"),
        ([], [1], "", "expected 1 elements, as the shape [1] says, got 0"),
        ([1], [0], "", "expected 0 elements, as the shape [0] says, got 1"),
        ([1, 2], [], "", "expected 1 elements, as the shape [] says, got 2"),
    ],
)
def test_data_have_the_shape_they_say(data: Any, shape: list[int], pointer: str, detail: str) -> None:
    with pytest.raises(DataFault) as fault:
        decode_json(data, "FP32", shape)
    assert (fault.value.pointer, fault.value.detail) == (pointer, detail)


@pytest.mark.parametrize(
    ("data", "shape"), [(5, []), ([5], []), ([], [0]), ([], [0, 4]), ([], [2, 0]), ([[], []], [2, 0]), ([], [2, 0, 3])]
)
def test_scalars_and_empty_tensors(data: Any, shape: list[int]) -> None:
    array = decode_json(data, "INT64", shape)
    assert list(array.shape) == shape
    assert strict(encode_json(array, "INT64")) == [5] * array.size


@pytest.mark.parametrize(
    ("size", "detail"),
    [
        (4, "expected 8 bytes for FP32 [2], got 4"),
        (12, "expected 8 bytes for FP32 [2], got 12"),
        (8, "expected 4 more bytes behind the JSON"),
    ],
)
def test_binary_sizes_are_exact(size: int, detail: str) -> None:
    with pytest.raises(DataFault) as fault:
        decode_binary(b"1234", 0, size, "FP32", [2])
    assert fault.value.detail == detail


def test_nothing_is_allocated_for_a_claim() -> None:
    with pytest.raises(DataFault, match="more bytes"):
        decode_binary(b"1234", 0, 2**60, "UINT8", [2**60])
    with pytest.raises(DataFault, match="elements"):
        decode_json([1], "FP64", [2**60])


def test_booleans_are_bytes_of_0_and_1() -> None:
    assert decode_binary(b"\1\0", 0, 2, "BOOL", [2]).tolist() == [True, False]
    with pytest.raises(DataFault, match="0 or 1"):
        decode_binary(b"\1\2", 0, 2, "BOOL", [2])


@settings(max_examples=30)
@given(tensors())
def test_views_are_written_as_they_read(drawn: tuple[str, Any]) -> None:
    datatype, array = drawn
    dense = np.array(array.T, order="C", copy=True)
    assert bytes(encode_binary(array.T)) == dense.tobytes()
    assert encode_json(array.T, datatype) == encode_json(dense, datatype)
