from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from service.store.blobs import Blobs
from service.store.claims import Claim, ClaimLost, Claims, Renewal
from service.store.database import Database
from service.store.engines import Engines
from tests.store.building import BUILT, PROBLEM, new, rows


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan"
    path.write_bytes(b"\x00\x80\xff plan")
    return path


def claimed(claims: Claims, lease: float = 60) -> Claim:
    claim = claims.claim("worker", lease)
    assert claim
    return claim


def robbed(claims: Claims) -> tuple[Claim, Claim]:
    """The claim of a worker that slept past its lease, and of the one that has the build now."""
    slow = claimed(claims, lease=0.01)
    time.sleep(0.05)
    assert claims.recover(attempts=3) == [slow.engine.id]
    return slow, claimed(claims)


def test_highest_priority_first_and_the_oldest_of_these(engines: Engines, claims: Claims) -> None:
    low, high, also_high = (engines.create(new(priority=priority)).id for priority in (0, 7, 7))
    assert [claimed(claims).engine.id for _ in range(3)] == [high, also_high, low]
    assert claims.claim("worker", 60) is None


def test_a_claim_says_what_to_build(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new(targets=["sm_86"]))
    claim = claimed(claims)
    assert (claim.engine.id, claim.engine.status, claim.engine.targets) == (engine.id, "building", ("sm_86",))
    assert (claim.attempt, claim.engine.attempts, claim.engine.model) == (1, 1, engine.model)
    assert engines.get(engine.id).status == "building"


def test_every_build_is_claimed_once_by_four_workers(url: str, engines: Engines) -> None:
    created = sorted(engines.create(new()).id for _ in range(20))

    def work(number: int) -> list[str]:
        claims = Claims(Database(url))
        return [claim.engine.id for claim in iter(lambda: claims.claim(f"worker {number}", 60), None)]

    with ThreadPoolExecutor(4) as pool:
        assert sorted(chain.from_iterable(pool.map(work, range(4)))) == created


