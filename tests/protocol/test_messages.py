"""Requests from their bytes (JSON, JSON with binary tensors behind it, one bare tensor), and all that is wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.backends.base import Range, TensorInfo
from service.errors import InvalidRequest
from service.protocol.messages import InferRequest, RequestedOutput, header_length, parse_request

X, N = TensorInfo("x", "FP32", (-1, 2)), TensorInfo("n", "INT32", (2,))
OUTPUTS = [TensorInfo("y", "FP32", (-1, 2)), TensorInfo("z", "FP32", (-1,))]
GOOD_X = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [[1, 2.5]]}
GOOD_N = {"name": "n", "shape": [2], "datatype": "INT32", "data": [3, 4]}


def parse(given: Any, header: int | None = None, blobs: bytes = b"", **more: Any) -> InferRequest:
    text = given if isinstance(given, bytes) else json.dumps(given).encode()
    return parse_request(text + blobs, header, [X, N], OUTPUTS, **more)


def parse_binary(given: Any, blobs: bytes) -> InferRequest:
    return parse(given, len(json.dumps(given)), blobs)


def faults(given: Any, *more: Any) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refusal:
        parse(given, *more)
    return {fault.pointer: fault.detail for fault in refusal.value.faults}


def request(**changes: Any) -> dict[str, Any]:
    return {"inputs": [GOOD_X, GOOD_N]} | changes


def with_x(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{key: value for key, value in (GOOD_X | changes).items() if value is not ...}, GOOD_N]}


def test_a_request_in_json() -> None:
    parsed = parse(request(id="7", parameters={"reference": True, "timeout": 1500, "colour": "red"}))
    assert parsed.inputs["x"].dtype == np.float32 and parsed.inputs["x"].tolist() == [[1, 2.5]]
    assert parsed.inputs["n"].dtype == np.int32 and parsed.inputs["n"].tolist() == [3, 4]
    assert parsed.outputs == (RequestedOutput("y"), RequestedOutput("z"))
    assert (parsed.id, parsed.reference, parsed.timeout) == ("7", True, 0.0015)


@pytest.mark.parametrize("absent", [{}, {"id": None, "parameters": None, "outputs": None}, {"outputs": []}])
def test_what_may_be_left_out(absent: dict[str, Any]) -> None:
    parsed = parse(request(**absent))
    assert (parsed.id, parsed.reference, parsed.timeout) == (None, False, None)
    assert [output.name for output in parsed.outputs] == ["y", "z"]


def test_the_order_of_outputs_is_the_requests() -> None:
    assert [output.name for output in parse(request(outputs=[{"name": "z"}, {"name": "y"}])).outputs] == ["z", "y"]
    assert parse(request(outputs=[{"name": "z"}])).outputs == (RequestedOutput("z"),)


@pytest.mark.parametrize("everything", [None, False, True])
@pytest.mark.parametrize("own", [None, False, True])
def test_an_outputs_own_parameter_wins(everything: bool | None, own: bool | None) -> None:
    asked: dict[str, Any] = {"name": "y"} if own is None else {"name": "y", "parameters": {"binary_data": own}}
    given = request(outputs=[asked])
    if everything is not None:
        given["parameters"] = {"binary_data_output": everything}
    assert parse(given).outputs == (RequestedOutput("y", bool(everything if own is None else own)),)


def test_all_outputs_binary() -> None:
    parsed = parse(request(parameters={"binary_data_output": True}))
    assert parsed.outputs == (RequestedOutput("y", True), RequestedOutput("z", True))


def binary(info: TensorInfo, shape: list[int], size: Any) -> dict[str, Any]:
    parameters = {"binary_data_size": size}
    return {"name": info.name, "shape": shape, "datatype": info.datatype, "parameters": parameters}


def test_binary_inputs_follow_the_json_in_its_order() -> None:
    x, n = np.array([[1, 2], [3, 4]], np.float32), np.array([5, 6], np.int32)
    both = {"inputs": [binary(N, [2], 8), binary(X, [2, 2], 16)]}
    parsed = parse_binary(both, n.tobytes() + x.tobytes())
    np.testing.assert_array_equal(parsed.inputs["x"], x)
    np.testing.assert_array_equal(parsed.inputs["n"], n)
    mixed = {"inputs": [binary(X, [2, 2], 16), GOOD_N]}
    np.testing.assert_array_equal(parse_binary(mixed, x.tobytes()).inputs["x"], x)
    empty = {"inputs": [binary(X, [0, 2], 0), binary(N, [2], 8)]}
    assert parse_binary(empty, n.tobytes()).inputs["x"].shape == (0, 2)


@pytest.mark.parametrize("header", [None, "exact"])
def test_a_header_may_count_json_alone(header: str | None) -> None:
    assert parse(request(), header and len(json.dumps(request()))).inputs["n"].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("entries", "blobs", "pointer", "detail"),
    [
        ([binary(X, [1, 2], 8), GOOD_N], b"1234", "/inputs/0/parameters/binary_data_size", "expected 4 more bytes"),
        ([binary(X, [1, 2], 4), GOOD_N], b"1234", "/inputs/0/parameters/binary_data_size", "expected 8 bytes for FP32"),
        ([binary(X, [1, 2], 8), GOOD_N], b"1" * 9, "", "1 more bytes behind the JSON than the inputs have"),
        ([binary(X, [1, 2], -8), GOOD_N], b"", "/inputs/0/parameters/binary_data_size", "expected an integer of 0"),
        ([binary(X, [1, 2], True), GOOD_N], b"", "/inputs/0/parameters/binary_data_size", "got true"),
        ([binary(X, [1, 2], 8.0), GOOD_N], b"", "/inputs/0/parameters/binary_data_size", "got 8.0"),
        ([binary(X, [2**58, 2], 2**61), GOOD_N], b"1234", "/inputs/0/parameters/binary_data_size", "more bytes"),
        ([binary(X, [1, 2], 8) | {"data": [1, 2]}, GOOD_N], b"1" * 8, "/inputs/0/data", "a binary tensor has no data"),
        ([GOOD_X, GOOD_N], b"1", "", "1 more bytes"),
    ],
)
def test_binary_inputs_have_the_size_they_say(entries: Any, blobs: bytes, pointer: str, detail: str) -> None:
    given = {"inputs": entries}
    assert detail in faults(given, len(json.dumps(given)), blobs)[pointer]


def test_binary_inputs_need_the_header() -> None:
    found = faults({"inputs": [binary(X, [1, 2], 8), GOOD_N]}, None, b"")
    assert "Inference-Header-Content-Length" in found["/inputs/0/parameters/binary_data_size"]


def test_a_header_beyond_the_body() -> None:
    assert "says 10000 bytes of JSON" in faults(request(), 10000)[""]


@pytest.mark.parametrize(("text", "value"), [(None, None), ("0", 0), ("12", 12), (" 12 ", 12)])
def test_the_header_is_a_number(text: str | None, value: int | None) -> None:
    assert header_length(text) == value


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1_0", "\u0661", "abc", "9" * 19])
def test_anything_else_in_the_header_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a number of bytes in the header"):
        header_length(text)


def raw(body: bytes, *inputs: TensorInfo, **more: Any) -> InferRequest:
    return parse_request(body, 0, inputs, OUTPUTS, **more)


def test_a_body_that_is_the_one_input() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    parsed = raw(x.tobytes(), X)
    np.testing.assert_array_equal(parsed.inputs["x"], x)
    assert parsed.outputs == (RequestedOutput("y", True), RequestedOutput("z", True))
    assert raw(b"", X).inputs["x"].shape == (0, 2)
    assert raw(b"1234", TensorInfo("x", "FP32", ())).inputs["x"].shape == ()
    assert raw(b"", TensorInfo("x", "FP32", (0, -1))).inputs["x"].shape == (0, 0)


@pytest.mark.parametrize(
    ("body", "inputs", "detail"),
    [
        (b"1234", [X], "expected 0 bytes"),
        (b"1234", [N], "expected 8 bytes"),
        (b"1234", [X, N], "needs an engine with one input, this one has 2"),
        (b"1234", [TensorInfo("x", "FP32", (-1, -1))], "does not follow from the number of bytes"),
        (b"1234", [TensorInfo("x", "FP32", (0, -1))], "expected 0 bytes"),
    ],
)
def test_a_body_that_cannot_be_the_one_input(body: bytes, inputs: list[TensorInfo], detail: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        raw(body, *inputs)
    assert detail in str(refusal.value)


PROFILE = {"x": Range((1, 2), (1, 2), (4, 2))}


def test_profiles_bound_shapes() -> None:
    assert parse(request(), profiles=[PROFILE]).inputs["x"].shape == (1, 2)
    with pytest.raises(InvalidRequest, match=r"expected a shape from \[1, 2\] to \[4, 2\], got \[5, 2\]") as refusal:
        parse(with_x(shape=[5, 2], data=[0] * 10), profiles=[PROFILE])
    assert refusal.value.faults[0].pointer == "/inputs/0/shape"
    with pytest.raises(InvalidRequest, match=r"got \[0, 2\]"):
        raw(b"", X, profiles=[PROFILE])


@pytest.mark.parametrize(
    ("given", "pointer", "detail"),
    [
        ({}, "/inputs", "expected a list, got null"),
        (request(inputs=None), "/inputs", "expected a list, got null"),
        (request(inputs={}), "/inputs", "expected a list, got an object"),
        (request(inputs=[]), "/inputs", "the input n (INT32 [2]) is missing"),
        (request(inputs=[GOOD_X]), "/inputs", "the input n (INT32 [2]) is missing"),
        (request(inputs=[GOOD_X, GOOD_N, GOOD_X]), "/inputs/2/name", "x is there already"),
        (request(inputs=[GOOD_X, GOOD_N, 5]), "/inputs/2", "expected an object, got 5"),
        (with_x(name="potato"), "/inputs/0/name", "the engine has no input potato; it has x, n"),
        (with_x(name=...), "/inputs/0/name", "missing"),
        (with_x(name=5), "/inputs/0/name", "expected a string, got 5"),
        (with_x(shape=[-1, 2]), "/inputs/0/shape/0", "expected an integer of 0 or more, got -1"),
        (with_x(shape=[True, 2]), "/inputs/0/shape/0", "expected an integer of 0 or more, got true"),
        (with_x(shape=[1.0, 2]), "/inputs/0/shape/0", "expected an integer of 0 or more, got 1.0"),
        (with_x(shape=["1", 2]), "/inputs/0/shape/0", "expected an integer of 0 or more, got the string '1'"),
        (with_x(shape=[18446744073709551616, 2]), "/inputs/0/shape/0", "got 18446744073709551616"),
        (with_x(shape=[2**62, 2]), "/inputs/0/shape", "expected a tensor that can be addressed"),
        (with_x(shape=[1, 3], data=[1, 2, 3]), "/inputs/0/shape/1", "expected 2, as FP32 [-1, 2] says, got 3"),
        (with_x(shape=[2]), "/inputs/0/shape", "expected 2 dimensions"),
        (with_x(shape=...), "/inputs/0/shape", "expected a list of integers, got null"),
        (with_x(datatype="FP64"), "/inputs/0/datatype", "expected FP32, got FP64"),
        (with_x(datatype="BYTES"), "/inputs/0/datatype", "expected FP32, got BYTES; there are no text tensors here"),
        (with_x(datatype=1), "/inputs/0/datatype", "expected FP32, got 1"),
        (with_x(datatype=...), "/inputs/0/datatype", "expected FP32, got none"),
        (with_x(data=...), "/inputs/0/data", "expected data, or binary_data_size in parameters"),
        (with_x(data=[1]), "/inputs/0/data", "expected 2 elements"),
        (with_x(data=[["1", 2]]), "/inputs/0/data/0/0", "expected a number for FP32, got the string '1'"),
        (with_x(colour="red"), "/inputs/0/colour", "unknown key; there are name, shape, datatype, parameters, data"),
        (with_x(parameters=[]), "/inputs/0/parameters", "expected an object, got a list"),
        (
            with_x(parameters={"shared_memory_region": "r"}),
            "/inputs/0/parameters/shared_memory_region",
            "not supported",
        ),
        (request(inputs=[GOOD_X, GOOD_N | {"data": [2.0, 1]}]), "/inputs/1/data/0", "an integer for INT32, got 2.0"),
        (request(inputs=[GOOD_X, GOOD_N | {"data": [1, True]}]), "/inputs/1/data/1", "an integer for INT32, got true"),
        (
            request(inputs=[GOOD_X, GOOD_N | {"data": [1, 2**64]}]),
            "/inputs/1/data/1",
            "to 2147483647 for INT32, got 1844",
        ),
        (request(ouputs=[]), "/ouputs", "unknown key; there are id, parameters, inputs, outputs"),
        (request(outputs={}), "/outputs", "expected a list, got an object"),
        (request(outputs=["y"]), "/outputs/0", "expected an object, got the string 'y'"),
        (request(outputs=[{"name": "potato"}]), "/outputs/0/name", "the engine has no output potato; it has y, z"),
        (request(outputs=[{"name": "y"}, {"name": "y"}]), "/outputs/1/name", "y is there already"),
        (request(outputs=[{}]), "/outputs/0/name", "missing"),
        (request(outputs=[{"name": "y", "shape": [1]}]), "/outputs/0/shape", "unknown key"),
        (
            request(outputs=[{"name": "y", "parameters": {"binary_data": 1}}]),
            "/outputs/0/parameters/binary_data",
            "got 1",
        ),
        (
            request(outputs=[{"name": "y", "parameters": {"classification": 2}}]),
            "/outputs/0/parameters/classification",
            "classification is not supported",
        ),
        (request(id=7), "/id", "expected a string, got 7"),
        (request(parameters=[]), "/parameters", "expected an object, got a list"),
        (request(parameters={"reference": 1}), "/parameters/reference", "expected true or false, got 1"),
        (request(parameters={"binary_data_output": "yes"}), "/parameters/binary_data_output", "expected true or false"),
        (request(parameters={"timeout": 1.5}), "/parameters/timeout", "expected microseconds"),
        (request(parameters={"timeout": True}), "/parameters/timeout", "expected microseconds"),
        (request(parameters={"timeout": -1}), "/parameters/timeout", "expected microseconds"),
        (request(parameters={"timeout": 10**400}), "/parameters/timeout", "expected microseconds"),
        (request(parameters={"a/b": None}), "/parameters/a~1b", "expected a string, a number or a boolean, got null"),
        ([], "", "expected an object, got a list"),
        (b"", "", "not JSON"),
        (b"{", "", "not JSON"),
        (b"\xff", "", "not JSON"),
        pytest.param(b"[" * 100_000, "", "not JSON", id="deep lists"),
        pytest.param(b'{"id":' * 100_000, "", "not JSON", id="deep objects"),
        (b'{"inputs": [NaN]}', "", "not JSON"),
        pytest.param(b"1" * 100_000, "", "not JSON", id="long number"),
    ],
)
def test_faults_say_where_and_what(given: Any, pointer: str, detail: str) -> None:
    assert detail in faults(given)[pointer]


def test_all_faults_are_found_at_once() -> None:
    given = {"inputs": [GOOD_X | {"shape": [-1, 2]}, GOOD_N | {"data": [1]}], "outputs": [{"name": "potato"}], "id": 1}
    assert faults(given).keys() == {"/inputs/0/shape/0", "/inputs/1/data", "/outputs/0/name", "/id"}


def test_a_flood_of_faults_ends() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse(request(outputs=[{"name": "p" * 10_000}] * 10_000))
    assert len(refusal.value.faults) <= 100
    assert len(str(refusal.value)) < 100_000


def test_no_timeout_is_none() -> None:
    assert parse(request(parameters={"timeout": 0})).timeout is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "n", "y"]) | JSON,
        "shape": st.lists(st.integers(-1, 3), max_size=3) | JSON,
        "datatype": st.sampled_from(["FP32", "INT32", "BYTES"]) | JSON,
        "data": st.lists(st.integers(-1, 3) | JSON, max_size=4) | JSON,
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": st.integers(-1, 16) | JSON}) | JSON,
    },
)
REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "parameters": JSON,
        "inputs": st.lists(TENSOR | st.sampled_from([GOOD_X, GOOD_N]), max_size=3) | JSON,
        "outputs": st.lists(TENSOR, max_size=3) | JSON,
    },
)


@settings(max_examples=300)
@given(REQUEST | JSON, st.binary(max_size=17), st.integers(-3, 3) | st.none())
def test_whatever_comes_is_taken_or_refused(given: Any, blobs: bytes, off: int | None) -> None:
    text = json.dumps(given).encode()
    header = None if off is None else max(len(text) + off, 1)
    try:
        parsed = parse(given, header, b"" if off is None else blobs)
    except InvalidRequest as refusal:
        assert refusal.faults
    else:
        assert parsed.inputs["x"].dtype == np.float32 and parsed.inputs["n"].shape == (2,)
