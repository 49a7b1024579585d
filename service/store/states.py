"""How a row is found, locked and brought to its end: what users' calls and workers' calls share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, joinedload

from service.store.models import BuildRow, EngineRow
from service.store.records import Engine, engine_from_row


def engine_query() -> Select[EngineRow]:
    """Engines with all that `engine_from_row` reads, in one query."""
    build, model, plan = (joinedload(relation) for relation in (EngineRow.build, EngineRow.model, EngineRow.plan))
    return select(EngineRow).options(build, model, plan)


def locked_query(skip_locked: bool = False) -> Select[EngineRow]:
    """Engines joined with their builds, both locked until the transaction ends."""
    return select(EngineRow).join(BuildRow).with_for_update(of=(EngineRow, BuildRow), skip_locked=skip_locked)


def end(row: EngineRow, status: str, now: datetime, error: dict[str, Any] | None = None) -> None:
    """A build that was asked to be cancelled ends so, however it went; an engine that was built stays what it is."""
    row.status, row.error = ("cancelled", None) if row.build.cancel_requested else (status, error)
    row.updated_at = now
    row.build.token = row.build.lease_until = None
    row.build.ended_at = now


def requeue(row: EngineRow, now: datetime) -> None:
    """Back to the queue, with nothing left of the attempt but its number."""
    row.status, row.updated_at = "queued", now
    build = row.build
    build.token = build.worker = build.lease_until = build.started_at = None
    build.phase, build.fraction = "", 0.0


def flushed(session: Session, row: EngineRow) -> Engine:
    session.flush()
    session.expire(row, ["build", "model", "plan"])
    return engine_from_row(row)
