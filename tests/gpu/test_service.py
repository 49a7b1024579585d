"""The whole service on a GPU host: builds for its GPU, runs in an engine host there, right through HTTP.

On compute capability 9.0 with TensorRT-RTX 1.6, MatMulNBits runs as a plugin and the others as TensorRT's own fusion.
`PLANFORGE_TEST_CASES` names a folder with `.onnx` and `.npz` pairs; FP16 ones are taken.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidRequest
from service.plugins.cases import Array
from tests.gpu.test_kernels import REASON

pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

CASES = sorted(Path(os.environ.get("PLANFORGE_TEST_CASES", "tests/data")).glob("*fp16.onnx"))
PROFILE = {
    "hidden": {"min": [1, 1, 384], "opt": [2, 16, 384], "max": [8, 128, 384]},
    "mask": {"min": [1, 1, 1, 1], "opt": [2, 1, 1, 16], "max": [8, 1, 1, 128]},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("fastapi")
    from tests.live import serving

    with serving(tmp_path_factory.mktemp("service")) as service:
        yield service
        print("".join(service.said[-20:]))


def error(got: Array, expected: Array, mask: Array) -> float:
    kept = mask[:, 0, 0, :] == 0
    actual, wanted = got.astype(np.float64)[kept], expected.astype(np.float64)[kept]
    return float(np.linalg.norm(actual - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_real_encoder_is_built_and_right_through_http(service: Any, case: Path) -> None:
    client, example = service.client, dict(np.load(case.with_suffix(".npz")))
    engine = client.wait(client.build_onnx(case, {"name": case.stem, "profiles": [PROFILE]})["id"], timeout=300)
    assert (engine["backend"], engine["runnable"]) == ("tensorrt_rtx", True)
    assert [(plugin["name"], plugin["nodes"]) for plugin in engine["plugins"]] in (
        [("MatMulNBits", 6)],
        [("MatMulNBits", 36)],
    )
    inputs = {name: example[name] for name in ("hidden", "mask")}

    def ask(number: int) -> float:
        """With rows of its own: each client's answer must be its own."""
        hidden = np.roll(inputs["hidden"], number, axis=0)
        mask = np.roll(inputs["mask"], number, axis=0)
        (got,) = client.infer(engine["id"], {"hidden": hidden, "mask": mask}).values()
        return error(got, np.roll(example["encoded"], number, axis=0), mask)

    with ThreadPoolExecutor(16) as pool:
        errors = list(pool.map(ask, range(64)))
    assert max(errors) < 1e-2
    (reference,) = client.infer(engine["id"], inputs, parameters={"reference": True}).values()
    assert error(reference, example["encoded"], inputs["mask"]) < 1e-2
    started = time.perf_counter()
    for _ in range(50):
        client.infer(engine["id"], inputs)
    milliseconds = (time.perf_counter() - started) * 20
    print(f"\n{case.stem}: error {max(errors):.1e}, built in {engine['seconds']['building']:.1f} s, "
          f"{milliseconds:.2f} ms a request over HTTP")  # fmt: skip


def test_shapes_outside_the_profile_are_refused_and_the_next_request_is_right(service: Any) -> None:
    case = CASES[0]
    example = np.load(case.with_suffix(".npz"))
    wide = {"hidden": np.zeros((9, 4, 384), np.float16), "mask": np.zeros((9, 1, 1, 4), np.float16)}
    with pytest.raises(InvalidRequest):
        service.client.infer(case.stem, wide)
    for shape in ((1, 5), (8, 128), (2, 16)):
        hidden = np.random.default_rng(0).standard_normal((*shape, 384)).astype(np.float16)
        mask = np.zeros((shape[0], 1, 1, shape[1]), np.float16)
        (got,) = service.client.infer(case.stem, {"hidden": hidden, "mask": mask}).values()
        (expected,) = service.client.infer(
            case.stem, {"hidden": hidden, "mask": mask}, parameters={"reference": True}
        ).values()
        assert error(got, expected, mask) < 2e-2
    (got,) = service.client.infer(case.stem, {name: example[name] for name in ("hidden", "mask")}).values()
    assert error(got, example["encoded"], example["mask"]) < 1e-2


def test_the_mlp_block_in_fp16(service: Any) -> None:
    from examples.mlp_block import HIDDEN, PROFILES, MlpBlock

    network = half(MlpBlock.drawn().network())
    engine = service.built({"name": "mlp", "network": network, "profiles": PROFILES})
    assert (engine["backend"], engine["runnable"]) == ("tensorrt_rtx", True)
    x = np.random.default_rng(1).standard_normal((16, HIDDEN)).astype(np.float16)
    (got,) = service.client.infer("mlp", {"x": x}).values()
    (expected,) = service.client.infer("mlp", {"x": x}, parameters={"reference": True}).values()
    difference = np.linalg.norm(got.astype(np.float64) - expected.astype(np.float64))
    relative = difference / np.linalg.norm(expected.astype(np.float64))
    print(f"\nmlp block: error against the reference {relative:.1e}")
    assert relative < 1e-2


def half(network: dict[str, Any]) -> dict[str, Any]:
    """The network with FP16 in the place of FP32."""
    for declared in (*network["inputs"], *network["constants"]):
        if declared["datatype"] == "FP32":
            declared["datatype"] = "FP16"
            if "base64" in declared:
                wide = np.frombuffer(base64.b64decode(declared["base64"]), np.float32)
                declared["base64"] = base64.b64encode(wide.astype(np.float16).tobytes()).decode()
    return network
