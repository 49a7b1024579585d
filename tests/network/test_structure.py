"""Names, operators, arity, attributes, cycles."""

from __future__ import annotations

import pytest

RELU = {"op": "Relu", "inputs": ["x"], "outputs": ["y"]}


@pytest.mark.parametrize(
    ("node", "pointer", "said"),
    [
        ({"op": "Rleu"}, "", "did you mean Relu"),
        ({"op": "Relu", "inputs": ["x", "x"]}, "", "has 1 inputs, got 2"),
        ({"op": "Relu", "inputs": []}, "", "has 1 inputs, got 0"),
        ({"op": "Relu", "inputs": [""]}, "/inputs/0", "requires the input X"),
        ({"op": "Relu", "outputs": ["y", "z"]}, "", "has 1 outputs, got 2"),
        ({"op": "Relu", "inputs": ["X"]}, "/inputs/0", "no tensor X (did you mean x?)"),
        ({"op": "Relu", "attributes": {"axis": 1}}, "/attributes/axis", "has no attribute axis; it has none"),
        ({"op": "Softmax", "attributes": {"axes": 1}}, "/attributes/axes", "did you mean axis"),
        ({"op": "Softmax", "attributes": {"axis": "1"}}, "/attributes/axis", "expected an integer, got a string"),
        ({"op": "Concat", "inputs": ["x", "x"]}, "/attributes/axis", "requires this attribute"),
        ({"op": "Split", "attributes": {"num_outputs": 2**62}}, "/attributes/num_outputs", "the number of outputs"),
        ({"op": "Upsample"}, "", "removed from opset"),
        ({"op": "If", "inputs": ["x"]}, "/attributes/then_branch", "requires this attribute"),
        ({"op": "some.domain.Op"}, "", "no operator Op in the domain 'some.domain'"),
        ({"op": "ai.onnx.ml.Scaler"}, "", "imports no opset"),
        ({"op": "."}, "", "no"),
        ({"op": "Relu", "inputs": ["y"]}, "", "a cycle: /network/nodes/0 (y) -> back to the first"),
    ],
)
def test_each_fault_has_its_place(faults, network, node, pointer, said):
    found = faults(network({"inputs": ["x"], "outputs": ["y"], **node}))
    assert said in found[f"/network/nodes/0{pointer}"]


def test_a_tensor_is_made_once(faults, network):
    found = faults(network(RELU, RELU, {"op": "Relu", "inputs": ["x"], "outputs": ["x"]}, outputs=["y"]))
    assert found == {
        "/network/nodes/1/outputs/0": "the tensor y is made twice; /network/nodes/0/outputs/0 makes it already",
        "/network/nodes/2/outputs/0": "the tensor x is made twice; /network/inputs/0 makes it already",
    }


def test_inputs_and_constants_have_names_of_their_own(faults, network):
    constant = {"name": "x", "datatype": "FP32", "shape": [], "data": 1}
    found = faults(network(RELU, constants=[constant, {**constant, "name": "c"}, {**constant, "name": "c"}]))
    assert found.keys() == {"/network/constants/0", "/network/constants/2"}


def test_nodes_may_stand_in_any_order(checked, network):
    nodes = [
        {"op": "Add", "inputs": ["b", "a"], "outputs": ["y"]},
        {"op": "Neg", "inputs": ["a"], "outputs": ["b"]},
        {"op": "Relu", "inputs": ["x"], "outputs": ["a"]},
    ]
    result = checked(network(*nodes, outputs=["y"]))
    assert [node.op_type for node in result.model.graph.node] == ["Relu", "Neg", "Add"]


def test_a_cycle_names_its_nodes_and_not_those_behind_it(faults, network):
    nodes = [
        {"op": "Relu", "inputs": ["x"], "outputs": ["a"]},
        {"op": "Add", "inputs": ["a", "d"], "outputs": ["b"]},
        {"op": "Neg", "inputs": ["b"], "outputs": ["c"]},
        {"op": "Neg", "inputs": ["c"], "outputs": ["d"]},
        {"op": "Neg", "inputs": ["d"], "outputs": ["y"]},
    ]
    found = faults(network(*nodes))
    said = "a cycle: /network/nodes/1 (b) -> /network/nodes/2 (c) -> /network/nodes/3 (d) -> back to the first"
    assert found == {"/network/nodes/1": said}


def test_outputs_are_made_by_nodes(faults, network):
    found = faults(network(RELU, outputs=["y", "y", "z", "x"]))
    assert found.keys() == {"/network/outputs/1", "/network/outputs/2", "/network/outputs/3"}
    assert "Identity" in found["/network/outputs/3"]


@pytest.mark.parametrize("name", ["n\0", "a\nb"])
def test_names_without_control_characters(faults, network, name):
    found = faults(network({"op": "Relu", "inputs": ["x"], "outputs": [name]}, RELU, outputs=["y"]))
    assert found == {"/network/nodes/0/outputs/0": "expected a name without control characters"}


def test_optional_inputs_may_be_absent_in_the_middle(checked, network):
    constant = {"name": "high", "datatype": "FP32", "shape": [], "data": 1.0}
    nodes = network({"op": "Clip", "inputs": ["x", "", "high"], "outputs": ["y"]}, constants=[constant])
    assert list(checked(nodes).model.graph.node[0].input) == ["x", "", "high"]


def test_operators_of_newer_opsets_raise_the_opset(checked, network):
    result = checked(network({"op": "Swish", "inputs": ["x"], "outputs": ["y"]}), backend="tensorrt_rtx",
                     profiles=[{"x": {"min": [1, 8], "opt": [1, 8], "max": [1, 8]}}])  # fmt: skip
    assert result.model.opset_import[0].version == 24


def test_far_too_many_faults_end_the_list(faults, network):
    found = faults(network(*({"op": "No", "inputs": ["x"], "outputs": [f"y{index}"]} for index in range(2000))))
    assert 100 < len(found) <= 500
