"""A plugin's reference as an ONNX function: what ONNX Runtime runs, and what a kernel is tested against.

A reference is written in plain Python over ONNX operators, and traced once for each combination of fields, present
inputs and wanted outputs. Each combination is an overload of one function, so a model may hold several side by side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import onnx
from onnx import FunctionProto

from service.plugins.fields import jsonable
from service.plugins.plugin import CudaPlugin
from service.plugins.tracing import OPSET, Tracer, Value

IR_VERSION = 10
"""The first that knows overloads."""


def overload(plugin: CudaPlugin, present: Sequence[bool], outputs: int) -> str:
    """Names the combination; equal combinations of one revision of a plugin have equal names."""
    fields = {name: jsonable(value) for name, value in plugin.values.items()}
    said = json.dumps([plugin.revision(), fields, [bool(flag) for flag in present], outputs], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def reference_function(plugin: CudaPlugin, present: Sequence[bool], outputs: int) -> FunctionProto:
    """The function for a node whose inputs are `present` (in declared order) and that has so many outputs."""
    flags = [*present, *[False] * (len(plugin.inputs) - len(present))]
    values = [Value(tensor.name) if flag else None for tensor, flag in zip(plugin.inputs, flags, strict=True)]
    op = Tracer()
    traced = plugin.reference(op, *values)
    results = list(traced) if isinstance(traced, tuple | list) else [traced]
    # Through Identity, so that a result may be an input, or stand twice.
    for result, tensor in zip(results[:outputs], plugin.outputs, strict=False):
        op.nodes.append(onnx.helper.make_node("Identity", [result.name], [_output_name(tensor.name)]))
    return onnx.helper.make_function(
        plugin.namespace,
        plugin.name,
        # A node's inputs end with its last present one, and so must the function's: ONNX counts them.
        [tensor.name for tensor in plugin.inputs[: _last(flags)]],
        [_output_name(tensor.name) for tensor in plugin.outputs[:outputs]],
        op.nodes,
        [onnx.helper.make_opsetid("", OPSET)],
        overload=overload(plugin, present, outputs),
    )


def _output_name(name: str) -> str:
    """An output may have an input's name in a plugin, but not in a function."""
    return f"{name}_out"


def _last(flags: Sequence[bool]) -> int:
    return max((index + 1 for index, flag in enumerate(flags) if flag), default=0)
