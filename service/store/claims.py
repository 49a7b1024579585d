"""The worker's side: claim a queued build, keep the claim alive, report, and end it.

A claim is a token in the build's row with a lease. Every write of a worker names its token, so a worker that was
stopped past its lease and robbed of its build cannot write anything any more.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, and_, delete, exists, select, update
from sqlalchemy.orm import Session

from service.store.database import Database
from service.store.identifiers import new_id
from service.store.models import BuildRow, EngineRow, LogRow, WorkerRow
from service.store.records import Engine
from service.store.recovery import recover
from service.store.staging import Staging
from service.store.states import end, flushed, locked_query, requeue

T = TypeVar("T")
FORGOTTEN = timedelta(days=1)


@dataclass(frozen=True)
class Claim:
    """The right to build an engine, as it stood when it was claimed. `attempt` counts from 1."""

    engine: Engine
    token: str
    attempt: int


class Renewal(enum.Enum):
    KEPT = "kept"
    CANCELLED = "cancelled"
    """Still ours, but somebody asked to cancel: stop and call `Claims.cancelled`."""
    LOST = "lost"
    """The lease ended and the build is another's, or the engine was deleted: stop, nothing of it can be stored."""


class ClaimLost(Exception):
    """The claim is not the current one; nothing was written."""


class Claims:
    """Every call with a claim raises ClaimLost where it is not the current one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._staging = Staging(database)

    def claim(self, worker: str, lease: float) -> Claim | None:
        """The queued build of highest priority, the oldest of them, for `lease` seconds. None where none waits."""
        queued = select(EngineRow).where(EngineRow.status == "queued")
        with self._database.read() as session:
            if session.scalars(queued.limit(1)).first() is None:
                return None
        first = queued.order_by(EngineRow.priority.desc(), EngineRow.id).limit(1).with_for_update(skip_locked=True)
        with self._database.write() as session:
            row = session.scalars(first).first()
            return self._claimed(session, row, worker, lease) if row else None

    def _claimed(self, session: Session, row: EngineRow, worker: str, lease: float) -> Claim:
        now = self._database.now(session)
        row.status, row.updated_at = "building", now
        build = row.build
        build.token, build.worker = new_id(), worker
        build.lease_until, build.started_at = now + timedelta(seconds=lease), now
        build.attempts += 1
        build.phase, build.fraction = "", 0.0
        token, attempt = build.token, build.attempts
        return Claim(flushed(session, row), token, attempt)

    def renew(self, claim: Claim, lease: float) -> Renewal:
        """Keeps the claim for another `lease` seconds; says whether to go on."""
        with self._database.write() as session:
            until = self._database.now(session) + timedelta(seconds=lease)
            renewed = update(BuildRow).where(_current(claim)).values(lease_until=until)
            flagged = session.scalars(renewed.returning(BuildRow.cancel_requested)).first()
        if flagged is None:
            return Renewal.LOST
        return Renewal.CANCELLED if flagged else Renewal.KEPT

    def cancel_requested(self, claim: Claim) -> bool:
        """Whether somebody asked to cancel; False also where the claim is lost, which `renew` says."""
        with self._database.read() as session:
            return bool(session.scalar(select(BuildRow.cancel_requested).where(_current(claim))))

    def release(self, claim: Claim) -> None:
        """Gives a build back to the queue, as if it had not been claimed: the worker ends for its own reasons.

        One that was to be cancelled is.
        """
        with self._database.write() as session:
            row = _held(session, claim)
            now = self._database.now(session)
            if row.build.cancel_requested:
                end(row, "cancelled", now)
                return
            row.build.attempts -= 1
            requeue(row, now)

    def advance(self, claim: Claim, phase: str, fraction: float) -> None:
        """Records how far the build is, 0 to 1."""
        with self._database.write() as session:
            values = {"phase": phase, "fraction": fraction, "advanced_at": self._database.now(session)}
            advanced = update(BuildRow).where(_current(claim)).values(values).returning(BuildRow.engine_id)
            _must_hold(session.scalars(advanced).first())

    def append_log(self, claim: Claim, text: str) -> None:
        with self._database.write() as session:
            held = select(BuildRow.engine_id).where(_current(claim)).with_for_update(read=True)
            engine_id = _must_hold(session.scalars(held).first())
            session.add(LogRow(id=new_id(), engine_id=engine_id, text=text))

    def succeed(self, claim: Claim, plan: Path, built: Mapping[str, Any], cached: bool = False) -> Engine:
        """Stores the plan and turns the engine ready, both in one commit; `built` is `Built.to_json`.

        A build that somebody asked to cancel meanwhile ends as cancelled.
        """
        with self._staging.staged(plan) as staged, self._database.write() as session:
            row = _held(session, claim)
            end(row, "ready", self._database.now(session))
            if row.status == "ready":
                row.plan_sha256 = self._staging.keep(session, staged).sha256
                row.cached, row.backend_version = cached, built["backend_version"]
                for name in ("targets", "inputs", "outputs", "plugins"):
                    setattr(row, name, list(built[name]))
            return flushed(session, row)

    def fail(self, claim: Claim, problem: dict[str, Any]) -> Engine:
        """Ends the build without a plan; `problem` are problem details."""
        return self._ended(claim, "failed", problem)

    def cancelled(self, claim: Claim) -> Engine:
        """Ends a build that was stopped because somebody asked for it."""
        return self._ended(claim, "cancelled", None)

    def _ended(self, claim: Claim, status: str, problem: dict[str, Any] | None) -> Engine:
        with self._database.write() as session:
            row = _held(session, claim)
            end(row, status, self._database.now(session), problem)
            return flushed(session, row)

    def recover(self, attempts: int) -> list[str]:
        """Takes builds from workers whose lease ran out and gives the ids of their engines.

        Each is queued again or, if that was the last of so many attempts, fails with the reason; one that was to be
        cancelled is. Any process may call this at any time.
        """
        self._staging.sweep()
        return recover(self._database, attempts)

    def beat(self, worker: str) -> None:
        """Says that a worker is there, building or not."""
        with self._database.write() as session:
            now = self._database.now(session)
            if not self._database.insert_new(session, WorkerRow, name=worker, seen_at=now):
                session.execute(update(WorkerRow).where(WorkerRow.name == worker).values(seen_at=now))
            session.execute(delete(WorkerRow).where(WorkerRow.seen_at < now - FORGOTTEN))

    def leave(self, worker: str) -> None:
        """Says that a worker has ended."""
        with self._database.write() as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name == worker))

    def worker_alive(self, within: float) -> bool:
        """Whether any worker was heard from in the last `within` seconds."""
        with self._database.read() as session:
            since = self._database.now(session) - timedelta(seconds=within)
            return bool(session.scalar(select(exists().where(WorkerRow.seen_at >= since))))


def _current(claim: Claim) -> ColumnElement[bool]:
    return and_(BuildRow.engine_id == claim.engine.id, BuildRow.token == claim.token)


def _held(session: Session, claim: Claim) -> EngineRow:
    return _must_hold(session.scalars(locked_query().where(_current(claim))).first())


def _must_hold(found: T | None) -> T:
    if found is None:
        raise ClaimLost
    return found
