"""One request after the other to a live service over HTTP, as JSON and with binary tensors."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import numpy as np

from examples.running import running_service
from service.client import Client
from service.client.tensors import message_from_arrays

WARM = 100
NETWORK = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": ["rows", 256]}],
    "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}
PROFILE = {"x": {"min": [1, 256], "opt": [1, 256], "max": [64, 256]}}


def round_trips(seconds: float) -> dict[str, float]:
    """Seconds at the median for FP32 [1, 256] there and back, and for `GET /healthz`, which does nothing."""
    x = np.random.default_rng(1).standard_normal((1, 256)).astype(np.float32)
    tensor = {"name": "x", "shape": [1, 256], "datatype": "FP32", "data": x.ravel().tolist()}
    in_json = {"Content-Type": "application/json"}, json.dumps({"inputs": [tensor]}).encode()
    with running_service() as (address, _):
        with Client(address) as client:
            body = {"name": "relu", "network": NETWORK, "profiles": [PROFILE], "backend": "onnxruntime"}
            client.wait(client.build_json(body)["id"])
            assert (client.infer("relu", {"x": x})["y"] == np.maximum(x, 0)).all()
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        infer = ("POST", "/engines/relu/infer")
        return {
            "nothing": _median(connection, seconds, "GET", "/healthz"),
            "JSON": _median(connection, seconds, *infer, *in_json),
            "binary": _median(connection, seconds, *infer, *message_from_arrays({"x": x}, None, {})),
        }


def _median(
    connection: http.client.HTTPConnection,
    seconds: float,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> float:
    taken = []
    ends = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < ends or len(taken) < 2 * WARM:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[WARM:])
