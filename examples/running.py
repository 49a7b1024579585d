"""A service of one's own for a while: on a free port, with an empty store that goes with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PATIENCE = 15
"""Seconds that a service gets to end by itself."""


@contextmanager
def running_service(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a fresh `planforge serve` and its process. Nothing of it is left afterwards.

    Its log ends on standard error where the `with` ends with an exception.
    """
    with tempfile.TemporaryDirectory(prefix="planforge-") as folder, (Path(folder) / "log").open("w+") as log:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLANFORGE_")}
        service = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--data-dir", folder, *options],
            env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        try:
            yield _address(service), service
        except Exception:
            print((Path(folder) / "log").read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            service.terminate()
            try:
                service.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()


def _address(service: subprocess.Popen[str]) -> str:
    """Waits until the service says where it listens."""
    assert service.stdout is not None
    for line in service.stdout:
        if line.startswith("planforge serves "):
            return line.split()[2]
    raise RuntimeError("the service did not start; its log stands above")


def end_cleanly_on_sigterm() -> None:
    """SIGTERM leaves every `with` as Ctrl-C does."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
