"""The border between the HTTP process and an engine host: requests one way, one reply to each the other way.

A message is small: tensors lie in shared memory and only their places travel. Messages that are ready at the same time
travel in one packet, since waking the other side costs more than all else that a short run does. Both ends are the same
interpreter, so `marshal` is the wire form: it takes plain tuples only, runs nothing while it reads, and costs under a
microsecond.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

Placed = tuple[str, str, tuple[int, ...], int]
"""A tensor in shared memory: name, datatype, shape, offset in bytes."""


Sample = tuple[tuple[str, str, tuple[int, ...], tuple[int, ...]], ...]
"""Inputs to warm an engine up with: for each its name, datatype, shape, and values (none: zeros)."""


@dataclass(slots=True)
class Start:
    """The first message. The arena's descriptor comes along; `settings` is the service's as JSON."""

    call: int
    device: str
    settings: str


@dataclass(slots=True)
class Load:
    """Loads the plan at the path `plan` as `engine`, and runs it for `outputs` with each of `samples`."""

    call: int
    engine: str
    backend: str
    plan: str
    outputs: tuple[str, ...]
    samples: tuple[Sample, ...]


@dataclass(slots=True)
class Unload:
    call: int
    engine: str


@dataclass(slots=True)
class Run:
    """Inputs lie in the arena, or, where `segment` (bytes) is not 0, in a segment whose descriptor comes along.

    Outputs go to the arena at `answer` if they fit in `room` bytes, else back in a segment of their own.
    """

    call: int
    engine: str
    inputs: tuple[Placed, ...]
    outputs: tuple[str, ...]
    segment: int
    answer: int
    room: int


@dataclass(slots=True)
class Ping:
    """Asks whether the host still takes messages."""

    call: int
    sent: float


@dataclass(slots=True)
class Done:
    """Ends Start (`size`: what is free on the device, in bytes), Load (what the engine took), Unload and Ping."""

    call: int
    size: int


@dataclass(slots=True)
class Ran:
    """Outputs in the order asked for, in the arena or in a segment of `segment` bytes whose descriptor comes along."""

    call: int
    outputs: tuple[Placed, ...]
    segment: int


@dataclass(slots=True)
class Failed:
    """`error` is the name of a ServiceError."""

    call: int
    error: str
    detail: str


Request = Start | Load | Unload | Run | Ping
Reply = Done | Ran | Failed
Message = Request | Reply

_KINDS: tuple[type[Message], ...] = (Start, Load, Unload, Run, Ping, Done, Ran, Failed)
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_VALUES = {kind: attrgetter(*[field.name for field in fields(kind)]) for kind in _KINDS}


def encode(messages: Sequence[Message]) -> bytes:
    """Several messages as one packet."""
    return marshal.dumps([(_NUMBERS[kind := type(message)], *_VALUES[kind](message)) for message in messages])


def decode(data: bytes | bytearray | memoryview) -> list[Any]:
    """The messages again; which kinds can arrive depends on the end that reads."""
    return [_KINDS[number](*values) for number, *values in marshal.loads(data)]
