"""Engines in real host processes: right answers, whoever else asks, leaves, or crashes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from service.errors import Conflict, DeadlineExceeded, PlanDamaged, ServiceError, Unavailable
from service.hosting.limits import Limits

NEVER = {"times": np.array(10**9)}
X = {"x": np.array([[-1.0, 2.0]], np.float32)}


def host_pid(hosts) -> int:
    return hosts.pids["cpu"]


async def started(hosts, engine, inputs=NEVER) -> asyncio.Task:
    """A request that is being run."""
    task = asyncio.create_task(hosts.infer(engine, False, inputs, ["count"]))
    while not hosts.running(engine.id):
        await asyncio.sleep(0.01)
    return task


async def test_it_answers_and_keeps_the_order_asked_for(opened, models):
    async with opened() as hosts:
        (y,) = await hosts.infer(models.relu(), False, X, ["y"])
        assert y.tolist() == [[0.0, 2.0]]


async def test_every_request_gets_its_own_answer(opened, models):
    """16 at once, shapes alternate, request i sends the constant i."""
    engine = models.relu(instances=4)

    async def ask(hosts, i: int) -> None:
        for turn in range(25):
            shape = ((1, 256), (3, 5), (64, 1024), (0, 4))[(i + turn) % 4]
            (y,) = await hosts.infer(engine, False, {"x": np.full(shape, i, np.float32)}, ["y"])
            assert y.shape == shape and (y == i).all()

    async with opened() as hosts:
        await asyncio.gather(*(ask(hosts, i) for i in range(16)))


async def test_what_the_arena_has_no_room_for_is_answered_all_the_same(opened, models):
    async with opened(limits=Limits(arena=64 * 1024)) as hosts:
        for rows in (1, 3000, 5, 3000):
            x = np.random.default_rng(rows).standard_normal((rows, 100)).astype(np.float32)
            (y,) = await hosts.infer(models.relu(), False, {"x": x}, ["y"])
            assert (y == np.maximum(x, 0)).all()


async def test_large_outputs_stay_as_they_are_while_they_are_held(opened, models):
    async with opened() as hosts:
        held = []
        for i in range(8):
            x = np.full((300, 300), i, np.float32)
            held += await hosts.infer(models.relu(), False, {"x": x}, ["y"])
    assert [float(y.min()) for y in held] == [float(y.max()) for y in held] == list(range(8))


async def test_concurrent_first_requests_load_once(opened, models):
    loads = []

    def materialise(engine, reference, folder: Path) -> Path:
        loads.append(engine.id)
        (folder / "plan").write_bytes(engine.model.SerializeToString())
        return folder / "plan"

    async with opened(materialise=materialise) as hosts:
        engine = models.relu()
        await asyncio.gather(*(hosts.infer(engine, False, X, ["y"]) for _ in range(8)))
        assert loads == ["relu"]
        await hosts.unload("relu")
        await hosts.infer(engine, False, X, ["y"])
        assert loads == ["relu", "relu"]


async def test_what_loading_raises_is_the_answer_and_the_next_request_tries_again(opened, models):
    reasons = [PlanDamaged("the plan is damaged"), Conflict("built for another GPU")]

    def materialise(engine, reference, folder: Path) -> Path:
        if reasons:
            raise reasons.pop()
        (folder / "plan").write_bytes(engine.model.SerializeToString())
        return folder / "plan"

    async with opened(materialise=materialise) as hosts:
        with pytest.raises(Conflict, match="another GPU"):
            await hosts.infer(models.relu(), False, X, ["y"])
        with pytest.raises(PlanDamaged):
            await hosts.infer(models.relu(), False, X, ["y"])
        await hosts.infer(models.relu(), False, X, ["y"])


async def test_a_file_that_is_no_plan_is_an_error_of_that_engine_alone(opened, models):
    def materialise(engine, reference, folder: Path) -> Path:
        (folder / "plan").write_bytes(b"no plan" if engine.id == "slow" else engine.model.SerializeToString())
        return folder / "plan"

    async with opened(materialise=materialise) as hosts:
        with pytest.raises(ServiceError) as caught:
            await hosts.infer(models.slow(), False, NEVER, ["count"])
        assert str(hosts) not in str(caught.value)
        await hosts.infer(models.relu(), False, X, ["y"])


async def test_killed_host_fails_the_request_in_it_and_the_next_one_is_right(opened, models):
    async with opened() as hosts:
        running = await started(hosts, models.slow())
        os.kill(host_pid(hosts), signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="SIGKILL") as caught:
            await running
        assert caught.value.retry_after is not None
        assert (await hosts.infer(models.relu(), False, X, ["y"]))[0].tolist() == [[0.0, 2.0]]
        assert time.monotonic() - begun < 5  # 2 on an idle machine


async def test_an_engine_that_crashes_is_named_with_its_signal(opened, models):
    async with opened() as hosts:
        await hosts.infer(models.crashing(), False, models.attention_inputs(1), ["y"])
        with pytest.raises(Unavailable, match="SIGFPE"):
            await hosts.infer(models.crashing(), False, models.attention_inputs(0), ["y"])
        await hosts.infer(models.crashing(), False, models.attention_inputs(1), ["y"])


async def test_requests_that_wait_survive_the_host(opened, models):
    async with opened() as hosts:
        running = await started(hosts, models.slow())
        waiting = asyncio.create_task(hosts.infer(models.slow(), False, {"times": np.array(3)}, ["count"]))
        await asyncio.sleep(0)
        os.kill(host_pid(hosts), signal.SIGKILL)
        with pytest.raises(Unavailable):
            await running
        assert (await waiting)[0] == 3


async def test_deadlines(opened, models):
    async with opened() as hosts:
        with pytest.raises(DeadlineExceeded, match="slow:1"):
            await hosts.infer(models.slow(), False, NEVER, ["count"], deadline=0.5)
        with pytest.raises(DeadlineExceeded):  # the first is still in the host, this one never starts
            await hosts.infer(models.slow(timeout_us=1000), False, NEVER, ["count"])
        await hosts.infer(models.relu(), False, X, ["y"])


async def test_a_full_queue_refuses(opened, models):
    engine = models.slow(instances=1, queue=2)
    async with opened() as hosts:
        tasks = [asyncio.create_task(hosts.infer(engine, False, NEVER, ["count"])) for _ in range(3)]
        await started(hosts, engine)
        with pytest.raises(Unavailable, match="2 requests wait"):
            await hosts.infer(engine, False, NEVER, ["count"])
        for task in tasks:
            task.cancel()


async def test_clients_that_gave_up_are_not_served_before_one_that_waits(opened, models):
    """Many leave; only what had been started for them keeps the next one waiting."""
    engine = models.slow()
    async with opened() as hosts:
        await hosts.infer(engine, False, {"times": np.array(1)}, ["count"])
        work = {"times": np.array(10**5)}
        begun = time.monotonic()
        await hosts.infer(engine, False, work, ["count"])
        once = time.monotonic() - begun
        leaving = [asyncio.create_task(hosts.infer(engine, False, work, ["count"])) for _ in range(30)]
        await asyncio.sleep(once / 5)
        for task in leaving:
            task.cancel()
        begun = time.monotonic()
        await hosts.infer(engine, False, work, ["count"])
        assert time.monotonic() - begun < 10 * once


async def test_instances_of_an_engine_run_at_once_and_engines_do_not_wait_for_each_other(opened, models):
    async with opened() as hosts:
        engine = models.slow(instances=2)
        first = await started(hosts, engine)
        assert (await hosts.infer(engine, False, {"times": np.array(5)}, ["count"]))[0] == 5
        await hosts.infer(models.relu(), False, X, ["y"])
        first.cancel()


async def test_a_run_that_turns_out_long_holds_nothing_up(opened, models):
    """The host expects a short run after many short ones; another engine answers while this one does not end."""
    engine = models.slow()
    async with opened() as hosts:
        for _ in range(20):
            await hosts.infer(engine, False, {"times": np.array(1)}, ["count"])
        await hosts.infer(models.relu(), False, X, ["y"])
        long = await started(hosts, engine)
        await asyncio.wait_for(hosts.infer(models.relu(), False, X, ["y"]), 10)
        long.cancel()


async def test_closing_answers_what_is_under_way_and_refuses_the_rest(opened, models):
    async with opened() as hosts:
        await hosts.infer(models.slow(), False, {"times": np.array(1)}, ["count"])
        under_way = await started(hosts, models.slow(), {"times": np.array(10**5)})
        pid = host_pid(hosts)
        closing = asyncio.create_task(hosts.close(patience=30))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            await hosts.infer(models.relu(), False, X, ["y"])
        assert (await under_way)[0] == 10**5
        await closing
        assert not Path(f"/proc/{pid}").exists()
