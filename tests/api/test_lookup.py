"""What an inference remembers of engines: never longer than a change that went through this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from service.api import lookup
from service.api.lookup import ReadyEngines
from service.errors import NotFound
from service.store.claims import Claims
from service.store.database import Database
from service.store.engines import Engines
from service.store.records import Engine, NewEngine

BUILT = {"backend_version": "1", "targets": [], "inputs": [], "outputs": [], "plugins": []}


class Store:
    """A real store in a folder, and a build that takes no time."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(f"sqlite:///{folder / 'store.db'}")
        self.database.migrate()
        self.engines = Engines(self.database)
        self._plan = folder / "plan"

    def queued(self, name: str) -> Engine:
        return self.engines.create(NewEngine(name, "onnxruntime", b"model"))

    def ready(self, name: str) -> Engine:
        self.queued(name)
        claim = Claims(self.database).claim("worker", 60)
        assert claim is not None
        self._plan.write_bytes(claim.engine.id.encode())
        return Claims(self.database).succeed(claim, self._plan, BUILT)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_ready_engine_is_read_once(store: Store) -> None:
    engine = store.ready("a")

    async def test() -> None:
        ready = ReadyEngines(store.engines)
        known = await ready.get("a")
        store.engines.delete(engine.id)  # another process does
        assert await ready.get("a") is known

    run(test)


def test_others_changes_are_seen_soon(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "FRESH", 0.05)
    engine = store.ready("a")

    async def test() -> None:
        ready = ReadyEngines(store.engines)
        await ready.get("a")
        store.engines.delete(engine.id)
        await asyncio.sleep(0.06)
        with pytest.raises(NotFound):
            await ready.get("a")

    run(test)


def test_what_is_not_ready_is_read_again(store: Store) -> None:
    engine = store.queued("a")

    async def test() -> None:
        ready = ReadyEngines(store.engines)
        assert (await ready.get("a")).engine.status == "queued"
        store.engines.request_cancel(engine.id)
        assert (await ready.get("a")).engine.status == "cancelled"

    run(test)


def test_a_newer_version_that_was_seen_counts_at_once(store: Store) -> None:
    first = store.ready("a")

    async def test() -> None:
        ready = ReadyEngines(store.engines)
        assert (await ready.get("a")).engine.id == first.id
        second = store.ready("a")
        ready.seen(second)
        assert (await ready.get("a")).engine.id == second.id
        assert (await ready.get("a:1")).engine.id == first.id

    run(test)


def test_an_engine_that_was_forgotten_is_gone(store: Store) -> None:
    engine, other = store.ready("a"), store.ready("b")

    async def test() -> None:
        ready = ReadyEngines(store.engines)
        kept = await ready.get("b")
        for reference in ("a", "a:1", engine.id):
            await ready.get(reference)
        store.engines.delete(engine.id)
        ready.forget(engine)
        for reference in ("a", "a:1", engine.id):
            with pytest.raises(NotFound):
                await ready.get(reference)
        assert await ready.get("b") is kept
        assert kept.engine.id == other.id

    run(test)


def test_it_does_not_grow_without_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST", 2)
    for name in "abcde":
        store.ready(name)

    async def test() -> None:
        ready = ReadyEngines(store.engines)
        for name in "abcde":
            assert (await ready.get(name)).engine.name == name
        assert len(ready._known) <= 2

    run(test)
