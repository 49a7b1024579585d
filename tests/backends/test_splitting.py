"""Models taken apart and put together, and dressed on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from plugins_cuda.matmul_nbits.plugin import MatMulNBits
from service.backends.dressing import dress
from service.backends.plan_builder import plugin_nodes
from service.backends.splitting import join, split
from service.plugins.catalogue import discover
from service.plugins.nodes import plugin_node

ENCODER = Path(__file__).parents[1] / "data" / "minilm-layer-q4-fp16.onnx"


def test_a_real_model_comes_back_equal() -> None:
    data = ENCODER.read_bytes()
    model, weights = split(data)
    assert not model.graph.initializer
    assert len(weights.tensors) == len(onnx.load_from_string(data).graph.initializer)
    assert onnx.load_from_string(join(model, weights)) == onnx.load_from_string(data)


@given(
    arrays=st.lists(st.binary(max_size=300), max_size=5),
    doc=st.text(max_size=200),
    big=st.integers(0, 2**62),
)
def test_any_model_comes_back_equal(arrays: list[bytes], doc: str, big: int) -> None:
    constants = [numpy_helper.from_array(np.frombuffer(data, np.uint8), f"c{i}") for i, data in enumerate(arrays)]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], axis=big)], "graph", [], [], constants, doc)
    model = helper.make_model(graph, producer_name=doc, model_version=big)
    data = model.SerializeToString()
    assert onnx.load_from_string(join(*split(data))) == model


def test_a_model_without_a_graph_comes_back() -> None:
    assert split(b"")[1].tensors == {}


def test_plugins_constants_are_reinterpreted_and_others_are_not() -> None:
    packed = np.arange(256, dtype=np.uint8).reshape(16, 1, 16)
    plugin = MatMulNBits(K=32, N=16, block_size=32)
    node = plugin_node(plugin, ["x", "w", "s", "", "b"], ["y"], "node")
    constants = [
        numpy_helper.from_array(packed, "w"),
        helper.make_tensor("other", TensorProto.UINT8, [2], [200, 3]),
        numpy_helper.from_array(np.ones((16, 1), np.float32), "s"),
        numpy_helper.from_array(np.ones(16, np.float32), "b"),
    ]
    graph = helper.make_graph([node], "graph", [], [], constants)
    model, weights = split(helper.make_model(graph).SerializeToString())
    dress(model, weights, plugin_nodes(model, discover()))
    dressed = onnx.load_from_string(join(model, weights))
    by_name = {tensor.name: tensor for tensor in dressed.graph.initializer}
    assert by_name["w"].data_type == TensorProto.INT8
    assert numpy_helper.to_array(by_name["w"]).tobytes() == packed.tobytes()
    assert by_name["other"].data_type == TensorProto.UINT8
    (node,) = dressed.graph.node
    assert list(node.input) == ["x", "w", "s", "b"]
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    assert (list(attributes["_inputs"]), attributes["_outputs"]) == ([0, 1, 2, 4], 1)


@pytest.mark.parametrize("damage", [b"\x3b", b"\x3a\x05\x2f"])
def test_what_is_no_protobuf_is_refused(damage: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017 - whichever of the two readers notices first
        split(damage)
