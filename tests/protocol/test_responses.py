"""Answers as bytes, read again as a client does."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from service.protocol.messages import HEADER, InferRequest, RequestedOutput
from service.protocol.responses import Response, encode_response

Y = np.array([[1, 2.5], [3, 4]], np.float32)
Z = np.array([True, False])


def respond(*outputs: RequestedOutput, arrays: list[Any], id: str | None = None) -> Response:
    return encode_response(InferRequest({}, outputs, id), "demo", "3", arrays)


def test_json() -> None:
    response = respond(RequestedOutput("z"), RequestedOutput("y"), arrays=[Z, Y], id='quo"te')
    assert response.headers == {"Content-Type": "application/json"}
    assert json.loads(response.body) == {
        "model_name": "demo",
        "model_version": "3",
        "id": 'quo"te',
        "outputs": [
            {"name": "z", "shape": [2], "datatype": "BOOL", "data": [True, False]},
            {"name": "y", "shape": [2, 2], "datatype": "FP32", "data": [1.0, 2.5, 3.0, 4.0]},
        ],
    }


def test_no_id_is_not_echoed() -> None:
    assert "id" not in json.loads(respond(RequestedOutput("z"), arrays=[Z]).body)


def test_binary_outputs_lie_behind_the_json_in_order() -> None:
    wide, empty = np.arange(6, dtype=np.float16).reshape(2, 3), np.empty((0, 4), ml_dtypes.bfloat16)
    asked = [RequestedOutput("a", True), RequestedOutput("e", True), RequestedOutput("z"), RequestedOutput("y", True)]
    response = respond(*asked, arrays=[wide.T, empty, Z, Y])
    assert response.headers["Content-Type"] == "application/octet-stream"
    length = int(response.headers[HEADER])
    head, blobs = json.loads(response.body[:length]), response.body[length:]
    assert [(each["name"], each["shape"], each["datatype"]) for each in head["outputs"]] == [
        ("a", [3, 2], "FP16"), ("e", [0, 4], "BF16"), ("z", [2], "BOOL"), ("y", [2, 2], "FP32"),
    ]  # fmt: skip
    assert [each.get("parameters") for each in head["outputs"]] == [
        {"binary_data_size": 12}, {"binary_data_size": 0}, None, {"binary_data_size": 16},
    ]  # fmt: skip
    assert ["data" in each for each in head["outputs"]] == [False, False, True, False]
    assert blobs == np.ascontiguousarray(wide.T).tobytes() + Y.tobytes()


def test_a_scalar_is_a_list_of_one() -> None:
    [output] = json.loads(respond(RequestedOutput("y"), arrays=[np.float32(2.5).reshape(())]).body)["outputs"]
    assert (output["shape"], output["data"]) == ([], [2.5])


def test_what_is_no_wire_type_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError, match="complex128"):
        respond(RequestedOutput("y"), arrays=[np.zeros(1, complex)])
