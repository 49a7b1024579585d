"""A checked model in the form that TensorRT's ONNX parser takes plugin nodes in."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from service.backends.splitting import Weights
from service.plugins.field_collections import INPUTS, OUTPUTS
from service.plugins.plugin import CudaPlugin

PluginNodes = list[tuple[NodeProto, type[CudaPlugin]]]


def dress(model: ModelProto, weights: Weights, plugins: PluginNodes) -> None:
    """Changes a model that was split, in place. Measured on TensorRT-RTX 1.7.1:

    - an absent input in the middle is refused, so only present ones stay, and a field says which they are;
    - every output must be named, and so must be as many as the node has;
    - UINT8 never reaches a plugin, so constants of that type are handed over as INT8, bit for bit;
    - a registered creator is preferred to a function of its name, which is dropped for good measure.
    """
    for node, _ in plugins:
        _state_inputs_and_outputs(node)
    names = {name for node, _ in plugins for name in node.input}
    _reinterpret_constants(model.graph, names)
    for name in names & weights.tensors.keys():
        tensor = weights.read(name)
        if _reinterpret(tensor):
            weights.write(name, tensor)
    ours = {(node.domain, node.op_type) for node, _ in plugins}
    kept = [function for function in model.functions if (function.domain, function.name) not in ours]
    del model.functions[:]
    model.functions.extend(kept)


def _state_inputs_and_outputs(node: NodeProto) -> None:
    present = [index for index, name in enumerate(node.input) if name]
    names = [node.input[index] for index in present]
    del node.input[:]
    node.input.extend(names)
    for index, name in enumerate(node.output):
        node.output[index] = name or f"{node.name}:{index}"
    node.overload = ""
    integers = onnx.AttributeProto.INTS
    node.attribute.append(onnx.helper.make_attribute(INPUTS, present, attr_type=integers))
    node.attribute.append(onnx.helper.make_attribute(OUTPUTS, len(node.output)))


def _reinterpret_constants(graph: GraphProto, names: Set[str]) -> None:
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain and node.output[0] in names:
            for attribute in node.attribute:
                _reinterpret(attribute.t)
    for declared in (*graph.value_info, *graph.input):
        kind = declared.type.tensor_type
        if declared.name in names and kind.elem_type == TensorProto.UINT8:
            kind.elem_type = TensorProto.INT8


def _reinterpret(tensor: TensorProto) -> bool:
    """UINT8 as INT8, bit for bit; says whether the tensor was changed."""
    if tensor.data_type != TensorProto.UINT8:
        return False
    if tensor.int32_data:
        tensor.raw_data = np.array(tensor.int32_data, np.uint8).tobytes()
        del tensor.int32_data[:]
    tensor.data_type = TensorProto.INT8
    return True
