"""Deadlines of many short calls for the price of one timer: it is set for the earliest of those that are under way."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Expiring(Protocol):
    due: float
    """In the event loop's time."""

    def expire(self) -> None: ...


class Deadlines:
    """Lives in one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending: set[Expiring] = set()
        self._next = float("inf")
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: Expiring) -> None:
        self._pending.add(item)
        if item.due < self._next:
            self._set(item.due)

    def discard(self, item: Expiring) -> None:
        """The timer stays: it fires once too often rather than being set anew for every call."""
        self._pending.discard(item)

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = due
        self._timer = self._loop.call_at(due, self._fire)

    def _fire(self) -> None:
        self._timer, self._next = None, float("inf")
        late = [item for item in self._pending if item.due <= self._loop.time()]
        for item in late:
            self._pending.discard(item)
            item.expire()
        if self._pending:
            self._set(min(item.due for item in self._pending))
