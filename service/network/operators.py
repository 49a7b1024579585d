"""ONNX operators as their schemas declare them, in a form that is quick to look at."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from onnx import AttributeProto, defs

STANDARD_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")
_Option = defs.OpSchema.FormalParameterOption


@dataclass(frozen=True)
class Parameter:
    """An input or output. `kind` names a type constraint, or is a type; `types` are spelt as ONNX spells them."""

    name: str
    kind: str
    types: frozenset[str]
    required: bool
    variadic: bool
    homogeneous: bool


@dataclass(frozen=True)
class Signature:
    """What an operator takes. `attributes` are AttributeProto types by name."""

    name: str
    domain: str
    since: int
    deprecated: bool
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    fewest_inputs: int
    most_inputs: int
    fewest_outputs: int
    most_outputs: int
    attributes: dict[str, int]
    required: frozenset[str]
    is_function: bool
    """Whether it can be expanded into other operators."""

    def input(self, index: int) -> Parameter:
        return self.inputs[min(index, len(self.inputs) - 1)]


@lru_cache(8192)
def signature(domain: str, name: str, version: int) -> Signature | None:
    """The operator as opset `version` has it, or None."""
    try:
        schema = defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return None
    return _signature(schema)


def _signature(schema: defs.OpSchema) -> Signature:
    return Signature(
        schema.name,
        schema.domain,
        schema.since_version,
        schema.deprecated,
        _parameters(schema.inputs),
        _parameters(schema.outputs),
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        {
            name: int(getattr(AttributeProto, str(each.type).rpartition(".")[2]))
            for name, each in schema.attributes.items()
        },
        frozenset(name for name, each in schema.attributes.items() if each.required),
        schema.has_function or schema.has_context_dependent_function,  # type: ignore[attr-defined]
    )


def _parameters(formal: Sequence[Any]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            each.name,
            each.type_str,
            frozenset(each.types),
            each.option == _Option.Single,
            each.option == _Option.Variadic,
            each.is_homogeneous,
        )
        for each in formal
    )


@cache
def introduced(name: str) -> int | None:
    """The first opset of the default domain that has the operator."""
    return _introductions().get(name)


@cache
def _introductions() -> dict[str, int]:
    first: dict[str, int] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return first


@lru_cache(1024)
def near(name: str, others: tuple[str, ...] = ()) -> str:
    """` (did you mean Relu?)` where there is something like it, else nothing."""
    if len(name) > 64:
        return ""
    names = others or tuple(_introductions())
    folded = {each.lower(): each for each in reversed(names)}
    matches = difflib.get_close_matches(name.lower(), list(folded), 3, 0.75)
    return f" (did you mean {' or '.join(folded[each] for each in matches)}?)" if matches else ""


def latest_opset() -> int:
    """The newest of the default domain that the checks know."""
    return defs.onnx_opset_version()
