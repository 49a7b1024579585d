"""The worker: claims queued builds one after the other and sees each through."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

from service.backends.libraries import child_environment
from service.builds.attempt import Attempt, Stopped, Watch
from service.builds.builder import JOB, MODEL, PLAN
from service.builds.child import Child, Tools
from service.builds.lease import RENEWALS_PER_LEASE, Lease
from service.builds.messages import Job
from service.errors import BuildFailed, ServiceError, problem_details
from service.scratch import scratch_folder
from service.settings import Settings
from service.store.blobs import Blobs
from service.store.claims import Claim, ClaimLost, Claims
from service.store.database import Database
from service.store.engines import Engines

log = logging.getLogger(__name__)

STORING = 0.95
"""How far a build is when its plan goes into the store."""


class Worker:
    """Blocks in `run` until `stop` is called, from another thread or a signal handler."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._claims, self._blobs, self._engines = Claims(database), Blobs(database), Engines(database)
        self._name = f"{socket.gethostname()}-{os.getpid()}"
        libraries = tuple(path.resolve() for path in settings.plugin_libraries)
        self._tools = Tools(child_environment(settings.data_dir / "lib"), settings.kernel_cache, libraries)
        self._next: Child | None = None
        """A builder that is loaded and waits."""
        self._beats_next = 0.0
        self._stopping = threading.Event()

    def stop(self) -> None:
        """A build under way is ended and given back to the queue."""
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._next = self._next or Child(self._tools)
                busy = self._work()
            except Exception:  # the database is away, say: a later round may be luckier
                log.exception("the worker could not look for builds")
                busy = False
            if not busy:
                self._stopping.wait(self._settings.poll)
        if self._next:
            self._next.close()
        self._claims.leave(self._name)

    def _take_builder(self) -> Child:
        """The waiting builder, or a new one where that has died: perhaps of what it loaded, so that one loads less."""
        taken, self._next = self._next, None
        dead = taken is not None and taken.process.poll() is not None
        if taken is not None and dead:
            taken.close()
        return Child(self._tools, warm=False) if taken is None or dead else taken

    def _work(self) -> bool:
        """One round; says whether there was a build."""
        self._look_after_others()
        claim = self._claims.claim(self._name, self._settings.lease)
        if claim is not None:
            with suppress(ClaimLost):  # another's by now, or deleted: nothing of it may be stored
                self._see_through(claim)
        return claim is not None

    def _look_after_others(self) -> None:
        """Says that this worker lives, and takes builds from those that do not: a few times within a lease."""
        if monotonic() >= self._beats_next:
            self._beats_next = monotonic() + self._settings.lease / RENEWALS_PER_LEASE
            self._claims.beat(self._name)
            self._claims.recover(self._settings.build_attempts)

    def _see_through(self, claim: Claim) -> None:
        engine = claim.engine
        log.info("building %s:%d for %s, attempt %d", engine.name, engine.version, engine.backend, claim.attempt)
        lease = Lease(self._claims, claim, self._settings.lease, self._name, self._stopping)
        try:
            with lease, scratch_folder(self._settings.scratch, "build") as folder:
                self._build(claim, lease, folder)
        except Stopped:
            lease.conclude()
            log.info("the build of %s:%d was stopped", engine.name, engine.version)
        except ServiceError as error:
            self._fail(claim, error)
        except ClaimLost:
            raise
        except Exception as error:
            log.exception("the build of %s:%d failed in the worker", engine.name, engine.version)
            self._fail(claim, BuildFailed(f"the worker could not build it: {type(error).__name__}"))

    def _build(self, claim: Claim, lease: Lease, folder: Path) -> None:
        engine, settings = claim.engine, self._settings
        self._blobs.copy_to(engine.model.sha256, folder / MODEL)
        for location, sha256 in self._engines.files(engine.id).items():
            self._blobs.copy_to(sha256, folder / location)
            lease.check()
        job = Job(
            backend=engine.backend,
            targets=engine.targets,
            profiles=engine.profiles,
            memory=settings.build_memory,
        )
        (folder / JOB).write_text(job.to_json())
        watch = Watch(
            advanced=lambda phase, fraction: self._claims.advance(claim, phase, fraction),
            logged=lambda text: self._claims.append_log(claim, text),
            keep_going=lease.check,
        )
        built = Attempt(self._take_builder(), folder, settings.build_timeout, watch).run()
        watch.advanced("Storing the plan", STORING)
        self._next = Child(self._tools)  # loads while the plan is written
        self._claims.succeed(claim, folder / PLAN, built)

    def _fail(self, claim: Claim, error: ServiceError) -> None:
        self._claims.append_log(claim, f"{error.detail}\n")
        self._claims.fail(claim, problem_details(error))
