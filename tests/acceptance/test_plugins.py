"""Plugins: what is listed, and the faults of faults.md's "Plugins" that show from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService

Refuse = Callable[[Any], dict[str, str]]
FIELD_TYPES = {"FLOAT16", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "INT64", "CHAR", "DIMS", "UNKNOWN"}


def test_all_are_listed_in_order(live: LiveService) -> None:
    plugins = live.client.plugins()
    keys = [(plugin["namespace"], plugin["name"]) for plugin in plugins]
    assert keys == sorted(keys)
    assert {"ScaleBias", "RMSNorm", "MatMulNBits"} <= {each["name"] for each in plugins if each["origin"] == "built-in"}
    assert any(plugin["origin"] == "tensorrt" for plugin in plugins)
    assert {field["type"] for plugin in plugins for field in plugin["fields"]} <= FIELD_TYPES


def test_one(live: LiveService) -> None:
    plugin = live.client.plugin("MatMulNBits", version="1", namespace="planforge")
    assert plugin["operators"] == ["com.microsoft.MatMulNBits"]
    fields = {field["name"]: field for field in plugin["fields"]}
    assert (fields["bits"]["type"], fields["bits"]["default"], fields["bits"]["choices"]) == ("INT32", 4, [4, 8])
    assert (fields["K"]["required"], fields["K"]["default"]) == (True, None)
    assert {"sm_75", "sm_86", "sm_90", "sm_120"} <= set(plugin["targets"])


@pytest.mark.parametrize("path", ["/plugins/Nope", "/plugins/ScaleBias?version=9", "/plugins/ScaleBias?namespace=no"])
def test_unknown(live: LiveService, path: str) -> None:
    response = live.http.get(path)
    assert response.status_code == 404
    assert path.rpartition("=")[2].rpartition("/")[2] in response.json()["detail"]


def norm(**fields: Any) -> Body:
    """RMSNorm over x [batch, 512] in FP16."""
    return {
        "name": "norm",
        "network": {
            "inputs": [{"name": "x", "datatype": "FP16", "shape": ["batch", 512]}],
            "constants": [{"name": "w", "datatype": "FP16", "shape": [512], "data": [1.0] * 512}],
            "nodes": [{"plugin": "RMSNorm", "inputs": ["x", "w"], "outputs": ["y"], "fields": fields}],
            "outputs": ["y"],
        },
        "profiles": [{"x": {"min": [1, 512], "opt": [1, 512], "max": [4, 512]}}],
        "backend": "onnxruntime",
    }


def test_a_misspelt_field_is_named(faults: Refuse) -> None:
    found = faults(norm(epsilonn=1e-3))
    assert "epsilon" in found["/network/nodes/0/fields/epsilonn"]


def test_a_required_field_is_named(faults: Refuse, body: Body) -> None:
    body["network"]["nodes"] = [{"plugin": "MatMulNBits", "inputs": ["x", "w", "s"], "outputs": ["y"]}]
    body["network"]["constants"] = [
        {"name": "w", "datatype": "UINT8", "shape": [4, 1, 8], "data": [0] * 32},
        {"name": "s", "datatype": "FP32", "shape": [4, 1], "data": [1.0] * 4},
    ]
    said = " ".join(f"{pointer}: {detail}" for pointer, detail in faults(body).items())
    assert all(name in said for name in ("K", "N", "block_size"))


def test_defaults_that_were_used_are_shown(live: LiveService) -> None:
    assert live.post(norm()).json()["plugins"][0]["fields"] == [{"epsilon": pytest.approx(1e-5)}]


@pytest.mark.parametrize("datatype", ["INT64", "UINT8", "FP64", "BOOL"])
def test_a_type_that_the_plugin_does_not_take(faults: Refuse, datatype: str) -> None:
    found = faults(scale_bias(datatype=datatype))
    assert datatype in found["/network/nodes/0/inputs/0"]
    assert "x" in found["/network/nodes/0/inputs/0"]


def test_types_that_do_not_mix(faults: Refuse) -> None:
    body = norm()
    body["network"]["constants"][0]["datatype"] = "FP32"
    found = faults(body)
    assert "FP32" in found["/network/nodes/0/inputs/1"]
    assert "FP16" in found["/network/nodes/0/inputs/1"]


def test_half_precision_does_not_overflow_inside(live: LiveService) -> None:
    live.built(norm())
    for parameters in ({}, {"reference": True}):
        x = {"name": "x", "shape": [1, 512], "datatype": "FP16", "data": [300.0] * 512}
        response = live.infer("norm", {"inputs": [x], "parameters": parameters})
        assert response.json()["outputs"][0]["data"] == pytest.approx([1.0] * 512, abs=1e-3)


@pytest.mark.parametrize("parameters", [{}, {"reference": True}])
def test_tensors_without_elements(live: LiveService, scaled: Body, parameters: dict[str, bool]) -> None:
    empty = {"name": "x", "shape": [0, 8], "datatype": "FP32", "data": []}
    full = {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [2.0] * 8}
    for x, expected in ((empty, []), (full, [7.0] * 8), (empty, [])):
        (y,) = live.infer("scaled", {"inputs": [x], "parameters": parameters}).json()["outputs"]
        assert (y["shape"], y["data"]) == (x["shape"], expected)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 127, 129, 255, 257, 1023, 1025])
def test_odd_lengths(live: LiveService, length: int) -> None:
    body = norm()
    body["name"] = f"norm{length}"
    network = body["network"]
    network["inputs"][0].update(datatype="FP32", shape=[2, length])
    network["constants"][0].update(datatype="FP32", shape=[length], data=[2.0] * length)
    body["profiles"] = []
    live.built(body)
    x = {"name": "x", "shape": [2, length], "datatype": "FP32", "data": [4.0] * length + [-4.0] * length}
    (y,) = live.infer(body["name"], {"inputs": [x]}).json()["outputs"]
    assert y["data"] == pytest.approx([2.0] * length + [-2.0] * length, rel=1e-5)
