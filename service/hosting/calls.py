"""One request to an engine, from its arrival to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from service.backends.base import Array
from service.errors import DeadlineExceeded

Shapes = tuple[tuple[int, ...], ...]


class Queue(Protocol):
    label: str

    def ended(self, work: Call, missing: int, failed: bool) -> None:
        """A run has ended."""

    def overdue(self, call: Call) -> None:
        """A run goes on after its request's deadline."""


class Call:
    """Waits, runs, and has ended; whoever asked may leave at any time."""

    __slots__ = ("answer", "due", "inputs", "outputs", "queue", "running", "seconds", "shapes")

    def __init__(self, queue: Queue, inputs: Mapping[str, Array], outputs: Sequence[str], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.queue = queue
        self.inputs = inputs
        self.outputs = tuple(outputs)
        self.shapes: Shapes = tuple([array.shape for array in inputs.values()])
        self.seconds = seconds
        self.due = loop.time() + seconds
        self.answer: asyncio.Future[list[Array]] = loop.create_future()
        self.running = False

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
        self.running = False
        self.end(result)
        self.queue.ended(self, missing, isinstance(result, Exception))
