"""RMSNorm: the norm of decoder networks, with the residual addition before it in the same pass."""

from __future__ import annotations

from typing import Any

from service.plugins import FLOATS, Call, CudaPlugin, Launch, Tensor, field

WARP = 32
WARPS_A_BLOCK = 4
KEPT = 64  # bytes of a row that a thread keeps in registers: four packs of 16
MAX_THREADS = 512  # the kernel's launch bound
MAX_BLOCKS = 2**31 - 1
SMALLEST_NORMAL = 2.0**-126  # of FP32


class RMSNorm(CudaPlugin):
    """h / sqrt(mean(h * h) + epsilon) * weight + bias along the last dimension, where h is x + residual.

    h is rounded to the type of x, as a network's own Add would, and comes out as `sum`. Accumulated in FP32: squares
    beyond its range give zeros, as they do in the reference.
    """

    epsilon: float = field(1e-5, "added to the mean square; positive", minimum=SMALLEST_NORMAL)

    inputs = (
        Tensor("x", FLOATS, shape="[..., C]"),
        Tensor("weight", like="x", shape="[C]", description="factors along the last dimension"),
        Tensor("residual", like="x", shape="[..., C]", optional=True, description="added to x first"),
        Tensor("bias", like="x", shape="[C]", optional=True, description="summands along the last dimension"),
    )
    outputs = (
        Tensor("y", like="x"),
        Tensor("sum", like="x", optional=True, description="x + residual, which the next residual addition needs"),
    )

    def launch(self, call: Call) -> Launch:
        x = call["x"]
        length = x.shape[-1]
        rows = x.size // length
        warps = -(-length * x.type.itemsize // (KEPT * WARP))
        if warps == 1:
            team, blocks, threads = "warps", -(-rows // WARPS_A_BLOCK), WARP * WARPS_A_BLOCK
        else:
            team, blocks, threads = "blocks", rows, min(warps * WARP, MAX_THREADS)
        return Launch(
            f"rms_norm_{team}_{x.short}", min(blocks, MAX_BLOCKS), threads,
            (x, call["weight"], call.get("residual"), call.get("bias"), call["y"], call.get("sum"),
             self.epsilon, rows, length),
        )  # fmt: skip

    def reference(self, op: Any, x: Any, weight: Any, residual: Any, bias: Any) -> Any:
        total = x if residual is None else op.CastLike(op.Add(op.Cast(x, to=1), op.Cast(residual, to=1)), x)
        hidden = op.Cast(total, to=1)
        last = op.Constant(value_ints=[-1])
        mean = op.ReduceMean(op.Mul(hidden, hidden), last, keepdims=1)
        scaled = op.Mul(op.Div(hidden, op.Sqrt(op.Add(mean, self.epsilon))), op.Cast(weight, to=1))
        result = scaled if bias is None else op.Add(scaled, op.Cast(bias, to=1))
        return op.CastLike(result, x), op.Identity(total)
