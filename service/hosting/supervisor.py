"""All engine hosts, as the HTTP process sees them. Imports no engine library: what crashes, crashes elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from service.backends.base import Array
from service.errors import ExecutionFailed, ServiceError, Unavailable
from service.hosting.device import Device, Materialise
from service.hosting.engines import Servable
from service.hosting.limits import Limits
from service.hosting.queueing import EngineQueue
from service.settings import Settings

EngineFailed = Callable[[str, ServiceError], None]
"""Told, in a thread, which engine (its id) is not started any more, and why."""


class Hosts:
    """Engines on demand: a process for each device, an engine in it from its first request on.

    Lives in one event loop.
    """

    def __init__(
        self,
        settings: Settings,
        materialise: Materialise,
        on_engine_failed: EngineFailed = lambda engine_id, error: None,
        limits: Limits | None = None,
    ) -> None:
        self._settings = settings
        self._materialise = materialise
        self._on_engine_failed = on_engine_failed
        self._limits = limits or Limits.from_settings(settings)
        self._devices: dict[str, Device] = {}
        self._queues: dict[tuple[str, bool], EngineQueue] = {}
        self._telling: set[asyncio.Task[None]] = set()
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
        queue = self._queue(engine, reference)
        seconds = deadline or queue.serving.timeout_us / 1e6 or self._settings.request_timeout
        return await queue.infer(inputs, outputs, seconds)

    async def load(self, engine: Servable, reference: bool = False) -> None:
        """Loads the engine now. Raises what its first request would."""
        await self._queue(engine, reference).ensure_loaded()

    async def unload(self, engine_id: str) -> None:
        """Gives back what the engine holds once its requests are answered; a later one loads it again."""
        for queue in self._queues_of(engine_id):
            del self._queues[engine_id, queue.reference]
            await queue.drained()
            device = self._device(queue.backend)
            device.suspicion.leave(queue)
            await device.unload(queue)

    def renew(self, engine: Servable) -> None:
        """How the engine is served has changed: that counts at once for what is loaded of it."""
        for queue in self._queues_of(engine.id):
            queue.renew(engine)

    def loaded(self, engine_id: str) -> bool:
        """Whether the engine itself, not its reference alone, is in a host."""
        queue = self._queues.get((engine_id, False))
        return queue is not None and queue.usable

    def memory(self, engine_id: str) -> int:
        """Bytes that the engine takes on its device, with its reference on the CPU."""
        return sum(self._device(queue.backend).size_of(queue) for queue in self._queues_of(engine_id))

    async def close(self, patience: float = 10) -> None:
        """Answers what is under way, for up to `patience` seconds, and ends the hosts."""
        self._closing = True
        draining = [asyncio.ensure_future(queue.drained()) for queue in self._queues.values()]
        if draining:
            _, late = await asyncio.wait(draining, timeout=patience)
            for task in late:
                task.cancel()
        await asyncio.gather(*(device.close(2) for device in self._devices.values()), *self._telling)

    @property
    def pids(self) -> dict[str, int]:
        """The process of each device whose host runs."""
        processes = {name: device.process for name, device in self._devices.items()}
        return {name: process.pid for name, process in processes.items() if process is not None and process.alive}

    def running(self, engine_id: str) -> int:
        """How many requests of an engine are being run."""
        return sum(queue.running for queue in self._queues_of(engine_id))

    def _queues_of(self, engine_id: str) -> list[EngineQueue]:
        keys = [(engine_id, reference) for reference in (False, True)]
        return [self._queues[key] for key in keys if key in self._queues]

    def _queue(self, engine: Servable, reference: bool) -> EngineQueue:
        if self._closing:
            raise Unavailable("the service is shutting down")
        queue = self._queues.get((engine.id, reference))
        if queue is not None and queue.engine is not engine:
            queue.renew(engine)
        if queue is None:
            device = self._device("onnxruntime" if reference else engine.backend)
            patience = self._settings.request_timeout + self._limits.run_patience
            queue = self._queues[engine.id, reference] = EngineQueue(engine, reference, device, patience)
        return queue

    def _device(self, backend: str) -> Device:
        name = "cpu" if backend == "onnxruntime" else "cuda:0"
        if name not in self._devices:
            self._devices[name] = Device(name, self._settings, self._limits, self._materialise, self._tell)
        return self._devices[name]

    def _tell(self, queue: EngineQueue) -> None:
        """A reference that crashes says nothing about its engine's plan."""
        if queue.reference:
            return
        error = ExecutionFailed(f"{queue.label} crashed its engine host {queue.crashes} times in a row")
        task = asyncio.create_task(asyncio.to_thread(self._on_engine_failed, queue.engine.id, error))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
