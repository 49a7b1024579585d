"""Nodes that ScaleBias must get right, or refuse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from plugins_cuda.scale_bias.plugin import ACTIVATIONS, ScaleBias
from service.plugins import FLOATS
from service.plugins.cases import ODD_LENGTHS, Array, Case, Drawn


def oracle(plugin: ScaleBias, inputs: Mapping[str, Array]) -> list[Array]:
    x = inputs["x"].astype(np.float64)
    factor, summand = np.asarray(plugin.scale), np.asarray(plugin.bias)
    if inputs.keys() & {"scales", "biases"}:
        shape = [length if axis == plugin.axis % x.ndim else 1 for axis, length in enumerate(x.shape)]
        along = {name: inputs[name].astype(np.float64).reshape(shape) for name in inputs if name != "x"}
        factor, summand = along.get("scales", factor), along.get("biases", summand)
    value = x * factor + summand
    erf = np.vectorize(math.erf, otypes=[np.float64])
    match plugin.activation:
        case "relu":
            value = np.maximum(value, 0)
        case "gelu":
            value = 0.5 * value * (1 + erf(value * math.sqrt(0.5)))
        case "gelu_tanh":
            value = 0.5 * value * (1 + np.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))
        case "silu":
            value = value / (1 + np.exp(-value))
        case "sigmoid":
            value = 1 / (1 + np.exp(-value))
        case "tanh":
            value = np.tanh(value)
    return [value]


def right() -> Iterator[Case]:
    shape: tuple[int, ...]
    both = {"scale": 1.5, "bias": -0.25}
    for datatype in FLOATS:
        for activation in ACTIVATIONS:
            x = Drawn((3, 129), datatype, scale=2.0)
            yield Case(f"{activation} {datatype}", {"x": x}, both | {"activation": activation})
            yield Case(f"{activation} extreme {datatype}", {"x": Drawn((4, 65), datatype, "extreme")},
                       {"activation": activation})  # fmt: skip
        for length in ODD_LENGTHS:
            vector = Drawn((length,), datatype)
            yield Case(f"row of {length} {datatype}", {"x": Drawn((2, length), datatype)}, both)
            yield Case(f"{length} channels {datatype}",
                       {"x": Drawn((2, length), datatype), "scales": vector, "biases": vector},
                       {"activation": "silu"})  # fmt: skip
        for shape in ((), (7,), (2, 3, 4, 5, 6), (1000, 257)):
            yield Case(f"shape {shape} {datatype}", {"x": Drawn(shape, datatype)}, both)
        for shape in ((0,), (0, 4), (4, 0), (2, 0, 3)):
            vector = Drawn(shape[-1:], datatype)
            yield Case(f"empty {shape} {datatype}", {"x": Drawn(shape, datatype)}, both)
            yield Case(f"empty {shape} channels {datatype}", {"x": Drawn(shape, datatype), "scales": vector})
    shape = (2, 3, 5, 8)
    for axis in range(-4, 4):
        x, vector = Drawn(shape, "FP16"), Drawn((shape[axis],), "FP16")
        yield Case(f"scales along {axis}", {"x": x, "scales": vector}, {"axis": axis, "bias": 0.5})
        yield Case(f"biases along {axis}", {"x": x, "biases": vector}, {"axis": axis, "scale": -2.0})
        yield Case(f"both along {axis}", {"x": x, "scales": vector, "biases": vector}, {"axis": axis})
    yield Case("defaults", {"x": Drawn((5, 5))})


def wrong() -> Iterator[Case]:
    x, vector = Drawn((2, 3)), Drawn((3,))
    yield Case("scale twice", {"x": x, "scales": vector}, {"scale": 2.0}, fault="not both")
    yield Case("bias twice", {"x": x, "biases": vector}, {"bias": 2.0}, fault="not both")
    yield Case("too many channels", {"x": x, "scales": Drawn((4,))}, fault="expected 3 elements")
    yield Case("scales of rank 2", {"x": x, "scales": Drawn((1, 3))}, fault="rank 1")
    yield Case("no such axis", {"x": x, "scales": vector}, {"axis": 2}, fault="expected an axis of x")
    yield Case("no axis at all", {"x": Drawn(()), "scales": Drawn((1,))}, fault="expected an axis of x")
    yield Case("mixed types", {"x": x, "scales": Drawn((3,), "FP16")}, fault="must be FP32 as x is")
    yield Case("integers", {"x": Drawn((2, 3), "INT64")}, fault="takes FP32 or FP16 or BF16")
    yield Case("no input", {}, fault="requires the input x")
    yield Case("no such activation", {"x": x}, {"activation": "swish"}, fault="expected one of")
    yield Case("misspelt field", {"x": x}, {"scal": 1.0}, fault="no field of this name")
    yield Case("field of another type", {"x": x}, {"scale": "2"}, fault="expected a number")


CASES = [*right(), *wrong()]
