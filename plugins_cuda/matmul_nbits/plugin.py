"""MatMulNBits: ONNX Runtime's product with weights packed in 4 or 8 bits, with the operator's own spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from service.plugins import FLOATS, Call, CudaPlugin, Launch, Operator, PluginFault, Tensor, TensorType, field, required
from service.plugins.shapes import render

BLOCK_SIZES = (16, 32, 64, 128, 256)
FEW_ROWS = 8
THREADS, WARP = 256, 32
SIDE = 64  # of the part of y that one block computes where there are many rows
MAX_BLOCKS = 2**31 - 1


class MatMulNBits(CudaPlugin):
    """Activation times weights packed in 4 or 8 bits: a @ transpose(w) + bias, w = (b - zero_points) * scales.

    Each row of w is cut into blocks of block_size elements that share a scale and a zero point; in a byte of two
    elements the low half comes first. Without zero_points it is the middle of the range, 2^(bits-1).
    """

    K: int = required("length of a row of the weights", minimum=1)
    N: int = required("rows of the weights, columns of y", minimum=1)
    bits: int = field(4, "width of a packed weight", choices=(4, 8))
    block_size: int = required("weights that share a scale", choices=BLOCK_SIZES)

    inputs = (
        Tensor("a", FLOATS, shape="[..., K]"),
        Tensor("b", ("UINT8",), shape="[N, ceildiv(K, block_size), block_size * bits // 8]",
               description="the weights, low bits first"),
        Tensor("scales", like="a", description="[N, blocks of a row], or the same flat"),
        Tensor("zero_points", ("UINT8", *FLOATS), optional=True,
               description="UINT8 [N, ceil(blocks * bits / 8)], packed as the weights, or of a's type [N, blocks]; "
                           "or the same flat"),
        Tensor("bias", like="a", shape="[N]", optional=True, description="added to every row of y"),
    )  # fmt: skip
    outputs = (Tensor("y", like="a", shape="[..., N]"),)
    operators = (
        Operator(
            "com.microsoft.MatMulNBits",
            inputs=("a", "b", "scales", "zero_points", None, "bias"),
            outputs=("y",),
            ignored=("accuracy_level",),
            fixed={"weight_prepacked": 0},
        ),
    )

    @property
    def blocks(self) -> int:
        """Of a row of the weights; the last may reach beyond K."""
        return -(-self.K // self.block_size)

    def check(self, tensors: Mapping[str, TensorType]) -> Iterator[PluginFault]:
        yield from self._expect_rows(tensors["scales"], "scales", self.blocks)
        zeros = tensors.get("zero_points", TensorType())
        if zeros.datatype is None:
            return
        packed = zeros.datatype == "UINT8"
        if not packed and tensors["a"].datatype not in (None, zeros.datatype):
            wanted = f"UINT8 or {tensors['a'].datatype} as a is"
            yield PluginFault(f"zero_points must be {wanted}, got {zeros.datatype}", "zero_points")
        yield from self._expect_rows(zeros, "zero_points", -(-self.blocks * self.bits // 8) if packed else self.blocks)

    def _expect_rows(self, found: TensorType, name: str, width: int) -> Iterator[PluginFault]:
        """A fault unless the tensor can have N rows of `width` elements, or be the same flat."""
        if found.shape is None:
            return
        fits = any(
            len(found.shape) == len(shape)
            and all(not isinstance(got, int) or got == wanted for got, wanted in zip(found.shape, shape, strict=True))
            for shape in ((self.N, width), (self.N * width,))
        )
        if not fits:
            yield PluginFault(
                f"expected the shape [{self.N}, {width}] or [{self.N * width}], got {render(found.shape)}", name
            )

    def launch(self, call: Call) -> Launch:
        a, zeros = call["a"], call.get("zero_points")
        rows = a.size // self.K
        if rows <= FEW_ROWS:
            kernel, blocks = "dot", -(-self.N * WARP // THREADS)
        else:
            kernel, blocks = "tile", min(-(-rows // SIDE) * -(-self.N // SIDE), MAX_BLOCKS)
        packed = zeros is not None and zeros.datatype == "UINT8"
        return Launch(
            f"matmul_nbits_{kernel}_{a.short}_b{self.bits}", blocks, THREADS,
            (a, call["b"], call["scales"], zeros if packed else None, None if packed else zeros, call.get("bias"),
             call["y"], rows, self.N, self.K, self.blocks, self.block_size.bit_length() - 1),
        )  # fmt: skip

    def reference(self, op: Any, a: Any, b: Any, scales: Any, zero_points: Any, bias: Any) -> Any:
        blocks = (self.N, self.blocks, 1)
        weights = _reshape(op, self._unpacked(op, op.Cast(b, to=1)), (self.N, self.blocks, self.block_size))
        zeros = float(2 ** (self.bits - 1)) if zero_points is None else self._zeros(op, zero_points)
        scaled = op.Mul(op.Sub(weights, zeros), _reshape(op, op.Cast(scales, to=1), blocks))
        rows = _head(op, _reshape(op, scaled, (self.N, self.blocks * self.block_size)), self.K)
        product = op.MatMul(op.Cast(a, to=1), op.Transpose(rows, perm=[1, 0]))
        if bias is not None:
            # Not Add: ONNX Runtime 1.30 fuses that with the product, wrongly where there are no rows.
            product = op.Sub(product, op.Neg(op.Cast(bias, to=1)))
        return op.CastLike(product, a)

    def _unpacked(self, op: Any, bytes_: Any) -> Any:
        """The elements in packed bytes [N, ...], bytes and elements as FP32: [N, elements of a row]."""
        if self.bits == 8:
            return _reshape(op, bytes_, (self.N, -1))
        high = op.Floor(op.Mul(bytes_, 1 / 16))
        halves = [_reshape(op, half, (self.N, -1, 1)) for half in (op.Sub(bytes_, op.Mul(high, 16.0)), high)]
        return _reshape(op, op.Concat(*halves, axis=-1), (self.N, -1))

    def _zeros(self, op: Any, zero_points: Any) -> Any:
        """Zero points in FP32, [N, blocks, 1]. Whether they are packed is a matter of their type, which is not known
        here: a half survives only in a type of floats."""
        wide = op.Cast(zero_points, to=1)
        if self.bits == 8:
            return _reshape(op, wide, (self.N, self.blocks, 1))
        floats = op.Greater(op.Cast(op.CastLike(op.Constant(value_float=0.5), zero_points), to=1), 0.25)
        rows = _reshape(op, wide, (self.N, -1))
        plain = _head(op, op.Concat(rows, rows, axis=-1), self.blocks)  # long enough for either
        packed = _head(op, self._unpacked(op, rows), self.blocks)
        return _reshape(op, op.Where(floats, plain, packed), (self.N, self.blocks, 1))


def _reshape(op: Any, value: Any, shape: tuple[int, ...]) -> Any:
    return op.Reshape(value, op.Constant(value_ints=list(shape)))


def _head(op: Any, matrix: Any, columns: int) -> Any:
    """The first columns of a matrix."""
    start, stop, axis = (op.Constant(value_ints=[value]) for value in (0, columns, 1))
    return op.Slice(matrix, start, stop, axis)
