"""A build's progress on standard error."""

from __future__ import annotations

import sys
from typing import Any


class ProgressLine:
    """Phase and fraction: rewritten in place on a terminal, a line a phase elsewhere."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, engine: dict[str, Any]) -> None:
        progress = engine["progress"]
        if progress is None or not progress["phase"]:
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{progress['fraction']:4.0%} {progress['phase']}", end="", file=sys.stderr, flush=True)
        elif progress["phase"] != self._last:
            print(f"{progress['fraction']:4.0%} {progress['phase']}", file=sys.stderr)
        self._last = progress["phase"]

    def end(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
