"""Buffers and streams of one execution: device memory and pinned staging that grow and stay."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.backends.base import Array
from service.errors import DeviceLost, ExecutionFailed

# Illegal address, launch timeout, assert, hardware stack, illegal instruction, misaligned address, address space,
# program counter, launch failure, ECC: after any of these every further call on the context fails.
STICKY = frozenset({214, 700, 702, 710, 714, 715, 716, 717, 718, 719})
SMALLEST = 256
"""Bytes: TensorRT wants an address also for a tensor without elements."""


def cudart() -> Any:
    from cuda.bindings import runtime

    return runtime


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a CUDA call. Raises ExecutionFailed, or DeviceLost where the error stays."""
    status, *values = result
    if int(status) != 0:
        text = cudart().cudaGetErrorString(status)[1].decode()
        kind = DeviceLost if int(status) in STICKY else ExecutionFailed
        raise kind(f"CUDA: {text} ({status.name})")
    return values[0] if len(values) == 1 else tuple(values)


@dataclass
class Buffer:
    """Device memory and the pinned host memory that it is copied from or to, of the same size."""

    size: int = 0
    device: int = 0
    host: int = 0

    def reserve(self, size: int) -> bool:
        """Makes room for `size` bytes; says whether the buffer has moved."""
        if size <= self.size:
            return False
        self.free()
        wanted = max(size, SMALLEST)
        self.device = int(checked(cudart().cudaMalloc(wanted)))
        self.host = int(checked(cudart().cudaMallocHost(wanted)))
        self.size = wanted
        return True

    def view(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The pinned memory as an array; valid until the buffer grows."""
        count = int(np.prod(shape, dtype=np.int64))
        raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(self.host)
        return np.frombuffer(memoryview(raw), dtype, count).reshape(shape)

    def free(self) -> None:
        if self.size:
            cudart().cudaFree(self.device)
            cudart().cudaFreeHost(self.host)
        self.size = self.device = self.host = 0


@dataclass
class Lane:
    """One stream with a buffer for each tensor. Sizes are bytes; nothing but `wait` waits."""

    stream: int
    buffers: dict[str, Buffer] = field(default_factory=dict)
    moves: int = 0
    """How often a buffer has grown, and so has another address."""

    @classmethod
    def create(cls) -> Lane:
        runtime = cudart()
        return cls(int(checked(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))))

    def reserve(self, name: str, size: int) -> Buffer:
        buffer = self.buffers.setdefault(name, Buffer())
        self.moves += buffer.reserve(max(size, 1))
        return buffer

    def stage(self, name: str, array: Array) -> None:
        """Puts the array where `upload` takes it from."""
        np.copyto(self.reserve(name, array.nbytes).view(array.dtype, array.shape), array)

    def upload(self, name: str, size: int) -> None:
        buffer, kind = self.buffers[name], cudart().cudaMemcpyKind.cudaMemcpyHostToDevice
        if size:
            checked(cudart().cudaMemcpyAsync(buffer.device, buffer.host, size, kind, self.stream))

    def download(self, name: str, size: int) -> None:
        buffer, kind = self.buffers[name], cudart().cudaMemcpyKind.cudaMemcpyDeviceToHost
        if size:
            checked(cudart().cudaMemcpyAsync(buffer.host, buffer.device, size, kind, self.stream))

    def wait(self) -> None:
        """Until everything on the stream is done."""
        checked(cudart().cudaStreamSynchronize(self.stream))

    def free(self) -> None:
        for buffer in self.buffers.values():
            buffer.free()
        cudart().cudaStreamDestroy(self.stream)
