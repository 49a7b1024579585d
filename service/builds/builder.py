"""The child of a worker that does one build: reads a job's folder, writes events to the file descriptor it is given.

TensorRT may abort, a kernel may crash, memory may run out: only this process ends. Everything it prints is the build's
log. It loads what a build needs, then waits for the folder's name on standard input; an end of input ends it.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from service.backends.base import Backend, BuildRequest, Range
from service.backends.registry import backend
from service.backends.tensorrt import TensorRT
from service.builds.messages import Advanced, Event, Failed, Finished, Job, event_line
from service.children import end_with_parent
from service.errors import BuildFailed

MODEL, JOB, PLAN = "model.onnx", "job.json", "plan"


Backends = Callable[[str], Backend]
"""Gives the backend of a name."""


def run(folder: Path, events: int, backends: Backends) -> None:
    """Builds the job of `folder`; the plan lies there when `Finished` was written to the descriptor `events`."""

    def say(event: Event) -> None:
        os.write(events, event_line(event))

    try:
        say(Finished(_build(folder, say, backends)))
    except BuildFailed as error:
        say(Failed(error.detail))
    except MemoryError:
        say(Failed("out of memory: the build needs more than it may take"))
    except Exception as error:
        traceback.print_exc()
        say(Failed(f"{type(error).__name__}: {error}"))


def _build(folder: Path, say: Callable[[Event], None], backends: Backends) -> dict[str, Any]:
    job = Job.from_json((folder / JOB).read_text())
    # Not the address space: CUDA reserves more of that than any machine has.
    resource.setrlimit(resource.RLIMIT_DATA, (job.memory, job.memory))
    request = BuildRequest(
        model=folder / MODEL,
        targets=job.targets,
        profiles=tuple({name: Range(**limits) for name, limits in profile.items()} for profile in job.profiles),
    )
    built = backends(job.backend).build(request, folder / PLAN, lambda phase, fraction: say(Advanced(phase, fraction)))
    return built.to_json()


def preload(backends: Backends) -> None:
    """What most builds need, where it is installed; a backend that lacks something says so itself when it builds."""
    with suppress(Exception):
        importlib.import_module("cuda.bindings.nvrtc")
        tensorrt = backends("tensorrt_rtx")
        assert isinstance(tensorrt, TensorRT)
        tensorrt.warm_up()


def main() -> None:
    events, parent, warm, cache, *libraries = sys.argv[1:]
    end_with_parent(int(parent))
    backends = partial(backend, plugin_libraries=tuple(map(Path, libraries)), kernel_cache=Path(cache))
    if int(warm):
        preload(backends)
    folder = sys.stdin.readline().rstrip("\n")
    if folder:
        os.chdir(folder)  # so that no log shows where the folder lies
        run(Path(), int(events), backends)
        sys.stdout.flush()
        os._exit(0)  # all is said, and TensorRT takes its time to take itself apart


if __name__ == "__main__":
    main()
