"""Checks of a plugin's kernels that need no GPU: they compile, and launches ask for what is in the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.plugins.cases import Case
from service.plugins.kernels import CompileFailed, compile_image
from service.plugins.plugin import CudaPlugin
from service.plugins.results import Result
from service.plugins.tensors import Call, Launch, TensorType, View

# CUDA's limits for every GPU that is a target.
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
MAX_SHARED = 227 * 1024
ADDRESS = 2**20
"""Where tensors are said to lie: any aligned address does, nothing is read."""

_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)")


def launches_of(plugin: type[CudaPlugin], case: Case) -> list[Launch]:
    """What a case would launch; nothing where its outputs are empty."""
    made = plugin(**case.fields)
    inputs = {tensor.name: kind for tensor, kind in zip(plugin.inputs, case.types(plugin), strict=True) if kind}
    outputs = dict(zip(case.output_names(plugin), made.infer(case.types(plugin)), strict=False))
    call = Call({name: _view(kind) for name, kind in (inputs | outputs).items()}, ADDRESS)
    if call.is_empty(plugin.outputs):
        return []
    launches = made.launch(call)
    return [launches] if isinstance(launches, Launch) else list(launches)


def check_launches(plugin: type[CudaPlugin], cases: Sequence[Case]) -> Iterator[Result]:
    """Grids, blocks and shared memory are within CUDA's limits, arguments of types that can be passed."""
    for case in cases:
        faults = [fault for launch in launches_of(plugin, case) for fault in _launch_faults(launch)]
        yield Result(plugin.name, "launch", case.name, not faults, "; ".join(faults))


def check_kernels(plugin: type[CudaPlugin], cases: Sequence[Case], cache: Path) -> Iterator[Result]:
    """Every target's image holds every kernel that a case launches, and their parameters are what is passed."""
    launches = [launch for case in cases for launch in launches_of(plugin, case)]
    names = {launch.kernel for launch in launches}
    compiled = []
    for target in plugin.targets:
        try:
            image = compile_image(plugin.source(), target, cache)
        except CompileFailed as error:
            yield Result(plugin.name, "kernel", target, False, str(error))
            continue
        compiled.append(target)
        missing = sorted(name for name in names if f".text.{name}\0".encode() not in image)
        said = f"no kernel {', '.join(missing)}" if missing else f"{len(names)} kernels, {len(image)} bytes"
        yield Result(plugin.name, "kernel", target, not missing, said)
    for target in compiled[:1]:
        yield _check_parameters(plugin, launches, target, cache)


def _check_parameters(plugin: type[CudaPlugin], launches: Sequence[Launch], target: str, cache: Path) -> Result:
    """PTX spells the kernels' parameters out."""
    ptx = compile_image(plugin.source(), target.replace("sm_", "compute_"), cache).decode()
    declared = {name: [_width(kind) for kind in _PARAMETER.findall(body)] for name, body in _ENTRY.findall(ptx)}
    wrong = {
        f"{launch.kernel} takes {' '.join(declared[launch.kernel])}, is given {' '.join(passed)}"
        for launch in launches
        if launch.kernel in declared
        and declared[launch.kernel]
        != (passed := ["f32" if isinstance(each, float) else "64" for each in launch.arguments])
    }
    return Result(plugin.name, "kernel", "parameters", not wrong, "; ".join(sorted(wrong)))


def _width(kind: str) -> str:
    """Pointers and integers of 64 bits are one to a launch: `u64`, `s64`, `b64`."""
    return kind[1:] if kind[1:] == "64" and kind[0] in "usb" else kind


def _launch_faults(launch: Launch) -> Iterator[str]:
    grid, block = _triple(launch.grid), _triple(launch.block)
    if not all(1 <= size <= limit for size, limit in zip(grid, MAX_GRID, strict=True)):
        yield f"{launch.kernel}: a grid of {grid}"
    if min(block) < 1 or block[0] * block[1] * block[2] > MAX_THREADS:
        yield f"{launch.kernel}: a block of {block}"
    if not 0 <= launch.shared <= MAX_SHARED:
        yield f"{launch.kernel}: {launch.shared} bytes of shared memory"
    for argument in launch.arguments:
        if isinstance(argument, bool) or not isinstance(argument, View | int | float | None):
            yield f"{launch.kernel}: an argument {argument!r}, expected a View, an int, a float or None"


def _triple(sizes: tuple[int, int, int] | int) -> tuple[int, int, int]:
    return (sizes, 1, 1) if isinstance(sizes, int) else sizes


def _view(kind: TensorType) -> View:
    return View(ADDRESS, kind.datatype or "", tuple(kind.shape or ()))
