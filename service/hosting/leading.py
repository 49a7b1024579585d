"""Which of a host's threads reads the next message.

One thread leads: it waits for a message and, where the run is short, answers it and goes on, so that many short runs
cost no switch of threads. Before a longer run it passes the lead on. Where a run that was expected to be short is not,
the lead is taken from it after `PATIENCE`, so that no message ever waits long behind a run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE = 0.002
"""Seconds after which a run is no longer short."""


class Lead:
    def __init__(self, follow: Callable[[], None]) -> None:
        """`follow` is what a further thread does: take the lead, and so on."""
        self._follow = follow
        self._lead = threading.Lock()
        self._followers = 0
        self._changing = threading.Lock()
        self._short: object | None = None
        """Stands for the run that the leading thread is in."""
        self._active = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def take(self) -> None:
        """Returns once this thread leads."""
        with self._changing:
            self._followers += 1
        self._lead.acquire()
        with self._changing:
            self._followers -= 1

    def pass_on(self) -> None:
        """Lets another thread lead."""
        with self._changing:
            self._pass_on()

    def begin_short(self) -> object:
        """The leading thread starts a run that it expects to be short."""
        self._short = run = object()
        if not self._active.is_set():
            self._active.set()
        return run

    def end_short(self, run: object) -> bool:
        """Whether the thread still leads."""
        with self._changing:
            leads = self._short is run
            self._short = None if leads else self._short
            return leads

    def _pass_on(self) -> None:
        if not self._followers:
            threading.Thread(target=self._follow, daemon=True).start()
        self._lead.release()

    def _watch(self) -> None:
        """Sleeps while there is nothing to watch."""
        while self._active.wait():
            seen = self._short
            time.sleep(PATIENCE)
            with self._changing:
                if seen is None:
                    self._active.clear()
                elif self._short is seen:
                    self._short = None
                    self._pass_on()
