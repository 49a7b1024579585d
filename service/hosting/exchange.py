"""Runs in one host process: inputs into shared memory, a message, outputs out of shared memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from service.backends.base import Array
from service.errors import ServiceError
from service.hosting.memory import Arena, new_segment, open_segment
from service.hosting.messages import Done, Ran, Run
from service.hosting.process import HostProcess
from service.hosting.tensors import Rows, place, room_for, view

Inputs = Mapping[str, Array] | Mapping[str, Rows]
Reported = Done | Ran | ServiceError
Ended = Callable[[list[Array] | ServiceError, int], None]
"""Gets the outputs, and how many bytes of room they would have needed where there was less."""

COPIED = 64 * 1024
"""Bytes of outputs up to which they are copied out at once; larger ones are handed on where they lie."""


def run(
    process: HostProcess,
    engine: str,
    inputs: Inputs,
    outputs: tuple[str, ...],
    room: int,
    ended: Ended,
) -> None:
    """Starts a run; `ended` gets the outputs in the order asked for.

    `room` (a multiple of the alignment): how many bytes of outputs to expect; more of them cost a segment of their own.
    Large outputs lie in shared memory, which is given back when the last array that refers to them goes.
    """
    size = room_for(inputs.values())
    start = process.arena.take(size + room)
    if start is None:
        _run_apart(process, engine, inputs, outputs, ended)
        return
    region = _Region(process.arena, start, size, room, ended)
    try:
        placed = place(inputs.items(), process.arena.memory, start)
    except BaseException:
        process.arena.give_back(start, size + room)
        raise
    process.send(Run(process.next_call(), engine, placed, outputs, 0, start + size, room), region.replied)


def _run_apart(
    process: HostProcess,
    engine: str,
    inputs: Inputs,
    outputs: tuple[str, ...],
    ended: Ended,
) -> None:
    """What the arena has no room for goes through a segment of its own."""
    size = room_for(inputs.values())
    descriptor, memory = new_segment(size)
    try:
        placed = place(inputs.items(), memory, 0)
        message = Run(process.next_call(), engine, placed, outputs, size, 0, 0)
        process.send(message, lambda reply, came: ended(_result(reply, came, None), 0), descriptor)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _Region:
    """`size` bytes of inputs from `start` on in the arena, and `room` bytes for outputs behind them."""

    arena: Arena
    start: int
    size: int
    room: int
    ended: Ended

    def replied(self, reply: Reported, descriptor: int | None) -> None:
        arena, answer = self.arena, self.start + self.size
        if isinstance(reply, Ran) and descriptor is None and self.room > COPIED:
            arena.give_back(self.start, self.size)
            lent = np.frombuffer(arena.memory, np.uint8, self.room, answer)
            weakref.finalize(lent, arena.give_back, answer, self.room).atexit = False
            self.ended([view(placed, lent, answer) for placed in reply.outputs], 0)
        else:
            result = _result(reply, descriptor, arena)
            arena.give_back(self.start, self.size + self.room)
            self.ended(result, reply.segment if isinstance(reply, Ran) else 0)


def _result(reply: Reported, descriptor: int | None, arena: Arena | None) -> list[Array] | ServiceError:
    if isinstance(reply, ServiceError):
        return reply
    assert isinstance(reply, Ran)
    if descriptor is not None:
        memory = open_segment(descriptor)
        return [view(placed, memory) for placed in reply.outputs]
    assert arena is not None
    return [view(placed, arena.memory).copy() for placed in reply.outputs]
