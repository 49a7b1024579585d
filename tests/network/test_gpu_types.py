from __future__ import annotations

import pytest

NODE = {"plugin": "ScaleBias", "inputs": ["x"], "outputs": ["y"]}
INPUTS = [{"name": "x", "datatype": "BF16", "shape": [4, 8]}]


def test_a_target_that_lacks_a_type_is_named_with_the_tensor(faults, network):
    found = faults(network(NODE, inputs=INPUTS), backend="tensorrt_rtx", targets=["sm_86", "sm_75"])
    assert found.keys() == {"/targets/1"}
    assert "sm_75 has no BF16" in found["/targets/1"]


def test_it_is_left_out_where_nobody_asked_for_it(checked, network):
    assert "sm_75" not in checked(network(NODE, inputs=INPUTS), backend="tensorrt_rtx").targets
    assert "sm_75" in checked(network(NODE, inputs=[INPUTS[0] | {"datatype": "FP16"}]), backend="tensorrt_rtx").targets


@pytest.mark.parametrize("datatype", ["FP16", "FP32"])
def test_other_types_are_taken_everywhere(checked, network, datatype):
    narrow = network(NODE, inputs=[INPUTS[0] | {"datatype": datatype}])
    assert checked(narrow, backend="tensorrt_rtx", targets=["sm_75"]).targets == ("sm_75",)
