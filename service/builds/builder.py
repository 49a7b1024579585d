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
from pathlib import Path
from typing import Any

from service.backends.base import BuildRequest, Range
from service.backends.registry import backend
from service.builds.messages import Advanced, Event, Failed, Finished, Job, event_line
from service.children import end_with_parent
from service.errors import BuildFailed

MODEL, JOB, PLAN = "model.onnx", "job.json", "plan"


def run(folder: Path, events: int) -> None:
    """Builds the job of `folder`; the plan lies there when `Finished` was written to the descriptor `events`."""

    def say(event: Event) -> None:
        os.write(events, event_line(event))

    try:
        say(Finished(_build(folder, say)))
    except BuildFailed as error:
        say(Failed(error.detail))
    except MemoryError:
        say(Failed("out of memory: the build needs more than it may take"))
    except Exception as error:
        traceback.print_exc()
        say(Failed(f"{type(error).__name__}: {error}"))


def _build(folder: Path, say: Callable[[Event], None]) -> dict[str, Any]:
    job = Job.from_json((folder / JOB).read_text())
    # Not the address space: CUDA reserves more of that than any machine has.
    resource.setrlimit(resource.RLIMIT_DATA, (job.memory, job.memory))
    request = BuildRequest(
        model=folder / MODEL,
        targets=job.targets,
        profiles=tuple({name: Range(**limits) for name, limits in profile.items()} for profile in job.profiles),
    )
    libraries = tuple(map(Path, job.plugin_libraries))
    builder = backend(job.backend, plugin_libraries=libraries, kernel_cache=Path(job.kernel_cache))
    built = builder.build(request, folder / PLAN, lambda phase, fraction: say(Advanced(phase, fraction)))
    return built.to_json()


def preload() -> None:
    """What most builds need, where it is installed; a backend says itself what is missing."""
    for module in ("onnx", "cuda.bindings.nvrtc", "tensorrt_rtx", "service.backends.tensorrt"):
        with suppress(ImportError):
            importlib.import_module(module)


def main() -> None:
    events, parent = map(int, sys.argv[1:])
    end_with_parent(parent)
    preload()
    folder = sys.stdin.readline().rstrip("\n")
    if folder:
        os.chdir(folder)  # so that no log shows where the folder lies
        run(Path(), events)


if __name__ == "__main__":
    main()
