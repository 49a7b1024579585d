"""The requests of one engine: which of them run, which wait, and which are not worth starting any more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from service.backends.base import Array
from service.errors import Conflict, Unavailable
from service.hosting.batching import Batch, joiner
from service.hosting.calls import Call, Shapes, Work
from service.hosting.deadlines import Deadlines
from service.hosting.engines import Loaded, Servable, Serving
from service.hosting.exchange import run
from service.hosting.suspicion import Suspicion

SHAPES = 64
"""Input shapes of an engine for which the size of its outputs is remembered."""
LEAST_ROOM = 4096
"""Bytes of outputs to expect of a run that nothing is known of."""


class Home(Protocol):
    """The device that an engine runs on."""

    suspicion: Suspicion[EngineQueue]
    troubled: bool
    """Whether an answer is news, since the host has died."""

    async def load(self, queue: EngineQueue) -> Loaded: ...
    def answered(self, queue: EngineQueue) -> None: ...
    def wedged(self, queue: EngineQueue) -> None: ...


class EngineQueue:
    """Lives in one event loop."""

    def __init__(self, engine: Servable, reference: bool, home: Home, patience: float) -> None:
        """`patience`: seconds that a run may take, whatever its request's deadline, until its host counts as wedged."""
        self.engine = engine
        self.reference = reference
        self.key = f"{engine.id}/reference" if reference else engine.id
        self.label = f"{engine.name}:{engine.version}"
        self.backend = "onnxruntime" if reference else engine.backend
        self.serving = Serving.from_json(engine.serving)
        self.loaded: Loaded | None = None
        self.running = 0
        self.crashes = 0
        self.last_used = 0.0
        self._home = home
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._loading: asyncio.Task[None] | None = None
        self._waiting: deque[Call] = deque()
        self._deadlines = Deadlines()
        self._rooms: dict[Shapes, int] = {}
        """Bytes that outputs take for input shapes that gave more than fitted."""
        self._drained: asyncio.Future[None] | None = None
        self._given_up = False
        self._timer: asyncio.TimerHandle | None = None
        """Set while requests wait to be joined by others."""
        self._joiner = joiner(self, engine, self.serving.batching)
        home.suspicion.members.append(self)

    async def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str], seconds: float) -> list[Array]:
        """Raises Unavailable where too many wait, DeadlineExceeded after `seconds`, and what the run itself raises."""
        call = Call(self, inputs, outputs, seconds)
        self._admit(call)
        self._deadlines.add(call)
        try:
            return await call.answer
        finally:
            if not call.running:
                self._withdraw(call)

    def renew(self, engine: Servable) -> None:
        """The engine as it was read last: how it is served may have changed."""
        if engine.serving != self.engine.serving:
            self.serving = Serving.from_json(engine.serving)
            self._joiner = joiner(self, engine, self.serving.batching)
            self.pump()
        self.engine = engine

    async def ensure_loaded(self) -> None:
        """Raises what loading raises."""
        if self._given_up:
            raise self._refusal()
        if not self.usable:
            await asyncio.shield(self._start_loading())

    async def drained(self) -> None:
        """Returns once nothing runs and nothing waits."""
        while self.busy or self.wanting:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    @property
    def usable(self) -> bool:
        """Whether it is loaded."""
        return self.loaded is not None and self.loaded.process.alive

    @property
    def busy(self) -> bool:
        return self.running > 0 or self._loading is not None

    @property
    def wanting(self) -> bool:
        return bool(self._waiting)

    @property
    def evictable(self) -> bool:
        return not (self.busy or self.wanting or self.serving.pinned)

    def give_up(self) -> None:
        """It crashes again and again: nothing is started any more."""
        self._given_up = True
        while self._waiting:
            self._waiting.popleft().end(self._refusal())

    def pump(self) -> None:
        """Starts what may start."""
        while self._waiting and self.running < self.serving.instances:
            if self._home.troubled and not self._home.suspicion.may_start(self):
                return
            if not self.usable:
                self._start_loading()
                return
            if self._waiting[0].answer.done():  # whoever asked has left just now
                self._waiting.popleft()
                continue
            work = self._next()
            if work is None:
                return
            self._start(work)

    def again(self, calls: Sequence[Call]) -> None:
        """A run of several calls has failed: each is to run by itself."""
        for call in reversed(calls):
            if not call.answer.done():
                self._waiting.appendleft(call)

    def ended(self, work: Work, missing: int, failed: bool) -> None:
        """A run has ended."""
        self.running -= 1
        for call in work.calls:
            call.running = False
            if call.answer.done():
                self._deadlines.discard(call)
        self.last_used = self._loop.time()
        if missing:
            self._remember(work.shapes, missing)
        if self._home.troubled and not failed:
            self._home.answered(self)
        if self._waiting:
            self.pump()
        self._note_change()

    def overdue(self, call: Call) -> None:
        """A run goes on after its request's deadline: it may, but not for ever."""
        self._loop.call_later(max(self._patience - call.seconds, 0), self._end_wedged, call)

    def _end_wedged(self, call: Call) -> None:
        if call.running:
            self._home.wedged(self)

    def _admit(self, call: Call) -> None:
        free = self.serving.instances - self.running
        plain = self._joiner is None and not self._home.troubled
        if plain and free > 0 and not self._waiting and self.usable:
            self._start(call)
            return
        if self._given_up:
            raise self._refusal()
        if len(self._waiting) >= self.serving.queue + free:
            raise Unavailable(f"{len(self._waiting)} requests wait for {self.label} already, its queue's limit")
        self._waiting.append(call)
        self.pump()

    def _withdraw(self, call: Call) -> None:
        self._deadlines.discard(call)
        if call in self._waiting:
            self._waiting.remove(call)
            self._note_change()

    def _next(self) -> Call | Batch | None:
        """Takes out what runs next; None where others may still join it."""
        if self._joiner is None or self._home.troubled:  # after a crash, each runs by itself
            return self._waiting.popleft()
        chosen = self._joiner.next(self._waiting, self._loop.time())
        if not isinstance(chosen, float):
            return chosen
        if self._timer is None:
            self._timer = self._loop.call_later(chosen, self._fire)
        return None

    def _fire(self) -> None:
        self._timer = None
        self.pump()

    def _start(self, work: Call | Batch) -> None:
        assert self.loaded is not None
        room = self._rooms.get(work.shapes, LEAST_ROOM)
        try:
            run(self.loaded.process, self.loaded.name, work.inputs, work.outputs, room, work.ran)
        except Exception as error:
            for call in work.calls:
                call.end(error)
            return
        for call in work.calls:
            call.running = True
        self.running += 1

    def _remember(self, shapes: Shapes, size: int) -> None:
        if len(self._rooms) >= SHAPES:
            del self._rooms[next(iter(self._rooms))]
        self._rooms[shapes] = size

    def _start_loading(self) -> asyncio.Task[None]:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(self._end_loading)
        return self._loading

    async def _load(self) -> None:
        self.loaded = await self._home.load(self)

    def _end_loading(self, task: asyncio.Task[None]) -> None:
        self._loading = None
        error = task.exception()
        if isinstance(error, Exception):
            while self._waiting:
                self._waiting.popleft().end(error)
        self.pump()
        self._note_change()

    def _refusal(self) -> Conflict:
        return Conflict(f"{self.label} crashed its host {self.crashes} times in a row and is not started any more")

    def _note_change(self) -> None:
        if self._home.troubled:
            self._home.suspicion.changed()
        if self._drained is not None and not self.busy and not self.wanting:
            self._drained.set_result(None)
            self._drained = None
