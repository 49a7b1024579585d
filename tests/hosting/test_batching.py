"""Requests that run as one get exactly what they would have got alone."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from onnx import helper

from service.errors import ExecutionFailed

BATCHING = {"max_batch": 8, "max_delay_us": 20_000}


@pytest.fixture
def counting(models):
    """y = x + rows that run together, so that every answer says how many rows ran with it."""

    def made(**serving):
        engine = models.relu(batching=BATCHING, **serving)
        nodes = [
            helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
            helper.make_node("Cast", ["rows"], ["count"], to=1),
            helper.make_node("Add", ["x", "count"], ["y"]),
        ]
        engine.model.graph.ClearField("node")
        engine.model.graph.node.extend(nodes)
        return engine

    return made


async def ask(hosts, engine, x):
    (y,) = await hosts.infer(engine, False, {"x": x}, ["y"])
    return y


async def test_rows_are_joined_up_to_the_limit_and_split_exactly(opened, counting):
    requests = [np.full((rows, 4), 100.0 * i, np.float32) for i, rows in enumerate((1, 2, 3, 2, 1, 6))]
    async with opened() as hosts:
        answers = await asyncio.gather(*(ask(hosts, counting(), x) for x in requests))
    together = [int((y - x)[0, 0]) for x, y in zip(requests, answers, strict=True)]
    for x, y, count in zip(requests, answers, together, strict=True):
        assert y.shape == x.shape and (y == x + count).all()
    assert together == [8, 8, 8, 8, 7, 7]


async def test_only_what_agrees_beyond_the_rows_is_joined(opened, counting):
    shapes = [(1, 4), (1, 5), (2, 4), (2, 5), (0, 4)]
    async with opened() as hosts:
        requests = [np.zeros(shape, np.float32) for shape in shapes]
        answers = await asyncio.gather(*(ask(hosts, counting(), x) for x in requests))
    assert [y.shape for y in answers] == shapes
    assert [int(y.max()) for y in answers[:4]] == [3, 3, 3, 3]


async def test_one_bad_request_fails_alone(opened, models):
    """Row values choose what is gathered: 9 is out of range."""
    engine = models.relu(batching=BATCHING)
    engine.model.graph.ClearField("node")
    engine.model.graph.node.extend(
        [
            helper.make_node("Constant", [], ["table"], value_floats=[5.0, 6.0, 7.0]),
            helper.make_node("Cast", ["x"], ["index"], to=7),
            helper.make_node("Gather", ["table", "index"], ["y"]),
        ]
    )
    async with opened() as hosts:
        requests = [np.full((1, 1), value, np.float32) for value in (0, 9, 2)]
        answers = await asyncio.gather(*(ask(hosts, engine, x) for x in requests), return_exceptions=True)
    assert answers[0] == 5 and answers[2] == 7
    assert isinstance(answers[1], ExecutionFailed)


async def test_an_engine_that_mixes_rows_is_answered_one_by_one(opened, models):
    """Its output has one row, whatever the input."""
    engine = models.relu(batching=BATCHING)
    engine.model.graph.ClearField("node")
    engine.model.graph.node.append(helper.make_node("ReduceSum", ["x"], ["y"]))
    async with opened() as hosts:
        answers = await asyncio.gather(*(ask(hosts, engine, np.full((2, 1), i, np.float32)) for i in range(3)))
    assert [float(y.sum()) for y in answers] == [0, 2, 4]


async def test_engines_without_a_batch_dimension_are_served_as_ever(opened, models):
    async with opened() as hosts:
        engine = models.slow(batching=BATCHING, instances=2)
        counts = await asyncio.gather(
            *(hosts.infer(engine, False, {"times": np.array(i)}, ["count"]) for i in range(4))
        )
        assert [int(count) for (count,) in counts] == [0, 1, 2, 3]


async def test_who_has_left_is_not_joined(opened, counting):
    async with opened() as hosts:
        x = np.zeros((1, 4), np.float32)
        await ask(hosts, counting(), x)
        tasks = [asyncio.create_task(ask(hosts, counting(), x)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers.pop(1), asyncio.CancelledError)
        assert [float(answer.max()) for answer in answers] == [3, 3, 3]
