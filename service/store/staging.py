"""Bytes on their way into the store and out of it.

Gigabytes are not written in one transaction: on SQLite nobody else could write meanwhile, and leases would run out.
So chunks are written in short transactions, under a `content` that no blob has yet, and the transaction that makes a
blob of them moves no data. Until then a row in `staged` stands for them; what a killed process leaves is swept by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import ColumnElement, Select, delete, exists, or_, select, update
from sqlalchemy.orm import Session

from service.store.contents import intact
from service.store.database import Database
from service.store.identifiers import new_id
from service.store.models import BlobRow, ChunkRow, EngineRow, FileRow, StagedRow
from service.store.records import Blob
from service.store.sources import File, chunks, measured, opened

ABANDONED = timedelta(hours=1)
"""A staged content that was not touched for so long belongs to nobody."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_SWEPT_AT_ONCE = 8
"""Chunks that one transaction removes."""


@dataclass(frozen=True)
class Staged:
    """Bytes that are in the database and wait for the transaction that refers to them."""

    id: str
    blob: Blob
    content: str
    replaces: str | None = None
    """The damaged content of the same SHA-256 that was found."""


class Staging:
    def __init__(self, database: Database) -> None:
        self._database = database

    def stage(self, source: Path | bytes) -> Staged:
        """Writes the bytes, or holds on to those already stored where these read back intact."""
        with opened(source) as file:
            blob = measured(file)
            known = self._held(blob)
            if known and intact(self._database, known.content, blob):
                return known
            return self._written(file, blob, known)

    def _held(self, blob: Blob) -> Staged | None:
        """The stored bytes of this SHA-256, kept from being removed."""
        with self._database.write() as session:
            row = session.get(BlobRow, blob.sha256, with_for_update=True)
            if row is None:
                return None
            staged = Staged(new_id(), blob, row.content)
            self._touch(session, staged)
            return staged

    def _written(self, file: File, blob: Blob, damaged: Staged | None) -> Staged:
        staged = Staged(damaged.id if damaged else new_id(), blob, new_id(), damaged.content if damaged else None)
        with self._database.write() as session:
            self._touch(session, staged)
        for number, data in enumerate(chunks(file)):
            with self._database.write() as session:
                session.add(ChunkRow(content=staged.content, number=number, data=data))
                self._touch(session, staged)
        return staged

    def _touch(self, session: Session, staged: Staged) -> None:
        session.merge(StagedRow(id=staged.id, content=staged.content, touched_at=self._database.now(session)))

    def keep(self, session: Session, staged: Staged) -> Blob:
        """Makes a blob of the staged bytes, within the transaction that refers to it."""
        blob = staged.blob
        row = self._other_row(session, staged)
        if row is not None:
            unused = staged.content
            if row.content == staged.replaces:
                row.content, unused = staged.content, row.content
            if unused != row.content:
                _discard(session, unused)
        session.execute(delete(StagedRow).where(StagedRow.id == staged.id))
        return blob

    def _other_row(self, session: Session, staged: Staged) -> BlobRow | None:
        """Inserts the blob's row, or locks the one that somebody else has inserted and gives that."""
        values = {"sha256": staged.blob.sha256, "size": staged.blob.size, "content": staged.content}
        while not self._database.insert_new(session, BlobRow, **values):
            row = session.get(BlobRow, staged.blob.sha256, with_for_update=True, populate_existing=True)
            if row is not None:  # else it was removed just now
                return row
        return None

    @contextmanager
    def staged(self, source: Path | bytes) -> Iterator[Staged]:
        """`stage`, and gives the bytes up at the end of the block unless they were kept."""
        staged = self.stage(source)
        try:
            yield staged
        finally:
            self._drop(staged)

    def _drop(self, staged: Staged) -> None:
        with self._database.read() as session:
            if session.get(StagedRow, staged.id) is None:
                return
        with self._database.write() as session:
            session.execute(update(StagedRow).where(StagedRow.id == staged.id).values(touched_at=LONG_AGO))
        self.sweep()

    def release(self, session: Session, sha256: str) -> None:
        """Removes a blob that nothing refers to any more. Its chunks go with the next sweep."""
        row = session.get(BlobRow, sha256, with_for_update=True, populate_existing=True)
        if row is None or session.scalar(select(_referred(row))):
            return
        session.delete(row)
        _discard(session, row.content)

    def sweep(self) -> None:
        """Removes what nobody needs, in short transactions. Costs one look where there is nothing."""
        with self._database.read() as session:
            waiting = session.scalars(self._unneeded(session)).first() is not None
        while waiting:
            with self._database.write() as session:
                row = session.scalars(self._unneeded(session).with_for_update(skip_locked=True)).first()
                waiting = row is not None
                if row is not None:
                    self._sweep_some(session, row)

    def _unneeded(self, session: Session) -> Select[StagedRow]:
        return select(StagedRow).where(StagedRow.touched_at < self._database.now(session) - ABANDONED).limit(1)

    def _sweep_some(self, session: Session, row: StagedRow) -> None:
        blob = session.scalars(select(BlobRow).where(BlobRow.content == row.content)).first()
        if blob:
            session.delete(row)
            self.release(session, blob.sha256)
        elif not _chunks_removed(session, row.content):
            session.delete(row)


def _referred(row: BlobRow) -> ColumnElement[bool]:
    return or_(
        exists().where(or_(EngineRow.model_sha256 == row.sha256, EngineRow.plan_sha256 == row.sha256)),
        exists().where(FileRow.sha256 == row.sha256),
        exists().where(StagedRow.content == row.content),
    )


def _discard(session: Session, content: str) -> None:
    session.add(StagedRow(id=new_id(), content=content, touched_at=LONG_AGO))


def _chunks_removed(session: Session, content: str) -> bool:
    """Whether there were any."""
    numbers = session.scalars(select(ChunkRow.number).where(ChunkRow.content == content).limit(_SWEPT_AT_ONCE)).all()
    session.execute(delete(ChunkRow).where(ChunkRow.content == content, ChunkRow.number.in_(numbers)))
    return bool(numbers)
