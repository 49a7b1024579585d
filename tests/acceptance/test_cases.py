"""Real models against stored outputs: pairs of .onnx and .npz in tests/data and in the folder PLANFORGE_TEST_CASES."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.live import LiveService

DATA = Path(__file__).parents[1] / "data"
FOLDERS = [DATA, *(Path(folder) for folder in [os.environ.get("PLANFORGE_TEST_CASES")] if folder)]
MODELS = [path for folder in FOLDERS for path in sorted(folder.glob("*.onnx"))]
PAIRS = {path.stem: path for path in MODELS if path.with_suffix(".npz").exists()}
TOLERANCES = {"float16": 1e-2, "float32": 1e-4}
BUILD_SECONDS = 20
Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(params=PAIRS)
def path(request: pytest.FixtureRequest) -> Path:
    return PAIRS[request.param]


@cache
def arrays(path: Path) -> dict[str, Array]:
    with np.load(path.with_suffix(".npz")) as stored:
        return dict(stored)


def profile(path: Path) -> dict[str, Any]:
    """Around the stored inputs: each dynamic dimension from 1 to twice as large."""
    limits = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        opt = arrays(path)[value.name].shape
        fixed = [dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim]
        limits[value.name] = {
            "min": [size if still else 1 for size, still in zip(opt, fixed, strict=True)],
            "opt": list(opt),
            "max": [size if still else 2 * size for size, still in zip(opt, fixed, strict=True)],
        }
    return limits


def built(live: LiveService, path: Path, name: str, **options: Any) -> dict[str, Any]:
    known = live.client.engines(name=name, status="ready")["engines"]
    if known:
        return known[0]
    engine = live.client.build_onnx(path, {"name": name, "profiles": [profile(path)], **options})
    return live.client.wait(engine["id"], timeout=300)


def error(given: Array, expected: Array, mask: Array | None) -> float:
    """Norm of the difference over norm of the expected; with a mask, of the rows where it is 0."""
    counted = slice(None) if mask is None else mask[:, 0, 0, :] == 0
    right = expected[counted].astype(np.float64)
    return float(np.linalg.norm(given[counted] - right) / np.linalg.norm(right))


@pytest.mark.parametrize("parameters", [{}, {"reference": True}], ids=["plan", "reference"])
def test_answers_are_right(live: LiveService, path: Path, parameters: dict[str, bool]) -> None:
    engine = built(live, path, path.stem, backend="onnxruntime")
    stored = arrays(path)
    inputs = {each["name"]: stored[each["name"]] for each in engine["inputs"]}
    for name, output in live.client.infer(engine["id"], inputs, parameters=parameters).items():
        assert error(output, stored[name], inputs.get("mask")) < TOLERANCES[output.dtype.name]


def test_a_plan_for_another_host(live: LiveService, path: Path) -> None:
    """Every quantized product is our plugin's, and the plan holds the kernel at most twice."""
    engine = built(live, path, f"{path.stem}-rtx", backend="tensorrt_rtx", targets=["sm_86"])
    assert engine["seconds"]["building"] < BUILD_SECONDS
    products = sum(node.op_type == "MatMulNBits" for node in onnx.load(path).graph.node)
    (plugin,) = engine["plugins"]
    assert (plugin["name"], plugin["nodes"], len(plugin["fields"])) == ("MatMulNBits", products, products)
    plan = live.client.plan(engine["id"])
    for kernel in plugin["kernels"]:
        starts = [match.start() for match in re.finditer(b"\x7fELF", plan)]
        digests = [hashlib.sha256(plan[start : start + kernel["size"]]).hexdigest() for start in starts]
        assert 1 <= digests.count(kernel["sha256"]) <= 2
    model = onnx.load_from_string(live.client.model(engine["id"]))
    assert sum(node.domain == "planforge" for node in model.graph.node) == products
