"""The worker's side of one builder process: its events, its log, its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from service.builds.messages import Event, event_from_line

CHUNK = 65536


@dataclass
class News:
    """What a builder said since the last look."""

    events: list[Event] = field(default_factory=list)
    log: bytes = b""


@dataclass(frozen=True)
class Tools:
    """What every build of a worker has in common."""

    environment: Mapping[str, str]
    kernel_cache: Path
    plugin_libraries: tuple[Path, ...] = ()


class Child:
    """A builder for one job. It starts before there is one: loading TensorRT takes longer than many a build.

    Leaving the context ends the process and all that it started.
    """

    def __init__(self, tools: Tools, warm: bool = True) -> None:
        """`warm`: it loads and tries TensorRT at once, not only when a job needs it."""
        events, theirs = os.pipe()
        command = [sys.executable, "-m", "service.builds.builder", str(theirs), str(os.getpid()), str(int(warm))]
        self.process = subprocess.Popen(
            [*command, *map(str, (tools.kernel_cache.resolve(), *tools.plugin_libraries))],
            env=tools.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        assert self.process.stdout is not None
        self._events, self._log = events, self.process.stdout.fileno()
        self._half_line = b""
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._events, self._log):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._selector.close()
        os.close(self._events)

    def begin(self, folder: Path) -> None:
        """Hands the job over. One that has died meanwhile says so by its end."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{folder.resolve()}\n".encode())
            self.process.stdin.close()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def look(self, timeout: float) -> News | None:
        """What is new within `timeout` seconds; None once the builder has closed both of its ends."""
        if not self._selector.get_map():
            return None
        news = News()
        for key, _ in self._selector.select(timeout):
            data = os.read(key.fd, CHUNK)
            if not data:
                self._selector.unregister(key.fd)
            elif key.fd == self._log:
                news.log += data
            else:
                news.events += self._parse(data)
        return news

    def _parse(self, data: bytes) -> list[Event]:
        *lines, self._half_line = (self._half_line + data).split(b"\n")
        return [event_from_line(line) for line in lines]
