"""How engines are served: loaded, unloaded, changed, joined, warmed up, given up."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from service.client import Client
from service.errors import Conflict, NotFound, Unavailable
from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService, serving

X = np.ones((1, 8), np.float32)


def rows_counted(name: str, **options: Any) -> Body:
    """y = x + how many rows run together, for x [rows, 4]."""
    return {
        "name": name,
        "network": {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": ["rows", 4]}],
            "nodes": [
                {"op": "Shape", "inputs": ["x"], "outputs": ["rows"], "attributes": {"start": 0, "end": 1}},
                {"op": "Cast", "inputs": ["rows"], "outputs": ["count"], "attributes": {"to": 1}},
                {"op": "Add", "inputs": ["x", "count"], "outputs": ["y"]},
            ],
            "outputs": ["y"],
        },
        "profiles": [{"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}],
        "backend": "onnxruntime",
        **options,
    }


def weights(name: str, size: int) -> Body:
    """y = x + w with `size` floats of weights."""
    zeros = base64.b64encode(bytes(4 * size)).decode()
    return {
        "name": name,
        "network": {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
            "constants": [{"name": "w", "datatype": "FP32", "shape": [size], "base64": zeros}],
            "nodes": [{"op": "Add", "inputs": ["x", "w"], "outputs": ["y"]}],
            "outputs": ["y"],
        },
        "backend": "onnxruntime",
    }


def at_once(live: LiveService, reference: str, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    with ThreadPoolExecutor(len(arrays)) as pool:
        return [answer["y"] for answer in pool.map(lambda x: live.client.infer(reference, {"x": x}), arrays)]


def test_load_and_unload(live: LiveService) -> None:
    engine = live.built(scale_bias("held"))
    for _ in range(2):
        loaded = live.client.load("held")
        assert loaded["id"] == engine["id"]
        assert loaded["loaded"] is True
        assert loaded["memory"] >= engine["plan"]["size"]
    assert live.client.infer("held", {"x": X})["y"].tolist() == [[4.0] * 8]
    for _ in range(2):
        unloaded = live.client.unload("held:1")
        assert (unloaded["loaded"], unloaded["memory"]) == (False, 0)
    assert live.client.infer("held", {"x": X})["y"].tolist() == [[4.0] * 8]


def test_what_cannot_be_loaded(live: LiveService, ahead_of_time: Body) -> None:
    with pytest.raises(Conflict, match="no GPU on this host"):
        live.client.load("ahead")
    live.client.build_json(scale_bias("young", backend="tensorrt_rtx", targets=["sm_86"]))
    with pytest.raises(Conflict, match=r"young:1 is (queued|building), not ready"):
        live.client.load("young")
    live.client.wait("young")
    for call in (live.client.load, live.client.unload, live.client.change_serving):
        with pytest.raises(NotFound):
            call("no-such-engine")


def test_an_engine_that_does_not_fit(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The answer says how much it takes and how much there is, and the others go on."""
    with serving(tmp_path_factory.mktemp("small"), engine_memory=2**24) as service:
        service.built(scale_bias(serving={"pinned": True}))
        service.built(weights("large", 5 * 2**20))
        for call in (lambda: service.client.load("large"), lambda: service.client.infer("large", {"x": X[0, :1]})):
            with pytest.raises(Unavailable, match=r"large:1 takes 2\d{7} bytes.*may take 16777216") as caught:
                call()
            assert caught.value.retry_after is not None
        assert service.client.infer("scaled", {"x": X})["y"].tolist() == [[4.0] * 8]


