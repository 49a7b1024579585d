"""The plugins' own CUDA sources, compiled as C++ and run thread by thread on the CPU.

It is what a machine without a GPU can say about indices, tails, alignment and barriers. Arithmetic and speed are for
tests/gpu.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from service.datatypes import DATATYPES, datatype_from_numpy
from service.plugins import Call, CudaPlugin, Launch, View
from service.plugins.case_checks import oracle_outputs
from service.plugins.cases import Array, cases_of
from service.plugins.catalogue import BUILT_IN, discover
from service.plugins.kernels import COMMON

EMULATION = Path(__file__).parent / "emulation"
COMPILER = shutil.which("g++")
GUARD, ALIGNMENT = 0xA5, 256

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ to compile the kernels with")
PLUGINS = [found.plugin for found in discover() if found.origin == BUILT_IN]


@pytest.fixture(scope="module", params=PLUGINS, ids=lambda plugin: plugin.name)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    plugin: type[CudaPlugin] = request.param
    library = tmp_path_factory.mktemp("kernels") / f"{plugin.name}.so"
    flags = ["-x", "c++", "-std=c++20", "-O1", "-w", "-fno-strict-aliasing", "-shared", "-fPIC"]
    paths = ["-include", EMULATION / "emulation.h", "-I", EMULATION, "-I", COMMON]
    subprocess.run([COMPILER, *flags, *paths, plugin.source(), "-o", library], check=True)
    return plugin, ctypes.CDLL(str(library))


@pytest.mark.parametrize("displaced", [0, 1], ids=["aligned", "one element off"])
def test_kernels_on_cpu_equal_the_oracle_and_write_nothing_else(compiled, displaced: int) -> None:
    plugin, library = compiled
    cases, oracle = cases_of(plugin)
    for case in (case for case in cases if not case.fault):
        made, inputs = plugin(**case.fields), case.draw()
        types = made.infer(case.types(plugin))[: case.outputs]
        empty = {
            name: np.empty(kind.shape, DATATYPES[kind.datatype].numpy)
            for name, kind in zip(case.output_names(plugin), types, strict=True)
        }
        placed = {name: Placed.of(array, displaced) for name, array in (inputs | empty).items()}
        for name in inputs:
            placed[name].array[...] = inputs[name]
        launch_on_cpu(library, made, {name: each.view for name, each in placed.items()})
        for name, expected in zip(empty, oracle_outputs(oracle, made, inputs, types), strict=True):
            error = case.error_of(placed[name].array, expected)
            assert error <= case.tolerance_for(expected), f"{case.name}: {name} has error {error}"
            assert placed[name].is_intact, f"{case.name}: bytes beside {name} were overwritten"


def launch_on_cpu(library: ctypes.CDLL, plugin: CudaPlugin, views: Mapping[str, View]) -> None:
    call = Call(views)
    if call.is_empty(plugin.outputs):
        return
    launches = plugin.launch(call)
    for launch in [launches] if isinstance(launches, Launch) else launches:
        assert isinstance(launch.grid, int) and isinstance(launch.block, int), "the emulation knows one dimension"
        floats = [each for each in launch.arguments if isinstance(each, float)]
        words = [word(each) for each in launch.arguments if not isinstance(each, float)]
        kernel = getattr(library, launch.kernel)
        packed = (ctypes.c_longlong * 16)(*words), (ctypes.c_float * 4)(*floats)
        library.launch(kernel, launch.grid, launch.block, *packed)


def word(argument: View | int | None) -> int:
    return argument.address if isinstance(argument, View) else argument or 0


@dataclass
class Placed:
    """A tensor between guard bytes, so many elements off an aligned address."""

    memory: Array
    start: int
    array: Array

    @classmethod
    def of(cls, like: Array, displaced: int) -> Placed:
        memory = np.full(like.nbytes + 4 * ALIGNMENT, GUARD, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT + ALIGNMENT + displaced * like.itemsize
        return cls(memory, start, memory[start : start + like.nbytes].view(like.dtype).reshape(like.shape))

    @property
    def view(self) -> View:
        datatype = datatype_from_numpy(self.array.dtype)
        assert datatype is not None
        return View(self.memory.ctypes.data + self.start, datatype.name, self.array.shape)

    @property
    def is_intact(self) -> bool:
        beside = np.concatenate([self.memory[: self.start], self.memory[self.start + self.array.nbytes :]])
        return bool((beside == GUARD).all())
