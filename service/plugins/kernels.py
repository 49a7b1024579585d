"""CUDA C++ to machine code: NVRTC, with compiled images kept by content."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import plugins_cuda

COMMON = Path(plugins_cuda.__path__[0]) / "common"
OPTIONS = ("--std=c++17",)
_TARGET = re.compile(r"(sm|compute)_(\d+)([af]?)")


class CompileFailed(Exception):
    """NVRTC refused a source or a target; the text holds the compiler's own log."""


def compile_image(source: Path, target: str, cache_folder: Path) -> bytes:
    """A cubin for a target such as `sm_86`, PTX for one such as `compute_120`. Raises CompileFailed.

    Images are kept in `cache_folder` by everything that goes into them; several processes may share it.
    """
    check_target(target)
    cached = _cached(source, target, cache_folder)
    if cached.exists():
        return cached.read_bytes()
    image = _compile(source, target)
    cache_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache_folder, delete=False) as partial:
        partial.write(image)
    os.replace(partial.name, cached)  # noqa: PTH105 - atomic, also beside another process that writes the same
    return image


def is_compiled(source: Path, target: str, cache_folder: Path) -> bool:
    """Whether `compile_image` would find the image in the cache."""
    return _cached(source, target, cache_folder).exists()


def _cached(source: Path, target: str, cache_folder: Path) -> Path:
    return cache_folder / f"{_key(source, target)}.{'cubin' if target.startswith('sm_') else 'ptx'}"


def check_target(target: str) -> None:
    """Raises CompileFailed where the compiler does not know the target."""
    match = _TARGET.fullmatch(target)
    if not match or int(match[2]) not in _supported():
        known = ", ".join(f"sm_{number}" for number in _supported())
        raise CompileFailed(f"the compiler has no target {target!r}; it has {known}")


def nvrtc_version() -> str:
    """The compiler's, `13.5`."""
    nvrtc = _nvrtc()
    major, minor = _checked(nvrtc.nvrtcVersion())
    return f"{major}.{minor}"


def _compile(source: Path, target: str) -> bytes:
    nvrtc = _nvrtc()
    program = _checked(nvrtc.nvrtcCreateProgram(source.read_bytes(), source.name.encode(), 0, [], []))
    options = [*OPTIONS, f"--gpu-architecture={target}", *(f"--include-path={path}" for path in _include_paths(source))]
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileFailed(f"{source.parent.name}/{source.name} for {target}:\n{_log(nvrtc, program)}")
        if target.startswith("sm_"):
            size, read = nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN
        else:
            size, read = nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX
        image = bytearray(_checked(size(program)))
        _checked(read(program, image))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    if not image:
        raise CompileFailed(f"{source.parent.name}/{source.name} for {target}: the compiler gave an empty image")
    return bytes(image)


def _log(nvrtc: Any, program: Any) -> str:
    log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
    _checked(nvrtc.nvrtcGetProgramLog(program, log))
    # Where the sources lie is nobody's business.
    return log.rstrip(b"\0").decode(errors="replace").replace(str(COMMON.parent) + os.sep, "").strip()


def _key(source: Path, target: str) -> str:
    digest = hashlib.sha256(f"{nvrtc_version()} {target} {OPTIONS}".encode())
    for path in _sources(source):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(source: Path) -> Iterator[Path]:
    """Everything of ours that may go into the image."""
    yield source
    for folder in (source.parent, COMMON):
        yield from sorted(folder.glob("*.cuh"))


@cache
def _include_paths(source: Path) -> tuple[str, ...]:
    from cuda.pathfinder import find_nvidia_header_directory

    toolkit = find_nvidia_header_directory("cudart")
    if toolkit is None:
        raise CompileFailed("CUDA's headers are not installed: nvidia-cuda-runtime, -crt and -cccl bring them")
    return str(source.parent), str(COMMON), toolkit, str(Path(toolkit) / "cccl")


@cache
def _supported() -> tuple[int, ...]:
    return tuple(_checked(_nvrtc().nvrtcGetSupportedArchs()))


def _nvrtc() -> Any:
    from cuda.bindings import nvrtc

    return nvrtc


def _checked(result: tuple[Any, ...]) -> Any:
    """The value of a CUDA call that cannot fail on user input."""
    status, *values = result
    if int(status) != 0:
        raise CompileFailed(f"NVRTC: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)
