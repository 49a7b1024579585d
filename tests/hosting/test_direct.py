"""Large outputs come from where the engine wrote them, whatever shapes and values alternate."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from service.errors import ExecutionFailed

COUNT = 100_000


async def ask(hosts, engine, x):
    (y,) = await hosts.infer(engine, False, {"x": x}, ["y"])
    return y


async def test_alternating_shapes_give_the_same_as_the_first_time(opened, models):
    shapes = [(300, 300), (1, 90_000), (300, 301), (2, 3)]
    given = [np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)]
    async with opened() as hosts:
        for _ in range(5):
            for x in given:
                assert (await ask(hosts, models.relu(), x) == np.maximum(x, 0)).all()


@pytest.mark.parametrize("kept", [[COUNT, COUNT // 2, COUNT, 0, COUNT], [COUNT // 2, COUNT, COUNT, COUNT - 1]])
async def test_outputs_whose_shape_follows_from_values(opened, models, kept):
    """What was expected from the run before is wrong again and again."""
    engine = models.relu()
    engine.model.graph.ClearField("node")
    engine.model.graph.node.extend(
        [helper.make_node("Cast", ["x"], ["chosen"], to=9), helper.make_node("Compress", ["x", "chosen"], ["y"])]
    )
    engine.model.graph.input[0].type.tensor_type.shape.ClearField("dim")
    engine.model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = "count"
    engine.model.graph.output[0].type.tensor_type.shape.ClearField("dim")
    engine.model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "kept"
    async with opened() as hosts:
        for count in kept:
            x = np.zeros(COUNT, np.float32)
            x[:count] = np.arange(1, count + 1)
            assert (await ask(hosts, engine, x) == x[:count]).all()


async def test_what_fails_says_why(opened, models):
    engine = models.relu()
    engine.model.graph.ClearField("node")
    nodes = [
        helper.make_node("Cast", ["x"], ["index"], to=7),
        helper.make_node("Gather", ["x", "index"], ["y"], axis=1),
    ]
    engine.model.graph.node.extend(nodes)
    engine.model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "more"
    x = np.zeros((2, COUNT), np.float32)
    async with opened() as hosts:
        for _ in range(2):
            assert (await ask(hosts, engine, x[:, :200])).shape == (2, 2, 200)
            with pytest.raises(ExecutionFailed, match="indices element out of data bounds"):
                await ask(hosts, engine, x[:, :200] + 200)
