"""Engines with `serving.warmup` are loaded as soon as they are ready, before anyone asks for them."""

from __future__ import annotations

import asyncio
import logging

from service.api.runnable import obstacle
from service.backends.host import Host
from service.errors import ServiceError
from service.hosting.supervisor import Hosts
from service.store.engines import Engines

log = logging.getLogger("planforge")
EVERY = 1.0
"""Seconds between two looks into the store: builds become ready in other processes."""


class Warming:
    """Lives in one event loop."""

    def __init__(self, engines: Engines, hosts: Hosts, host: Host) -> None:
        self._engines, self._hosts, self._host = engines, hosts, host
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                wanted = await asyncio.to_thread(self._engines.to_warm_up)
                fresh = [each for each in wanted if each not in self._seen]
                self._seen = set(wanted)
                for engine_id in fresh:
                    await self._load(engine_id)
            except Exception:  # the database may be away for a while
                log.exception("could not look for engines to warm up")
            await asyncio.sleep(EVERY)

    async def _load(self, engine_id: str) -> None:
        try:
            engine = await asyncio.to_thread(self._engines.get, engine_id)
            if engine.status == "ready" and obstacle(engine, self._host) is None:
                await self._hosts.load(engine)
        except ServiceError as error:
            log.warning("engine %s was not warmed up: %s", engine_id, error)
