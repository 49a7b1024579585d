"""The requests of one engine: which of them run, which wait, and which are not worth starting any more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.backends.base import Array
from service.errors import DeadlineExceeded, ServiceError, Unavailable
from service.hosting.exchange import run
from service.hosting.process import HostProcess
from service.hosting.tensors import room_for

SHAPES = 64
"""Input shapes of an engine for which the size of its outputs is remembered."""


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


@dataclass(eq=False, slots=True)
class _Call:
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    answer: asyncio.Future[list[Array]]
    started: bool = False

    def end(self, result: list[Array] | ServiceError) -> None:
        if self.answer.done():
            return  # whoever asked has left
        if isinstance(result, ServiceError):
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
        self._loading: asyncio.Task[None] | None = None
        self._waiting: deque[_Call] = deque()
        self._rooms: dict[tuple[tuple[int, ...], ...], int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    async def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str], seconds: float) -> list[Array]:
        """Raises Unavailable where too many wait, DeadlineExceeded after `seconds`, and what the run itself raises."""
        loop = asyncio.get_running_loop()
        call = _Call(inputs, tuple(outputs), loop.create_future())
        self._admit(call)
        timer = loop.call_later(seconds, call.end, DeadlineExceeded(f"{self.label} did not answer in {seconds:g} s"))
        try:
            return await call.answer
        finally:
            timer.cancel()
            if not call.started:
                self._withdraw(call)

    async def ensure_loaded(self) -> None:
        """Raises what loading raises."""
        if not self._usable():
            await asyncio.shield(self._start_loading())

    async def drained(self) -> None:
        """Returns once nothing runs and nothing waits."""
        await self._idle.wait()

    def _admit(self, call: _Call) -> None:
        if len(self._waiting) >= self.serving.queue + self.serving.instances - self.running:
            raise Unavailable(f"{len(self._waiting)} requests wait for {self.label} already, its queue's limit")
        self._waiting.append(call)
        self._idle.clear()
        self._pump()

    def _withdraw(self, call: _Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            self._note_idle()

    def _usable(self) -> bool:
        return self.loaded is not None and self.loaded.process.alive

    def _pump(self) -> None:
        """Starts what may start."""
        while self._waiting and self.running < self.serving.instances:
            if not self._usable():
                self._start_loading()
                return
            self._start(self._waiting.popleft())

    def _start(self, call: _Call) -> None:
        if call.answer.done():
            return
        assert self.loaded is not None
        call.started = True
        shapes = tuple([array.shape for array in call.inputs.values()])

        def ended(result: list[Array] | ServiceError) -> None:
            self.running -= 1
            if not isinstance(result, ServiceError):
                self._remember(shapes, result)
            call.end(result)
            self._pump()
            self._note_idle()

        self.running += 1
        try:
            run(self.loaded.process, self.loaded.name, call.inputs, call.outputs, self._rooms.get(shapes, 0), ended)
        except Exception as error:
            self.running -= 1
            call.answer.set_exception(error)

    def _remember(self, shapes: tuple[tuple[int, ...], ...], outputs: list[Array]) -> None:
        """How much room the outputs for these input shapes take."""
        size = room_for(outputs)
        known = self._rooms.get(shapes, 0)
        if size > known:
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
        if error is not None:
            self._refuse(error)
        self._pump()

    def _refuse(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            if not call.answer.done():
                call.answer.set_exception(error)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self.running and not self._waiting:
            self._idle.set()
