"""Kernels into a plan, and the proof that they are in it."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from service.backends.base import Image
from service.errors import BuildFailed
from service.plugins.images import Bundle, KernelImage
from service.plugins.kernels import CompileFailed, check_target, compile_image, is_compiled
from service.plugins.plugin import CudaPlugin

Bundles = Mapping[type[CudaPlugin], Bundle]


def compile_bundles(
    plugins: Iterable[type[CudaPlugin]],
    targets: Sequence[str],
    cache: Path,
    report: Callable[[str, float], None] = lambda *_: None,
) -> Bundles:
    """Every plugin's kernels: machine code for each target, and PTX of the newest for GPUs that come after it.

    `report` is told what was compiled and which part of all that is. Raises BuildFailed with the compiler's log.
    """
    wanted = [*targets, newest(targets).replace("sm_", "compute_")]
    listed = list(plugins)
    try:
        _compile_missing([(plugin, target) for plugin in listed for target in wanted], cache, report)
        return {
            plugin: Bundle(
                tuple(KernelImage(target, compile_image(plugin.source(), target, cache)) for target in wanted)
            )
            for plugin in listed
        }
    except CompileFailed as error:
        raise BuildFailed(f"a kernel does not compile: {error}") from None


def _compile_missing(
    jobs: Sequence[tuple[type[CudaPlugin], str]], cache: Path, report: Callable[[str, float], None]
) -> None:
    """Into the cache, in processes: the compiler does one thing at a time in each."""
    for _, target in jobs:
        check_target(target)
    missing = [(plugin, target) for plugin, target in jobs if not is_compiled(plugin.source(), target, cache)]
    workers = min(len(missing), len(os.sched_getaffinity(0)))
    if workers < 2:
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running = {
            pool.submit(compile_image, plugin.source(), target, cache): f"{plugin.name} for {target}"
            for plugin, target in missing
        }
        for done, future in enumerate(as_completed(running), start=1):
            future.result()
            report(f"Compiled {running[future]}", done / len(running))


def newest(targets: Sequence[str]) -> str:
    return max(targets, key=lambda target: int("".join(filter(str.isdigit, target))))


def missing_images(plan: Path, bundles: Bundles) -> list[str]:
    """`ScaleBias for sm_86` for every image that does not stand in the plan, byte for byte."""
    with plan.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # A bundle stands in one piece, and one search through gigabytes is enough to find it whole.
        suspects = {plugin: bundle for plugin, bundle in bundles.items() if data.find(bundle.to_bytes()) < 0}
        return [
            f"{plugin.name} for {image.target}"
            for plugin, bundle in suspects.items()
            for image in bundle.images
            if data.find(image.data) < 0
        ]


def described(image: KernelImage) -> Image:
    return Image(image.target, len(image.data), image.sha256)
