"""Many requests: every answer is right, and neither process grows."""

from __future__ import annotations

import asyncio
import gc
import os

import numpy as np
import psutil
from onnx import helper

MIB = 2**20
REQUESTS, SETTLED, AT_ONCE = 10_000, 1_000, 8
SHAPES = [(1, 256), (3, 7), (64, 64), (200, 300)]


def resident(pid: int) -> int:
    return psutil.Process(pid).memory_info().rss


async def test_three_engines_and_four_shapes_in_turns(opened, models):
    relu, engines = models.relu(instances=AT_ONCE), []
    for operator in ("Relu", "Neg", "Abs"):
        engine = type(relu)(operator, models.relu().model, relu.serving)
        engine.model.graph.ClearField("node")
        engine.model.graph.node.append(helper.make_node(operator, ["x"], ["y"]))
        engines.append((engine, {"Relu": lambda x: np.maximum(x, 0), "Neg": np.negative, "Abs": np.abs}[operator]))
    arrays = [np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(SHAPES)]
    numbers = iter(range(REQUESTS))
    settled: list[int] = []

    async def ask() -> None:
        for number in numbers:
            (engine, function), x = engines[number % 3], arrays[number % 4]
            (y,) = await hosts.infer(engine, False, {"x": x + number}, ["y"])
            assert y.shape == x.shape and (y == function(x + number)).all()
            if number == SETTLED:
                settled.extend(map(resident, (os.getpid(), hosts.pids["cpu"])))

    async with opened() as hosts:
        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        gc.collect()
        grown = [resident(pid) - before for pid, before in zip((os.getpid(), hosts.pids["cpu"]), settled, strict=True)]
    assert max(grown) < 5 * MIB, grown
