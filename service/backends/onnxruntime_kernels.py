"""What the installed ONNX Runtime has: its operators' attributes, and for which datatypes there are CPU kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from service.backends.base import OperatorKernel
from service.datatypes import DATATYPES

INTERNAL = "com.microsoft.nchwc"
"""A domain of operators that only ONNX Runtime's own optimizer writes."""

_SPELLED = {
    "BOOL": "bool", "FP16": "float16", "BF16": "bfloat16", "FP32": "float", "FP64": "double", "FP8": "float8e4m3fn",
}  # fmt: skip
TYPES = {f"tensor({_SPELLED.get(name, name.lower())})": name for name in DATATYPES}
"""Our names of ONNX Runtime's tensor types."""

Attributes = dict[tuple[str, str], list[tuple[int, frozenset[str]]]]
"""By domain and name of an operator: each version that changed it, and the attributes from then on."""


def attributes() -> Attributes:
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    found: Attributes = defaultdict(list)
    for schema in binding.get_all_operator_schema():
        found[schema.domain, schema.name].append((schema.since_version, frozenset(schema.attributes)))
    return found


def kernels() -> tuple[OperatorKernel, ...]:
    """Each operator for each combination of datatypes, in few entries; what takes no tensor is left out."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    return tuple(merged(_named(binding.get_all_opkernel_def())))


def _named(given: Iterable[Any]) -> Iterator[OperatorKernel]:
    for each in given:
        if each.provider != "CPUExecutionProvider" or each.domain == INTERNAL:
            continue
        # Sequences and the like have no name here: such a parameter is left open.
        tensors = {
            kind: types
            for kind, types in each.type_constraints.items()
            if any(spelled.startswith("tensor(") for spelled in types)
        }
        named = {kind: tuple(TYPES[each] for each in types if each in TYPES) for kind, types in tensors.items()}
        if all(named.values()):  # else it takes nothing but what cannot come
            since, until = each.version_range
            yield OperatorKernel(each.domain, each.op_name, since, until, named)


def merged(given: Iterable[OperatorKernel]) -> Iterator[OperatorKernel]:
    """The same in fewer entries: those that differ in one type parameter only become one."""
    groups: dict[tuple[str, str, int, int], list[OperatorKernel]] = defaultdict(list)
    for kernel in given:
        _add(groups[kernel.domain, kernel.name, kernel.since, kernel.until], kernel)
    for key in sorted(groups):
        yield from groups[key]


def _add(group: list[OperatorKernel], kernel: OperatorKernel) -> None:
    for index, other in enumerate(group):
        if other.datatypes.keys() != kernel.datatypes.keys():
            continue
        differing = [kind for kind in kernel.datatypes if kernel.datatypes[kind] != other.datatypes[kind]]
        if len(differing) <= 1:
            both = {kind: [*other.datatypes[kind], *kernel.datatypes[kind]] for kind in differing}
            union = {kind: tuple(dict.fromkeys(datatypes)) for kind, datatypes in both.items()}
            group[index] = replace(other, datatypes={**other.datatypes, **union})
            return
    group.append(kernel)
