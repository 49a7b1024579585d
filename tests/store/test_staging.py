"""Processes that die in the middle of a write: really killed, at a statement of choice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from service.store import staging
from service.store.blobs import Blobs
from service.store.claims import Claims
from service.store.contents import CHUNK
from service.store.database import Database
from service.store.engines import Engines
from tests.store.building import BUILT, new, rows

WORKER = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from service.store.claims import Claims
from service.store.database import Database
from tests.store.building import BUILT

url, plan, fatal, countdown = *sys.argv[1:4], int(sys.argv[4])
claims = Claims(Database(url))
claim = claims.claim("doomed", lease=0.01)

@event.listens_for(Engine, "after_cursor_execute")
def die(connection, cursor, statement, *_):
    global countdown
    countdown -= statement.startswith(fatal)
    if countdown == 0:
        os.kill(os.getpid(), signal.SIGKILL)

claims.succeed(claim, Path(plan), BUILT)
"""
POINTS = {
    "in the transaction of the second chunk": ("INSERT INTO chunks", 2),
    "between the first chunk and the second": ("INSERT INTO chunks", 1),
    "before the commit that makes it ready": ("UPDATE engines", 1),
}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan"
    path.write_bytes(random.Random(2).randbytes(2 * CHUNK + 5))
    return path


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS.keys())
def test_a_killed_worker_leaves_nothing_half_written(
    url: str, database: Database, engines: Engines, claims: Claims, blobs: Blobs, plan: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, point: tuple[str, int],
) -> None:  # fmt: skip
    engine = engines.create(new())
    killed = subprocess.run([sys.executable, "-c", WORKER, url, str(plan), point[0], str(point[1])], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    seen = engines.get(engine.id)
    assert (seen.status, seen.plan, seen.attempts) == ("building", None, 1)
    assert rows(database)["blobs"] == 1, "only the model"

    claims.recover(attempts=3)
    claim = claims.claim("worker", lease=60)
    assert claim and claim.attempt == 2
    done = claims.succeed(claim, plan, BUILT)
    assert done.status == "ready" and done.plan
    blobs.copy_to(done.plan.sha256, tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == plan.read_bytes()

    assert rows(database)["staged"] == 1, "what the killed one had written, until it is old enough"
    monkeypatch.setattr(staging, "ABANDONED", timedelta(0))
    claims.recover(attempts=3)
    assert "staged" not in rows(database)
    assert rows(database)["chunks"] == 1 + 3
    blobs.verify(done.plan.sha256)
