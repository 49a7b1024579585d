"""Plans from a machine without a GPU, run here by TensorRT itself; and every plugin's shell driven as TensorRT does.

`PLANFORGE_GPU_PLANS` names the folder that `tests.gpu.make_plans` wrote.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.backends.tensorrt import TensorRT
from service.datatypes import DATATYPES
from service.errors import Conflict, InvalidRequest
from service.plugins.cases import Array
from service.plugins.creator import register
from tests.gpu.carriers import CARRIERS
from tests.gpu.test_kernels import REASON

FOLDER = Path(os.environ.get("PLANFORGE_GPU_PLANS", "no plans"))
PLANS = sorted(FOLDER.glob("*.plan"))
TOLERANCES = {"FP32": 2e-5, "FP16": 1e-2, "BF16": 1.6e-2}

pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.skipif(not PLANS, reason="PLANFORGE_GPU_PLANS names no folder with plans"),
]


@pytest.fixture(scope="module")
def tensorrt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorRT]:
    backend = TensorRT("tensorrt_rtx", (), tmp_path_factory.mktemp("kernels"))
    creators = register(backend.flavour.trt, [], backend.registration, CARRIERS)
    print(f"\n{backend.capabilities()}")
    yield backend
    del creators


def example(plan: Path) -> tuple[dict[str, Array], str]:
    """The arrays beside a plan by name, and their datatype."""
    stored = np.load(plan.with_suffix(".npz"))
    if not any(":" in name for name in stored):
        return dict(stored), {"float16": "FP16", "float32": "FP32"}[str(next(iter(stored.values())).dtype)]
    datatype = next(iter(stored)).partition(":")[2]
    return {name.partition(":")[0]: stored[name].view(DATATYPES[datatype].numpy) for name in stored}, datatype


def relative_error(got: Array, expected: Array, arrays: Mapping[str, Array]) -> float:
    """Norm over norm; of an encoder's rows only those that its mask leaves count."""
    kept = arrays["mask"][:, 0, 0, :] == 0 if "mask" in arrays else slice(None)
    actual, wanted = got.astype(np.float64)[kept], expected.astype(np.float64)[kept]
    return float(np.linalg.norm(actual - wanted) / np.linalg.norm(wanted))


def split(session: Any, arrays: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    inputs = {name: array for name, array in arrays.items() if name in session.inputs}
    return inputs, {name: array for name, array in arrays.items() if name not in inputs}


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_a_plan_gives_what_its_reference_gives(tensorrt: TensorRT, plan: Path) -> None:
    session: Any = tensorrt.load(plan)
    arrays, datatype = example(plan)
    inputs, expected = split(session, arrays)
    for _ in range(3):
        for name, got in zip(expected, session.run(inputs, list(expected)), strict=True):
            error = relative_error(got, expected[name], arrays)
            assert error < TOLERANCES[datatype], name
    print(f"{plan.stem:32} {name:8} {error:.1e}")
    session.close()


@pytest.mark.parametrize("plan", [plan for plan in PLANS if "-" in plan.stem and "minilm" not in plan.stem], ids=str)
def test_shapes_alternate_down_to_zero_rows(tensorrt: TensorRT, plan: Path) -> None:
    session: Any = tensorrt.load(plan)
    inputs, expected = split(session, example(plan)[0])
    for rows in (5, 1, 0, 3, 5):
        part = {name: array[:rows] if array.ndim == 3 else array for name, array in inputs.items()}
        for name, got in zip(expected, session.run(part, list(expected)), strict=True):
            assert got.shape == expected[name][:rows].shape
            if rows:
                assert relative_error(got, expected[name][:rows], {}) < 2e-2
    with pytest.raises(InvalidRequest, match="outside every profile"):
        session.run({name: np.repeat(array, 30, 0) for name, array in inputs.items()}, list(expected))
    session.close()


def test_sixteen_threads_keep_their_own_answers(tensorrt: TensorRT) -> None:
    plan = next(plan for plan in PLANS if plan.stem.startswith("ScaleBias-FP32"))
    session: Any = tensorrt.load(plan)
    inputs, _ = split(session, example(plan)[0])
    wrong: list[str] = []

    def ask(number: int) -> None:
        for turn in range(20):
            x = np.full((1 + (number + turn) % 5, 3, inputs["x"].shape[-1]), float(number), np.float32)
            ones = np.ones_like(inputs["scales"])
            (got,) = session.run({"x": x, "scales": ones, "biases": ones * 0}, ["y"])
            if not np.allclose(got, number / (1 + np.exp(-float(number))), rtol=1e-5):
                wrong.append(f"{number}: {got.flat[0]}")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    session.close()


def test_a_damaged_plan_is_refused(tensorrt: TensorRT, tmp_path: Path) -> None:
    damaged = tmp_path / "plan"
    damaged.write_bytes(b"no plan at all")
    with pytest.raises(Conflict, match="does not take the plan"):
        tensorrt.load(damaged)
