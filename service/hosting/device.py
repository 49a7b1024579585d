"""One device: its host process, which comes back when it dies, and the engines that are loaded into it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from service.errors import Unavailable
from service.hosting.budget import Budget
from service.hosting.engines import Loaded
from service.hosting.limits import Limits
from service.hosting.messages import Load, Unload
from service.hosting.process import HostProcess
from service.hosting.queueing import EngineQueue
from service.hosting.samples import samples
from service.hosting.suspicion import Suspicion
from service.hosting.watching import watch
from service.scratch import scratch_folder
from service.settings import Settings

Materialise = Callable[[Any, bool, Path], Path]
"""Writes an engine's plan (for its reference, its model) and its further files into a folder; gives the file to load.

Called in a thread. Raises PlanDamaged.
"""
Failed = Callable[[EngineQueue], None]


class Device:
    """Lives in one event loop."""

    def __init__(
        self, name: str, settings: Settings, limits: Limits, materialise: Materialise, given_up: Failed
    ) -> None:
        """`given_up` is called with an engine that crashed its host too often in a row."""
        self._name = name
        self._settings = settings
        self._limits = limits
        self._materialise = materialise
        self._given_up = given_up
        self.suspicion: Suspicion[EngineQueue] = Suspicion()
        self.troubled = False
        """Whether an answer is news, since the host has died."""
        self.process: HostProcess | None = None
        self._budget: Budget[EngineQueue] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._loading = asyncio.Lock()
        self._loading_now: EngineQueue | None = None
        self._wedged: EngineQueue | None = None
        self._deaths = 0
        self._down_until = 0.0
        self._serials = itertools.count()
        self._sizes: dict[str, int] = {}
        """What engines took when they were last loaded."""

    async def load(self, queue: EngineQueue) -> Loaded:
        """Brings an engine into the host. Raises what host and `materialise` raise, Unavailable where no room is."""
        async with self._loading:
            process = self._living_process()
            budget = await self._budget_of(process)
            with scratch_folder(self._settings.scratch, "load") as folder:
                plan = await asyncio.to_thread(self._materialise, queue.engine, queue.reference, folder)
                least = sum(path.stat().st_size for path in folder.iterdir())
                await self._make_room(budget, queue, self._sizes.get(queue.key, least))
                loaded = Loaded(process, f"{queue.key}#{next(self._serials)}")
                size = max(await self._loaded_size(queue, loaded, plan), least)
            self._sizes[queue.key] = size
            try:
                await self._make_room(budget, queue, size)
            except Unavailable:
                await self._drop(loaded)
                raise
            budget.enter(queue, size)
            return loaded

    async def unload(self, queue: EngineQueue) -> None:
        """Gives back what an engine holds that nothing runs in."""
        loaded, queue.loaded = queue.loaded, None
        if self._budget is not None:
            self._budget.leave(queue)
        if loaded is not None:
            await self._drop(loaded)

    def size_of(self, queue: EngineQueue) -> int:
        """Bytes that a loaded engine takes."""
        return self._budget.size_of(queue) if self._budget is not None and queue.usable else 0

    def answered(self, queue: EngineQueue) -> None:
        """After a death: an engine has answered again."""
        self._deaths = queue.crashes = 0
        self.suspicion.cleared(queue)
        self.troubled = self.suspicion.anyone

    def wedged(self, queue: EngineQueue) -> None:
        """An engine does not come back from a run: only the end of the process can end it."""
        self._wedged = queue
        if self.process is not None:
            self.process.kill(f"was ended because {queue.label} did not come back from a run")

    async def close(self, patience: float) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self.process is not None:
            await self.process.close(patience)

    def _living_process(self) -> HostProcess:
        if self.process is None or not self.process.alive:
            wait = self._down_until - asyncio.get_running_loop().time()
            if wait > 0:
                reason = f"the engine host for {self._name} died {self._deaths} times in a row and stays down a while"
                raise Unavailable(reason, retry_after=wait)
            self.process = HostProcess(self._name, self._settings.model_dump_json(), self._limits.arena, self._died)
            self._budget = None
            self._watching = asyncio.create_task(watch(self.process, self._limits))
        return self.process

    async def _budget_of(self, process: HostProcess) -> Budget[EngineQueue]:
        free = await process.free
        if self._budget is None:
            self._budget = Budget(self._limits.memory or int(free * self._limits.share))
        return self._budget

    async def _make_room(self, budget: Budget[EngineQueue], queue: EngineQueue, size: int) -> None:
        victims = budget.victims(size, queue.label)
        await asyncio.gather(*(self.unload(victim) for victim in victims))

    async def _loaded_size(self, queue: EngineQueue, loaded: Loaded, plan: Path) -> int:
        process, engine = loaded.process, queue.engine
        names = tuple(each["name"] for each in engine.outputs)
        given = samples(engine.inputs, engine.profiles) if queue.serving.warmup else ()
        process.loading, self._loading_now = True, queue
        try:
            call = process.next_call()
            done = await process.ask(Load(call, loaded.name, queue.backend, str(plan), names, given))
        finally:
            process.loading, self._loading_now = False, None
        return done.size

    async def _drop(self, loaded: Loaded) -> None:
        process = loaded.process
        if process.alive:
            with suppress(Unavailable):  # it died, and with it what was to be dropped
                await process.ask(Unload(process.next_call(), loaded.name))

    def _died(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._deaths += 1
        self.troubled = True
        if self._deaths > 1:
            pause = min(self._limits.back_off * 2 ** (self._deaths - 2), self._limits.longest_back_off)
            self._down_until = asyncio.get_running_loop().time() + pause
        culprit = self.suspicion.crashed(self._inside())
        self._wedged = None
        if culprit is not None and culprit.crashes >= self._limits.crashes:
            culprit.give_up()
            self._given_up(culprit)
            self.suspicion.cleared(culprit)

    def _inside(self) -> list[EngineQueue]:
        """The engines that a death may be the fault of."""
        if self._wedged is not None:
            return [self._wedged]
        return [queue for queue in self.suspicion.members if queue.running or queue is self._loading_now]
