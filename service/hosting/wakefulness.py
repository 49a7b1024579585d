"""Keeps the event loop from sleeping while the reply to a short run is due.

To be woken takes longer than such a run, above all in a virtual machine. Whoever else wants the processor gets it.
"""

from __future__ import annotations

import asyncio
import os

SOON = 0.0002
"""Seconds within which the reply to a short run comes."""


class Wakefulness:
    """Of one channel. Where replies take longer, the event loop sleeps as ever."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._quick = self._awaited = self._awake = False

    def sent(self) -> None:
        """A packet has been sent."""
        self._due, self._awaited = self._loop.time() + SOON, True
        if self._quick and not self._awake:
            self._stay_awake()

    def received(self, last: bool) -> None:
        """A packet has come; `last`: nothing more is waited for."""
        self._quick, self._awaited = self._loop.time() < self._due, not last

    def _stay_awake(self) -> None:
        self._awake = self._awaited and self._loop.time() < self._due
        if self._awake:
            os.sched_yield()
            self._loop.call_soon(self._stay_awake)
