"""Inference from outside: right answers, faults.md's "Inference", and the answers of engines that cannot run."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest

from service.client import Client
from service.datatypes import DATATYPES
from service.errors import DeadlineExceeded
from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService

LENGTH = "Inference-Header-Content-Length"


def tensor(**changes: Any) -> Body:
    return {"name": "x", "shape": [2, 8], "datatype": "FP32", "data": [1.0] * 16, **changes}


def request(**changes: Any) -> Body:
    return {"inputs": [tensor(**changes)]}


def test_json(live: LiveService, scaled: Body) -> None:
    nested = {"id": "seven", **request(data=[[1.0] * 8, [2] * 8])}
    response = live.infer("scaled", nested)
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "model_name": "scaled",
        "model_version": "1",
        "id": "seven",
        "outputs": [{"name": "y", "shape": [2, 8], "datatype": "FP32", "data": [4.0] * 8 + [7.0] * 8}],
    }


@pytest.mark.parametrize("reference", [f"{name}" for name in ("scaled", "scaled:1", "id")])
def test_every_way_to_name_an_engine(live: LiveService, scaled: Body, reference: str) -> None:
    assert live.infer(scaled["id"] if reference == "id" else reference, request()).status_code == 200


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize("parameters", [{}, {"reference": True}])
def test_floats_as_numbers_and_as_bytes(live: LiveService, datatype: str, parameters: Body) -> None:
    name = f"scaled-{datatype}"
    if not live.client.engines(name=name, status="ready")["engines"]:
        live.built(scale_bias(name, datatype))
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    expected = (x * 3 + 1).astype(DATATYPES[datatype].numpy)
    (y,) = live.infer(name, {**request(datatype=datatype, data=x.tolist()), "parameters": parameters}).json()["outputs"]
    assert (y["datatype"], y["data"]) == (datatype, expected.astype(np.float32).reshape(-1).tolist())
    outputs = live.client.infer(name, {"x": x.astype(DATATYPES[datatype].numpy)}, parameters=parameters)
    assert outputs["y"].dtype == expected.dtype
    np.testing.assert_array_equal(outputs["y"], expected)


@pytest.mark.parametrize("binary_in", [False, True])
@pytest.mark.parametrize("binary_out", [False, True])
def test_bytes_in_either_direction(live: LiveService, scaled: Body, binary_in: bool, binary_out: bool) -> None:
    x = np.arange(16, dtype="<f4")
    given = tensor(data=x.tolist())
    if binary_in:
        del given["data"]
        given["parameters"] = {"binary_data_size": x.nbytes}
    outputs = [{"name": "y", "parameters": {"binary_data": binary_out}}]
    header = json.dumps({"inputs": [given], "outputs": outputs}).encode()
    content = header + x.tobytes() if binary_in else header
    headers = {LENGTH: str(len(header))} if binary_in else {"content-type": "application/json"}
    response = live.http.post("/engines/scaled/infer", content=content, headers=headers)
    assert response.status_code == 200
    if binary_out:
        assert response.headers["content-type"] == "application/octet-stream"
        length = int(response.headers[LENGTH])
        (y,) = json.loads(response.content[:length])["outputs"]
        assert y["parameters"] == {"binary_data_size": 64}
        np.testing.assert_array_equal(np.frombuffer(response.content[length:], "<f4"), x * 3 + 1)
    else:
        assert LENGTH not in response.headers
        assert response.json()["outputs"][0]["data"] == (x * 3 + 1).tolist()


def test_a_bare_tensor(live: LiveService, scaled: Body) -> None:
    x = np.ones(24, "<f4")
    headers = {LENGTH: "0", "content-type": "application/octet-stream"}
    response = live.http.post("/engines/scaled/infer", content=x.tobytes(), headers=headers)
    length = int(response.headers[LENGTH])
    assert json.loads(response.content[:length])["outputs"][0]["shape"] == [3, 8]
    np.testing.assert_array_equal(np.frombuffer(response.content[length:], "<f4"), [4.0] * 24)


WRONG: dict[str, tuple[Any, str]] = {
    "negative dimension": (request(shape=[-1, 8]), "/inputs/0/shape"),
    "boolean dimension": (request(shape=[True, 8]), "/inputs/0/shape"),
    "fractional dimension": (request(shape=[2.0, 8]), "/inputs/0/shape"),
    "dimension as text": (request(shape=["2", 8]), "/inputs/0/shape"),
    "dimension beyond 64 bits": (request(shape=[18446744073709551616, 8]), "/inputs/0/shape"),
    "elements beyond 64 bits": (request(shape=[2**62, 8]), "/inputs/0"),
    "shape null": (request(shape=None), "/inputs/0/shape"),
    "other rank": (request(shape=[16]), "/inputs/0/shape"),
    "other length of a fixed dimension": (request(shape=[4, 4]), "/inputs/0/shape"),
    "outside every profile": (request(shape=[65, 8], data=[1.0] * 520), "/inputs/0/shape"),
    "too few elements": (request(data=[1.0] * 15), "/inputs/0/data"),
    "too many elements": (request(data=[1.0] * 17), "/inputs/0/data"),
    "ragged": (request(data=[[1.0] * 9, [1.0] * 7]), "/inputs/0/data"),
    "text": (request(data=["1"] * 16), "/inputs/0/data"),
    "booleans": (request(data=[True] * 16), "/inputs/0/data"),
    "null among numbers": (request(data=[1.0] * 15 + [None]), "/inputs/0/data"),
    "beyond the type": (request(data=[1.0] * 15 + [1e39]), "/inputs/0/data"),
    "no data": ({"inputs": [{"name": "x", "shape": [2, 8], "datatype": "FP32"}]}, "/inputs/0"),
    "other type": (request(datatype="FP16"), "/inputs/0/datatype"),
    "unknown type": (request(datatype="FLOAT"), "/inputs/0/datatype"),
    "BYTES": (request(datatype="BYTES", shape=[1], data=["a"]), "/inputs/0"),
    "inputs missing": ({}, "/inputs"),
    "inputs an object": ({"inputs": {}}, "/inputs"),
    "inputs null": ({"inputs": None}, "/inputs"),
    "inputs empty": ({"inputs": []}, "/inputs"),
    "input null": ({"inputs": [None]}, "/inputs/0"),
    "unknown input": (request(name="potato"), "/inputs/0/name"),
    "repeated input": ({"inputs": [tensor(), tensor()]}, "/inputs/1/name"),
    "unknown output": ({**request(), "outputs": [{"name": "potato"}]}, "/outputs/0/name"),
    "repeated output": ({**request(), "outputs": [{"name": "y"}, {"name": "y"}]}, "/outputs/1/name"),
    "unknown key": ({**request(), "inptus": []}, "/inptus"),
    "reference no boolean": ({**request(), "parameters": {"reference": 1}}, "/parameters/reference"),
    "timeout negative": ({**request(), "parameters": {"timeout": -1}}, "/parameters/timeout"),
    "no object": ([], ""),
    "null": (None, ""),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_requests(live: LiveService, scaled: Body, kind: str) -> None:
    given, pointer = WRONG[kind]
    response = live.infer("scaled", given)
    assert response.status_code == 422, response.text
    pointers = [fault["pointer"] for fault in response.json()["errors"]]
    assert any(each.startswith(pointer) for each in pointers), response.text
    assert live.infer("scaled", request()).status_code == 200


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"inputs": NaN}', b"[" * 10_000])
def test_broken_json(live: LiveService, scaled: Body, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    assert live.http.post("/engines/scaled/infer", content=content, headers=headers).status_code == 422


@pytest.mark.parametrize("length", ["-1", "x", "99999999", "1.5", "9" * 40])
def test_wrong_header_lengths(live: LiveService, scaled: Body, length: str) -> None:
    response = live.http.post("/engines/scaled/infer", content=b"{}", headers={LENGTH: length})
    assert response.status_code == 422


@pytest.mark.parametrize("size, sent", [(64, 60), (64, 68), (60, 60), (2**40, 64), (-1, 64)])
def test_wrong_binary_sizes(live: LiveService, scaled: Body, size: int, sent: int) -> None:
    """Nothing is allocated by a length that is only claimed."""
    given = {"name": "x", "shape": [2, 8], "datatype": "FP32", "parameters": {"binary_data_size": size}}
    header = json.dumps({"inputs": [given]}).encode()
    response = live.http.post("/engines/scaled/infer", content=header + bytes(sent), headers={LENGTH: str(len(header))})
    assert response.status_code == 422


@pytest.fixture(scope="module")
def two(live: LiveService) -> str:
    """a = x, b = -x."""
    nodes = [{"op": op, "inputs": ["x"], "outputs": [out]} for op, out in (("Identity", "a"), ("Neg", "b"))]
    network = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2]}], "nodes": nodes, "outputs": ["a", "b"]}
    live.built({"name": "two", "network": network, "backend": "onnxruntime"})
    return "two"


@pytest.mark.parametrize(
    "asked, names",
    [(None, ["a", "b"]), ([], ["a", "b"]), (["b"], ["b"]), (["b", "a"], ["b", "a"]), (["a", "b"], ["a", "b"])],
)
def test_outputs_in_the_order_asked_for(live: LiveService, two: str, asked: list[str] | None, names: list[str]) -> None:
    given: Body = {"inputs": [tensor(shape=[2], data=[1, 2])]}
    if asked is not None:
        given["outputs"] = [{"name": name} for name in asked]
    outputs = live.infer(two, given).json()["outputs"]
    values = {"a": [1.0, 2.0], "b": [-1.0, -2.0]}
    assert [(each["name"], each["data"]) for each in outputs] == [(name, values[name]) for name in names]


def test_parallel_requests_do_not_mix(live: LiveService, scaled: Body) -> None:
    def ask(number: int) -> bool:
        rows = 1 + number % 3
        x = tensor(shape=[rows, 8], data=[float(number)] * rows * 8)
        return live.infer("scaled", {"inputs": [x]}).json()["outputs"][0]["data"] == [number * 3.0 + 1] * rows * 8

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(160)))


def test_an_engine_for_other_hosts(live: LiveService, ahead_of_time: Body) -> None:
    """It says why not, and what to do, and that works."""
    response = live.infer("ahead", request())
    assert response.status_code == 409
    assert "no GPU on this host" in response.json()["detail"]
    assert '"reference": true' in response.json()["detail"]
    right = live.infer("ahead", {**request(), "parameters": {"reference": True}})
    assert right.json()["outputs"][0]["data"] == [4.0] * 16


def test_an_engine_that_is_not_ready(live: LiveService) -> None:
    live.client.build_json(scale_bias("early", backend="tensorrt_rtx", targets=["sm_86"]))
    for parameters in ({}, {"reference": True}):
        response = live.infer("early", {**request(), "parameters": parameters})
        assert response.status_code == 409
        assert "early:1 is" in response.json()["detail"]
    live.client.wait("early")


SIDE = 512


@pytest.fixture(scope="module")
def slow(live: LiveService) -> str:
    """Multiplies with a matrix so often that it takes a good part of a second."""
    names = ["x", *(f"h{number}" for number in range(150)), "y"]
    network = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [SIDE, SIDE]}],
        "constants": [
            {"name": "w", "datatype": "FP32", "shape": [SIDE, SIDE], "data": np.eye(SIDE).reshape(-1).tolist()}
        ],
        "nodes": [{"op": "MatMul", "inputs": [left, "w"], "outputs": [right]} for left, right in pairwise(names)],
        "outputs": ["y"],
    }
    live.built({"name": "slow", "network": network, "backend": "onnxruntime"})
    live.client.infer("slow", {"x": zeros()})
    return "slow"


def zeros() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros((SIDE, SIDE), np.float32)


def test_a_deadline_passes(live: LiveService, slow: str) -> None:
    with pytest.raises(DeadlineExceeded):
        live.client.infer(slow, {"x": zeros()}, parameters={"timeout": 10_000})


def test_clients_that_leave_are_not_served(live: LiveService, slow: str) -> None:
    """Ten give up; the one after them waits for what was begun, not for all ten."""
    alone = seconds(live, slow)

    def give_up(_: int) -> None:
        with Client(live.url, timeout=0.05) as client, pytest.raises(httpx.TimeoutException):
            client.infer(slow, {"x": zeros()})

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(give_up, range(10)))
    assert seconds(live, slow) < 4 * alone + 0.5


def test_a_full_queue(live: LiveService, slow: str) -> None:
    body = live.http.get("/engines/slow").json()
    assert body["serving"]["queue"] == 64
    statuses = []

    def ask(_: int) -> None:
        header = {"inputs": [tensor(shape=[SIDE, SIDE], parameters={"binary_data_size": 4 * SIDE * SIDE})]}
        del header["inputs"][0]["data"]
        text = json.dumps({**header, "parameters": {"timeout": 2_000_000}}).encode()
        headers = {LENGTH: str(len(text))}
        response = live.http.post("/engines/slow/infer", content=text + zeros().tobytes(), headers=headers)
        statuses.append(response.status_code)
        if response.status_code == 503:
            assert int(response.headers["retry-after"]) >= 1
            assert "slow:1" in response.json()["detail"]

    with ThreadPoolExecutor(80) as pool:
        list(pool.map(ask, range(80)))
    assert set(statuses) <= {200, 503, 504}
    assert 503 in statuses


def seconds(live: LiveService, reference: str) -> float:
    started = time.monotonic()
    live.client.infer(reference, {"x": zeros()})
    return time.monotonic() - started
