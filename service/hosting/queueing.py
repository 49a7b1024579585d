"""The requests of one engine: which of them run, which wait, and which are not worth starting any more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.backends.base import Array
from service.errors import DeadlineExceeded, Unavailable
from service.hosting.deadlines import Deadlines
from service.hosting.exchange import run
from service.hosting.process import HostProcess

SHAPES = 64
"""Input shapes of an engine for which the size of its outputs is remembered."""
LEAST_ROOM = 4096
"""Bytes of outputs to expect of a run that nothing is known of."""


@dataclass(frozen=True)
class Serving:
    """The part of an engine's `serving` that orders its requests."""

    instances: int = 1
    """How many run at once."""
    queue: int = 64
    """How many more may wait."""

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Serving:
        return cls(**{name: given[name] for name in cls.__dataclass_fields__ if name in given})


@dataclass(frozen=True)
class Loaded:
    """An engine as one host process knows it."""

    process: HostProcess
    name: str


class _Call:
    """One request, from its arrival to its answer."""

    __slots__ = ("answer", "due", "inputs", "outputs", "queue", "shapes", "started")

    def __init__(
        self, queue: EngineQueue, inputs: Mapping[str, Array], outputs: Sequence[str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.queue = queue
        self.inputs = inputs
        self.outputs = tuple(outputs)
        self.shapes = tuple([array.shape for array in inputs.values()])
        self.answer: asyncio.Future[list[Array]] = loop.create_future()
        self.started = False
        self.due = float("inf")

    def expire(self) -> None:
        self.end(DeadlineExceeded(f"{self.queue.label} did not answer before the request's deadline"))

    def ran(self, result: list[Array] | Exception, missing: int) -> None:
        """The run that was started for it has ended; `missing`: see `exchange.run`."""
        self.end(result)
        self.queue.ended(self, missing)

    def end(self, result: list[Array] | Exception) -> None:
        if self.answer.done():
            return  # whoever asked has left
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class EngineQueue:
    """Lives in one event loop."""

    def __init__(self, label: str, serving: Serving, load: Callable[[], Awaitable[Loaded]]) -> None:
        """`label` names the engine to users; `load` brings it into a host process."""
        self.label = label
        self.serving = serving
        self.loaded: Loaded | None = None
        self.running = 0
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._loading: asyncio.Task[None] | None = None
        self._waiting: deque[_Call] = deque()
        self._deadlines = Deadlines()
        self._rooms: dict[tuple[tuple[int, ...], ...], int] = {}
        """Bytes that outputs take for input shapes that gave more than fitted."""
        self._drained: asyncio.Future[None] | None = None

    async def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str], seconds: float) -> list[Array]:
        """Raises Unavailable where too many wait, DeadlineExceeded after `seconds`, and what the run itself raises."""
        call = _Call(self, inputs, outputs, self._loop)
        call.due = self._loop.time() + seconds
        self._admit(call)
        self._deadlines.add(call)
        try:
            return await call.answer
        finally:
            self._deadlines.discard(call)
            if not call.started:
                self._withdraw(call)

    async def ensure_loaded(self) -> None:
        """Raises what loading raises."""
        if not self._usable():
            await asyncio.shield(self._start_loading())

    async def drained(self) -> None:
        """Returns once nothing runs and nothing waits."""
        while self.running or self._waiting:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def ended(self, call: _Call, missing: int) -> None:
        """A run has ended."""
        self.running -= 1
        if missing:
            self._remember(call.shapes, missing)
        if self._waiting:
            self._pump()
        self._note_drained()

    def _admit(self, call: _Call) -> None:
        if self.running < self.serving.instances and not self._waiting and self._usable():
            self._start(call)
            return
        if len(self._waiting) >= self.serving.queue + self.serving.instances - self.running:
            raise Unavailable(f"{len(self._waiting)} requests wait for {self.label} already, its queue's limit")
        self._waiting.append(call)
        self._pump()

    def _withdraw(self, call: _Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            self._note_drained()

    def _usable(self) -> bool:
        return self.loaded is not None and self.loaded.process.alive

    def _pump(self) -> None:
        """Starts what may start."""
        while self._waiting and self.running < self.serving.instances:
            if not self._usable():
                self._start_loading()
                return
            call = self._waiting.popleft()
            if not call.answer.done():
                self._start(call)

    def _start(self, call: _Call) -> None:
        assert self.loaded is not None
        room = self._rooms.get(call.shapes, LEAST_ROOM)
        try:
            run(self.loaded.process, self.loaded.name, call.inputs, call.outputs, room, call.ran)
        except Exception as error:
            call.end(error)
            return
        call.started = True
        self.running += 1

    def _remember(self, shapes: tuple[tuple[int, ...], ...], size: int) -> None:
        if len(self._rooms) >= SHAPES:
            del self._rooms[next(iter(self._rooms))]
        self._rooms[shapes] = size

    def _start_loading(self) -> asyncio.Task[None]:
        if self._loading is None:
            self._loading = asyncio.create_task(self._bring())
            self._loading.add_done_callback(self._brought)
        return self._loading

    async def _bring(self) -> None:
        self.loaded = await self._load()

    def _brought(self, task: asyncio.Task[None]) -> None:
        self._loading = None
        error = task.exception()
        if isinstance(error, Exception):
            self._refuse(error)
        self._pump()

    def _refuse(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.popleft().end(error)
        self._note_drained()

    def _note_drained(self) -> None:
        if self._drained is not None and not self.running and not self._waiting:
            self._drained.set_result(None)
            self._drained = None
