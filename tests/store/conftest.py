"""The same tests on both databases: SQLite in a file, and a real PostgreSQL that `pgserver` starts."""

from __future__ import annotations

import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, make_url, text

from service.store.blobs import Blobs
from service.store.claims import Claims
from service.store.database import Database
from service.store.engines import Engines
from service.store.models import Base

MIGRATED = "migrated"
_numbers = count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a server whose database `migrated` has the schema."""
    pytest.importorskip("psycopg", reason="psycopg, PostgreSQL's driver, is not installed")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
        pgserver = pytest.importorskip("pgserver", reason="pgserver, which brings PostgreSQL, is not installed")
    folder = tempfile.mkdtemp(prefix="planforge-postgresql-")  # not below tmp_path: the server may run as another user
    server = pgserver.get_server(folder, cleanup_mode="stop")
    url = server.get_uri()
    for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()", f"CREATE DATABASE {MIGRATED}"):
        _execute(url, statement)
    database = Database(_with_database(url, MIGRATED))
    database.migrate()
    database.close()
    yield url
    process = psutil.Process(server.get_pid())
    process.send_signal(signal.SIGQUIT)  # stops at once: nothing here is worth a checkpoint
    process.wait(30)
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def _execute(url: str, statement: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _with_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without a schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store' / 'planforge.db'}"
    server: str = request.getfixturevalue("postgresql")
    name = f"test{next(_numbers)}"
    _execute(server, f"CREATE DATABASE {name}")
    return _with_database(server, name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database without rows."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'planforge.db'}"
        Database(url).migrate()
        return url
    url = _with_database(request.getfixturevalue("postgresql"), MIGRATED)
    tables = ", ".join(table.name for table in Base.metadata.sorted_tables)
    _execute(url, f"TRUNCATE {tables}")  # a database for each test would cost 8 MB and a second
    return url


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


@pytest.fixture
def engines(database: Database) -> Engines:
    return Engines(database)


@pytest.fixture
def claims(database: Database) -> Claims:
    return Claims(database)


@pytest.fixture
def blobs(database: Database) -> Blobs:
    return Blobs(database)
