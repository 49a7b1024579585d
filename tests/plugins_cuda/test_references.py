"""References over random shapes, odd lengths, zero sizes, extreme values and all types.

They are held against arithmetic in float64 and, where ONNX Runtime has the operator, against its own kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins_cuda.matmul_nbits import cases as matmul_nbits
from plugins_cuda.matmul_nbits.plugin import BLOCK_SIZES, MatMulNBits
from plugins_cuda.rms_norm import cases as rms_norm
from plugins_cuda.rms_norm.plugin import RMSNorm
from plugins_cuda.scale_bias import cases as scale_bias
from plugins_cuda.scale_bias.plugin import ACTIVATIONS, ScaleBias
from service.plugins import FLOATS, CudaPlugin
from service.plugins.case_checks import check_cases
from service.plugins.cases import ODD_LENGTHS, Case, Drawn
from service.plugins.evaluation import evaluate_reference, run_node

TRIED = settings(max_examples=150, deadline=None)
datatypes, draws = st.sampled_from(FLOATS), st.sampled_from(["normal", "extreme", "constant"])
lengths = st.one_of(st.integers(0, 70), st.sampled_from(ODD_LENGTHS))
leading = st.lists(st.integers(0, 4), max_size=3).map(tuple)
numbers = st.floats(-8, 8, width=32)


def hold(plugin: type[CudaPlugin], oracle: Any, case: Case) -> None:
    assert [str(result) for result in check_cases(plugin, [case], oracle) if not result.ok] == []


@TRIED
@given(st.data())
def test_rms_norm(data: st.DataObject) -> None:
    length, datatype, how = data.draw(lengths), data.draw(datatypes), data.draw(draws)
    shape = (*data.draw(leading), length)
    inputs = rms_norm.node(shape, datatype, data.draw(st.booleans()), data.draw(st.booleans()), how)
    epsilon, outputs = data.draw(st.floats(2.0**-30, 4, width=32)), data.draw(st.sampled_from([1, 2]))
    name = f"{shape} {datatype} {how} {data.draw(st.integers(0, 99))}"
    hold(RMSNorm, rms_norm.oracle, Case(name, inputs, {"epsilon": epsilon}, outputs))


@TRIED
@given(st.data())
def test_scale_bias(data: st.DataObject) -> None:
    inner = data.draw(st.lists(lengths, max_size=1).map(tuple))
    shape, datatype = data.draw(leading) + inner, data.draw(datatypes)
    how, fields = data.draw(draws), {"activation": data.draw(st.sampled_from(ACTIVATIONS))}
    inputs = {"x": Drawn(shape, datatype, how)}
    axis = data.draw(st.integers(-len(shape), len(shape) - 1)) if shape else None
    for scalar, vector in (("scale", "scales"), ("bias", "biases")):
        if axis is not None and data.draw(st.booleans()):
            fields["axis"], inputs[vector] = axis, Drawn((shape[axis],), datatype)
        else:
            fields[scalar] = data.draw(numbers)
    name = f"{shape} {datatype} {how} {data.draw(st.integers(0, 99))}"
    # GELU of a negative number is a difference of nearly equal ones.
    hold(ScaleBias, scale_bias.oracle, Case(name, inputs, fields, floor=1.0))


@TRIED
@given(st.data())
def test_matmul_nbits(data: st.DataObject) -> None:
    K, N = data.draw(lengths.filter(bool)), data.draw(st.integers(1, 40))  # noqa: N806 - the operator's spelling
    bits, block_size = data.draw(st.sampled_from([4, 8])), data.draw(st.sampled_from(BLOCK_SIZES))
    zero_points, datatype = data.draw(st.sampled_from(["", "packed", "float"])), data.draw(datatypes)
    how = data.draw(draws)
    inputs, fields = matmul_nbits.node(
        data.draw(leading), K, N, bits, block_size, datatype, zero_points,
        bias=data.draw(st.booleans()), flat=data.draw(st.booleans()), how=how,
    )  # fmt: skip
    # Summands may cancel each other: errors count relative to their size.
    floor = 0.1 if how != "extreme" else 65504.0 if datatype == "FP16" else 1e15
    name = f"{K} x {N} {datatype} {zero_points} {data.draw(st.integers(0, 99))}"
    peer = (bits, zero_points) != (8, "float")  # which ONNX Runtime's kernel does not take
    hold(MatMulNBits, matmul_nbits.oracle, Case(name, inputs, fields, floor=floor, peer=peer))


def test_rms_norm_of_large_half_precision_numbers_stays_finite() -> None:
    x = np.full((1, 512), 300.0, np.float16)
    (y,) = evaluate_reference(RMSNorm(), {"x": x, "weight": np.ones(512, np.float16)}, 1)
    assert (y == 1).all()


@pytest.mark.parametrize("shape", [(5, 48), (2, 3, 129)])
def test_rms_norm_equals_onnx_runtimes_kernel(shape: tuple[int, ...]) -> None:
    from onnx import helper

    inputs = Case("peer", rms_norm.node(shape, "FP32", residual=True, bias=False)).draw()
    (y, total) = evaluate_reference(RMSNorm(epsilon=1e-3), inputs)
    shaped = {name: inputs[name].reshape(-1, *inputs[name].shape[-2:]) for name in ("x", "residual")}
    names = ["x", "residual", "weight"]
    node = helper.make_node(
        "SkipSimplifiedLayerNormalization", names, ["y", "", "", "sum"], domain="com.microsoft", epsilon=1e-3
    )
    peers = run_node(node, {**shaped, "weight": inputs["weight"]}, [])
    for ours, theirs in zip((y, total), peers, strict=True):
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=1e-5, atol=1e-5)
