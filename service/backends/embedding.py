"""Kernels into a plan, and the proof that they are in it."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.backends.base import Image
from service.errors import BuildFailed
from service.plugins.images import Bundle, KernelImage
from service.plugins.kernels import CompileFailed, compile_image
from service.plugins.plugin import CudaPlugin

Bundles = Mapping[type[CudaPlugin], Bundle]


def compile_bundles(plugins: Iterable[type[CudaPlugin]], targets: Sequence[str], cache: Path) -> Bundles:
    """Every plugin's kernels: machine code for each target, and PTX of the newest for GPUs that come after it.

    Raises BuildFailed with the compiler's log.
    """
    wanted = [*targets, newest(targets).replace("sm_", "compute_")]
    listed = list(plugins)
    jobs = [(plugin, target) for plugin in listed for target in wanted]
    with ThreadPoolExecutor() as pool:
        try:
            images = [*pool.map(lambda job: KernelImage(job[1], compile_image(job[0].source(), job[1], cache)), jobs)]
        except CompileFailed as error:
            raise BuildFailed(f"a kernel does not compile: {error}") from None
    size = len(wanted)
    return {plugin: Bundle(tuple(images[i * size : (i + 1) * size])) for i, plugin in enumerate(listed)}


def newest(targets: Sequence[str]) -> str:
    return max(targets, key=lambda target: int("".join(filter(str.isdigit, target))))


def missing_images(plan: Path, bundles: Bundles) -> list[str]:
    """`ScaleBias for sm_86` for every image that does not stand in the plan, byte for byte."""
    with plan.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return [
            f"{plugin.name} for {image.target}"
            for plugin, bundle in bundles.items()
            for image in bundle.images
            if data.find(image.data) < 0
        ]


def described(image: KernelImage) -> Image:
    return Image(image.target, len(image.data), image.sha256)
