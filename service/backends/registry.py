"""Backends by name, in the order that `auto` prefers them. Each is imported only when it is asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from service.backends.base import Backend

BACKENDS = ("tensorrt", "tensorrt_rtx", "onnxruntime")


@cache
def backend(name: str, plugin_libraries: tuple[Path, ...] = (), kernel_cache: Path = Path("kernels")) -> Backend:
    """One instance a process: TensorRT knows each creator once. Raises ImportError, once used, without the runtime."""
    if name == "onnxruntime":
        from service.backends.onnxruntime import OnnxRuntime

        return OnnxRuntime()
    if name in BACKENDS:
        from service.backends.tensorrt import TensorRT

        return TensorRT(name, plugin_libraries, kernel_cache)
    raise ValueError(f"no backend {name!r}; there are {', '.join(BACKENDS)}")
