"""Loaded kernels and their launch. One image is loaded once a process and shared by all nodes and contexts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.plugins.images import Bundle, KernelImage
from service.plugins.tensors import Argument, Launch, View


@dataclass
class LoadedImage:
    """Kernels of one image, fetched by name when first launched."""

    image: KernelImage
    _code: Any = None
    _kernels: dict[str, Any] = field(default_factory=dict)

    def kernel(self, name: str) -> Any:
        if name not in self._kernels:
            self._kernels[name] = self._loaded().get_kernel(name)
        return self._kernels[name]

    def _loaded(self) -> Any:
        from cuda.core import ObjectCode

        if self._code is None:
            load = ObjectCode.from_ptx if self.image.is_ptx else ObjectCode.from_cubin
            self._code = load(self.image.data)
        return self._code


@dataclass
class Loader:
    """Loads images for the current device. A CUDA library serves every context of it."""

    _images: dict[tuple[str, tuple[int, int]], LoadedImage] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, bundle: Bundle, digest: str, capability: tuple[int, int]) -> LoadedImage:
        """The bundle's image for a GPU of this compute capability. Raises ImageFault."""
        key = digest, capability
        with self._lock:
            if key not in self._images:
                self._images[key] = LoadedImage(bundle.for_capability(capability))
            return self._images[key]


def current_capability() -> tuple[int, int]:
    """Compute capability of the current device."""
    from cuda.core import Device

    capability = Device().compute_capability
    return capability.major, capability.minor


def launch_all(launches: Launch | Sequence[Launch], image: LoadedImage, stream: int) -> None:
    """Enqueues the kernels, in order, on a stream given by its handle."""
    from cuda.core import LaunchConfig, Stream, launch

    on = Stream.from_handle(stream)
    for one in [launches] if isinstance(launches, Launch) else launches:
        config = LaunchConfig(grid=one.grid, block=one.block, shmem_size=one.shared)
        launch(on, config, image.kernel(one.kernel), *map(kernel_argument, one.arguments))


def kernel_argument(argument: Argument) -> Any:
    """What CUDA gets: a pointer, a `long long` or a `float`."""
    if isinstance(argument, View):
        return argument.address
    if argument is None:
        return 0
    return np.int64(argument) if isinstance(argument, int) else np.float32(argument)
