"""What the engine host costs over ONNX Runtime in the same process, tensors over a plain copy, and HTTP on top.

    python -m benchmarks.serving [--seconds 2]

Both sides are measured in turns within one run, so that the ratios hold on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.round_trip import round_trips
from service.backends.onnxruntime_session import OnnxRuntimeSession, load_session
from service.hosting.supervisor import Hosts
from service.settings import Settings

IN_FLIGHT = 8
ROUNDS = 10


@dataclass(frozen=True)
class Relu:
    """An engine as the hosts see it."""

    id: str = "relu"
    name: str = "relu"
    version: int = 1
    backend: str = "onnxruntime"
    serving: dict[str, Any] = field(default_factory=lambda: {"instances": IN_FLIGHT})
    inputs: tuple[()] = ()
    outputs: tuple[()] = ()
    profiles: tuple[()] = ()


RELU = Relu()


def relu_model() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", "columns"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", [x], [y])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


@dataclass(frozen=True)
class Subjects:
    """The same engine in a host and in this process."""

    hosts: Hosts
    direct: OnnxRuntimeSession

    async def host(self, x: np.ndarray) -> np.ndarray:
        (y,) = await self.hosts.infer(RELU, False, {"x": x}, ["y"])
        return y

    async def process(self, x: np.ndarray) -> np.ndarray:
        (y,) = self.direct.run({"x": x}, ["y"])
        return y


async def median(call: Callable[[], Awaitable[Any]], seconds: float) -> float:
    """Seconds a call, one after the other."""
    taken = []
    ends = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < ends:
        await call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


async def rate(call: Callable[[], Awaitable[Any]], seconds: float) -> float:
    """Calls a second with `IN_FLIGHT` at a time."""
    count = 0
    begun = time.perf_counter()

    async def ask() -> None:
        nonlocal count
        while time.perf_counter() < begun + seconds:
            await call()
            count += 1

    await asyncio.gather(*(ask() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - begun)


async def small(subjects: Subjects, seconds: float) -> None:
    x = np.random.default_rng(1).standard_normal((1, 256)).astype(np.float32)
    assert (await subjects.host(x) == np.maximum(x, 0)).all()
    share = seconds / ROUNDS
    hosted, direct, rates = [], [], []
    for _ in range(ROUNDS):
        direct.append(await median(lambda: subjects.process(x), share))
        hosted.append(await median(lambda: subjects.host(x), share))
        rates.append(await rate(lambda: subjects.host(x), share))
    over, best, middle = (min(hosted) - min(direct)) * 1e3, max(rates), statistics.median
    print(f"FP32 [1, 256]: in process {min(direct) * 1e6:.1f} us, through the host {min(hosted) * 1e6:.1f} us (p50)")
    print(f"  over the in-process call: {over:.3f} ms, at most 0.1 wanted: {verdict(over <= 0.1)}")
    print(f"  {best:.0f} calls/s with {IN_FLIGHT} in flight, at least 30000 wanted: {verdict(best >= 30000)}")
    print(f"  medians of {ROUNDS} rounds: {middle(hosted) * 1e6:.1f} us, {middle(rates):.0f} calls/s")


async def large(subjects: Subjects, seconds: float) -> None:
    x = np.random.default_rng(2).standard_normal((4096, 1024)).astype(np.float32)
    there, back = np.empty_like(x), np.empty_like(x)
    assert (await subjects.host(x) == np.maximum(x, 0)).all()

    async def copies() -> None:
        there[...] = x
        back[...] = there

    ratios, hosted, plain, runs = [], [], [], []
    for _ in range(ROUNDS):
        hosted.append(await median(lambda: subjects.host(x), seconds / ROUNDS))
        plain.append(await median(copies, seconds / ROUNDS))
        runs.append(await median(lambda: subjects.process(x), seconds / ROUNDS))
        ratios.append((hosted[-1] - runs[-1]) / plain[-1])
    ratio = (min(hosted) - min(runs)) / min(plain)
    print(
        f"16 MiB: through the host {min(hosted) * 1e3:.2f} ms, run {min(runs) * 1e3:.2f} ms, copied there and back "
        f"{min(plain) * 1e3:.2f} ms"
    )
    print(f"  (host - run) / copies: {ratio:.2f}, at most 1.5 wanted: {verdict(ratio <= 1.5)}")
    print(f"  median of {ROUNDS} rounds: {statistics.median(ratios):.2f}")


def over_http(seconds: float) -> None:
    taken = {kind: f"{each * 1e3:.2f} ms" for kind, each in round_trips(seconds).items()}
    print(f"HTTP round trip (p50): JSON {taken['JSON']}, binary {taken['binary']}; doing nothing {taken['nothing']}")


def verdict(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


async def measure(folder: Path, seconds: float) -> None:
    plan = folder / "plan"
    onnx.save(relu_model(), plan)
    hosts = Hosts(Settings(data_dir=folder), lambda engine, reference, scratch: plan)
    subjects = Subjects(hosts, OnnxRuntimeSession(load_session(plan)))
    try:
        await small(subjects, seconds)
        await large(subjects, seconds)
    finally:
        await hosts.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="for each measurement")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), given.seconds))
    over_http(given.seconds)


if __name__ == "__main__":
    main()
