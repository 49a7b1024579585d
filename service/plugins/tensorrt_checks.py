"""Checks of a plugin on real TensorRT, run by `service.backends.conformance` in a child process: TensorRT may abort."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from service.plugins.plugin import CudaPlugin
from service.plugins.results import Result

MODULE = "tensorrt_rtx"
TIMEOUT = 600.0
"""Seconds. A plugin's cases take a few."""


def check_tensorrt(plugin: type[CudaPlugin], cache: Path) -> Iterator[Result]:
    """Creator, clones, fields through a plan and back, and real builds; without a GPU."""
    if find_spec(MODULE) is None:
        yield Result(plugin.name, "tensorrt", "", True, f"not checked: {MODULE} is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        child = subprocess.run(
            [sys.executable, "-m", "service.backends.conformance", plugin.__module__, plugin.__name__, cache, results],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        for line in results.read_text().splitlines():
            yield Result(**json.loads(line))
    if child.returncode:
        ended = f"killed by signal {-child.returncode}" if child.returncode < 0 else f"exit status {child.returncode}"
        last = child.stdout.decode(errors="replace").strip().splitlines()[-3:]
        yield Result(plugin.name, "tensorrt", "", False, f"{ended}: {' | '.join(last)}")
