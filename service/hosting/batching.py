"""Requests that run as one: their rows are joined on the way in and split again on the way out, exactly."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from service.backends.base import Array
from service.errors import Unavailable
from service.hosting.calls import Call, Queue, Shapes
from service.hosting.engines import Batching, Servable
from service.hosting.tensors import Rows


class Batch:
    """Calls that agree in everything but their number of rows, as one."""

    def __init__(self, queue: Queue, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)
        self.outputs = calls[0].outputs
        self.inputs = {name: Rows(tuple(call.inputs[name] for call in calls)) for name in calls[0].inputs}
        self.shapes: Shapes = tuple([rows.shape for rows in self.inputs.values()])
        self._queue = queue

    def ran(self, result: list[Array] | Exception, missing: int) -> None:
        """As `Call.ran`. What fails together is tried again one by one, so that only the bad request fails."""
        if isinstance(result, Unavailable):
            for call in self.calls:
                call.end(result)
        elif isinstance(result, Exception) or not self._per_row(result):
            for call in self.calls:
                call.likeness = object()
            self._queue.again(self.calls)
        else:
            self._split(result)
        self._queue.ended(self, missing, isinstance(result, Exception))

    def _per_row(self, outputs: list[Array]) -> bool:
        return all(output.ndim and len(output) == sum(map(rows_of, self.calls)) for output in outputs)

    def _split(self, outputs: list[Array]) -> None:
        start = 0
        for call in self.calls:
            end = start + rows_of(call)
            call.end([output[start:end] for output in outputs])
            start = end


class Joiner:
    """Of one engine."""

    def __init__(self, queue: Queue, given: Batching, most: int) -> None:
        """`most`: rows that the engine takes at once."""
        self._queue = queue
        self._most = min(given.max_batch, most)
        self._delay = given.max_delay_us / 1e6

    def next(self, waiting: deque[Call], now: float) -> Call | Batch | float:
        """Takes out the first call and those that fit it, or says how many seconds more to wait for others."""
        first = waiting[0]
        calls, rows = [first], rows_of(first)
        for call in islice(waiting, 1, None):
            if not call.answer.done() and likeness(call) == likeness(first) and rows + rows_of(call) <= self._most:
                calls.append(call)
                rows += rows_of(call)
        left = first.arrived + self._delay - now
        if rows < self._most and left > 0 and isinstance(likeness(first), tuple):
            return left
        for call in calls:
            waiting.remove(call)
        return Batch(self._queue, calls) if len(calls) > 1 else first


def joiner(queue: Queue, engine: Servable, given: Batching | None) -> Joiner | None:
    """None where requests cannot be joined: a batch dimension is one that is dynamic in all inputs and outputs."""
    if given is None or not all(each["shape"] and each["shape"][0] == -1 for each in [*engine.inputs, *engine.outputs]):
        return None
    ranges = [each for profile in engine.profiles for each in profile.values()]
    if any(each.get("values") for each in ranges):
        return None
    return Joiner(queue, given, min([each["max"][0] for each in ranges], default=given.max_batch))


def rows_of(call: Call) -> int:
    return call.shapes[0][0] if call.shapes and call.shapes[0] else 0


def likeness(call: Call) -> object:
    """Equal for calls that differ in their rows only; equal to nothing for one that cannot be joined."""
    if call.likeness is None:
        rows = rows_of(call)
        regular = rows > 0 and all(shape and shape[0] == rows for shape in call.shapes)
        named = sorted((name, str(array.dtype), array.shape[1:]) for name, array in call.inputs.items())
        call.likeness = (call.outputs, *named) if regular else object()
    return call.likeness