def test_a_change_of_serving_counts_at_once(live: LiveService) -> None:
    live.built(rows_counted("changing"))
    x = np.zeros((1, 4), np.float32)
    assert [y.max() for y in at_once(live, "changing", [x] * 4)] == [1, 1, 1, 1]
    changed = live.client.change_serving("changing", instances=3, batching={"max_batch": 4, "max_delay_us": 500_000})
    assert changed["serving"] == {
        "instances": 3, "pinned": False, "warmup": False, "queue": 64, "timeout_us": 0,
        "batching": {"max_batch": 4, "max_delay_us": 500_000},
    }  # fmt: skip
    assert live.client.engine("changing")["serving"] == changed["serving"]
    assert [y.max() for y in at_once(live, "changing", [x] * 4)] == [4, 4, 4, 4]
    live.client.change_serving("changing", batching=None)
    assert [y.max() for y in at_once(live, "changing", [x] * 4)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/serving"),
        ({"serving": {"instances": 0}}, "/serving/instances"),
        ({"serving": {"instances": True}}, "/serving/instances"),
        ({"serving": {"instanses": 1}}, "/serving/instanses"),
        ({"serving": {"batching": {"max_delay_us": 1}}}, "/serving/batching/max_batch"),
        ({"serving": {}, "name": "other"}, "/name"),
    ],
)
def test_wrong_changes(live: LiveService, scaled: Body, body: Body, pointer: str) -> None:
    response = live.http.patch("/engines/scaled", json=body)
    assert response.status_code == 422
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]
    assert live.client.engine("scaled")["serving"] == scaled["serving"]


def test_rows_of_several_requests_run_as_one(live: LiveService) -> None:
    """Up to what batching and the profile take, whichever is less; every answer has its own rows."""
    batching = {"max_batch": 16, "max_delay_us": 500_000}
    live.built(rows_counted("joined", serving={"batching": batching}))
    arrays = [np.full((rows, 4), 100.0 * rows, np.float32) for rows in (1, 2, 5)]
    answers = at_once(live, "joined", arrays)
    assert all(y.shape == x.shape and (y - x == 8).all() for x, y in zip(arrays, answers, strict=True))


def test_warmed_up_once_ready(live: LiveService) -> None:
    live.built(scale_bias("warm", serving={"warmup": True}))
    deadline = time.monotonic() + 20
    while not live.client.change_serving("warm")["loaded"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_engine_that_keeps_crashing_its_host_fails(tmp_path_factory: pytest.TempPathFactory) -> None:
    """ONNX Runtime 1.32 ends with SIGFPE when this attention gets a batch of 0."""
    with serving(tmp_path_factory.mktemp("crashing")) as service:
        service.built(scale_bias())
        service.built(attention())
        inputs = {name: np.ones((0, 1, 16), np.float32) for name in "qkv"}
        inputs |= {"lengths": np.zeros(0, np.int32), "total": np.ones(1, np.int32)}
        inputs |= {name: np.ones((0, 1, 0, 16), np.float32) for name in ("past_k", "past_v")}
        while service.client.engine("crashing")["status"] == "ready":
            with pytest.raises((Unavailable, Conflict)) as caught:
                service.client.infer("crashing", inputs)
            time.sleep(caught.value.retry_after or 0)
        assert "3 times in a row" in service.client.engine("crashing")["error"]["detail"]
        with pytest.raises(Conflict, match="crashing:1 is failed, not ready"):
            service.client.load("crashing")
        assert asked_again(service.client, "scaled")["y"].tolist() == [[4.0] * 8]


def asked_again(client: Client, reference: str) -> dict[str, Any]:
    while True:
        try:
            return client.infer(reference, {"x": X})
        except Unavailable as error:
            time.sleep(error.retry_after or 0)


def attention() -> Body:
    floats = [{"name": name, "datatype": "FP32", "shape": ["batch", 1, 16]} for name in "qkv"]
    past = [{"name": name, "datatype": "FP32", "shape": ["batch", 1, 0, 16]} for name in ("past_k", "past_v")]
    lengths = {"name": "lengths", "datatype": "INT32", "shape": ["batch"]}
    inputs = [*floats, *past, lengths, {"name": "total", "datatype": "INT32", "shape": [1]}]
    node = {
        "op": "com.microsoft.GroupQueryAttention",
        "inputs": [each["name"] for each in inputs],
        "outputs": ["y", "present_k", "present_v"],
        "attributes": {"num_heads": 1, "kv_num_heads": 1},
    }
    bounds = {each["name"]: [1 if dim == "batch" else dim for dim in each["shape"]] for each in inputs[:-1]}
    low = {each["name"]: [0 if dim == "batch" else dim for dim in each["shape"]] for each in inputs[:-1]}
    profile = {name: {"min": low[name], "opt": bounds[name], "max": bounds[name]} for name in bounds}
    network = {"inputs": inputs, "nodes": [node], "outputs": [{**floats[0], "name": "y"}]}
    return {"name": "crashing", "network": network, "profiles": [profile], "backend": "onnxruntime"}
