"""The worker beside the API: a process of its own, started again when it dies, ended with the service."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Self

from service.children import outcome
from service.settings import Settings

log = logging.getLogger("planforge")
PAUSE = 1.0
"""Seconds before it is started again."""
PATIENCE = 10.0


class WorkerProcess:
    """Runs from entering the context to leaving it. `ending` says that the service is about to end."""

    def __init__(self, settings: Settings, ending: Callable[[], bool]) -> None:
        self._environment = os.environ | _as_environment(settings)
        self._ending = ending
        self._closed = threading.Event()
        self._changing = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._process = self._start()
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._closed.set()
            self._process.terminate()
        self._keeper.join(PATIENCE)
        self._process.kill()
        self._keeper.join()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "service.cli", "worker", "--parent", str(os.getpid())]
        return subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL)

    def _keep(self) -> None:
        while True:
            status = self._process.wait()
            if self._closed.wait(PAUSE) or self._ending():
                return
            log.warning("the worker %s; it is started again", outcome(status))
            with self._changing:
                if self._closed.is_set():
                    return
                self._process = self._start()


def _as_environment(settings: Settings) -> dict[str, str]:
    """What the command line may have set, for a process that reads the environment."""
    names = ("data_dir", "database_url", "log_level")
    return {f"PLANFORGE_{name.upper()}": str(getattr(settings, name)) for name in names}
