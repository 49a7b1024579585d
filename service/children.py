"""Child processes of ours: they end with their parent, and how they ended can be said in words."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
DEVICE_LOST = 70
"""The status of an engine host that ends because only a new process can use its device again."""


def end_with_parent(parent: int) -> None:
    """Called in a child: the kernel ends it when `parent` (a process id) is gone, however that happened."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before
        os._exit(0)


def outcome(status: int) -> str:
    """A return code in words: `was killed by signal 9 (SIGKILL)`."""
    if status == DEVICE_LOST:
        return "has lost its device to a CUDA error that stays"
    if status >= 0:
        return f"ended with status {status}"
    return f"was killed by signal {-status} ({signal.Signals(-status).name})"
