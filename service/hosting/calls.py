"""One request to an engine, from its arrival to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from service.backends.base import Array
from service.errors import DeadlineExceeded

Shapes = tuple[tuple[int, ...], ...]


class Work(Protocol):
    """What runs as one."""

    @property
    def calls(self) -> tuple[Call, ...]: ...
    @property
    def shapes(self) -> Shapes: ...


class Queue(Protocol):
    label: str

    def ended(self, work: Work, missing: int, failed: bool) -> None:
        """A run has ended."""

    def again(self, calls: Sequence[Call]) -> None:
        """A run of several calls has failed: each is to run by itself."""

    def overdue(self, call: Call) -> None:
        """A run goes on after its request's deadline."""


class Call:
    """Waits, runs, and has ended; whoever asked may leave at any time."""

    __slots__ = ("answer", "arrived", "due", "inputs", "likeness", "outputs", "queue", "running", "seconds", "shapes")

    def __init__(self, queue: Queue, inputs: Mapping[str, Array], outputs: Sequence[str], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.queue = queue
        self.inputs = inputs
        self.outputs = tuple(outputs)
        self.shapes: Shapes = tuple([array.shape for array in inputs.values()])
        self.seconds = seconds
        self.arrived = loop.time()
        self.due = self.arrived + seconds
        self.likeness: object = None
        """Known to `batching`: calls that are alike may run as one."""
        self.answer: asyncio.Future[list[Array]] = loop.create_future()
        self.running = False

    @property
    def calls(self) -> tuple[Call, ...]:
        return (self,)

    def end(self, result: list[Array] | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)

    def expire(self) -> None:
        """Its deadline has passed."""
        self.end(DeadlineExceeded(f"{self.queue.label} did not answer within {self.seconds:g} s"))
        if self.running:
            self.queue.overdue(self)

    def ran(self, result: list[Array] | Exception, missing: int) -> None:
        """The run that was started for it has ended; `missing`: see `exchange.Ended`."""
        self.end(result)
        self.queue.ended(self, missing, isinstance(result, Exception))
