"""Checks of what a plugin declares, and of the ways its fields travel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np

from service.datatypes import DATATYPES
from service.plugins.cases import Case
from service.plugins.fields import Field, Value, jsonable
from service.plugins.nodes import plugin_node, values_from_attributes
from service.plugins.plugin import CudaPlugin
from service.plugins.results import Result
from service.plugins.shapes import ShapeFault
from service.plugins.tensors import Tensor

_TARGET = re.compile(r"sm_\d{2,3}[af]?")


def check_declarations(plugin: type[CudaPlugin]) -> Iterator[Result]:
    """One result: every fault of the class, or how much it declares."""
    faults = [*_class_faults(plugin), *_tensor_faults(plugin), *_operator_faults(plugin)]
    counts = f"{len(plugin.fields)} fields, {len(plugin.inputs)} inputs, {len(plugin.outputs)} outputs"
    yield Result(plugin.name, "declaration", "", not faults, "; ".join(faults) or counts)


def check_fields(plugin: type[CudaPlugin], cases: Sequence[Case]) -> Iterator[Result]:
    """Every combination of fields comes back bit-equal from JSON and from a node's attributes."""
    for case in cases:
        made = plugin(**case.fields)
        text = json.dumps({name: jsonable(value) for name, value in made.values.items()})
        node = plugin_node(made, [tensor.name for tensor in plugin.inputs], ["y"], "node")
        journeys = {"JSON": json.loads(text), "attributes": values_from_attributes(node.attribute)}
        changed = [
            f"{declared.name} changed in {journey}"
            for journey, given in journeys.items()
            for declared in plugin.fields
            if not same(declared, plugin(**given).values[declared.name], made.values[declared.name])
        ]
        yield Result(plugin.name, "fields", case.name, not changed, "; ".join(changed))


def same(declared: Field, left: Value, right: Value) -> bool:
    """Whether two values of a field are equal as TensorRT carries them: floats as FP32, bit for bit."""
    if "float" not in declared.kind:
        return left == right
    return np.asarray(left, np.float32).tobytes() == np.asarray(right, np.float32).tobytes()


def _class_faults(plugin: type[CudaPlugin]) -> Iterator[str]:
    if not (plugin.__doc__ or "").strip():
        yield "no docstring, whose first line is the summary"
    if not plugin.outputs:
        yield "no output"
    if not plugin.source().is_file():
        yield f"no {plugin.source().name} beside the module"
    if not plugin.targets or not all(_TARGET.fullmatch(target) for target in plugin.targets):
        yield f"targets {plugin.targets}: expected names such as sm_86"
    yield from (f"field {declared.name} has no description" for declared in plugin.fields if not declared.description)
    names = [declared.name for declared in plugin.fields]
    names += [tensor.name for tensor in (*plugin.inputs, *plugin.outputs)]
    yield from (f"the name {name} is given twice" for name in sorted({name for name in names if names.count(name) > 1}))
    yield from (f"{name!r} is no name" for name in [*names, plugin.name] if not name.isidentifier())


def _tensor_faults(plugin: type[CudaPlugin]) -> Iterator[str]:
    for tensors in (plugin.inputs, plugin.outputs):
        optional = [tensor.optional for tensor in tensors]
        if tensors is plugin.outputs and optional != sorted(optional):
            yield "an optional output stands before a required one"
        for tensor in tensors:
            yield from _one_tensor_faults(plugin, tensor)


def _one_tensor_faults(plugin: type[CudaPlugin], tensor: Tensor) -> Iterator[str]:
    if not tensor.like and not tensor.datatypes:
        yield f"{tensor.name} has neither datatypes nor a tensor it is like"
    if tensor.like and tensor.like not in {each.name for each in plugin.inputs}:
        yield f"{tensor.name} is like {tensor.like}, which is no input"
    yield from (f"{tensor.name}: no datatype {name}" for name in tensor.datatypes if name not in DATATYPES)
    try:
        if tensor.pattern:
            tensor.pattern.build({"...": ()})
        elif tensor in plugin.outputs and not tensor.like:
            yield f"{tensor.name} has no shape"
    except ShapeFault as fault:
        yield f"{tensor.name}: {fault}"


def _operator_faults(plugin: type[CudaPlugin]) -> Iterator[str]:
    known = {
        "input": {tensor.name for tensor in plugin.inputs},
        "output": {tensor.name for tensor in plugin.outputs},
        "field": {declared.name for declared in plugin.fields},
    }
    for operator in plugin.operators:
        used = {"input": operator.inputs, "output": operator.outputs, "field": operator.renamed.values()}
        for kind, names in used.items():
            for name in {name for name in names if name is not None} - known[kind]:
                yield f"{operator.name}: {name} is no {kind}"
