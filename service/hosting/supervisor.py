"""All engine hosts, as the HTTP process sees them. Imports no engine library: what crashes, crashes elsewhere."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from service.backends.base import Array
from service.errors import Unavailable
from service.hosting.messages import Load, Unload
from service.hosting.process import HostProcess
from service.hosting.queueing import EngineQueue, Loaded, Serving
from service.scratch import scratch_folder
from service.settings import MIB, Settings

ARENA = 256 * MIB
"""Memory that the HTTP process shares with each host, in bytes; only what is used of it is taken."""


class Servable(Protocol):
    """What the hosts need to know of an engine."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def serving(self) -> Mapping[str, Any]: ...


Materialise = Callable[[Any, bool, Path], Path]
"""Writes an engine's plan (for its reference, its model) and its further files into a folder; gives the file to load.

Called in a thread. Raises PlanDamaged.
"""


class Hosts:
    """Engines on demand: a process for each device, an engine in it from its first request on."""

    def __init__(self, settings: Settings, materialise: Materialise, arena: int = ARENA) -> None:
        self._settings = settings
        self._materialise = materialise
        self._arena = arena
        self._processes: dict[str, HostProcess] = {}
        self._queues: dict[tuple[str, bool], EngineQueue] = {}
        self._serials = itertools.count()
        self._closing = False

    async def infer(
        self,
        engine: Servable,
        reference: bool,
        inputs: Mapping[str, Array],
        outputs: Sequence[str],
        deadline: float | None = None,
    ) -> list[Array]:
        """The named outputs, in that order; large ones lie in shared memory until they are dropped.

        `deadline`: seconds from now, else the engine's `serving.timeout_us`, else the service's. Cancel the call
        where the client has left. Raises Unavailable, DeadlineExceeded, Conflict, PlanDamaged, ExecutionFailed.
        """
        seconds = deadline or engine.serving.get("timeout_us", 0) / 1e6 or self._settings.request_timeout
        return await self._queue(engine, reference).infer(inputs, outputs, seconds)

    async def load(self, engine: Servable, reference: bool = False) -> None:
        """Loads the engine now. Raises what its first request would."""
        await self._queue(engine, reference).ensure_loaded()

    async def unload(self, engine_id: str) -> None:
        """Gives back what the engine holds once its requests are answered; a later one loads it again."""
        queues = [queue for reference in (False, True) if (queue := self._queues.pop((engine_id, reference), None))]
        for queue in queues:
            await queue.drained()
            if queue.loaded is not None and queue.loaded.process.alive:
                process = queue.loaded.process
                await process.ask(Unload(process.next_call(), queue.loaded.name))

    async def close(self, patience: float = 10) -> None:
        """Answers what is under way, for up to `patience` seconds, and ends the hosts."""
        self._closing = True
        draining = [asyncio.ensure_future(queue.drained()) for queue in self._queues.values()]
        if draining:
            _, late = await asyncio.wait(draining, timeout=patience)
            for task in late:
                task.cancel()
        await asyncio.gather(*(process.close(2) for process in self._processes.values()))

    @property
    def pids(self) -> dict[str, int]:
        """The process of each device whose host runs."""
        return {device: process.pid for device, process in self._processes.items() if process.alive}

    def running(self, engine_id: str) -> int:
        """How many requests of an engine are being run."""
        return sum(queue.running for (engine, _), queue in self._queues.items() if engine == engine_id)

    def _queue(self, engine: Servable, reference: bool) -> EngineQueue:
        if self._closing:
            raise Unavailable("the service is shutting down")
        queue = self._queues.get((engine.id, reference))
        if queue is None:
            label = f"{engine.name}:{engine.version}"
            load = partial(self._load, engine, reference)
            queue = self._queues[engine.id, reference] = EngineQueue(label, Serving.from_json(engine.serving), load)
        return queue

    async def _load(self, engine: Servable, reference: bool) -> Loaded:
        backend = "onnxruntime" if reference else engine.backend
        process = self._process("cpu" if backend == "onnxruntime" else "cuda:0")
        name = f"{engine.id}#{next(self._serials)}"
        with scratch_folder(self._settings.scratch, "load") as folder:
            plan = await asyncio.to_thread(self._materialise, engine, reference, folder)
            await process.ask(Load(process.next_call(), name, backend, str(plan)))
        return Loaded(process, name)

    def _process(self, device: str) -> HostProcess:
        process = self._processes.get(device)
        if process is None or not process.alive:
            process = HostProcess(device, self._settings.model_dump_json(), self._arena)
            self._processes[device] = process
        return process
