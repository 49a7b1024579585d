"""What the engine host costs on a GPU, over the same plan replayed as a CUDA graph in this process.

    python -m benchmarks.serving_gpu PLAN EXAMPLE.npz [--seconds 5]

PLAN is an encoder's (inputs `hidden` [batch, seq, 384] and `mask`, output `encoded`), EXAMPLE.npz has them for one
call. A call to the host carries its tensors there and back; the bare replay finds them on the device.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import median, verdict
from service.backends.device_memory import Lane, checked, cudart
from service.backends.registry import backend
from service.hosting.supervisor import Hosts
from service.settings import Settings

SMALL, LARGE, WIDTH = (2, 16), (8, 128), 384
IN_FLIGHT = 16
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Encoder:
    """An engine as the hosts see it."""

    id: str = "encoder"
    name: str = "encoder"
    version: int = 1
    backend: str = "tensorrt_rtx"
    serving: dict[str, Any] = field(default_factory=lambda: {"instances": 4, "queue": 64})
    inputs: tuple[()] = ()
    outputs: tuple[()] = ()
    profiles: tuple[()] = ()


class Bare:
    """The plan in this process: one context, inputs on the device, with or without CUDA graphs."""

    def __init__(self, plan: Path, strategy: str) -> None:
        tensorrt: Any = backend("tensorrt_rtx")
        trt = tensorrt.flavour.trt
        _ = tensorrt.registration
        self._runtime = trt.Runtime(tensorrt.logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan.read_bytes())
        configuration = self._engine.create_runtime_config()
        configuration.cuda_graph_strategy = getattr(trt.CudaGraphStrategy, strategy)
        self._context = self._engine.create_execution_context(configuration)
        self._lane = Lane.create()

    def place(self, arrays: Arrays) -> None:
        for name, array in arrays.items():
            self._lane.stage(name, array)
            self._lane.upload(name, array.nbytes)
            self._context.set_input_shape(name, array.shape)
            self._context.set_tensor_address(name, self._lane.buffers[name].device)
        size = arrays["hidden"].nbytes
        self._context.set_tensor_address("encoded", self._lane.reserve("encoded", size).device)
        self.run()

    def run(self) -> None:
        self._context.execute_async_v3(self._lane.stream)
        self._lane.wait()

    def device_seconds(self, count: int = 200) -> float:
        """Seconds an execution takes on the device, one right after the other."""
        runtime = cudart()
        start, end = checked(runtime.cudaEventCreate()), checked(runtime.cudaEventCreate())
        runtime.cudaEventRecord(start, self._lane.stream)
        for _ in range(count):
            self._context.execute_async_v3(self._lane.stream)
        runtime.cudaEventRecord(end, self._lane.stream)
        self._lane.wait()
        return float(checked(runtime.cudaEventElapsedTime(start, end))) / 1e3 / count


def drawn(shape: tuple[int, int], seed: int) -> Arrays:
    hidden = np.random.default_rng(seed).standard_normal((*shape, WIDTH)).astype(np.float16)
    return {"hidden": hidden, "mask": np.zeros((shape[0], 1, 1, shape[1]), np.float16)}


def p50(call: Callable[[], None], seconds: float) -> float:
    for _ in range(3):  # contexts are made and graphs captured
        call()
    taken = []
    ends = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < ends:
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def gpu_use() -> float:
    """Percent of the last moments in which a kernel ran, as the driver counts."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    return float(subprocess.run(query, capture_output=True, text=True, check=True).stdout)


async def saturate(hosts: Hosts, arrays: list[Arrays], expected: list[Any], seconds: float) -> tuple[float, float]:
    """Calls a second with `IN_FLIGHT` at a time, each with its own input, and how busy the GPU was meanwhile."""
    ends, count = time.perf_counter() + seconds, 0

    async def ask(number: int) -> None:
        nonlocal count
        while time.perf_counter() < ends:
            (got,) = await hosts.infer(Encoder(), False, arrays[number], ["encoded"])
            assert np.array_equal(got, expected[number]), f"client {number} got another answer"
            count += 1

    async def look() -> list[float]:
        await asyncio.sleep(seconds / 3)
        return [await asyncio.to_thread(gpu_use) for _ in range(5)]

    use, *_ = await asyncio.gather(look(), *(ask(number) for number in range(IN_FLIGHT)))
    return count / seconds, statistics.median(use)


async def measure(plan: Path, example: Path, seconds: float, folder: Path) -> None:
    graph, plain = Bare(plan, "WHOLE_GRAPH_CAPTURE"), Bare(plan, "DISABLED")
    hosts, session = Hosts(Settings(data_dir=folder), lambda *_: plan), backend("tensorrt_rtx").load(plan)
    stored = dict(np.load(example))
    inputs = {name: stored[name] for name in ("hidden", "mask")}
    try:
        begun = time.perf_counter()
        (got,) = await hosts.infer(Encoder(), False, inputs, ["encoded"])
        loaded = time.perf_counter() - begun
        kept = inputs["mask"][:, 0, 0, :] == 0
        wanted = stored["encoded"].astype(np.float64)[kept]
        error = np.linalg.norm(got.astype(np.float64)[kept] - wanted) / np.linalg.norm(wanted)
        print(f"first call, plan loaded and compiled for this GPU: {loaded:.2f} s, error {error:.1e}")
        for shape in (SMALL, LARGE):
            arrays = drawn(shape, 1)
            graph.place(arrays)
            plain.place(arrays)
            replay, executed = p50(graph.run, seconds), p50(plain.run, seconds)
            direct = p50(lambda arrays=arrays: session.run(arrays, ["encoded"]), seconds)
            hosted = await median(lambda arrays=arrays: hosts.infer(Encoder(), False, arrays, ["encoded"]), seconds)
            over = (hosted - replay) * 1e3
            print(f"{[*shape, WIDTH]}: graph replay {replay * 1e3:.3f} ms, plain {executed * 1e3:.3f} ms")
            print(f"  with its tensors copied there and back {direct * 1e3:.3f} ms, in this process")
            print(f"  through the host {hosted * 1e3:.3f} ms: {over:.3f} ms over the replay")
            if shape == SMALL:
                print(f"  at most 0.15 ms over wanted: {verdict(over <= 0.15)}")
            faster = executed / replay
            print(f"  replay {faster:.2f} times as fast as plain execution, at least 1 wanted: {verdict(faster >= 1)}")
        many = [drawn(LARGE, number) for number in range(IN_FLIGHT)]
        expected = [(await hosts.infer(Encoder(), False, arrays, ["encoded"]))[0].copy() for arrays in many]
        calls, use = await saturate(hosts, many, expected, max(seconds, 5))
        share = calls * graph.device_seconds()
        print(f"{IN_FLIGHT} in flight at {list(LARGE)}: {calls:.0f} calls/s, {share:.2f} of the rate of bare replays, "
              f"GPU busy {use:.0f} %: over 90 wanted: {verdict(use > 90)}")  # fmt: skip
    finally:
        await hosts.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("example", type=Path)
    parser.add_argument("--seconds", type=float, default=5, help="for each measurement")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(given.plan, given.example, given.seconds, Path(folder)))


if __name__ == "__main__":
    main()
