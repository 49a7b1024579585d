"""What the installed ONNX Runtime has: schemas of its operators, and for which datatypes there are CPU kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from service.backends.base import OperatorKernel
from service.datatypes import DATATYPES

NEWEST = 2**31 - 1
"""Where a kernel serves every later version of its operator."""

INTERNAL = "com.microsoft.nchwc"
"""A domain of operators that only ONNX Runtime's own optimizer writes."""

_SPELLED = {
    "BOOL": "bool", "FP16": "float16", "BF16": "bfloat16", "FP32": "float", "FP64": "double", "FP8": "float8e4m3fn",
}  # fmt: skip
TYPES = {f"tensor({_SPELLED.get(name, name.lower())})": name for name in DATATYPES}
"""ONNX Runtime's names of the datatypes."""


@dataclass(frozen=True)
class Schema:
    """An operator from version `since` on. `inputs` and `outputs` are pairs: type parameter (or type), required."""

    since: int
    inputs: tuple[tuple[str, bool], ...]
    outputs: tuple[tuple[str, bool], ...]
    attributes: frozenset[str]


@dataclass(frozen=True)
class Runtime:
    """By domain and name of the operator. The default domain is ""."""

    schemas: Mapping[tuple[str, str], Sequence[Schema]]
    kernels: tuple[OperatorKernel, ...]

    @staticmethod
    @cache
    def installed() -> Runtime:
        from onnxruntime.capi import onnxruntime_pybind11_state as binding

        schemas = defaultdict(list)
        for each in binding.get_all_operator_schema():
            schemas[each.domain, each.name].append(_schema(each))
        return Runtime(schemas, tuple(merged(_kernels(binding.get_all_opkernel_def()))))

    def schema(self, domain: str, name: str, version: int) -> Schema | None:
        """The operator as a model sees it that imports this version of the domain."""
        known = [each for each in self.schemas.get((domain, name), ()) if each.since <= version]
        return max(known, key=lambda each: each.since, default=None)

    def has_kernel(self, domain: str, name: str, schema: Schema, datatypes: Sequence[str | None]) -> bool:
        """Whether a CPU kernel takes inputs of these datatypes (None: an input that is absent)."""
        wanted = _by_parameter(schema, datatypes)
        return wanted is not None and any(
            (kernel.domain, kernel.name) == (domain, name)
            and _serves(kernel, schema.since)
            and all(datatype in kernel.datatypes.get(kind, (datatype,)) for kind, datatype in wanted.items())
            for kernel in self.kernels
        )


def _schema(given: Any) -> Schema:
    inputs, outputs = (
        tuple((each.typeStr, "Single" in str(each.option)) for each in formal)
        for formal in (given.inputs, given.outputs)
    )
    return Schema(given.since_version, inputs, outputs, frozenset(given.attributes))


def _serves(kernel: OperatorKernel, since: int) -> bool:
    """ONNX Runtime's rule: a kernel without an end serves only the version that it was written for."""
    return kernel.since == since or (kernel.until != NEWEST and kernel.since <= since <= kernel.until)


def _by_parameter(schema: Schema, datatypes: Sequence[str | None]) -> dict[str, str] | None:
    """The datatype of each type parameter; None where one would have two, or there are more inputs than declared."""
    if len(datatypes) > len(schema.inputs):
        return None
    found: dict[str, str] = {}
    for (kind, _), datatype in zip(schema.inputs, datatypes, strict=False):
        if datatype is not None and found.setdefault(kind, datatype) != datatype:
            return None
    return found


def _kernels(given: Iterable[Any]) -> Iterator[OperatorKernel]:
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


def merged(kernels: Iterable[OperatorKernel]) -> Iterator[OperatorKernel]:
    """The same in fewer entries: those that differ in one type parameter only become one."""
    groups: dict[tuple[str, str, int, int], list[OperatorKernel]] = defaultdict(list)
    for kernel in kernels:
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
