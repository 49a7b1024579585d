"""Builds as a worker sees them through: on real TensorRT-RTX, with real crashes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import onnx
import psutil
import pytest

from plugins_cuda.scale_bias.plugin import ScaleBias
from service.builds import worker as worker_module
from service.builds.worker import Worker
from service.plugins.kernels import compile_image
from tests.builds.yard import Yard, model_of

Start = Callable[..., Worker]


def builder_of(yard: Yard) -> psutil.Process:
    """The builder process at work."""
    while True:
        for child in psutil.Process().children():
            if "service.builds.builder" in " ".join(child.cmdline()):
                return child


def test_a_plan_with_its_kernels_is_built(yard: Yard, start: Start) -> None:
    start()
    engine = yard.wait(yard.queue(targets=["sm_86", "sm_120"]))
    assert (engine.status, engine.error, engine.targets) == ("ready", None, ("sm_86", "sm_120"))
    (plugin,) = engine.plugins
    assert plugin["fields"] == [{"scale": 3.0, "bias": 0.0, "axis": -1, "activation": "none"}]
    assert [kernel["target"] for kernel in plugin["kernels"]] == ["sm_86", "sm_120"]
    assert plugin["ptx"]["target"] == "compute_120"
    assert "Engine generation completed" in yard.engines.log(engine.id)
    assert engine.backend_version
    yard.wait(engine, lambda _: not list(yard.settings.scratch.iterdir()), seconds=5)


def test_many_nodes_carry_each_image_at_most_twice_and_progress_never_falls(yard: Yard, start: Start) -> None:
    queued = yard.queue_large()
    start()
    fractions: list[float] = []

    def over(now: object) -> bool:
        fractions.append(now.fraction)  # type: ignore[attr-defined]
        return now.status not in ("queued", "building")  # type: ignore[attr-defined]

    engine = yard.wait(queued, over)
    assert engine.status == "ready", engine.error
    assert fractions == sorted(fractions)
    assert len(set(fractions)) >= 5
    (plugin,) = engine.plugins
    assert plugin["nodes"] == 24
    image = compile_image(ScaleBias.source(), "sm_86", yard.settings.kernel_cache)
    assert 1 <= yard.plan(engine).count(image) <= 2


def test_a_builder_that_dies_while_it_waits_costs_nothing(yard: Yard, start: Start) -> None:
    start()
    waiting = builder_of(yard)
    waiting.kill()
    engine = yard.wait(yard.queue())
    assert engine.status == "ready"
    assert engine.attempts == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_builder_fails_its_build_and_the_next_one_works(yard: Yard, start: Start, number: int) -> None:
    yard.forget_kernels()
    start()
    engine = yard.queue_large()
    yard.wait(engine, lambda now: now.phase != "")
    os.kill(builder_of(yard).pid, number)
    engine = yard.wait(engine)
    assert engine.status == "failed"
    assert f"was killed by signal {int(number)}" in engine.error["detail"]
    assert yard.wait(yard.queue()).status == "ready"


def test_a_runtime_that_ends_the_process_is_said(yard: Yard, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its library's unversioned name the parser calls std::terminate at the first plugin layer."""
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    monkeypatch.setattr(worker_module, "child_environment", lambda _: bare)
    start()
    engine = yard.wait(yard.queue())
    assert engine.status == "failed"
    assert "was killed by signal 6 (SIGABRT)" in engine.error["detail"]


def test_a_build_over_its_memory_fails_and_the_next_one_works(yard: Yard, start: Start) -> None:
    small = start(build_memory=64 * 2**20)
    engine = yard.wait(yard.queue())
    assert engine.status == "failed"
    assert engine.error["detail"]
    small.stop()
    start()
    assert yard.wait(yard.queue()).status == "ready"


def test_a_build_over_its_time_fails(yard: Yard, start: Start) -> None:
    yard.forget_kernels()
    start(build_timeout=0.3)
    engine = yard.wait(yard.queue_large())
    assert engine.status == "failed"
    assert "took longer than 0.3 s" in engine.error["detail"]


def test_a_cancelled_build_ends_and_keeps_its_log(yard: Yard, start: Start) -> None:
    yard.forget_kernels()
    start()
    engine = yard.queue_large()
    yard.wait(engine, lambda now: now.phase != "")
    builder = builder_of(yard)
    yard.engines.request_cancel(engine.id)
    assert yard.wait(engine, seconds=5).status == "cancelled"
    assert not builder.is_running()
    assert yard.engines.log(engine.id) is not None


def test_a_stopped_worker_gives_its_build_back(yard: Yard, start: Start) -> None:
    yard.forget_kernels()
    first = start()
    engine = yard.queue_large()
    yard.wait(engine, lambda now: now.phase != "")
    first.stop()
    yard.wait(engine, lambda now: now.status == "queued", seconds=5)
    start()
    assert yard.wait(engine).status == "ready"
    assert yard.engines.get(engine.id).attempts == 1


def test_a_network_that_tensorrt_refuses_fails_with_its_reason(yard: Yard, start: Start) -> None:
    start()
    stranger = onnx.helper.make_node("ImageDecoder", ["x"], ["y"], "decoder")
    engine = yard.wait(yard.queue(model_of([stranger])))
    assert engine.status == "failed"
    assert "ImageDecoder" in engine.error["detail"]
    assert str(Path.cwd()) not in engine.error["detail"]


def test_higher_priority_is_built_first(yard: Yard, start: Start) -> None:
    later, first = yard.queue(), yard.queue(priority=5)
    start()
    later, first = yard.wait(later), yard.wait(first)
    assert first.updated_at < later.updated_at


def test_a_node_that_nothing_depends_on_is_left_out(yard: Yard, start: Start) -> None:
    """TensorRT would remove it, with the images that the first node of a plugin carries, and crash."""
    start()
    dead, alive = ScaleBias(scale=2.0), ScaleBias(scale=3.0)
    engine = yard.wait(yard.queue(model_of([(dead, "x", "dead"), (alive, "x", "y")])))
    assert engine.status == "ready", engine.error
    assert [each["nodes"] for each in engine.plugins] == [1]
