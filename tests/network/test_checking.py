from __future__ import annotations

from service.backends.base import TensorInfo
from service.network.description import NETWORK_EXAMPLE


def test_gives_a_complete_model(checked):
    result = checked(NETWORK_EXAMPLE)
    assert result.inputs == (TensorInfo("x", "FP32", (-1, 8)),)
    assert result.outputs == (TensorInfo("y", "FP32", (-1, 2)),)
    (use,) = result.plugins
    assert (use.name, use.nodes) == ("ScaleBias", 1)
    assert use.fields[0] == {"scale": 3.0, "bias": 1.0, "axis": -1, "activation": "none"}
    node = result.model.graph.node[1]
    (function,) = result.model.functions
    assert (function.domain, function.name, function.overload) == (node.domain, node.op_type, node.overload)
    assert [attribute.name for attribute in node.attribute] == ["scale", "bias", "plugin_version", "plugin_namespace"]


def test_says_faults_of_all_kinds_at_once(faults, network):
    found = faults(
        network(
            {"op": "Rellu", "inputs": ["x"], "outputs": ["a"]},
            {"plugin": "ScaleBias", "inputs": ["x"], "outputs": ["b"], "fields": {"scale": "3", "bia": 1}},
            {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["c"]},
            {"op": "Add", "inputs": ["a", "nowhere"], "outputs": ["d"]},
            constants=[
                {"name": "w", "datatype": "FP32", "shape": [9, 1], "data": [0] * 9},
                {"name": "v", "datatype": "FP32", "shape": [2], "data": [0]},
            ],
            outputs=["d", "lost"],
        ),
        profiles=[{"z": {"min": [1], "opt": [1], "max": [1]}}],
        targets=["sm_90"],
    )
    assert found.keys() == {
        "/network/constants/1/data",
        "/network/nodes/0",
        "/network/nodes/1/fields/scale",
        "/network/nodes/1/fields/bia",
        "/network/nodes/2",
        "/network/nodes/3/inputs/1",
        "/network/outputs/1",
        "/profiles/0",
        "/profiles/0/z",
        "/targets/0",
    }
    assert "Relu" in found["/network/nodes/0"]
    assert "w is FP32 [9, 1]" in found["/network/nodes/2"]
