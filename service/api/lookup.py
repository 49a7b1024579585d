"""Engines by reference, remembered for a moment: an inference does not wait for the database."""

from __future__ import annotations

import asyncio
import time

from service.store.engines import Engines
from service.store.records import Engine

FRESH = 1.0
"""Seconds after which another process's changes are seen. Those that went through this process are seen at once."""
MOST = 4096


class ReadyEngines:
    """Lives in one event loop. Only ready engines are remembered: the others change."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._known: dict[str, tuple[Engine, float]] = {}

    async def get(self, reference: str) -> Engine:
        """The engine, ready or not. Raises NotFound."""
        known = self._known.get(reference)
        if known and time.monotonic() < known[1]:
            return known[0]
        engine = await asyncio.to_thread(self._engines.get, reference)
        if engine.status == "ready":
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[reference] = engine, time.monotonic() + FRESH
        return engine

    def seen(self, engine: Engine) -> None:
        """An engine as it stands now: what was remembered of its name goes where it is no longer so."""
        names_engines = {reference: known for reference, (known, _) in self._known.items() if known.name == engine.name}
        if engine.status == "ready" and engine.id in {known.id for known in names_engines.values()}:
            return
        self.forget(engine)

    def forget(self, engine: Engine) -> None:
        for reference in [each for each, (known, _) in self._known.items() if known.name == engine.name]:
            del self._known[reference]
