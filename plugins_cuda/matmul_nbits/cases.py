"""Nodes that MatMulNBits must get right, or refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from plugins_cuda.matmul_nbits.plugin import BLOCK_SIZES, MatMulNBits
from service.plugins import FLOATS
from service.plugins.cases import ODD_LENGTHS, Array, Case, Drawn


def oracle(plugin: MatMulNBits, inputs: Mapping[str, Array]) -> list[Array]:
    scales = inputs["scales"].astype(np.float64).reshape(plugin.N, plugin.blocks, 1)
    weights = unpacked(inputs["b"], plugin).reshape(plugin.N, plugin.blocks, plugin.block_size)
    rows = ((weights - zeros(plugin, inputs)) * scales).reshape(plugin.N, -1)[:, : plugin.K]
    y = inputs["a"].astype(np.float64) @ rows.T
    return [y + inputs["bias"].astype(np.float64) if "bias" in inputs else y]


def zeros(plugin: MatMulNBits, inputs: Mapping[str, Array]) -> Array:
    given = inputs.get("zero_points")
    if given is None:
        return np.array(2.0 ** (plugin.bits - 1))
    values = unpacked(given, plugin)[:, : plugin.blocks] if given.dtype == np.uint8 else given.astype(np.float64)
    return values.reshape(plugin.N, plugin.blocks, 1)


def unpacked(packed: Array, plugin: MatMulNBits) -> Array:
    """The elements of packed bytes, one row for each of N, low bits first."""
    rows = packed.reshape(plugin.N, -1, 1)
    elements: Array = (rows >> np.arange(0, 8, plugin.bits)) & (2**plugin.bits - 1)
    return elements.reshape(plugin.N, -1).astype(np.float64)


def node(rows: tuple[int, ...], K: int, N: int, bits: int, block_size: int, datatype: str = "FP32",  # noqa: N803
         zero_points: str = "", bias: bool = False, flat: bool = False, how: str = "normal",
         ) -> tuple[dict[str, Drawn], dict[str, Any]]:  # fmt: skip
    """Inputs and fields of a node; `zero_points` is empty, "packed" or "float"."""
    blocks = -(-K // block_size)
    inputs = {
        "a": Drawn((*rows, K), datatype, how),
        "b": Drawn((N, blocks, block_size * bits // 8), "UINT8"),
        "scales": Drawn((N * blocks,) if flat else (N, blocks), datatype, scale=0.1),
    }
    if zero_points:
        width, kind = (-(-blocks * bits // 8), "UINT8") if zero_points == "packed" else (blocks, datatype)
        inputs["zero_points"] = Drawn((N * width,) if flat else (N, width), kind, scale=5.0)
    if bias:
        inputs["bias"] = Drawn((N,), datatype)
    return inputs, {"K": K, "N": N, "bits": bits, "block_size": block_size}


def right() -> Iterator[Case]:
    rows: tuple[int, ...]
    for datatype, bits, zero_points in product(FLOATS, (4, 8), ("", "packed", "float")):
        # ONNX Runtime's kernel takes floats as zero points of 4-bit weights only.
        options: dict[str, Any] = {"datatype": datatype, "zero_points": zero_points, "bits": bits}
        peer = (bits, zero_points) != (8, "float")
        said = f"{bits} bits, {zero_points or 'no'} zero points {datatype}"
        for block_size in BLOCK_SIZES:
            for rows, K, N in (((3,), 2 * block_size + 7, 65), ((2, 9), 3 * block_size, 70)):  # noqa: N806
                yield Case(f"{rows} rows of {K} in {block_size}, {said}",
                           *node(rows, K, N, block_size=block_size, bias=N == 65, **options), peer=peer)  # fmt: skip
        yield Case(f"one block, flat, {said}",
                   *node((2,), 5, 3, block_size=16, flat=True, **options), peer=peer)  # fmt: skip
        yield Case(f"five blocks, flat, {said}",
                   *node((10,), 77, 3, block_size=16, flat=True, bias=True, **options), peer=peer)  # fmt: skip
    for datatype in FLOATS:
        for length in ODD_LENGTHS:
            for rows in ((4,), (65,)):
                yield Case(f"{rows} rows of {length} {datatype}", *node(rows, length, 9, 4, 32, datatype, "packed"))
        for rows in ((), (0,), (2, 0), (1,), (8,), (9,), (2, 3, 2), (130,)):
            yield Case(f"{rows} rows {datatype}", *node(rows, 96, 33, 8, 32, datatype, "packed", bias=True))
            yield Case(f"{rows} rows, no bias {datatype}", *node(rows, 40, 1, 4, 16, datatype))
        for rows in ((5,), (20,)):
            yield Case(f"{rows} extreme rows {datatype}", *node(rows, 129, 17, 4, 64, datatype, how="extreme"))
            yield Case(f"{rows} rows of 4096 {datatype}", *node(rows, 4096, 24, 4, 128, datatype, "packed"))


def wrong() -> Iterator[Case]:
    inputs, fields = node((2,), 40, 3, 4, 16, zero_points="packed", bias=True)
    refused = {
        "bits": (2, "expected one of 4, 8"),
        "block_size": (24, "expected one of 16, 32"),
        "K": (0, "at least 1"),
        "N": (-3, "at least 1"),
    }
    for name, (value, fault) in refused.items():
        yield Case(f"{name} {value}", inputs, fields | {name: value}, fault=fault)
    yield Case("no K", inputs, {"N": 3, "block_size": 16}, fault="requires this field")
    yield Case("other K", inputs, fields | {"K": 41}, fault="K = 41")
    yield Case("other N", inputs, fields | {"N": 4}, fault="N = 4")
    yield Case("bits of others", inputs, fields | {"bits": 8}, fault="block_size * bits // 8 = 16")
    yield Case("misspelt field", inputs, fields | {"blocksize": 16}, fault="no field of this name")
    for name, drawn, fault in (
        ("a", Drawn(()), "rank 1 or more"),
        ("b", Drawn((3, 3, 8), "INT8"), "takes UINT8"),
        ("b", Drawn((72,), "UINT8"), "rank 3"),
        ("scales", Drawn((3, 2)), "[3, 3] or [9]"),
        ("scales", Drawn((3, 3, 1)), "[3, 3] or [9]"),
        ("scales", Drawn((3, 3), "FP16"), "must be FP32 as a is"),
        ("zero_points", Drawn((3, 3), "UINT8"), "[3, 2] or [6]"),
        ("zero_points", Drawn((3, 2)), "[3, 3] or [9]"),
        ("zero_points", Drawn((3, 3), "BF16"), "must be UINT8 or FP32"),
        ("zero_points", Drawn((3, 3), "INT32"), "takes UINT8 or FP32"),
        ("bias", Drawn((1, 3)), "rank 1"),
        ("bias", Drawn((4,)), "N = 3"),
    ):
        yield Case(f"{name} {drawn.datatype} {drawn.shape}", inputs | {name: drawn}, fields, fault=fault)


CASES = [*right(), *wrong()]
