"""Hosts that stop answering, engines that crash again and again, and the ones beside them."""

from __future__ import annotations

import asyncio
import os
import signal

import numpy as np
import pytest

from service.errors import Conflict, DeadlineExceeded, ServiceError, Unavailable
from service.hosting.limits import Limits
from service.hosting.suspicion import Suspicion

X = {"x": np.array([[-1.0, 2.0]], np.float32)}


async def crash(hosts, engine, models) -> ServiceError:
    """The answer to a request that ends the host, once the host is no longer kept down."""
    while True:
        try:
            await hosts.infer(engine, False, models.attention_inputs(0), ["y"])
        except Unavailable as error:
            if "stays down" not in error.detail:
                return error
            assert error.retry_after is not None
            await asyncio.sleep(error.retry_after)
        except ServiceError as error:
            return error


async def test_an_engine_that_crashes_three_times_in_a_row_is_given_up_and_reported(opened, models):
    reported = []
    limits = Limits(back_off=0.05)
    async with opened(limits=limits, on_engine_failed=lambda *told: reported.append(told)) as hosts:
        for _ in range(3):
            assert isinstance(await crash(hosts, models.crashing(), models), Unavailable)
        assert isinstance(await crash(hosts, models.crashing(), models), Conflict)
        while True:  # the others go on as soon as the host may start again
            try:
                await hosts.infer(models.relu(), False, X, ["y"])
                break
            except Unavailable as error:
                await asyncio.sleep(error.retry_after)
    ((engine, error),) = reported
    assert engine == "crashing" and "3 times in a row" in error.detail


async def test_an_engine_that_answers_in_between_is_not_given_up(opened, models):
    async with opened(limits=Limits(back_off=0.01)) as hosts:
        for _ in range(4):
            assert isinstance(await crash(hosts, models.crashing(), models), Unavailable)
            await hosts.infer(models.crashing(), False, models.attention_inputs(1), ["y"])


async def test_a_crashing_reference_is_given_up_but_its_engine_is_not_reported(opened, models):
    reported = []
    async with opened(limits=Limits(crashes=1), on_engine_failed=lambda *told: reported.append(told)) as hosts:
        with pytest.raises(Unavailable):
            await hosts.infer(models.crashing(), True, models.attention_inputs(0), ["y"])
        with pytest.raises(Conflict):
            await hosts.infer(models.crashing(), True, models.attention_inputs(1), ["y"])
        await hosts.infer(models.crashing(), False, models.attention_inputs(1), ["y"])
    assert not reported


async def test_a_host_that_does_not_answer_is_ended(opened, models):
    async with opened(limits=Limits(heartbeat=0.05, heartbeat_patience=0.3)) as hosts:
        await hosts.infer(models.relu(), False, X, ["y"])
        os.kill(hosts.pids["cpu"], signal.SIGSTOP)
        with pytest.raises(Unavailable, match=r"did not answer for 0\.3 s"):
            await hosts.infer(models.relu(), False, X, ["y"])
        await hosts.infer(models.relu(), False, X, ["y"])


async def test_a_busy_host_answers_its_heartbeat(opened, models):
    async with opened(limits=Limits(heartbeat=0.05, heartbeat_patience=1)) as hosts:
        await hosts.infer(models.slow(), False, {"times": np.array(1)}, ["count"])
        pid = hosts.pids["cpu"]
        with pytest.raises(DeadlineExceeded):
            await hosts.infer(models.slow(), False, {"times": np.array(10**9)}, ["count"], deadline=1.5)
        assert hosts.pids["cpu"] == pid


async def test_an_engine_that_does_not_come_back_ends_its_host(opened, models):
    async with opened(limits=Limits(run_patience=0.2), request_timeout=0.5) as hosts:
        engine = models.slow(instances=2)
        await hosts.infer(engine, False, {"times": np.array(1)}, ["count"], deadline=20)
        pid = hosts.pids["cpu"]
        with pytest.raises(DeadlineExceeded):
            await hosts.infer(engine, False, {"times": np.array(10**9)}, ["count"], deadline=0.1)
        while hosts.pids.get("cpu") == pid:
            await asyncio.sleep(0.02)
        await hosts.infer(models.relu(), False, X, ["y"], deadline=20)


class Engine:
    def __init__(self, running: int = 0, waiting: int = 0) -> None:
        self.crashes = 0
        self.running, self.waiting, self.pumped = running, waiting, 0

    @property
    def busy(self) -> bool:
        return self.running > 0

    @property
    def wanting(self) -> bool:
        return self.waiting > 0

    def pump(self) -> None:
        self.pumped += 1


def test_of_several_engines_in_a_host_that_died_none_is_blamed_and_each_runs_alone():
    suspicion: Suspicion[Engine] = Suspicion()
    guilty, innocent, absent = Engine(waiting=1), Engine(waiting=1), Engine(waiting=1)
    suspicion.members = [guilty, innocent, absent]
    assert suspicion.crashed([guilty, innocent]) is None
    assert guilty.crashes == innocent.crashes == 0
    assert not suspicion.may_start(absent)
    assert suspicion.may_start(guilty)
    guilty.running, guilty.waiting = 1, 0
    assert not suspicion.may_start(innocent)
    assert suspicion.crashed([guilty]) is guilty and guilty.crashes == 1
    guilty.running = 0
    assert suspicion.may_start(innocent)
    innocent.waiting = 0
    suspicion.cleared(innocent)
    assert absent.pumped and suspicion.may_start(absent)


def test_a_suspect_that_nobody_asks_for_holds_nothing_up():
    suspicion: Suspicion[Engine] = Suspicion()
    suspect, other = Engine(), Engine(running=1, waiting=1)
    suspicion.members = [suspect, other]
    suspicion.crashed([suspect])
    assert suspicion.may_start(other)
