"""What `POST /engines` refuses: every kind of api.md's table, each with where it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService

Refuse = Callable[[Any], dict[str, str]]
Change = Callable[[Body], object]


def node(body: Body) -> Body:
    return body["network"]["nodes"][0]


def add_node(body: Body, **given: Any) -> None:
    body["network"]["nodes"].append(given)


def weight(**given: Any) -> Body:
    return {"name": "w", "datatype": "FP32", "shape": [2], **given}


KINDS: dict[str, tuple[Change, str, str]] = {
    "unknown key": (lambda body: body.update(frobnicate=1), "/frobnicate", "no such key"),
    "unknown key inside": (lambda body: node(body).update(feilds={}), "/network/nodes/0/feilds", "no such key"),
    "missing": (lambda body: body.pop("name"), "/name", "required"),
    "bad type": (lambda body: body.update(name=5), "/name", "expected a string, got an integer"),
    "bad name": (lambda body: body.update(name="a/b"), "/name", "of the form"),
    "no integer": (lambda body: body.update(priority=1.5), "/priority", "expected an integer"),
    "boolean as number": (lambda body: body.update(priority=True), "/priority", "expected an integer, got a boolean"),
    "null": (lambda body: body.update(network=None), "/network", "expected an object, got null"),
    "unknown datatype": (
        lambda body: body["network"]["inputs"][0].update(datatype="FLOAT"), "/network/inputs/0/datatype", "FP32",
    ),
    "negative dimension": (
        lambda body: body["network"]["inputs"][0].update(shape=[-1, 8]), "/network/inputs/0/shape/0", "-1",
    ),
    "unknown operator": (
        lambda body: add_node(body, op="Frob", inputs=["y"], outputs=["z"]), "/network/nodes/1", "Frob",
    ),
    "unknown plugin": (lambda body: node(body).update(plugin="Frob"), "/network/nodes/0/plugin", "Frob"),
    "unknown version": (lambda body: node(body).update(version="9"), "/network/nodes/0/version", "9"),
    "unknown namespace": (lambda body: node(body).update(namespace="nobody"), "/network/nodes/0/namespace", "nobody"),
    "unknown field": (
        lambda body: node(body)["fields"].update(scael=2.0), "/network/nodes/0/fields/scael", "scale",
    ),
    "field of a bad type": (
        lambda body: node(body)["fields"].update(scale="3"), "/network/nodes/0/fields/scale",
        "expected a number, got a string",
    ),
    "field out of its choices": (
        lambda body: node(body)["fields"].update(activation="mish"), "/network/nodes/0/fields/activation", "relu",
    ),
    "unknown tensor": (lambda body: node(body).update(inputs=["nope"]), "/network/nodes/0/inputs/0", "nope"),
    "unknown output": (lambda body: body["network"].update(outputs=["nope"]), "/network/outputs/0", "nope"),
    "cycle": (
        lambda body: body["network"].update(nodes=[
            {"op": "Add", "inputs": ["x", "b"], "outputs": ["a"]}, {"op": "Relu", "inputs": ["a"], "outputs": ["b"]},
        ], outputs=["b"]), "/network/nodes/0", "cycle",
    ),
    "tensor made twice": (
        lambda body: add_node(body, op="Relu", inputs=["x"], outputs=["y"]), "/network/nodes/1/outputs/0", "y",
    ),
    "shape inference": (
        lambda body: (
            body["network"].update(constants=[weight(shape=[5, 2], data=[0.0] * 10)]),
            add_node(body, op="MatMul", inputs=["y", "w"], outputs=["z"]),
        ), "/network/nodes/1", "",
    ),
    "type inference": (
        lambda body: (
            body["network"].update(constants=[weight(datatype="INT32", shape=[8], data=[0] * 8)]),
            add_node(body, op="Add", inputs=["y", "w"], outputs=["z"]),
        ), "/network/nodes/1", "",
    ),
    "data of the wrong length": (
        lambda body: body["network"].update(constants=[weight(data=[1.0])]), "/network/constants/0/data", "2",
    ),
    "bytes of the wrong length": (
        lambda body: body["network"].update(constants=[weight(base64="AAAA")]), "/network/constants/0/base64", "8",
    ),
    "number beyond its type": (
        lambda body: body["network"].update(constants=[weight(datatype="INT8", data=[1, 300])]),
        "/network/constants/0/data", "300",
    ),
    "profile missing": (lambda body: body.update(profiles=[]), "/profiles", "dynamic"),
    "no profiles": (lambda body: body.pop("profiles"), "/profiles", "dynamic"),
    "profile missing, for a GPU": (
        lambda body: body.update(backend="tensorrt_rtx", profiles=[]), "/profiles", "dynamic",
    ),
    "profile without the input": (lambda body: body["profiles"].append({}), "/profiles/1", "dynamic"),
    "profile inverted": (
        lambda body: body["profiles"][0]["x"].update(min=[5, 8]), "/profiles/0/x", "",
    ),
    "profile of a fixed dimension": (
        lambda body: body["profiles"][0]["x"].update(min=[0, 4]), "/profiles/0/x", "8",
    ),
    "profile of no input": (
        lambda body: body["profiles"][0].update(z={"min": [1], "opt": [1], "max": [1]}), "/profiles/0/z", "",
    ),
    "unknown backend": (lambda body: body.update(backend="cudnn"), "/backend", "tensorrt_rtx"),
    "backend that is not here": (lambda body: body.update(backend="tensorrt"), "/backend", "tensorrt"),
    "target of no GPU": (
        lambda body: body.update(backend="tensorrt_rtx", targets=["sm_42"]), "/targets/0", "sm_86",
    ),
    "target of a CPU backend": (lambda body: body.update(targets=["sm_86"]), "/targets", "onnxruntime"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_refused_with_its_pointer(kind: str, body: Body, faults: Refuse) -> None:
    change, pointer, text = KINDS[kind]
    change(body)
    found = faults(body)
    near = {each: detail for each, detail in found.items() if each == pointer or each.startswith(f"{pointer}/")}
    assert near, found
    assert any(text in detail for detail in near.values()), found


def test_every_fault_at_once(body: Body, faults: Refuse) -> None:
    node(body)["fields"] = {"scael": 1.0, "activation": "mish"}
    add_node(body, op="Frob", inputs=["y"], outputs=["z"])
    body["network"]["outputs"] = ["nope"]
    body["profiles"] = []
    assert faults(body).keys() >= {
        "/network/nodes/0/fields/scael", "/network/nodes/0/fields/activation", "/network/nodes/1",
        "/network/outputs/0", "/profiles",
    }  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b"3", b'"x"', b"\xff", b"[" * 100_000, b'{"name": NaN}', b'{"name": "x"} trailing'],
)
def test_broken_json(live: LiveService, content: bytes) -> None:
    response = live.http.post("/engines", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["errors"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite(live: LiveService, number: str) -> None:
    content = str(scale_bias()).replace("'", '"').replace("3.0", number)
    response = live.http.post("/engines", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] in ("/network/nodes/0/fields/scale", "")


def test_nothing_refused_is_queued(live: LiveService, body: Body) -> None:
    body["name"] = "refused"
    node(body)["plugin"] = "Frob"
    assert live.post(body).status_code == 422
    assert live.http.get("/engines", params={"name": "refused"}).json() == {"engines": [], "next": None}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_wrong_media_type(live: LiveService, content_type: str) -> None:
    for path in ("/engines", "/engines/scaled/infer"):
        response = live.http.post(path, content=b"{}", headers={"content-type": content_type})
        assert response.status_code == 415
        assert "application/json" in response.json()["detail"]


def test_compressed_body(live: LiveService) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert live.http.post("/engines", content=b"{}", headers=headers).status_code == 415


@pytest.mark.parametrize("method, path, allowed", [
    ("PUT", "/engines", "GET, HEAD, POST"),
    ("PUT", "/engines/x", "DELETE, GET, HEAD, PATCH"),
    ("POST", "/plugins", "GET, HEAD"),
    ("GET", "/engines/x/infer", "POST"),
    ("DELETE", "/healthz", "GET, HEAD"),
])  # fmt: skip
def test_wrong_method(live: LiveService, method: str, path: str, allowed: str) -> None:
    response = live.http.request(method, path)
    assert response.status_code == 405
    assert response.json()["title"] == "Method not allowed"
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/", "/nope", "/engines/x/nope", "/v2", "/metrics", "/engines/x/events"])
def test_unknown_path(live: LiveService, path: str) -> None:
    response = live.http.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("reference", ["nope", "scaled:99", "scaled:0", "scaled:x", "%00", "a%2Fb", "x" * 5000, "a b"])
@pytest.mark.parametrize("path", ["", "/plan", "/model", "/log"])
def test_unknown_engine(live: LiveService, scaled: Body, reference: str, path: str) -> None:
    response = live.http.get(f"/engines/{reference}{path}")
    assert response.status_code == 404
    assert response.json()["status"] == 404


def test_unknown_engine_for_calls_that_change(live: LiveService) -> None:
    assert live.http.delete("/engines/nope").status_code == 404
    assert live.http.post("/engines/nope/cancel").status_code == 404
    assert live.infer("nope", {"inputs": []}).status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "status=nope", "cursor=nope", "stauts=ready"])
def test_wrong_query(live: LiveService, query: str) -> None:
    response = live.http.get(f"/engines?{query}")
    assert response.status_code == 422
    assert query.partition("=")[0] in response.json()["detail"]
