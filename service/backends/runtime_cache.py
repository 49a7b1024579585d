"""What TensorRT-RTX compiles when a plan first runs on a GPU, kept on disk: seconds once, milliseconds from then on."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RuntimeCache:
    """A file for one plan, GPU, driver and version. TensorRT checks all of that again and refuses what does not fit."""

    path: Path

    def fill(self, cache: Any) -> None:
        """Reads into TensorRT's cache what an earlier process compiled."""
        if self.path.exists() and not cache.deserialize(self.path.read_bytes()):
            self.path.unlink(missing_ok=True)

    def keep(self, cache: Any) -> None:
        """Writes what TensorRT's cache holds, unless it holds nothing new."""
        data = bytes(cache.serialize())
        if self.path.exists() and self.path.stat().st_size == len(data):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as partial:
            partial.write(data)
        os.replace(partial.name, self.path)  # noqa: PTH105 - atomic, also beside another process that writes the same
