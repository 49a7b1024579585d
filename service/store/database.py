"""The database: connections, transactions and migrations. The only place that knows SQLite from PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Connection, create_engine, event, func, inspect, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

import migrations
from service.store.models import Base, UtcTime

BUSY_TIMEOUT = 60.0
"""Seconds that a writer waits for another one on SQLite; every transaction here is short."""
_MIGRATION_LOCK = 0x706C616E
"""The advisory lock's number on PostgreSQL."""


class Database:
    """One database. Sessions that read see one snapshot on SQLite; sessions that write exclude each other there."""

    def __init__(self, url: str) -> None:
        """Connects to nothing yet. Raises ValueError for a database that is neither SQLite in a file nor PostgreSQL."""
        self.url = _supported(make_url(url))
        if self._is_sqlite:
            self._engine = create_engine(self.url, connect_args={"timeout": BUSY_TIMEOUT}, max_overflow=35)
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        else:
            self._engine = create_engine(self.url, pool_pre_ping=True, max_overflow=35)
        self._writer = self._engine.execution_options(writes=True)

    @property
    def _is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that must not write."""
        with Session(self._engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits when the block ends and rolls back when it raises."""
        with Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def now(self, session: Session) -> datetime:
        """The time by which leases are measured: the server's on PostgreSQL, since workers' clocks may differ."""
        if self._is_sqlite:
            return datetime.now(UTC)
        return session.scalars(select(func.clock_timestamp(type_=UtcTime))).one()

    def insert_new(self, session: Session, table: type[Base], **values: Any) -> bool:
        """Inserts a row unless one with the same key is there, waiting for whoever inserts the same; says if it did."""
        insert = sqlite.insert if self._is_sqlite else postgresql.insert
        key = inspect(table).primary_key
        given = insert(table).values(**values).on_conflict_do_nothing().returning(*key)
        return session.execute(given).first() is not None

    def reachable(self) -> bool:
        try:
            with self.read() as session:
                session.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return True

    def migrate(self) -> None:
        """Brings the schema up to date. Several processes may do so at once: one does the work, the others wait."""
        if self._is_sqlite:
            Path(str(self.url.database)).parent.mkdir(parents=True, exist_ok=True)
            _use_wal(self._engine)
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
        with self._writer.begin() as connection:
            if not self._is_sqlite:
                connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        self._engine.dispose()


def _supported(url: URL) -> URL:
    backend = url.get_backend_name()
    if backend == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    shown = url.render_as_string(hide_password=True)
    raise ValueError(f"database {shown!r} is not supported: expected sqlite:///FILE or postgresql://...")


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_sqlite, not by the driver
    connection.execute("PRAGMA foreign_keys = ON")
    # With WAL, a power cut may lose the last commits but never leaves half of one.
    connection.execute("PRAGMA synchronous = NORMAL")
    # 128 MiB: a plan of ordinary size is written once while somebody waits for it, not twice.
    connection.execute("PRAGMA wal_autocheckpoint = 2048")


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the lock at once: a reader that turned writer would fail instead of waiting its turn."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _use_wal(engine: Engine) -> None:
    """Readers then never wait for the writer. The mode stays with the file; changing it does not wait for others."""
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        connection = engine.raw_connection()
        try:
            # Only heeded by a new file. With the largest pages a plan is written in a quarter of the time.
            connection.cursor().execute("PRAGMA page_size = 65536")
            connection.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except engine.dialect.loaded_dbapi.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            connection.close()
