"""Which types and operators a backend takes."""

from __future__ import annotations

from typing import Any

import pytest

from service.backends.base import Capabilities, OperatorKernel
from service.backends.host import Host
from service.errors import InvalidRequest
from service.network.checking import check
from service.network.description import EngineRequest
from service.network.lowering import lower
from service.settings import Settings

KERNELS = (
    OperatorKernel("", "Abs", 13, 2**31 - 1, {"T": ("FP32", "FP64", "INT8")}),
    OperatorKernel("", "Abs", 6, 12, {"T": ("INT32",)}),
    OperatorKernel("", "Add", 14, 2**31 - 1, {"T": ("FP32", "INT64")}),
    OperatorKernel("", "Cast", 19, 2**31 - 1, {"T1": ("FP32", "FP16", "BF16"), "T2": ("FP32", "FP16", "BF16")}),
    OperatorKernel("com.microsoft", "FastGelu", 1, 2**31 - 1, {"T": ("FP32",)}),
)


@pytest.fixture
def outcome(catalogue):
    """`ok`, or the faults by pointer, of nodes that read x."""

    def run(*nodes: dict[str, Any], datatype: str = "FP32", backend: str = "onnxruntime", **parts: Any) -> Any:
        cpu = Capabilities("onnxruntime", "1.32.0", True, (), True, kernels=KERNELS)
        gpu = Capabilities("tensorrt_rtx", "1.7.1", True, ("sm_86",), False, None, "no GPU")
        host = Host(catalogue, {"onnxruntime": cpu, "tensorrt_rtx": gpu})
        network = {
            "inputs": [{"name": "x", "datatype": datatype, "shape": [8]}],
            "nodes": list(nodes),
            "outputs": ["y"],
        }
        request = EngineRequest.model_validate({"name": "n", "network": network | parts, "backend": backend})
        try:
            check(lower(request.network, catalogue), request, host, Settings())
        except InvalidRequest as error:
            return {fault.pointer: fault.detail for fault in error.faults}
        return "ok"

    return run


def node(op: str, *inputs: str, **changed: Any) -> dict[str, Any]:
    return {"op": op, "inputs": list(inputs or "x"), "outputs": ["y"]} | changed


RUNTIME_LACKS = "ONNX Runtime has no kernel for"


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT8", "FP16"])
def test_onnx_runtime_takes_what_it_has_kernels_for(outcome, datatype):
    assert outcome(node("Abs"), datatype=datatype) == "ok"


@pytest.mark.parametrize("datatype", ["BF16", "INT32", "INT64"])
def test_onnx_runtime_takes_no_other_types(outcome, datatype):
    assert outcome(node("Abs"), datatype=datatype) == {"/network/nodes/0": f"{RUNTIME_LACKS} Abs of {datatype}"}


def test_onnx_runtime_takes_no_operator_without_a_kernel(outcome):
    assert outcome(node("Asinh")) == {"/network/nodes/0": f"{RUNTIME_LACKS} Asinh of opset 21"}


def test_onnx_runtime_expands_operators_that_are_functions(outcome):
    assert outcome(node("Mish")) == "ok"


def test_onnx_runtime_runs_plugins_as_references(outcome):
    for datatype in ("BF16", "FP16"):
        assert outcome({"plugin": "ScaleBias", "inputs": ["x"], "outputs": ["y"]}, datatype=datatype) == "ok"


def test_onnx_runtimes_own_operators(outcome):
    stated = [{"name": "y", "datatype": "FP32", "shape": [8]}]
    assert outcome(node("com.microsoft.FastGelu"), outputs=stated) == "ok"
    found = outcome(node("com.microsoft.Nothing"), outputs=stated)
    assert "ONNX Runtime has no kernel for it" in found["/network/nodes/0"]
    found = outcome(node("com.microsoft.FastGelu"), outputs=stated, backend="tensorrt_rtx")
    assert "TensorRT backends have nothing for it" in found["/network/nodes/0"]
    assert "state the output" in outcome(node("com.microsoft.FastGelu"))["/network/outputs/0"]


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "BF16", "INT8", "INT32", "INT64"])
def test_tensorrt_takes(outcome, datatype):
    assert outcome(node("Abs"), datatype=datatype, backend="tensorrt_rtx") == "ok"


@pytest.mark.parametrize("datatype", ["FP64", "UINT8", "UINT16", "UINT32", "UINT64", "INT16"])
def test_tensorrt_does_not_take(outcome, datatype):
    found = outcome(node("Identity"), datatype=datatype, backend="tensorrt_rtx")
    assert found.keys() == {"/network/inputs/0", "/network/nodes/0/outputs/0"}
    assert f"TensorRT takes no {datatype}" in found["/network/inputs/0"]


def test_tensorrt_takes_no_fp64_in_between(outcome):
    nodes = [
        {"op": "Cast", "inputs": ["x"], "outputs": ["d"], "attributes": {"to": "FP64"}},
        node("Cast", "d", attributes={"to": "FP32"}),
    ]
    assert outcome(*nodes, backend="tensorrt_rtx").keys() == {"/network/nodes/0/outputs/0"}


def weights(columns: int = 8) -> dict[str, Any]:
    constants = [
        {"name": "b", "datatype": "UINT8", "shape": [2, 1, 8], "data": [0] * 16},
        {"name": "s", "datatype": "FP32", "shape": [2, 1], "data": [1, 1]},
    ]
    return {"constants": constants, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 16]}]}


def test_tensorrt_takes_uint8_in_constants_of_plugins_only(outcome):
    fields = {"K": 16, "N": 2, "block_size": 16}
    product = {"plugin": "MatMulNBits", "inputs": ["x", "b", "s"], "outputs": ["y"], "fields": fields}
    assert outcome(product, **weights(), backend="tensorrt_rtx") == "ok"
    other = {"op": "Identity", "inputs": ["b"], "outputs": ["c"]}
    found = outcome(product, other, **weights(), backend="tensorrt_rtx")
    assert found.keys() == {"/network/constants/0", "/network/nodes/1/outputs/0"}
    assert "in a constant that only plugins read" in found["/network/constants/0"]


def test_fp8_is_for_the_inside_only(outcome):
    found = outcome(node("Identity"), datatype="FP8", backend="tensorrt_rtx")
    assert found.keys() == {"/network/inputs/0", "/network/outputs/0"}
    nodes = [
        {"op": "Cast", "inputs": ["x"], "outputs": ["d"], "attributes": {"to": "FP8"}},
        node("Cast", "d", attributes={"to": "FP32"}),
    ]
    assert outcome(*nodes, backend="tensorrt_rtx") == "ok"
