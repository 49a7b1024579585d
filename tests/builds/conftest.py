"""A fresh store, and workers on real TensorRT-RTX."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.builds.worker import Worker
from service.settings import Settings
from service.store.blobs import Blobs
from service.store.database import Database
from service.store.engines import Engines
from tests.builds.yard import Yard


@pytest.fixture
def yard(tmp_path: Path, pytestconfig: pytest.Config) -> Yard:
    settings = Settings(data_dir=tmp_path, poll=0.02)
    # Compiled kernels outlive a test: what is tested here is not the compiler.
    settings.kernel_cache.symlink_to(pytestconfig.cache.mkdir("kernels"))  # type: ignore[union-attr]
    database = Database(settings.resolved_database_url)
    database.migrate()
    return Yard(settings, database, Engines(database), Blobs(database))


@pytest.fixture
def start(yard: Yard) -> Iterator[Callable[..., Worker]]:
    """Starts workers that end with the test; `start(lease=2)` with other settings than the yard's."""
    started: list[tuple[Worker, threading.Thread]] = []

    def start_one(**settings: Any) -> Worker:
        worker = Worker(yard.settings.model_copy(update=settings), yard.database)
        thread = threading.Thread(target=worker.run)
        thread.start()
        started.append((worker, thread))
        return worker

    yield start_one
    for worker, thread in started:
        worker.stop()
        thread.join()
