"""A claim kept alive by a thread of its own, whatever the worker is at: a build, or gigabytes on their way."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from service.builds.attempt import Stopped
from service.store.claims import Claim, Claims, Renewal

log = logging.getLogger(__name__)

LOOK = 0.25
"""Seconds between looks whether the build is to be cancelled."""
RENEWALS_PER_LEASE = 3


class Lease:
    """Use as a context manager around a build. `check` raises Stopped once the build is to end."""

    def __init__(self, claims: Claims, claim: Claim, seconds: float, worker: str, stopping: threading.Event) -> None:
        self._claims, self._claim, self._seconds, self._worker = claims, claim, seconds, worker
        self._stopping = stopping
        self._over = threading.Event()
        self._state = Renewal.KEPT
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        if self._state is not Renewal.KEPT or self._stopping.is_set():
            raise Stopped

    def conclude(self) -> None:
        """Says what becomes of a build that was stopped, once nothing of it runs any more."""
        if self._state is Renewal.CANCELLED:
            self._claims.cancelled(self._claim)
        elif self._state is Renewal.KEPT:
            self._claims.release(self._claim)

    def _keep(self) -> None:
        renewed = monotonic()
        while self._state is Renewal.KEPT and not self._over.wait(min(LOOK, self._seconds / RENEWALS_PER_LEASE)):
            due = monotonic() - renewed >= self._seconds / RENEWALS_PER_LEASE
            try:
                if due or self._claims.cancel_requested(self._claim):
                    self._state = self._claims.renew(self._claim, self._seconds)
                    self._claims.beat(self._worker)
                    renewed = monotonic()
            except Exception:  # the next look may be luckier; if none is, the lease ends and another worker builds
                log.exception("the lease on %s could not be renewed", self._claim.engine.id)
