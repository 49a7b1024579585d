"""Operators back in place of plugin nodes: only where they say the same and there is a kernel."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from onnx import ModelProto, NodeProto

from plugins_cuda.matmul_nbits.plugin import MatMulNBits
from service.backends.base import OperatorKernel
from service.backends.native import Natives
from service.backends.onnxruntime_kernels import attributes, merged
from service.backends.onnxruntime_session import loads
from service.datatypes import DATATYPES
from service.plugins import CudaPlugin, Operator, Tensor, field
from service.plugins.catalogue import Found
from tests.backends.models import model_of, with_function


class Norm(CudaPlugin):
    """A plugin whose operator has other names, holes, and a fixed attribute."""

    epsilon: float = field(1e-5)
    mode: str = field("plain", choices=("plain", "fancy"))
    inputs = (
        Tensor("x", ("FP32", "FP16", "BF16")),
        Tensor("weight", like="x"),
        Tensor("extra", like="x", optional=True),
    )
    outputs = (Tensor("y", like="x"), Tensor("total", like="x", optional=True))
    operators: ClassVar[tuple[Operator, ...]] = (
        Operator(
            "com.microsoft.Norm",
            inputs=("x", None, "weight"),
            outputs=("y", None, None, "total"),
            renamed={"eps": "epsilon"},
            fixed={"stash": 3},
        ),
    )

    def reference(self, op: Any, x: Any, weight: Any, extra: Any) -> Any:
        return op.Mul(x, weight), op.Add(x, weight)


KNOWN = {("com.microsoft", "Norm"): [(1, frozenset({"eps", "stash"})), (2, frozenset({"eps", "stash", "mode"}))]}


def in_floats(model: bytes) -> bool:
    """Stands for a runtime that has kernels for FP32 only."""
    [kind, *_] = [each.type.tensor_type.elem_type for each in ModelProto.FromString(model).graph.input]
    return bool(kind == DATATYPES["FP32"].onnx)


def after(plugin: Norm, datatype: str = "FP32", extra: str = "", outputs: tuple[str, ...] = ("y",)) -> NodeProto:
    """The node once operators were put back."""
    node, function = with_function(plugin, ["x", "w", extra], outputs)
    shape = (datatype, [4])
    inputs = {name: shape for name in ("x", "w", extra) if name}
    model = model_of([node], inputs, {name: shape for name in outputs if name}, [function])
    Natives(KNOWN, in_floats).put_back(model, [Found(Norm, "test")])
    [result] = model.graph.node
    assert ("com.microsoft" in {each.domain for each in model.opset_import}) == (result.domain == "com.microsoft")
    return result


def test_names_holes_and_fixed_attributes_are_the_operators() -> None:
    node = after(Norm(epsilon=0.5))
    assert (node.domain, node.op_type, node.overload) == ("com.microsoft", "Norm", "")
    assert list(node.input) == ["x", "", "w"]
    assert list(node.output) == ["y"]
    assert {each.name: each.f or each.i for each in node.attribute} == {"eps": 0.5, "stash": 3}


def test_a_late_output_keeps_its_place() -> None:
    assert list(after(Norm(), outputs=("y", "s")).output) == ["y", "", "", "s"]


def test_defaults_of_the_plugin_are_written_out() -> None:
    # The operator's own default may be another one.
    assert {each.name for each in after(Norm()).attribute} == {"eps", "stash"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"plugin": Norm(mode="fancy")},  # the operator has no such attribute
        {"plugin": Norm(), "extra": "e"},  # nor such an input
        {"plugin": Norm(), "datatype": "BF16"},  # and no kernel for this type
    ],
)
def test_what_the_operator_cannot_say_stays_a_plugin(arguments: dict[str, Any]) -> None:
    assert after(**arguments).domain == "planforge"


def test_an_operator_that_is_not_there_stays_a_plugin() -> None:
    node, function = with_function(Norm(), ["x", "w"], ["y"])
    shape = ("FP32", [4])
    model = model_of([node], {"x": shape, "w": shape}, {"y": shape}, [function])
    before = model.SerializeToString()
    Natives({}, lambda model: True).put_back(model, [Found(Norm, "test")])
    assert model.SerializeToString() == before


def test_equal_nodes_are_tried_once() -> None:
    first, function = with_function(Norm(), ["x", "w"], ["h"], "first")
    second, _ = with_function(Norm(), ["h", "w"], ["y"], "second")
    shape = ("FP32", [4])
    model = model_of([first, second], {"x": shape, "w": shape}, {"y": shape}, [function])
    tried: list[bytes] = []
    Natives(KNOWN, lambda model: bool(tried.append(model)) or True).put_back(model, [Found(Norm, "test")])
    assert len(tried) == 1
    assert [node.domain for node in model.graph.node] == ["com.microsoft"] * 2


@pytest.mark.parametrize(
    ("datatype", "bits", "zeros", "native"),
    [
        ("FP32", 4, "", True), ("FP32", 4, "UINT8", True), ("FP32", 4, "FP32", True), ("FP32", 8, "UINT8", True),
        ("FP16", 4, "", True), ("FP16", 4, "UINT8", True), ("FP16", 4, "FP16", True), ("FP16", 8, "", True),
        ("BF16", 4, "", False), ("BF16", 4, "UINT8", False),
        ("FP32", 8, "FP32", False),  # there is a kernel for these types, and it refuses this combination
    ],
)  # fmt: skip
def test_matmul_nbits_goes_back_where_onnx_runtime_takes_it(datatype: str, bits: int, zeros: str, native: bool) -> None:
    plugin = MatMulNBits(K=32, N=4, block_size=32, bits=bits)
    node, function = with_function(plugin, ["a", "b", "s", "z" if zeros else ""], ["y"])
    types = {"a": (datatype, ["n", 32]), "b": ("UINT8", [4, 1, 4 * bits]), "s": (datatype, [4, 1])}
    if zeros:
        types["z"] = (zeros, [4, 1])
    model = model_of([node], types, {"y": (datatype, ["n", 4])}, [function])
    Natives(attributes(), loads).put_back(model, [Found(MatMulNBits, "test")])
    assert (model.graph.node[0].domain == "com.microsoft") == native
    assert loads(model.SerializeToString())


def kernel(since: int, until: int, **datatypes: tuple[str, ...]) -> OperatorKernel:
    return OperatorKernel("", "Op", since, until, datatypes)


def test_merging_keeps_the_combinations() -> None:
    apart = [kernel(1, 2, T=("FP32",), U=("FP32",)), kernel(1, 2, T=("FP16",), U=("FP16",))]
    assert [*merged(apart)] == apart
    joined = [*merged([kernel(1, 2, T=("FP32",), U=("INT8",)), kernel(1, 2, T=("FP16",), U=("INT8",))])]
    assert joined == [kernel(1, 2, T=("FP32", "FP16"), U=("INT8",))]
