"""Small networks that the acceptance tests build."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]


def scale_bias(name: str = "scaled", datatype: str = "FP32", backend: str = "onnxruntime", **options: Any) -> Body:
    """y = x * 3 + 1 for x [batch, 8], batch 0 to 64."""
    node = {"plugin": "ScaleBias", "inputs": ["x"], "outputs": ["y"], "fields": {"scale": 3.0, "bias": 1.0}}
    return {
        "name": name,
        "network": {
            "inputs": [{"name": "x", "datatype": datatype, "shape": ["batch", 8]}],
            "nodes": [node],
            "outputs": ["y"],
        },
        "profiles": [{"x": {"min": [0, 8], "opt": [4, 8], "max": [64, 8]}}],
        "backend": backend,
        **options,
    }
