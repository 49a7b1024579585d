"""Every plugin's kernels on a real GPU, launched as an engine launches them, against the references in ONNX Runtime.

`pytest tests/gpu/test_kernels.py --confcutdir=tests/gpu -s` prints one line a kernel (its name ends in the datatype)
with its largest relative error, for RESULTS.md. Needs no part of the service but the plugin SDK.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.datatypes import DATATYPES, datatype_from_numpy
from service.plugins import Call, CudaPlugin, Launch, TensorType, View
from service.plugins.cases import Array, Case, Drawn, cases_of
from service.plugins.catalogue import discover
from service.plugins.evaluation import evaluate_reference
from service.plugins.images import KernelImage
from service.plugins.kernels import compile_image
from service.plugins.launching import LoadedImage, current_capability, launch_all

GUARD, ALIGNMENT = 0xA5, 256
PLUGINS = [found.plugin for found in discover()]


def checked(result: tuple[Any, ...]) -> Any:
    status, *values = result
    assert int(status) == 0, status
    return values[0] if values else None


def reason_to_skip() -> str:
    try:
        from cuda.bindings import driver

        checked(driver.cuInit(0))
        return "" if checked(driver.cuDeviceGetCount()) else "no GPU on this host"
    except Exception as error:  # no driver at all is as good as no GPU
        return f"no GPU on this host: {error}"


REASON = reason_to_skip()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@dataclass
class Placed:
    """A tensor in device memory between guard bytes, so many elements off an aligned address."""

    datatype: str
    shape: tuple[int, ...]
    displaced: int = 0
    memory: int = field(init=False)

    def __post_init__(self) -> None:
        from cuda.bindings import driver

        self.memory = int(checked(driver.cuMemAlloc(self.size + 3 * ALIGNMENT)))
        checked(driver.cuMemsetD8(self.memory, GUARD, self.size + 3 * ALIGNMENT))

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * DATATYPES[self.datatype].itemsize

    @property
    def start(self) -> int:
        """Bytes from the beginning of the memory, which CUDA aligns."""
        return ALIGNMENT + self.displaced * DATATYPES[self.datatype].itemsize

    @property
    def view(self) -> View:
        return View(self.memory + self.start, self.datatype, self.shape)

    def write(self, array: Array) -> None:
        from cuda.bindings import driver

        if array.nbytes:
            checked(driver.cuMemcpyHtoD(self.view.address, np.ascontiguousarray(array).ctypes.data, array.nbytes))

    def read_bytes(self, offset: int, size: int) -> Array:
        from cuda.bindings import driver

        data = np.empty(size, np.uint8)
        if size:
            checked(driver.cuMemcpyDtoH(data.ctypes.data, self.memory + offset, size))
        return data

    def read_rows(self, first: int, count: int) -> Array:
        """Along the first dimension, which is not empty."""
        row = self.size // self.shape[0]
        data = self.read_bytes(self.start + first * row, count * row)
        return data.view(self.view.type.numpy).reshape((count, *self.shape[1:]))

    def read(self) -> Array:
        return self.read_bytes(self.start, self.size).view(self.view.type.numpy).reshape(self.shape)

    @property
    def is_intact(self) -> bool:
        after = self.start + self.size
        beside = self.read_bytes(0, self.start), self.read_bytes(after, 3 * ALIGNMENT - self.start)
        return all(bool((part == GUARD).all()) for part in beside)

    def free(self) -> None:
        from cuda.bindings import driver

        checked(driver.cuMemFree(self.memory))


@dataclass
class Gpu:
    """The current device: it compiles, launches and keeps the largest error of each kernel."""

    cache: Path
    stream: Any
    images: dict[tuple[type[CudaPlugin], bool], LoadedImage] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)

    def image(self, plugin: type[CudaPlugin], ptx: bool) -> LoadedImage:
        if (plugin, ptx) not in self.images:
            target = "{}_{}{}".format("compute" if ptx else "sm", *current_capability())
            data = compile_image(plugin.source(), target, self.cache)
            self.images[plugin, ptx] = LoadedImage(KernelImage(target, data))
        return self.images[plugin, ptx]

    def settle(self) -> None:
        """Waits for copies and fills: they run on the default stream, which the kernels' own does not wait for."""
        from cuda.bindings import driver

        checked(driver.cuCtxSynchronize())

    def launch(self, plugin: CudaPlugin, views: Mapping[str, View], ptx: bool = False) -> list[str]:
        """Runs the plugin and waits; the names of the kernels."""
        call = Call(views, 0)
        if call.is_empty(plugin.outputs):
            return []
        self.settle()
        launches = plugin.launch(call)
        listed = [launches] if isinstance(launches, Launch) else list(launches)
        launch_all(listed, self.image(type(plugin), ptx), int(self.stream.handle))
        self.stream.sync()
        return [launch.kernel for launch in listed]

    def run(self, plugin: CudaPlugin, case: Case, displaced: int = 0, ptx: bool = False) -> Iterator[float]:
        """Errors of the case's outputs against the reference; also that nothing beside them was written."""
        inputs = case.draw()
        types = dict(zip(case.output_names(type(plugin)), plugin.infer(case.types(type(plugin))), strict=False))
        placed = place(inputs, types, displaced)
        try:
            kernels = self.launch(plugin, {name: each.view for name, each in placed.items()}, ptx)
            for name, expected in zip(types, evaluate_reference(plugin, inputs, case.outputs), strict=True):
                error = case.error_of(placed[name].read(), expected)
                for kernel in kernels:
                    self.errors.setdefault(kernel, []).append(error)
                assert error <= case.tolerance_for(expected), f"{case.name}: {name} has error {error}"
                assert placed[name].is_intact, f"{case.name}: bytes beside {name} were overwritten"
                yield error
        finally:
            for each in placed.values():
                each.free()


