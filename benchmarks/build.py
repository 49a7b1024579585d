"""How much the service adds to a build, how fast it takes a network, and whether it grows (`make benchmark`).

Prints tables and writes nothing; results of note go into benchmarks/RESULTS.md by hand.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil

from benchmarks.networks import Workload, blocks, hundred_nodes, mlp_block
from examples.running import running_service
from service.backends.dressing import dress
from service.backends.libraries import child_environment
from service.backends.plan_builder import plugin_nodes
from service.backends.splitting import join, split
from service.client import Client
from service.plugins.catalogue import discover
from service.plugins.kernels import compile_image

TARGETS = ["sm_86", "sm_120"]
IMAGES = [*TARGETS, "compute_120"]
REPEATS = 5
LOOK = 0.02
FACTOR, GRACE = 1.2, 0.5
"""A build through the service takes at most so many times as long, plus so many seconds."""
MIB = 2**20


def main() -> None:
    print(f"{platform.machine()}, {psutil.cpu_count()} CPUs, Python {platform.python_version()}, "
          f"TensorRT-RTX {version('tensorrt-rtx-cu13')}, medians of {REPEATS}\n")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        with running_service() as (address, service), Client(address) as client:
            compare_builds(client, Path(folder))
            growth(client, psutil.Process(service.pid))
        with running_service("--no-worker") as (address, _), Client(address) as client:
            acceptance(client)


def compare_builds(client: Client, folder: Path) -> None:
    """Accepting and building through the service against a fresh process that only builds."""
    print("| network | first, compiling | POST | accepted to ready | TensorRT-RTX alone | ratio | over | limit |")
    print("|---|---|---|---|---|---|---|---|")
    for workload in (mlp_block(), blocks(24, 1024)):
        model = folder / f"{workload.name}.onnx"
        model.write_bytes(workload.model.SerializeToString())
        first = through_service(client, workload, model)
        direct = Direct(client, workload, folder / workload.name)
        ours, alone = [], []
        for _ in range(REPEATS):
            ours.append(through_service(client, workload, model))
            alone.append(direct.run())
        post, built = (statistics.median(each) for each in zip(*ours, strict=True))
        report(workload.name, first[1], post, built, statistics.median(alone))


def report(name: str, first: float, post: float, built: float, alone: float) -> None:
    limit = FACTOR * alone + GRACE
    print(f"| {name} | {first:.2f} s | {post:.2f} s | {built:.2f} s | {alone:.2f} s | {built / alone:.2f} "
          f"| {built - alone:+.2f} s | {limit:.2f} s {'kept' if built <= limit else 'NOT kept'}, "
          f"with POST {'kept' if post + built <= limit else 'NOT kept'} |", flush=True)  # fmt: skip


def through_service(client: Client, workload: Workload, model: Path) -> tuple[float, float]:
    """Seconds until the service has accepted the network, and from then until the engine is ready."""
    options = {"name": workload.name, "backend": "tensorrt_rtx", "targets": TARGETS, "profiles": [workload.profile],
               "no_cache": True}  # fmt: skip
    began = time.perf_counter()
    engine = client.build_onnx(model, options)
    accepted = time.perf_counter()
    while engine["status"] in ("queued", "building"):
        time.sleep(LOOK)
        engine = client.engine(engine["id"])
    if engine["status"] != "ready":
        raise SystemExit(f"{workload.name}: {engine['error']}")
    return accepted - began, time.perf_counter() - accepted


@dataclass
class Direct:
    """The peer: the model that the service built, in the form that TensorRT's parser takes, and the same kernels."""

    client: Client
    workload: Workload
    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        model, weights = split(self.client.model(self.workload.name))
        nodes = plugin_nodes(model, discover())
        dress(model, weights, nodes)
        (self.folder / "model.onnx").write_bytes(join(model, weights))
        for plugin in {plugin for _, plugin in nodes}:
            images = self.folder / "images" / plugin.name
            images.mkdir(parents=True)
            for target in IMAGES:
                (images / target).write_bytes(compile_image(plugin.source(), target, self.folder / "cache"))

    def run(self) -> float:
        """Seconds of a fresh process, start included."""
        files = [self.folder / "model.onnx", self.folder / "plan", json.dumps(self.workload.profile)]
        command = [sys.executable, "-m", "benchmarks.direct", *files, self.folder / "images", *TARGETS]
        began = time.perf_counter()
        subprocess.run(command, env=child_environment(self.folder / "lib"), check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began


def acceptance(client: Client) -> None:
    """`POST /engines` for a network of 100 nodes, nothing being built meanwhile."""
    body = {"name": "hundred", "network": hundred_nodes(), "targets": TARGETS, "backend": "tensorrt_rtx"}
    times = sorted(timed(lambda: client.build_json(body)) for _ in range(60))
    print(f"\nPOST /engines, 100 nodes: p50 {times[30] * 1e3:.1f} ms, "
          f"p95 {times[56] * 1e3:.1f} ms, slowest {times[-1] * 1e3:.1f} ms (limit 50 ms)")  # fmt: skip


def growth(client: Client, process: psutil.Process) -> None:
    """What the HTTP process itself grows by between its 100th and its 5,000th inference."""
    network = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 256]}],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    client.wait(client.build_json({"name": "relu", "network": network, "backend": "onnxruntime"})["id"])
    x = np.ones((1, 256), np.float32)
    for count in range(1, 5001):
        client.infer("relu", {"x": x})
        if count == 100:
            before = process.memory_full_info().uss
    grown = (process.memory_full_info().uss - before) / MIB
    print(f"\nThe HTTP process from its 100th to its 5,000th inference: {grown:+.2f} MiB (limit 5 MiB)")


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
