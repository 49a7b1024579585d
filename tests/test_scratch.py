"""Folders for what is under way: gone at the end, and after a crash at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.scratch import scratch_folder, sweep


def test_it_is_gone_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), scratch_folder(tmp_path / "scratch", "upload") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        raise RuntimeError
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_is_in_use_is_not_swept(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, "upload") as folder:
        sweep(tmp_path)
        assert folder.is_dir()


HELD = """
import sys; from pathlib import Path; from service.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1]), "upload") as folder: (folder / "x").touch(); print(1, flush=True); input()
"""


def test_what_a_crash_left_is_swept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HELD, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    sweep(tmp_path)
    (folder,) = tmp_path.iterdir()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert folder.is_dir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_sweep(tmp_path: Path) -> None:
    sweep(tmp_path / "nothing")
