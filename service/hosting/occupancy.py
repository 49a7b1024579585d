"""How much of a device's memory is free, and how much this process has taken of it. Sizes are bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

KIB = 1024


def free_on(device: str) -> int:
    return _available() if device == "cpu" else _gpu_memory(device)[0]


def taken_on(device: str) -> Callable[[], int]:
    """What tells how much is taken; only differences count."""
    if device == "cpu":
        return _resident

    def taken() -> int:
        free, total = _gpu_memory(device)
        return total - free

    return taken


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("MemAvailable:"))


def _resident() -> int:
    """What this process has in memory, without what it shares with others."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _gpu_memory(device: str) -> tuple[int, int]:
    from cuda.bindings import runtime

    (status,) = runtime.cudaSetDevice(int(device.removeprefix("cuda:")))
    if status != runtime.cudaError_t.cudaSuccess:
        raise OSError(f"{device} cannot be used: {status.name}")
    status, free, total = runtime.cudaMemGetInfo()
    if status != runtime.cudaError_t.cudaSuccess:
        raise OSError(f"{device} does not tell its memory: {status.name}")
    return int(free), int(total)
