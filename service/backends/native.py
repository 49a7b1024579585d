"""Operators that plugins took over, put back where ONNX Runtime has a kernel of its own for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto

from service.backends.base import TensorInfo
from service.backends.onnxruntime_kernels import Runtime, Schema
from service.backends.plan_builder import plugin_nodes
from service.datatypes import datatype_from_onnx
from service.plugins.catalogue import Found
from service.plugins.nodes import values_from_attributes
from service.plugins.operators import operator_node
from service.plugins.plugin import CudaPlugin
from service.plugins.tensors import Operator

Replaced = list[tuple[NodeProto, NodeProto]]
"""Nodes of a model, each with a copy of what it was before."""


def put_back(model: ModelProto, found: Sequence[Found], runtime: Runtime) -> Replaced:
    """Turns plugin nodes back into the operators they were, in place. Functions stay, used or not."""
    nodes = [(node, plugin) for node, plugin in plugin_nodes(model, found) if plugin.operators]
    datatypes = _datatypes(model) if nodes else {}
    versions = {each.domain: each.version for each in model.opset_import}
    replaced: Replaced = []
    for node, plugin in nodes:
        values = plugin(**values_from_attributes(node.attribute))
        for operator in plugin.operators:
            native = _native(values, operator, node, datatypes, versions.get(operator.domain, 1), runtime)
            if native is not None:
                replaced.append((node, NodeProto.FromString(node.SerializeToString())))
                node.CopyFrom(native)
                if operator.domain not in versions:
                    versions[operator.domain] = 1
                    model.opset_import.append(onnx.helper.make_opsetid(operator.domain, 1))
                break
    return replaced


def undo(model: ModelProto, replaced: Replaced) -> None:
    """The model as it was, but for the versions of domains that it imports."""
    for node, before in replaced:
        node.CopyFrom(before)


def _native(
    plugin: CudaPlugin,
    operator: Operator,
    node: NodeProto,
    datatypes: Mapping[str, str],
    version: int,
    runtime: Runtime,
) -> NodeProto | None:
    """The operator's node; None where it cannot say what the plugin's says, or has no kernel for it."""
    schema = runtime.schema(operator.domain, operator.op_type, version)
    if schema is None or not _sayable(plugin, operator, node, schema):
        return None
    native = operator_node(plugin, operator, node)
    kept = [attribute for attribute in native.attribute if attribute.name in schema.attributes]
    kept += [
        onnx.helper.make_attribute(name, value) for name, value in operator.fixed.items() if name in schema.attributes
    ]
    del native.attribute[:]
    native.attribute.extend(kept)
    if not _complete(native, schema) or any(name and name not in datatypes for name in native.input):
        return None
    given = [datatypes[name] if name else None for name in native.input]
    return native if runtime.has_kernel(operator.domain, operator.op_type, schema, given) else None


def _sayable(plugin: CudaPlugin, operator: Operator, node: NodeProto, schema: Schema) -> bool:
    """Whether the operator has every tensor that the node uses, and an attribute for each field that is not default."""
    used = [tensor.name for tensor, name in zip(plugin.inputs, node.input, strict=False) if name]
    made = [tensor.name for tensor, name in zip(plugin.outputs, node.output, strict=False) if name]
    attributes = {operator.renamed.get(name, name) for name in schema.attributes}
    return (
        set(used) <= set(operator.inputs)
        and set(made) <= set(operator.outputs)
        and all(
            declared.name in attributes or (not declared.required and plugin.values[declared.name] == declared.default)
            for declared in plugin.fields
        )
    )


def _complete(node: NodeProto, schema: Schema) -> bool:
    """Whether the node has all that the operator requires."""
    return all(
        index < len(names) and names[index]
        for names, declared in ((node.input, schema.inputs), (node.output, schema.outputs))
        for index, (_, required) in enumerate(declared)
        if required
    )


def _datatypes(model: ModelProto) -> dict[str, str]:
    """The datatype of every tensor of the main graph that ONNX can infer and that has a name here."""
    inferred = onnx.shape_inference.infer_shapes(_without_weights(model)).graph
    known = [*inferred.value_info, *inferred.input, *inferred.output]
    named = {value.name: datatype_from_onnx(value.type.tensor_type.elem_type) for value in known}
    return {name: datatype.name for name, datatype in named.items() if datatype is not None}


def _without_weights(model: ModelProto) -> ModelProto:
    """The model with its initializers as inputs: types need no weights, and inference copies what it is given."""
    bare = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    bare.graph.name = graph.name
    bare.graph.node.extend(graph.node)
    bare.graph.output.extend(graph.output)
    bare.graph.input.extend(graph.input)
    declared = {each.name for each in graph.input}
    bare.graph.input.extend(
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in graph.initializer
        if each.name not in declared
    )
    return bare


def tensor_infos(model: ModelProto) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """The engine's inputs and outputs as the model declares them."""
    weights = {each.name for each in model.graph.initializer}
    inputs = tuple(_info(each) for each in model.graph.input if each.name not in weights)
    return inputs, tuple(map(_info, model.graph.output))


def _info(value: ValueInfoProto) -> TensorInfo:
    tensor = value.type.tensor_type
    datatype = datatype_from_onnx(tensor.elem_type)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
    return TensorInfo(value.name, datatype.name if datatype else "", shape)
