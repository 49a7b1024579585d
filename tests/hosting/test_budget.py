"""Engines give way to each other within a device's budget, and never while they are in use."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import helper, numpy_helper

from service.errors import Unavailable
from service.hosting.budget import Budget
from service.hosting.limits import Limits

MIB = 2**20


def tenant(last_used: float, evictable: bool = True) -> SimpleNamespace:
    class Tenant(SimpleNamespace):
        __hash__ = object.__hash__

    return Tenant(label="a", last_used=last_used, evictable=evictable)


def test_the_least_recently_used_go_first_and_no_more_than_needed():
    budget: Budget = Budget(100)
    old, used, young = tenant(1), tenant(0, evictable=False), tenant(2)
    for each in (young, old, used):
        budget.enter(each, 30)
    assert budget.victims(10, "new") == []
    assert budget.victims(11, "new") == [old]
    assert budget.victims(70, "new") == [old, young]
    with pytest.raises(Unavailable, match=r"new takes 71 bytes.*may take 100.*take 30"):
        budget.victims(71, "new")
    budget.leave(used)
    assert budget.victims(71, "new") == [old, young]


@pytest.fixture
def heavy(models):
    """Engines of a MiB or more each; engine i adds i."""

    def made(i: int, rows: int = 2**18, **serving):
        constant = numpy_helper.from_array(np.full((rows, 1), i, np.float32), "constant")
        nodes = [helper.make_node("Add", ["x", "constant"], ["sum"]), helper.make_node("ReduceMean", ["sum"], ["y"])]
        engine = models.relu(**serving)
        engine.model.graph.ClearField("node")
        engine.model.graph.node.extend(nodes)
        engine.model.graph.initializer.append(constant)
        engine.model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [1, 1]))
        return type(engine)(f"heavy{i}", engine.model, serving)

    return made


X = {"x": np.zeros((1, 1), np.float32)}


async def test_a_hundred_engines_answer_under_a_budget_for_ten(opened, heavy):
    async with opened(limits=Limits(memory=20 * MIB)) as hosts:

        async def ask(i: int) -> float:
            (y,) = await hosts.infer(heavy(i), False, X, ["y"])
            return float(y[0, 0])

        for first in range(0, 100, 4):  # a few at a time: what is in use cannot give way
            assert await asyncio.gather(*map(ask, range(first, first + 4))) == list(range(first, first + 4))
        assert [await ask(i) for i in (0, 99, 0)] == [0, 99, 0]


async def test_what_does_not_fit_is_refused_with_sizes_and_harms_nobody(opened, heavy):
    async with opened(limits=Limits(memory=40 * MIB)) as hosts:
        assert (await hosts.infer(heavy(1), False, X, ["y"]))[0][0, 0] == 1
        with pytest.raises(Unavailable, match=r"heavy2:1 takes 4\d{7} bytes.*may take 41943040"):
            await hosts.infer(heavy(2, rows=10 * 2**20 + 1000), False, X, ["y"])
        assert (await hosts.infer(heavy(1), False, X, ["y"]))[0][0, 0] == 1


async def test_pinned_engines_stay(opened, heavy):
    async with opened(limits=Limits(memory=40 * MIB)) as hosts:
        await hosts.infer(heavy(1, rows=5 * 2**20, pinned=True), False, X, ["y"])
        with pytest.raises(Unavailable, match="pinned"):
            await hosts.infer(heavy(2, rows=6 * 2**20), False, X, ["y"])
