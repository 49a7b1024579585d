"""ONNX files by multipart/form-data, with external data and with everything that can be wrong about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.live import LiveService

Files = list[tuple[str, Any]]
WEIGHT = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 1000
OPTIONS = {
    "name": "uploaded",
    "backend": "onnxruntime",
    "profiles": [{"x": {"min": [1, 64], "opt": [1, 64], "max": [8, 64]}}],
}


def model(*external: tuple[str, str]) -> onnx.ModelProto:
    """y = relu(x @ w); with `external`, entries of w's external data."""
    weight = numpy_helper.from_array(WEIGHT, "w")
    if external:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        for key, value in external:
            weight.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "graph", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def parts(given: onnx.ModelProto, *data: tuple[str, bytes], options: Any = OPTIONS) -> Files:
    return [
        ("options", (None, json.dumps(options), "application/json")),
        ("model", ("model.onnx", given.SerializeToString())),
        *(("data", each) for each in data),
    ]


def refusal(live: LiveService, files: Files) -> str:
    response = live.http.post("/engines", files=files)
    assert response.status_code == 422, response.text
    return " ".join(f"{fault['pointer']}: {fault['detail']}" for fault in response.json()["errors"])


def check(live: LiveService, files: Files) -> None:
    response = live.http.post("/engines", files=files)
    assert response.status_code == 202, response.text
    engine = live.client.wait(response.json()["id"])
    x = np.ones((2, 64), np.float32)
    for parameters in ({}, {"reference": True}):
        y = live.client.infer(engine["id"], {"x": x}, parameters=parameters)["y"]
        np.testing.assert_allclose(y, x @ WEIGHT, rtol=1e-5)


def test_a_file(live: LiveService) -> None:
    check(live, parts(model()))
    assert not list((live.data_dir / "scratch").glob("upload-*"))


@pytest.mark.parametrize("location", ["weights.bin", "model.onnx", "plan", "job.json", "späße"])
def test_external_data(live: LiveService, location: str) -> None:
    """Whatever the part is called, it is no file of the server's."""
    given = model(("location", location), ("offset", "16"), ("length", str(WEIGHT.nbytes)))
    check(live, parts(given, (location, bytes(16) + WEIGHT.tobytes())))


@pytest.mark.parametrize(
    "location", ["var/planforge.db", "../x", "/etc/hostname", "other.bin", "", ".", "planforge.db"]
)
def test_locations_that_are_no_part(live: LiveService, location: str) -> None:
    said = refusal(live, parts(model(("location", location)), ("weights.bin", WEIGHT.tobytes())))
    assert "w" in said
    assert location in said


@pytest.mark.parametrize("entries", [
    {"offset": str(WEIGHT.nbytes)}, {"offset": "1"}, {"length": str(WEIGHT.nbytes + 1)}, {"length": "4"},
    {"offset": "-1"}, {"offset": "x"}, {"offset": str(2**70)},
])  # fmt: skip
def test_offsets_and_lengths_beyond_the_part(live: LiveService, entries: dict[str, str]) -> None:
    given = model(("location", "weights.bin"), *entries.items())
    assert "weights.bin" in refusal(live, parts(given, ("weights.bin", WEIGHT.tobytes())))


def test_a_function_of_our_plugins_name(live: LiveService) -> None:
    """It is refused, or ours counts; never the user's body."""
    given = model()
    given.graph.node[1].op_type, given.graph.node[1].domain = "ScaleBias", "planforge"
    given.opset_import.append(helper.make_opsetid("planforge", 1))
    body = helper.make_node("Constant", [], ["y"], value_float=7.0)
    given.functions.append(
        helper.make_function("planforge", "ScaleBias", ["x"], ["y"], [body], [helper.make_opsetid("", 17)])
    )
    response = live.http.post("/engines", files=parts(given))
    if response.status_code == 422:
        return
    engine = live.client.wait(response.json()["id"])
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(live.client.infer(engine["id"], {"x": x})["y"], x @ WEIGHT, rtol=1e-5)


@pytest.mark.parametrize("content", [b"", b"not onnx", b"\x08", b"\xff" * 100])
def test_a_model_that_is_none(live: LiveService, content: bytes) -> None:
    files = parts(model())
    files[1] = ("model", ("model.onnx", content))
    assert "/model" in refusal(live, files)


def test_wrong_parts(live: LiveService) -> None:
    right = parts(model())
    for files, named in (
        (right[:1], "/model"),
        (right[1:], "/options"),
        ([*right, right[0]], "/options"),
        ([*right, right[1]], "/model"),
        ([*right, ("extra", ("x", b"y"))], "extra"),
        ([*right, ("data", (None, b"y"))], "file name"),
        ([*right, ("data", ("a", b"y")), ("data", ("a", b"y"))], "'a'"),
    ):
        assert named in refusal(live, files)


def test_dynamic_dimensions_without_a_profile(live: LiveService) -> None:
    options = {name: given for name, given in OPTIONS.items() if name != "profiles"}
    assert "/profiles: dynamic dimensions need a profile" in refusal(live, parts(model(), options=options))


def test_faults_of_the_options_have_their_pointers(live: LiveService) -> None:
    assert "/name: required" in refusal(live, parts(model(), options={"backend": "onnxruntime"}))
    assert "/network: no such key" in refusal(live, parts(model(), options={**OPTIONS, "network": {}}))


@pytest.mark.parametrize("content_type, content", [
    ("multipart/form-data", b"--b\r\n"),
    ("multipart/form-data; boundary=", b"--b\r\n"),
    ("multipart/form-data; boundary=b", b""),
    ("multipart/form-data; boundary=b", b"nothing of the kind"),
    ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nno end'),
    ("multipart/form-data; boundary=b", b"--b\r\n\r\nno name\r\n--b--\r\n"),
    ("multipart/form-data; boundary=b", b"--b\r\nbroken header\r\n\r\n\r\n--b--\r\n"),
    ("multipart/form-data; boundary=" + "b" * 500, b""),
])  # fmt: skip
def test_malformed_forms(live: LiveService, content_type: str, content: bytes) -> None:
    response = live.http.post("/engines", content=content, headers={"content-type": content_type})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert not list((live.data_dir / "scratch").glob("upload-*"))


def test_the_client_and_the_command_line_send_the_same(live: LiveService, tmp_path: Path) -> None:
    """A model with external data beside it, saved by onnx's own hand."""
    path = tmp_path / "saved.onnx"
    onnx.save(model(), path, save_as_external_data=True, location="saved.bin", size_threshold=0)
    engine = live.client.wait(
        live.client.build_onnx(path, {**OPTIONS, "name": "saved"}, [tmp_path / "saved.bin"])["id"]
    )
    y = live.client.infer(engine["id"], {"x": np.ones((1, 64), np.float32)})["y"]
    np.testing.assert_allclose(y, np.ones((1, 64)) @ WEIGHT, rtol=1e-5)
