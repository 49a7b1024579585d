"""One attempt at a build: a child process at work under a lease, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.builds.builder import PLAN
from service.builds.child import Child, News
from service.builds.messages import Advanced, Failed, Finished
from service.children import outcome
from service.errors import BuildFailed

LOOK = 0.1
"""Seconds after which news are passed on at the latest."""

STEP = 0.02
"""TensorRT reports hundreds of steps within milliseconds; smaller ones than this are not passed on."""


class Stopped(Exception):
    """The build is to end without a result: cancelled, or no longer this worker's."""


@dataclass
class Watch:
    """What an attempt tells its worker. `keep_going` raises Stopped."""

    advanced: Callable[[str, float], None]
    logged: Callable[[str], None]
    keep_going: Callable[[], None]


@dataclass
class Attempt:
    child: Child
    folder: Path
    timeout: float
    """Seconds the whole build may take."""
    watch: Watch
    last: Finished | Failed | None = None
    reported: float = -1.0
    said: list[str] = field(default_factory=list)

    def run(self) -> dict[str, Any]:
        """What was built; the plan lies in the folder. Raises BuildFailed with the reason, or Stopped."""
        ends = time.monotonic() + self.timeout
        with self.child as child:
            child.begin(self.folder)
            while (news := child.look(LOOK)) is not None:
                self._pass_on(news)
                self.watch.keep_going()
                if time.monotonic() > ends:
                    raise BuildFailed(f"the build took longer than {self.timeout:g} s and was ended")
            status = child.process.wait()
        return self._result(status)

    def _pass_on(self, news: News) -> None:
        if news.log:
            text = news.log.decode(errors="replace").replace("\0", "")
            self.said = [*self.said, *text.splitlines()][-5:]
            self.watch.logged(text)
        for event in news.events:
            if not isinstance(event, Advanced):
                self.last = event
            elif event.fraction >= self.reported + STEP:
                self.reported = event.fraction
                self.watch.advanced(event.phase, event.fraction)

    def _result(self, status: int) -> dict[str, Any]:
        """A success that was announced counts only if the process then ended well and left a plan."""
        if status != 0:
            said = f"; it last said: {self.said[-1]}" if self.said else ""
            raise BuildFailed(f"the building process {outcome(status)}{said}")
        if isinstance(self.last, Failed):
            raise BuildFailed(self.last.detail)
        if self.last is None:
            raise BuildFailed("the building process ended without a result")
        plan = self.folder / PLAN
        if not plan.exists() or plan.stat().st_size == 0:
            raise BuildFailed("the build gave a plan of zero bytes")
        return self.last.built
