"""Engines as their users see them: create, find, list, cancel, delete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from service.errors import Conflict, InvalidRequest, NotFound
from service.store.database import Database
from service.store.identifiers import new_id
from service.store.models import BuildRow, EngineRow, FileRow, LogRow, NameRow
from service.store.records import Engine, NewEngine, Page, engine_from_row
from service.store.references import engine_row
from service.store.staging import Staged, Staging
from service.store.states import end, engine_query, flushed, locked_query


class Engines:
    """Where a `reference` stands: an id, `NAME` (its newest ready version, else its newest) or `NAME:3`.

    Every call raises NotFound for what is not there. They wait for the database: from asyncio, call them in threads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._staging = Staging(database)

    def create(self, new: NewEngine) -> Engine:
        """Queues a build under the next version of its name."""
        with ExitStack() as stack:
            model = stack.enter_context(self._staging.staged(new.model))
            files = {place: stack.enter_context(self._staging.staged(path)) for place, path in new.data.items()}
            return self._queued(new, model, files)

    def _queued(self, new: NewEngine, model: Staged, files: Mapping[str, Staged]) -> Engine:
        with self._database.write() as session:
            row = self._row_from_new(session, new)
            for staged in sorted([model, *files.values()], key=lambda staged: staged.blob.sha256):
                self._staging.keep(session, staged)
            row.model_sha256 = model.blob.sha256
            session.add(row)
            session.flush()
            session.add_all(
                FileRow(engine_id=row.id, number=number, location=location, sha256=staged.blob.sha256)
                for number, (location, staged) in enumerate(files.items())
            )
            session.add(BuildRow(engine_id=row.id))
            return flushed(session, row)

    def _row_from_new(self, session: Session, new: NewEngine) -> EngineRow:
        now = self._database.now(session)
        return EngineRow(
            id=new_id(),
            name=new.name,
            version=self._next_version(session, new.name),
            status="queued",
            backend=new.backend,
            targets=list(new.targets),
            profiles=list(new.profiles),
            inputs=list(new.inputs),
            outputs=list(new.outputs),
            plugins=list(new.plugins),
            serving=new.serving,
            verify=new.verify,
            no_cache=new.no_cache,
            priority=new.priority,
            created_at=now,
            updated_at=now,
        )

    def _next_version(self, session: Session, name: str) -> int:
        """Whoever creates the same name at once waits here until this transaction ends."""
        self._database.insert_new(session, NameRow, name=name, last_version=0)
        counted = update(NameRow).where(NameRow.name == name).values(last_version=NameRow.last_version + 1)
        return session.scalars(counted.returning(NameRow.last_version)).one()

    def get(self, reference: str) -> Engine:
        with self._database.read() as session:
            return engine_from_row(engine_row(session, reference))

    def list(
        self, name: str | None = None, status: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """Newest first. What is created meanwhile moves nothing from one page to another.

        Raises InvalidRequest for a cursor that no page gave.
        """
        query = engine_query().order_by(EngineRow.id.desc()).limit(limit + 1)
        if name is not None:
            query = query.where(EngineRow.name == _storable(name))
        if status is not None:
            query = query.where(EngineRow.status == _storable(status))
        if cursor is not None:
            query = query.where(EngineRow.id < _checked_cursor(cursor))
        with self._database.read() as session:
            engines = [engine_from_row(row) for row in session.scalars(query)]
        return Page(tuple(engines[:limit]), engines[limit - 1].id if len(engines) > limit else None)

    def log(self, engine_id: str) -> str:
        """What the build has written so far, of all attempts."""
        query = select(LogRow.text).where(LogRow.engine_id == engine_id).order_by(LogRow.id)
        with self._database.read() as session:
            engine_row(session, engine_id)
            return "".join(session.scalars(query))

    def files(self, engine_id: str) -> dict[str, str]:
        """The SHA-256 of each file of the model's external data, by location."""
        query = select(FileRow).where(FileRow.engine_id == engine_id).order_by(FileRow.number)
        with self._database.read() as session:
            return {row.location: row.sha256 for row in session.scalars(query)}

    def to_warm_up(self) -> Sequence[str]:
        """The ids of ready engines that are to be loaded before anyone asks, oldest first."""
        wanted = EngineRow.serving["warmup"].as_boolean()
        with self._database.read() as session:
            query = select(EngineRow.id).where(EngineRow.status == "ready", wanted).order_by(EngineRow.id)
            return session.scalars(query).all()

    def request_cancel(self, engine_id: str) -> Engine:
        """A queued engine is cancelled at once, a building one when its worker next renews its claim.

        Raises Conflict where nothing is left to cancel.
        """
        with self._database.write() as session:
            row = _locked(session, engine_id)
            if row.status in ("ready", "failed"):
                raise Conflict(
                    f"{row.name}:{row.version} is {row.status}; only a queued or building one can be cancelled"
                )
            now = self._database.now(session)
            if row.status == "queued":
                end(row, "cancelled", now)
            elif row.status == "building":
                row.build.cancel_requested, row.updated_at = True, now
            return flushed(session, row)

    def change_serving(self, engine_id: str, given: Mapping[str, Any]) -> Engine:
        """Changes the given keys of `serving`."""
        with self._database.write() as session:
            row = _locked(session, engine_id)
            row.serving, row.updated_at = {**row.serving, **given}, self._database.now(session)
            return flushed(session, row)

    def fail(self, engine_id: str, problem: dict[str, Any]) -> Engine:
        """A ready engine turns out to be of no use; `problem` are problem details. A worker uses `Claims.fail`."""
        with self._database.write() as session:
            row = _locked(session, engine_id)
            if row.status == "ready":
                row.status, row.error, row.updated_at = "failed", problem, self._database.now(session)
            return flushed(session, row)

    def delete(self, engine_id: str) -> None:
        """Removes the engine, its log, and its bytes where no other has them. A worker building it loses its claim."""
        with self._database.write() as session:
            row = _locked(session, engine_id)
            files = session.scalars(select(FileRow.sha256).where(FileRow.engine_id == engine_id)).all()
            session.execute(delete(EngineRow).where(EngineRow.id == engine_id))
            for sha256 in sorted(filter(None, {row.model_sha256, row.plan_sha256, *files})):
                self._staging.release(session, sha256)
        self._staging.sweep()


def _locked(session: Session, engine_id: str) -> EngineRow:
    row = session.scalars(locked_query().where(EngineRow.id == _storable(engine_id))).first()
    if row is None:
        raise NotFound(f"no engine {engine_id!r}")
    return row


def _storable(text: str) -> str:
    """PostgreSQL refuses NUL even in a comparison; nothing that is stored has one."""
    return text.replace("\0", "\ufffd")


def _checked_cursor(cursor: str) -> str:
    try:
        return str(uuid.UUID(cursor))
    except ValueError:
        raise InvalidRequest(f"{cursor!r} is no cursor, expected what `next` of a page said") from None
