"""The worker: claims queued builds one after the other and sees each through."""

from __future__ import annotations

import logging
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.backends.libraries import child_environment
from service.builds.attempt import Attempt, Stopped, Watch
from service.builds.builder import JOB, MODEL, PLAN
from service.builds.messages import Job
from service.errors import BuildFailed, ServiceError
from service.settings import Settings
from service.store.blobs import Blobs
from service.store.claims import Claim, Claims, Renewal
from service.store.database import Database
from service.store.engines import Engines

log = logging.getLogger(__name__)
BEATS_PER_LEASE = 3


class Worker:
    """Blocks in `run` until `stop` is called from another thread or a signal handler."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._claims, self._blobs, self._engines = Claims(database), Blobs(database), Engines(database)
        self._name = f"{socket.gethostname()}-{threading.get_native_id()}"
        self._environment = child_environment(settings.data_dir / "lib")
        self._stopping = threading.Event()

    def stop(self) -> None:
        """A build under way is given back to the queue."""
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                worked = self._work()
            except Exception:  # the database is away, say: the next round may be luckier
                log.exception("the worker could not look for builds")
                worked = False
            if not worked:
                self._stopping.wait(self._settings.poll)

    def _work(self) -> bool:
        """One round: whether there was a build."""
        self._claims.beat(self._name)
        self._claims.recover(self._settings.build_attempts)
        claim = self._claims.claim(self._name, self._settings.lease)
        if claim is None:
            return False
        try:
            self._build(claim)
        except Stopped:
            pass
        except ServiceError as error:
            self._fail(claim, error)
        except Exception as error:
            log.exception("the build of %s failed", claim.engine.id)
            self._fail(claim, BuildFailed(f"the worker could not build it: {type(error).__name__}"))
        return True
