"""Types and shapes: ONNX's rules and the plugins' own in one pass, and what is wrong said at its node."""

from __future__ import annotations

import pytest


def constant(name, shape, datatype="FP32"):
    count = 1
    for each in shape:
        count *= each
    return {"name": name, "datatype": datatype, "shape": shape, "data": [1] * count}


def test_a_plugins_rule_passes_symbols_on(checked, network):
    nodes = [
        {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["a"]},
        {"plugin": "RMSNorm", "inputs": ["a", "g"], "outputs": ["b"]},
        {"op": "Transpose", "inputs": ["b"], "outputs": ["c"], "attributes": {"perm": [1, 0]}},
    ]
    result = checked(network(*nodes, constants=[constant("w", [8, 5]), constant("g", [5])]))
    assert result.outputs[0].shape == (5, -1)
    assert result.model.graph.output[0].type.tensor_type.shape.dim[1].dim_param == "batch"


def test_shapes_that_are_computed_are_followed(checked, network):
    nodes = [
        {"op": "Shape", "inputs": ["x"], "outputs": ["s"], "attributes": {"end": 1}},
        {"op": "Concat", "inputs": ["s", "two"], "outputs": ["t"], "attributes": {"axis": 0}},
        {"op": "Reshape", "inputs": ["x", "t"], "outputs": ["r"]},
        {"plugin": "ScaleBias", "inputs": ["r"], "outputs": ["y"]},
    ]
    two = {"name": "two", "datatype": "INT64", "shape": [2], "data": [2, 4]}
    assert checked(network(*nodes, constants=[two])).outputs[0].shape == (-1, 2, 4)


@pytest.mark.parametrize(
    ("node", "pointer", "said"),
    [
        ({"op": "MatMul", "inputs": ["x", "w"]}, "", "x is FP32 [batch, 8], w is FP32 [3, 3]"),
        ({"op": "Add", "inputs": ["x", "w"]}, "", "Incompatible dimensions"),
        (
            {"op": "Add", "inputs": ["x", "h"]},
            "/inputs/1",
            "Add takes FP32 as B here, as its other inputs are, got FP16",
        ),
        ({"op": "Softmax", "inputs": ["i"]}, "/inputs/0", "BF16 or FP16 or FP32 or FP64 as input, got INT64"),
        ({"op": "Softmax", "inputs": ["x"], "attributes": {"axis": 5}}, "", "axis"),
        ({"op": "Reshape", "inputs": ["x", "x"]}, "/inputs/1", "INT64 as shape, got FP32"),
        ({"plugin": "ScaleBias", "inputs": ["i"]}, "/inputs/0", "got INT64"),
        ({"plugin": "RMSNorm", "inputs": ["x", "w"]}, "/inputs/1", "rank 1"),
        ({"plugin": "ScaleBias", "inputs": ["x", "h"]}, "/inputs/1", "must be FP32"),
    ],
)
def test_each_fault_has_its_place(faults, network, node, pointer, said):
    constants = [constant("w", [3, 3]), constant("h", [8], "FP16"), constant("i", [8], "INT64")]
    found = faults(network({**node, "outputs": ["y"]}, constants=constants))
    assert found.keys() == {f"/network/nodes/0{pointer}"}
    assert said in found[f"/network/nodes/0{pointer}"]


def test_what_follows_from_a_fault_is_not_said(faults, network):
    nodes = [
        {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["a"]},
        {"plugin": "ScaleBias", "inputs": ["a"], "outputs": ["b"]},
        {"op": "Add", "inputs": ["a", "b"], "outputs": ["c"]},
        {"plugin": "ScaleBias", "inputs": ["c", "x"], "outputs": ["d"]},
        {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]},
    ]
    found = faults(network(*nodes, outputs=["d", "y"], constants=[constant("w", [3, 3])]))
    # The rank of ScaleBias's second input is wrong whatever its first one is.
    assert found.keys() == {"/network/nodes/0", "/network/nodes/3/inputs/1", "/network/nodes/4"}


def test_large_constants_do_not_travel(checked, network):
    large = constant("w", [8, 5000])
    result = checked(network({"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}, constants=[large]))
    assert result.outputs[0].shape == (-1, 5000)
    assert len(result.model.graph.initializer[0].raw_data) == 4 * 8 * 5000


def test_a_stated_output_is_held_against_what_follows(faults, checked, network):
    node = {"op": "Relu", "inputs": ["x"], "outputs": ["y"]}

    def stated(datatype, shape):
        return network(node, outputs=[{"name": "y", "datatype": datatype, "shape": shape}])

    assert checked(stated("FP32", ["n", 8])).outputs[0].shape == (-1, 8)
    assert checked(stated("FP32", [4, "m"])).outputs[0].shape == (4, 8)
    assert faults(stated("FP16", ["n", 8])) == {"/network/outputs/0": "y is declared as FP16, but is FP32"}
    assert faults(stated("FP32", ["n", 9])) == {"/network/outputs/0": "y is declared as [n, 9], but is [batch, 8]"}
    assert faults(stated("FP32", [8])).keys() == {"/network/outputs/0"}
