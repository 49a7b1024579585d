"""What becomes of builds whose worker was not heard from until its lease ran out."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from service.errors import BuildFailed, problem_details
from service.store.database import Database
from service.store.identifiers import new_id
from service.store.models import BuildRow, EngineRow, LogRow
from service.store.states import end, locked_query, requeue


def recover(database: Database, attempts: int) -> list[str]:
    """Ends or queues again what has lost its worker, and gives the ids of these engines."""
    with database.read() as session:
        if session.scalars(select(BuildRow.engine_id).where(_lost(database.now(session))).limit(1)).first() is None:
            return []
    with database.write() as session:
        now = database.now(session)
        rows = session.scalars(locked_query(skip_locked=True).where(_lost(now))).all()
        for row in rows:
            _recover_one(session, row, attempts, now)
        return [row.id for row in rows]


def _lost(now: datetime) -> ColumnElement[bool]:
    return and_(BuildRow.token.is_not(None), BuildRow.lease_until < now)


def _recover_one(session: Session, row: EngineRow, attempts: int, now: datetime) -> None:
    build = row.build
    lost = f"worker {build.worker} was lost during attempt {build.attempts} of {attempts}"
    session.add(LogRow(id=new_id(), engine_id=row.id, text=f"{lost}\n"))
    if build.attempts >= attempts or build.cancel_requested:
        end(row, "failed", now, problem_details(BuildFailed(f"given up: {lost}")))
        return
    requeue(row, now)
