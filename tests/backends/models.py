"""Models for the backends' tests, as the checks leave them: plugin nodes in place, their functions attached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, helper

from service.backends.base import BuildRequest, Built
from service.backends.onnxruntime import OnnxRuntime
from service.datatypes import DATATYPES
from service.plugins.nodes import plugin_node, values_from_attributes
from service.plugins.plugin import CudaPlugin
from service.plugins.references import IR_VERSION, OPSET, reference_function
from service.plugins.tensors import Operator

Types = Mapping[str, tuple[str, Sequence[int | str]]]


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Types,
    outputs: Types,
    functions: Sequence[FunctionProto] = (),
    initializers: Sequence[onnx.TensorProto] = (),
) -> ModelProto:
    """`inputs` and `outputs`: datatype and shape by name."""
    graph = helper.make_graph(list(nodes), "graph", _infos(inputs), _infos(outputs), list(initializers))
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", OPSET), *[helper.make_opsetid(domain, 1) for domain in sorted(domains)]]
    return helper.make_model(graph, functions=list(functions), opset_imports=opsets, ir_version=IR_VERSION)


def _infos(types: Types) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, DATATYPES[kind].onnx, shape) for name, (kind, shape) in types.items()]


def with_function(
    plugin: CudaPlugin, inputs: Sequence[str], outputs: Sequence[str], name: str = "node"
) -> tuple[NodeProto, FunctionProto]:
    """The plugin's node, inputs in declared order ("": absent), and the function that it runs as."""
    function = reference_function(plugin, [bool(each) for each in inputs], len(outputs))
    return plugin_node(plugin, inputs, outputs, name, function.overload), function


def take_over(model: ModelProto, plugin: type[CudaPlugin], operator: Operator) -> None:
    """Turns the operator's nodes into the plugin's, in place."""
    functions = {}
    for node in model.graph.node:
        if (node.domain, node.op_type) == (operator.domain, operator.op_type):
            values = values_from_attributes(node.attribute)
            made = plugin(**{name: value for name, value in values.items() if name not in operator.ignored})
            names = dict(zip(operator.inputs, node.input, strict=False))
            inputs = [names.get(tensor.name, "") for tensor in plugin.inputs]
            ours, function = with_function(made, inputs, list(node.output), node.name)
            node.CopyFrom(ours)
            functions[function.overload] = function
    model.functions.extend(functions.values())
    model.ir_version = IR_VERSION
    model.opset_import.append(helper.make_opsetid(plugin.namespace, 1))


def build(model: ModelProto, folder: Path) -> Built:
    """The plan of the model, which gets a folder of its own."""
    request = BuildRequest(folder / "model.onnx", (), ())
    request.model.write_bytes(model.SerializeToString())
    return OnnxRuntime().build(request, folder / "plan", lambda phase, fraction: None)
