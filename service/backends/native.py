"""Operators that plugins took over, put back where ONNX Runtime has a kernel of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from service.backends.onnxruntime_kernels import Attributes
from service.backends.plan_builder import plugin_nodes
from service.plugins.catalogue import Found
from service.plugins.nodes import values_from_attributes
from service.plugins.operators import operator_node
from service.plugins.plugin import CudaPlugin
from service.plugins.tensors import Operator

Loads = Callable[[bytes], bool]
"""Whether ONNX Runtime takes a model."""


@dataclass
class Natives:
    """Puts operators back. Whether there is a kernel is tried: types alone do not say what a kernel takes."""

    known: Attributes
    loads: Loads
    _tried: dict[bytes, bool] = field(default_factory=dict)

    def put_back(self, model: ModelProto, found: Sequence[Found]) -> None:
        """Turns plugin nodes into operators, in place. Functions stay, used or not."""
        nodes = [(node, plugin) for node, plugin in plugin_nodes(model, found) if plugin.operators]
        types = _types(model) if nodes else {}
        versions = {each.domain: each.version for each in model.opset_import}
        for node, plugin in nodes:
            for native in self._candidates(plugin(**values_from_attributes(node.attribute)), node, versions):
                version = versions.get(native.domain, 1)
                if self._has_kernel(native, version, model.ir_version, types):
                    node.CopyFrom(native)
                    if versions.setdefault(native.domain, version) and native.domain not in _domains(model):
                        model.opset_import.append(helper.make_opsetid(native.domain, version))
                    break

    def _candidates(self, plugin: CudaPlugin, node: NodeProto, versions: Mapping[str, int]) -> Iterator[NodeProto]:
        """The node as each operator that can say the same."""
        for operator in plugin.operators:
            attributes = self._attributes(operator, versions.get(operator.domain, 1))
            if attributes is not None and _sayable(plugin, operator, node, attributes):
                native = operator_node(plugin, operator, node)
                kept = [attribute for attribute in native.attribute if attribute.name in attributes]
                kept += [helper.make_attribute(*pair) for pair in operator.fixed.items() if pair[0] in attributes]
                del native.attribute[:]
                native.attribute.extend(kept)
                yield native

    def _attributes(self, operator: Operator, version: int) -> frozenset[str] | None:
        """What the operator has in this version of its domain; None where it is not there."""
        versions = [each for each in self.known.get((operator.domain, operator.op_type), ()) if each[0] <= version]
        return max(versions, key=lambda each: each[0])[1] if versions else None

    def _has_kernel(self, node: NodeProto, version: int, ir_version: int, types: Mapping[str, TypeProto]) -> bool:
        if any(name and name not in types for name in node.input):
            return False
        data = _trial(node, version, ir_version, types).SerializeToString()
        if data not in self._tried:
            self._tried[data] = self.loads(data)
        return self._tried[data]


def _domains(model: ModelProto) -> set[str]:
    return {each.domain for each in model.opset_import}


def _sayable(plugin: CudaPlugin, operator: Operator, node: NodeProto, attributes: frozenset[str]) -> bool:
    """Whether the operator has all tensors that the node uses, and an attribute for each field that is not default."""
    used = {tensor.name for tensor, name in zip(plugin.inputs, node.input, strict=False) if name}
    made = {tensor.name for tensor, name in zip(plugin.outputs, node.output, strict=False) if name}
    sayable = {operator.renamed.get(name, name) for name in attributes}
    return (
        used <= set(operator.inputs)
        and made <= set(operator.outputs)
        and all(
            declared.name in sayable or (not declared.required and plugin.values[declared.name] == declared.default)
            for declared in plugin.fields
        )
    )


def _trial(node: NodeProto, version: int, ir_version: int, types: Mapping[str, TypeProto]) -> ModelProto:
    """A model of the one node. Nodes that differ in names only give the same model."""
    alone = NodeProto.FromString(node.SerializeToString())
    alone.name = "node"
    alone.input[:] = [f"input{index}" if name else "" for index, name in enumerate(node.input)]
    alone.output[:] = [f"output{index}" if name else "" for index, name in enumerate(node.output)]
    given = {name: types[was] for name, was in zip(alone.input, node.input, strict=True) if name}
    inputs = [helper.make_value_info(name, kind) for name, kind in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in alone.output if name]
    return helper.make_model(
        helper.make_graph([alone], "trial", inputs, outputs),
        opset_imports=[helper.make_opsetid(node.domain, version)],
        ir_version=ir_version,
    )


def _types(model: ModelProto) -> dict[str, TypeProto]:
    """The type of every tensor of the main graph that ONNX can infer."""
    inferred = onnx.shape_inference.infer_shapes(_without_weights(model)).graph
    known: list[ValueInfoProto] = [*inferred.value_info, *inferred.input, *inferred.output]
    return {value.name: value.type for value in known if value.type.tensor_type.elem_type}


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
        helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in graph.initializer
        if each.name not in declared
    )
    return bare
