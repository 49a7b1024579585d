"""The demo fails where something is wrong, and leaves nothing behind however it ends."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import psutil
import pytest

from examples.demo import ELF, TARGETS, Demo, Wrong, occurrences
from examples.mlp_block import HIDDEN, Array, MlpBlock, Packed


class Answers:
    """A client that answers with NumPy's own result, changed by `change`, and with one plan."""

    def __init__(self, block: MlpBlock, change: float = 0.0, plan: bytes = b"") -> None:
        self.block, self.change, self.bytes = block, change, plan

    def infer(self, engine: str, inputs: dict[str, Array], parameters: dict[str, Any]) -> dict[str, Array]:
        return {"y": (self.block.compute(inputs["x"]) * (1 + self.change)).astype(np.float32)}

    def plan(self, engine: str) -> bytes:
        return self.bytes


@pytest.fixture(scope="module")
def block() -> MlpBlock:
    return MlpBlock.drawn()


def demo(client: Answers) -> Demo:
    x = np.random.default_rng(0).standard_normal((3, HIDDEN)).astype(np.float32)
    return Demo(client, client.block, x)  # type: ignore[arg-type]


def test_an_answer_that_is_slightly_wrong_fails(block: MlpBlock) -> None:
    engine = {"id": "e", "name": "e"}
    demo(Answers(block)).infer(engine, reference=False)
    for change in (1e-3, float("nan")):
        with pytest.raises(Wrong):
            demo(Answers(block, change)).infer(engine, reference=False)


def test_a_kernel_that_is_not_in_the_plan_fails(block: MlpBlock) -> None:
    images = {target: ELF + target.encode() * 9 for target in TARGETS}
    kernels = [
        {"target": target, "size": len(image), "sha256": hashlib.sha256(image).hexdigest()}
        for target, image in images.items()
    ]
    for parts, right in ((images.values(), True), ([images["sm_86"]], False), ([*images.values()] * 3, False)):
        plan = b"vtrt" + b"".join(parts)
        engine = {
            "id": "e",
            "plan": {"size": len(plan), "sha256": hashlib.sha256(plan).hexdigest()},
            "plugins": [{"name": "P", "nodes": 1, "kernels": kernels}],
        }
        if right:
            demo(Answers(block, plan=plan)).look_into_plan(engine)
        else:
            with pytest.raises(Wrong):
                demo(Answers(block, plan=plan)).look_into_plan(engine)


def test_occurrences_are_counted_at_any_place() -> None:
    image = ELF + b"kernel"
    digest = hashlib.sha256(image).hexdigest()
    for plan, count in ((b"", 0), (image, 1), (b"x" + image + ELF + image, 2), (ELF + b"kernes", 0)):
        assert occurrences(plan, len(image), digest) == count


def test_packed_weights_are_off_by_half_a_step_at_most() -> None:
    weights = np.random.default_rng(0).standard_normal((5, 96))
    packed = Packed.quantized(weights)
    steps = np.repeat(packed.scales, 32, axis=1)
    assert packed.data.shape == (5, 3, 16)
    assert (np.abs(packed.matrix - weights) <= steps * 0.5001).all()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_behind(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "examples.demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Build of"):
            break
    started = psutil.Process(process.pid).children(recursive=True)
    assert started
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    ends = time.monotonic() + 5
    while alive := [each for each in started if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < ends, alive
        time.sleep(0.05)
