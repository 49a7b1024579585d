from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from service.store.database import Database
from service.store.models import Base, NameRow

MIGRATE = "import sys; from service.store.database import Database; Database(sys.argv[1]).migrate()"


def test_migrations_give_the_schema_of_the_models(database: Database) -> None:
    with database.read() as session:
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_many_processes_may_migrate_at_once(empty_url: str) -> None:
    started = [subprocess.Popen([sys.executable, "-c", MIGRATE, empty_url], stderr=subprocess.PIPE) for _ in range(4)]
    errors = [process.communicate(timeout=120)[1].decode() for process in started]
    assert [process.returncode for process in started] == [0] * 4, errors
    database = Database(empty_url)
    database.migrate()
    with database.read() as session:
        assert session.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1
        assert session.execute(text("SELECT count(*) FROM engines")).scalar_one() == 0


def test_a_failed_migration_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = op.create_table

    def create_table(name: str, *arguments: object) -> object:
        if name == "engines":
            raise RuntimeError("the disk is full")
        return original(name, *arguments)

    monkeypatch.setattr(op, "create_table", create_table)
    database = Database(empty_url)
    with pytest.raises(RuntimeError, match="disk is full"):
        database.migrate()
    monkeypatch.undo()
    with database.read() as session:
        assert inspect(session.connection()).get_table_names() == []
    database.migrate()
    with database.read() as session:
        assert "engines" in inspect(session.connection()).get_table_names()


def test_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'planforge.db'}")
    database.migrate()
    with database.write() as writer:
        writer.add(NameRow(name="demo", last_version=1))
        writer.flush()
        with database.read() as reader:
            assert reader.get(NameRow, "demo") is None
            assert reader.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    with database.read() as reader:
        assert reader.get(NameRow, "demo") is not None


def test_a_row_is_inserted_once(database: Database) -> None:
    with database.write() as session:
        assert database.insert_new(session, NameRow, name="demo", last_version=1)
        assert not database.insert_new(session, NameRow, name="demo", last_version=2)
        assert session.get_one(NameRow, "demo").last_version == 1


def test_nothing_stays_of_a_transaction_that_raises(database: Database) -> None:
    with pytest.raises(KeyError), database.write() as session:
        session.add(NameRow(name="demo", last_version=1))
        session.flush()
        raise KeyError
    with database.read() as session:
        assert session.get(NameRow, "demo") is None


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://root:secret@host/planforge"])
def test_refuses_a_database_that_it_cannot_keep_engines_in(url: str) -> None:
    with pytest.raises(ValueError, match="is not supported: expected sqlite:///FILE or postgresql:") as raised:
        Database(url)
    assert "secret" not in str(raised.value)


def test_says_whether_the_database_answers(database: Database, tmp_path: Path) -> None:
    assert database.reachable()
    assert not Database(f"sqlite:///{tmp_path / 'no-folder' / 'planforge.db'}").reachable()