def place(inputs: Mapping[str, Array], outputs: Mapping[str, TensorType], displaced: int = 0) -> dict[str, Placed]:
    placed = {}
    for name, array in inputs.items():
        datatype = datatype_from_numpy(array.dtype)
        assert datatype is not None
        placed[name] = Placed(datatype.name, array.shape, displaced)
        placed[name].write(array)
    return placed | {
        name: Placed(kind.datatype or "", tuple(kind.shape or ()), displaced) for name, kind in outputs.items()
    }


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpu]:
    from cuda.core import Device

    device = Device()
    device.set_current()
    gpu = Gpu(tmp_path_factory.mktemp("kernels"), device.create_stream())
    yield gpu
    print(f"\n{device.name}")
    for kernel, errors in sorted(gpu.errors.items()):
        print(f"{kernel:34} {max(errors):.1e}  ({len(errors)} outputs)")


@pytest.mark.parametrize("displaced", [0, 1], ids=["aligned", "one element off"])
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_kernels_equal_the_reference(gpu: Gpu, plugin: type[CudaPlugin], displaced: int) -> None:
    for case in right_cases(plugin):
        list(gpu.run(plugin(**case.fields), case, displaced))


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_ptx_gives_the_same(gpu: Gpu, plugin: type[CudaPlugin]) -> None:
    for case in right_cases(plugin)[:20]:
        list(gpu.run(plugin(**case.fields), case, ptx=True))


def right_cases(plugin: type[CudaPlugin]) -> Sequence[Case]:
    return [case for case in cases_of(plugin)[0] if not case.fault]


ROWS = 131073
"""Rows of 16384: the last begins at element 2^31, just beyond 32 bits."""
X = Drawn((ROWS, 16384), "FP16")
LARGE = {
    "ScaleBias": Case("large", {"x": X}, {"scale": 2.0, "activation": "silu"}),
    "RMSNorm": Case("large", {"x": X, "residual": X, "weight": Drawn((16384,), "FP16")}),
    "MatMulNBits": Case(
        "large",
        {"a": Drawn((ROWS, 16), "FP16"), "b": Drawn((16384, 1, 8), "UINT8"), "scales": Drawn((16384, 1), "FP16")},
        {"K": 16, "N": 16384, "block_size": 16},
    ),
}


@pytest.mark.parametrize("plugin", [each for each in PLUGINS if each.name in LARGE], ids=lambda plugin: plugin.name)
def test_more_than_2_to_the_31_elements(gpu: Gpu, plugin: type[CudaPlugin]) -> None:
    case, made, generator = LARGE[plugin.name], plugin(**LARGE[plugin.name].fields), np.random.default_rng(1)
    inputs = {name: repeated(drawn, generator) for name, drawn in case.inputs.items()}
    outputs = dict(zip(case.output_names(plugin), made.infer(case.types(plugin)), strict=True))
    placed = place(inputs, outputs)
    try:
        gpu.launch(made, {name: each.view for name, each in placed.items()})
        for first in (0, ROWS // 2, ROWS - 2):
            some = {name: each[first : first + 2] if len(each) == ROWS else each for name, each in inputs.items()}
            for name, expected in zip(outputs, evaluate_reference(made, some), strict=True):
                error = case.error_of(placed[name].read_rows(first, 2), expected)
                assert error <= case.tolerance_for(expected), f"{name} from row {first}: {error}"
    finally:
        for each in placed.values():
            each.free()


def repeated(drawn: Drawn, generator: np.random.Generator) -> Array:
    """Random numbers of a prime period, so that no two rows are alike: drawing billions takes minutes."""
    period = Drawn((1_000_003,), drawn.datatype).draw(generator)
    return np.resize(period, drawn.shape)
