"""Records a reference as ONNX nodes while its Python runs: `op.Add(a, b)`, `op.Cast(x, to=1)`.

Any operator of ONNX's default domain can be called by name. Inputs are values, numbers (constants, in the type of the
value beside them) or None (absent); keywords are attributes, and `_outputs` says how many results an operator with
several gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import onnx
from onnx import NodeProto

OPSET = 21


@dataclass(frozen=True)
class Value:
    """A tensor of the function, by name."""

    name: str


Input = Value | float | int | bool | None


@dataclass
class Tracer:
    """The `op` that a reference is written with."""

    nodes: list[NodeProto] = field(default_factory=list)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        return partial(self._call, _schema(op_type))

    def _call(self, schema: Any, *inputs: Input, _outputs: int = 1, **attributes: Any) -> Any:
        names = [self._named(schema, index, inputs) for index in range(len(inputs))]
        results = [Value(f"v{len(self.nodes)}_{index}") for index in range(_outputs)]
        node = NodeProto(op_type=schema.name, input=names, output=[result.name for result in results])
        for name, value in attributes.items():
            node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=_attribute_type(schema, name)))
        self.nodes.append(node)
        return results[0] if _outputs == 1 else tuple(results)

    def _named(self, schema: Any, index: int, inputs: Sequence[Input]) -> str:
        given = inputs[index]
        if given is None:
            return ""
        if isinstance(given, Value):
            return given.name
        constant = self.Constant(**{"value_float" if isinstance(given, float) else "value_int": given})
        beside = self._of_same_type(schema, index, inputs)
        typed: Value = constant if beside is None else self.CastLike(constant, beside)
        return typed.name

    def _of_same_type(self, schema: Any, index: int, inputs: Sequence[Input]) -> Value | None:
        """A value among the inputs that must have the type of input number `index`."""
        kinds = [_parameter(schema, place).type_str for place in range(len(inputs))]
        fitting = (other for kind, other in zip(kinds, inputs, strict=True) if kind == kinds[index])
        return next((other for other in fitting if isinstance(other, Value)), None)


@cache
def _schema(op_type: str) -> Any:
    """Raises AttributeError where ONNX has no such operator."""
    try:
        return onnx.defs.get_schema(op_type, OPSET)
    except onnx.defs.SchemaError:
        raise AttributeError(f"ONNX opset {OPSET} has no operator {op_type}") from None


def _attribute_type(schema: Any, name: str) -> int:
    if name not in schema.attributes:
        raise TypeError(f"{schema.name} has no attribute {name}; it has {', '.join(schema.attributes)}")
    return int(schema.attributes[name].type.value)


def _parameter(schema: Any, index: int) -> Any:
    """The declaration of an input; the last one of a variadic operator stands for all that follow."""
    return schema.inputs[min(index, len(schema.inputs) - 1)]
