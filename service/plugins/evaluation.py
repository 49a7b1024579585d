"""Runs a plugin's reference, or the operator that it takes over, in ONNX Runtime: in the calling process, so for tests
and the command line, never for what answers HTTP."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from service.datatypes import DATATYPES, datatype_from_numpy, datatype_from_onnx
from service.plugins.cases import Array
from service.plugins.nodes import plugin_node
from service.plugins.operators import operator_node
from service.plugins.plugin import CudaPlugin
from service.plugins.references import IR_VERSION, reference_function
from service.plugins.tensors import Operator
from service.plugins.tracing import OPSET


class NoKernel(Exception):
    """ONNX Runtime has no kernel for the operator with these types."""


def evaluate_reference(plugin: CudaPlugin, inputs: Mapping[str, Array], outputs: int | None = None) -> list[Array]:
    """The reference's outputs for inputs by name; absent optional ones are not in it."""
    names = [tensor.name if tensor.name in inputs else "" for tensor in plugin.inputs]
    wanted = [tensor.name for tensor in plugin.outputs[:outputs]]
    function = reference_function(plugin, [bool(name) for name in names], len(wanted))
    node = plugin_node(plugin, names, wanted, "node", function.overload)
    return run_node(node, inputs, [function])


def evaluate_operator(plugin: CudaPlugin, operator: Operator, inputs: Mapping[str, Array], outputs: int) -> list[Array]:
    """What ONNX Runtime's own kernel gives for the operator that the plugin takes over. Raises NoKernel."""
    names = [tensor.name if tensor.name in inputs else "" for tensor in plugin.inputs]
    wanted = [tensor.name for tensor in plugin.outputs[:outputs]]
    return run_node(operator_node(plugin, operator, plugin_node(plugin, names, wanted, "node")), inputs, [])


def run_node(node: onnx.NodeProto, inputs: Mapping[str, Array], functions: Sequence[onnx.FunctionProto]) -> list[Array]:
    """A model of the one node, run on CPU. The outputs are in the node's order, absent ones left out."""
    import onnxruntime

    given = [helper.make_tensor_value_info(name, _onnx(array), array.shape) for name, array in inputs.items()]
    wanted = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph([node], "graph", given, wanted),
        functions=list(functions),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(node.domain, 1)],
        ir_version=IR_VERSION,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
        raise NoKernel(str(error)) from None
    # BF16 goes in as bits and comes out through memory: ONNX Runtime's Python interface has no such type.
    values = {name: _value(onnxruntime, array) for name, array in inputs.items()}
    return [_array(value) for value in session.run_with_ort_values(None, values)]


def _onnx(array: Array) -> int:
    datatype = datatype_from_numpy(array.dtype)
    if datatype is None:
        raise TypeError(f"no tensor has elements of {array.dtype}")
    return datatype.onnx


def _value(onnxruntime: Any, array: Array) -> Any:
    dense = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype == DATATYPES["BF16"].numpy:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(dense.view(np.uint16), _onnx(array))
    return onnxruntime.OrtValue.ortvalue_from_numpy(dense)


def _array(value: Any) -> Array:
    datatype = datatype_from_onnx(value.element_type())
    if datatype is None or datatype.name != "BF16":
        array: Array = value.numpy()
        return array
    count = int(np.prod(value.shape()))
    data = ctypes.string_at(value.data_ptr(), count * datatype.itemsize) if count else b""
    return np.frombuffer(data, datatype.numpy).reshape(value.shape())
