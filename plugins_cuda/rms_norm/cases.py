"""Nodes that RMSNorm must get right, or refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from plugins_cuda.rms_norm.plugin import RMSNorm
from service.plugins import FLOATS
from service.plugins.cases import ODD_LENGTHS, Array, Case, Drawn

LONG = (512, 1024, 1032, 2048, 4096, 5000, 16384, 65536, 70001)


def oracle(plugin: RMSNorm, inputs: Mapping[str, Array]) -> list[Array]:
    x = inputs["x"]
    hidden = x.astype(np.float64)
    if "residual" in inputs:
        hidden = (hidden + inputs["residual"].astype(np.float64)).astype(x.dtype).astype(np.float64)
    mean = np.sum(hidden**2, axis=-1, keepdims=True) / max(x.shape[-1], 1)
    y = hidden / np.sqrt(mean + plugin.epsilon) * inputs["weight"].astype(np.float64)
    return [y + inputs["bias"].astype(np.float64) if "bias" in inputs else y, hidden]


def node(shape: tuple[int, ...], datatype: str, residual: bool, bias: bool, how: str = "normal") -> dict[str, Drawn]:
    """The inputs of a node over x of this shape."""
    row, vector = Drawn(shape, datatype, how), Drawn(shape[-1:], datatype)
    return {"x": row, "weight": vector} | ({"residual": row} if residual else {}) | ({"bias": vector} if bias else {})


def right() -> Iterator[Case]:
    shape: tuple[int, ...]
    for datatype in FLOATS:
        for residual, bias, outputs in product((False, True), (False, True), (1, 2)):
            said = f"residual {residual}, bias {bias}, {outputs} outputs {datatype}"
            yield Case(f"short, {said}", node((6, 40), datatype, residual, bias), outputs=outputs)
            yield Case(f"long, {said}", node((3, 3072), datatype, residual, bias), {"epsilon": 1e-6}, outputs)
        for length in (*ODD_LENGTHS, *LONG):
            yield Case(f"row of {length} {datatype}", node((3, length), datatype, residual=True, bias=True))
        for shape in ((1,), (33,), (2, 3, 4, 5), (1003, 17), (300, 1536)):
            yield Case(f"shape {shape} {datatype}", node(shape, datatype, residual=True, bias=False))
        for shape in ((0,), (0, 8), (3, 0), (2, 0, 3)):
            yield Case(f"empty {shape} {datatype}", node(shape, datatype, residual=True, bias=True))
        for how in ("extreme", "constant"):
            yield Case(f"{how} {datatype}", node((9, 130), datatype, residual=False, bias=True, how=how))
        zeros = Drawn((2, 48), datatype, "constant", 0.0)
        yield Case(f"zeros {datatype}", {"x": zeros, "weight": Drawn((48,), datatype)}, {"epsilon": 1e-12})
        large = Drawn((4, 512), datatype, "constant", 300.0)  # its squares add up to 46 million
        yield Case(f"512 x 300 {datatype}", {"x": large, "weight": Drawn((512,), datatype)})
        yield Case(f"large epsilon {datatype}", node((4, 64), datatype, residual=False, bias=False), {"epsilon": 3.0})


def wrong() -> Iterator[Case]:
    x, weight = Drawn((2, 8)), Drawn((8,))
    for epsilon in (0.0, -1e-5):
        yield Case(f"epsilon {epsilon}", {"x": x, "weight": weight}, {"epsilon": epsilon}, fault="expected at least")
    yield Case("no weight", {"x": x}, fault="requires the input weight")
    yield Case("scalar", {"x": Drawn(()), "weight": weight}, fault="rank 1 or more")
    yield Case("weight too long", {"x": x, "weight": Drawn((9,))}, fault="C = 8")
    yield Case("weight of rank 2", {"x": x, "weight": Drawn((1, 8))}, fault="rank 1")
    yield Case("other weight type", {"x": x, "weight": Drawn((8,), "FP16")}, fault="must be FP32 as x is")
    yield Case("other residual", {"x": x, "weight": weight, "residual": Drawn((1, 8))}, fault="... = [2]")
    yield Case("other bias", {"x": x, "weight": weight, "bias": Drawn((1,))}, fault="C = 8")
    yield Case("integers", {"x": Drawn((2, 8), "INT32"), "weight": weight}, fault="takes FP32 or FP16 or BF16")
    yield Case("misspelt field", {"x": x, "weight": weight}, {"epsilonn": 1e-3}, fault="no field of this name")


CASES = [*right(), *wrong()]