def test_progress_is_shown_while_building(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    claim = claimed(claims)
    before = engines.get(engine.id)
    claims.advance(claim, "Building engine\0", 0.42)
    shown = engines.get(engine.id)
    assert (shown.phase, shown.fraction) == ("Building engine\ufffd", 0.42)
    assert shown.updated_at > before.updated_at and shown.seconds_building > 0


def test_a_log_keeps_its_order_and_any_text(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    claim = claimed(claims)
    pieces = [
        "first\n",
        "",
        "ü \u4e2d \U0001f600\n",
        "nul \0 and half a character \udc80\n",
        *(f"{n}\n" for n in range(20)),
    ]
    for piece in pieces:
        claims.append_log(claim, piece)
    assert engines.log(engine.id) == "".join(pieces).replace("\0", "\ufffd").replace("\udc80", "\ufffd")


def test_success_shows_plan_and_status_together(engines: Engines, claims: Claims, blobs: Blobs, plan: Path) -> None:
    engine = engines.create(new())
    done = claims.succeed(claimed(claims), plan, BUILT, cached=True)
    assert done == engines.get(engine.id)
    assert (done.status, done.cached, done.backend_version, done.targets) == ("ready", True, "1.7.1", ("sm_86",))
    assert (list(done.inputs), list(done.plugins)) == (BUILT["inputs"], BUILT["plugins"])
    assert done.plan and b"".join(blobs.chunks(done.plan.sha256)) == plan.read_bytes()


def test_failure_keeps_the_reason(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    claims.fail(claimed(claims), PROBLEM)
    failed = engines.get(engine.id)
    assert (failed.status, failed.error, failed.plan) == ("failed", PROBLEM, None)


ENDINGS: dict[str, Callable[[Claims, Claim, Path], object]] = {
    "succeed": lambda claims, claim, plan: claims.succeed(claim, plan, BUILT),
    "fail": lambda claims, claim, plan: claims.fail(claim, PROBLEM),
    "cancelled": lambda claims, claim, plan: claims.cancelled(claim),
}
CALLS: dict[str, Callable[[Claims, Claim, Path], object]] = {
    **ENDINGS,
    "advance": lambda claims, claim, plan: claims.advance(claim, "phase", 0.5),
    "append_log": lambda claims, claim, plan: claims.append_log(claim, "line"),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_build_asked_to_be_cancelled_ends_so(
    engines: Engines, claims: Claims, database: Database, plan: Path, ending: Callable[[Claims, Claim, Path], object]
) -> None:
    engine = engines.create(new())
    claim = claimed(claims)
    engines.request_cancel(engine.id)
    ending(claims, claim, plan)
    ended = engines.get(engine.id)
    assert (ended.status, ended.error, ended.plan) == ("cancelled", None, None)
    assert rows(database)["blobs"] == 1, "only the model"
    assert "staged" not in rows(database)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_robbed_worker_writes_nothing(
    engines: Engines, claims: Claims, database: Database, plan: Path, call: Callable[[Claims, Claim, Path], object]
) -> None:
    engines.create(new())
    slow, current = robbed(claims)
    before, counted = engines.get(current.engine.id), rows(database)
    assert claims.renew(slow, 60) is Renewal.LOST
    with pytest.raises(ClaimLost):
        call(claims, slow, plan)
    after = engines.get(current.engine.id)
    assert (after.status, after.fraction, after.updated_at) == ("building", 0.0, before.updated_at)
    assert rows(database) == counted
    assert claims.succeed(current, plan, BUILT).status == "ready"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_finished_build_takes_no_more(
    engines: Engines, claims: Claims, plan: Path, call: Callable[[Claims, Claim, Path], object]
) -> None:
    engines.create(new())
    claim = claimed(claims)
    done = claims.succeed(claim, plan, BUILT)
    assert claims.renew(claim, 60) is Renewal.LOST
    with pytest.raises(ClaimLost):
        call(claims, claim, plan)
    assert engines.get(done.id) == done


def test_a_worker_that_ends_gives_its_build_back(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    claim = claimed(claims)
    claims.advance(claim, "phase", 0.5)
    claims.release(claim)
    given_back = engines.get(engine.id)
    assert (given_back.status, given_back.attempts, given_back.fraction) == ("queued", 0, 0.0)
    with pytest.raises(ClaimLost):
        claims.release(claim)
    assert claimed(claims).attempt == 1


def test_a_build_given_back_that_was_to_be_cancelled_is(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    claim = claimed(claims)
    assert not claims.cancel_requested(claim)
    engines.request_cancel(engine.id)
    assert claims.cancel_requested(claim)
    claims.release(claim)
    assert engines.get(engine.id).status == "cancelled"
    assert not claims.cancel_requested(claim)


def test_a_worker_that_renews_is_not_robbed(engines: Engines, claims: Claims, plan: Path) -> None:
    engines.create(new())
    claim = claimed(claims, lease=1)
    for _ in range(4):
        time.sleep(0.4)
        assert claims.renew(claim, lease=1) is Renewal.KEPT
        assert claims.recover(attempts=3) == []
    assert claims.succeed(claim, plan, BUILT).status == "ready"


def test_a_worker_late_for_its_lease_but_not_robbed_may_still_commit(
    engines: Engines, claims: Claims, plan: Path
) -> None:
    engines.create(new())
    claim = claimed(claims, lease=0.01)
    time.sleep(0.05)
    assert claims.succeed(claim, plan, BUILT).status == "ready"


def test_exactly_one_of_two_workers_commits(url: str, engines: Engines, claims: Claims, plan: Path) -> None:
    """The first commits in the very moment in which a second takes its build over."""
    for _ in range(6):
        engine = engines.create(new(model=b"another model"))
        first = claimed(claims, lease=0.001)
        time.sleep(0.01)
        together = threading.Barrier(2)

        def commit(claim: Claim = first, together: threading.Barrier = together) -> bool:
            mine = Claims(Database(url))
            together.wait()
            try:
                mine.succeed(claim, plan, BUILT)
            except ClaimLost:
                return False
            return True

        def take_over(together: threading.Barrier = together) -> Claim | None:
            other = Claims(Database(url))
            together.wait()
            other.recover(attempts=3)
            return other.claim("second", 60)

        with ThreadPoolExecutor(2) as pool:
            committed, second = pool.submit(commit), pool.submit(take_over)
        assert committed.result() == (second.result() is None)
        assert engines.get(engine.id).status == ("ready" if committed.result() else "building")


def test_workers_are_alive_while_they_are_heard_from(claims: Claims) -> None:
    assert not claims.worker_alive(within=60)
    claims.beat("a")
    claims.beat("a")
    claims.beat("b")
    assert claims.worker_alive(within=60)
    claims.leave("a")
    assert claims.worker_alive(within=60)
    time.sleep(0.05)
    assert not claims.worker_alive(within=0.01)
    claims.leave("b")
    assert not claims.worker_alive(within=60)
