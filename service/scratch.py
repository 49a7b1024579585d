"""Folders for what is under way: each is locked by the process that uses it, so that a start can tell leftovers."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def scratch_folder(scratch: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `scratch`, removed at the end."""
    scratch.mkdir(parents=True, exist_ok=True)
    folder, lock = _locked_folder(scratch, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(scratch: Path) -> None:
    """Removes the folders whose process has ended; those of others that run now stay."""
    for folder in scratch.iterdir() if scratch.is_dir() else ():
        with suppress(OSError):  # another process removes it, or still uses it
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _locked_folder(scratch: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=scratch))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # swept before it was locked
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if folder.exists():
            return folder, lock
        os.close(lock)
