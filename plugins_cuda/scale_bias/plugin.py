"""ScaleBias: one fused multiply, add and activation over any tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from service.plugins import FLOATS, Call, CudaPlugin, Launch, PluginFault, Tensor, TensorType, field

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
THREADS = 256
MAX_BLOCKS = 16384


class ScaleBias(CudaPlugin):
    """y = activation(x * scale + bias), in one pass."""

    scale: float = field(1.0, "factor applied to every element")
    bias: float = field(0.0, "added after the factor")
    axis: int = field(-1, "dimension of x that scales and biases run along")
    activation: str = field("none", "applied last; gelu is exact, gelu_tanh its approximation", choices=ACTIVATIONS)

    inputs = (
        Tensor("x", FLOATS),
        Tensor("scales", like="x", shape="[C]", optional=True, description="factors along axis, instead of scale"),
        Tensor("biases", like="x", shape="[C]", optional=True, description="summands along axis, instead of bias"),
    )
    outputs = (Tensor("y", like="x"),)

    def check(self, tensors: Mapping[str, TensorType]) -> Iterator[PluginFault]:
        for scalar, vector in (("scale", "scales"), ("bias", "biases")):
            if scalar in self.given and vector in tensors:
                yield PluginFault(f"give either the field {scalar} or the input {vector}, not both", scalar)
        shape = tensors["x"].shape
        if shape is None or not tensors.keys() & {"scales", "biases"}:
            return
        if not -len(shape) <= self.axis < len(shape):
            yield PluginFault(f"expected an axis of x, which has rank {len(shape)}, got {self.axis}", "axis")
            return
        for name in ("scales", "biases"):
            length = tensors[name].shape if name in tensors else None
            if (
                length
                and isinstance(shape[self.axis], int)
                and isinstance(length[0], int)
                and length[0] != shape[self.axis]
            ):
                yield PluginFault(
                    f"expected {shape[self.axis]} elements, as axis {self.axis} of x has, got {length[0]}", name
                )

    def launch(self, call: Call) -> Launch:
        x, y, activation = call["x"], call["y"], ACTIVATIONS.index(self.activation)
        blocks = min(-(-x.size * x.type.itemsize // (16 * THREADS)), MAX_BLOCKS)
        scales, biases = call.get("scales"), call.get("biases")
        if scales is None and biases is None:
            return Launch(
                f"scale_bias_uniform_{x.short}", blocks, THREADS, (x, y, x.size, self.scale, self.bias, activation)
            )
        channels, inner = x.shape[self.axis], math.prod(x.shape[self.axis % len(x.shape) + 1 :])
        return Launch(
            f"scale_bias_channels_{x.short}", blocks, THREADS,
            (x, scales, biases, y, x.size, self.scale, self.bias, channels, inner, activation),
        )  # fmt: skip

    def reference(self, op: Any, x: Any, scales: Any, biases: Any) -> Any:
        wide = op.Cast(x, to=1)
        factor = self.scale if scales is None else self._along_axis(op, x, scales)
        summand = self.bias if biases is None else self._along_axis(op, x, biases)
        return op.CastLike(_activate(op, op.Add(op.Mul(wide, factor), summand), self.activation), x)

    def _along_axis(self, op: Any, x: Any, vector: Any) -> Any:
        """`vector` in FP32 and in a shape that broadcasts along the axis of x, whatever the rank of x."""
        rank = op.Size(op.Shape(x))
        ones = op.Expand(op.Constant(value_ints=[1]), op.Reshape(rank, op.Constant(value_ints=[1])))
        axis = op.Constant(value_ints=[self.axis])
        index = op.Where(op.Less(axis, op.Constant(value_ints=[0])), op.Add(axis, rank), axis)
        shape = op.ScatterElements(ones, index, op.Constant(value_ints=[-1]), axis=0)
        return op.Reshape(op.Cast(vector, to=1), shape)


def _activate(op: Any, value: Any, activation: str) -> Any:
    match activation:
        case "relu":
            return op.Relu(value)
        case "gelu":
            return op.Mul(op.Mul(value, 0.5), op.Add(op.Erf(op.Mul(value, math.sqrt(0.5))), 1.0))
        case "gelu_tanh":
            cube = op.Mul(op.Mul(value, value), value)
            inner = op.Mul(op.Add(value, op.Mul(cube, 0.044715)), math.sqrt(2 / math.pi))
            return op.Mul(op.Mul(value, 0.5), op.Add(op.Tanh(inner), 1.0))
        case "silu":
            return op.Mul(value, op.Sigmoid(value))
        case "sigmoid":
            return op.Sigmoid(value)
        case "tanh":
            return op.Tanh(value)
    return value
