"""A plugin's reference as an ONNX function: what ONNX Runtime runs, and what a kernel is tested against.

A reference is written in plain Python over ONNX operators, and traced once for each combination of fields, present
inputs and wanted outputs. Each combination is an overload of one function, so a model may hold several side by side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from onnx import FunctionProto

from service.plugins.fields import jsonable
from service.plugins.plugin import CudaPlugin

OPSET = 21
IR_VERSION = 10
"""The first that knows overloads."""


def overload(plugin: CudaPlugin, present: Sequence[bool], outputs: int) -> str:
    """Names the combination; equal combinations of one revision of a plugin have equal names."""
    fields = {name: jsonable(value) for name, value in plugin.values.items()}
    said = json.dumps([plugin.revision(), fields, [bool(flag) for flag in present], outputs], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def reference_function(plugin: CudaPlugin, present: Sequence[bool], outputs: int) -> FunctionProto:
    """The function for a node whose inputs are `present` (in declared order) and that has so many outputs."""
    # onnxscript takes half a second to import, and only models with plugins need it.
    from onnxscript import build_function, ir

    flags = [*present, *[False] * (len(plugin.inputs) - len(present))]
    values = [ir.Value(name=tensor.name) if flag else None for tensor, flag in zip(plugin.inputs, flags, strict=True)]

    def trace(op: Any, *inputs: Any) -> Any:
        results = plugin.reference(op, *inputs)
        listed = list(results) if isinstance(results, tuple | list) else [results]
        return listed[:outputs]

    traced = build_function(trace, values, domain=plugin.namespace, name=plugin.name, opset_imports={"": OPSET})
    function: FunctionProto = ir.to_proto(traced)
    function.overload = overload(plugin, present, outputs)
    # A node's inputs end with its last present one, and so must the function's: ONNX counts them.
    del function.input[_last(flags) :]
    for node in function.node:
        # Notes of the tracer about itself.
        del node.metadata_props[:]
    return function


def _last(flags: Sequence[bool]) -> int:
    return max((index + 1 for index, flag in enumerate(flags) if flag), default=0)
