"""Shape patterns: `"[..., K]"` says what an input must look like and what an output will.

A dimension is an integer, a name, or integer arithmetic over names (`+ - * //` and `ceildiv(a, b)`); `...` at the
front stands for any number of leading dimensions, the same for every tensor of the node. Names are the plugin's integer
fields and whatever an input's pattern bound first. The same pattern serves ONNX shape inference (where a dimension may
be symbolic or unknown), TensorRT's dimension expressions, and the concrete shapes of an execution.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Dim = Any
"""An int, a symbolic name (str), None where unknown, or a TensorRT dimension expression."""
Names = dict[str, Any]
LEADING = "..."


class ShapeFault(ValueError):
    """A shape that does not fit the pattern; the text says what was expected."""


def integer_arithmetic(operator: str, left: Dim, right: Dim) -> Dim:
    """What ONNX can say of a dimension that is not computed from integers alone: nothing."""
    return None


INTEGER_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
}
_SYNTAX: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv"}

Arithmetic = Callable[[str, Dim, Dim], Dim]


@dataclass(frozen=True)
class ShapePattern:
    """`text` as written in the plugin. Raises ShapeFault for a text that is no pattern, when first used."""

    text: str

    @cached_property
    def _terms(self) -> tuple[bool, list[ast.expr]]:
        body = self.text.strip()
        if not (body.startswith("[") and body.endswith("]")):
            raise ShapeFault(f"{self.text!r} is no shape pattern: expected [...]")
        try:
            elements = ast.parse(body, mode="eval").body.elts  # type: ignore[attr-defined]
        except SyntaxError as error:
            raise ShapeFault(f"{self.text!r} is no shape pattern: {error.msg}") from None
        leading = bool(elements) and isinstance(elements[0], ast.Constant) and elements[0].value is ...
        return leading, elements[1:] if leading else elements

    def bind(self, shape: Sequence[Dim] | None, names: Names) -> None:
        """Checks `shape` against the pattern and adds the names it fixes. Raises ShapeFault."""
        if shape is None:
            return
        leading, terms = self._terms
        if len(shape) < len(terms) or (not leading and len(shape) != len(terms)):
            wanted = f"rank {len(terms)}{' or more' if leading else ''}"
            raise ShapeFault(f"expected {wanted} {self.text}, got {render(shape)}")
        split = len(shape) - len(terms)
        if leading:
            self._bind_leading(tuple(shape[:split]), shape, names)
        for term, actual in zip(terms, shape[split:], strict=True):
            if isinstance(term, ast.Name) and names.get(term.id) is None:
                names[term.id] = actual
            elif differ(expected := evaluate(term, names, integer_arithmetic), actual):
                raise ShapeFault(f"expected {self.text} with {ast.unparse(term)} = {expected}, got {render(shape)}")

    def _bind_leading(self, found: tuple[Dim, ...], shape: Sequence[Dim], names: Names) -> None:
        known = names.setdefault(LEADING, found)
        if len(known) != len(found) or any(map(differ, known, found)):
            raise ShapeFault(f"expected {self.text} with ... = {render(known)}, got {render(shape)}")
        names[LEADING] = tuple(b if a is None else a for a, b in zip(known, found, strict=True))

    def build(self, names: Mapping[str, Any], arithmetic: Arithmetic = integer_arithmetic) -> tuple[Dim, ...] | None:
        """The shape that the pattern stands for, or None where its rank is unknown."""
        leading, terms = self._terms
        if leading and LEADING not in names:
            return None
        front = names[LEADING] if leading else ()
        return (*front, *(evaluate(term, names, arithmetic) for term in terms))


def evaluate(term: ast.expr, names: Mapping[str, Any], arithmetic: Arithmetic) -> Dim:
    """The value of one dimension's expression."""
    match term:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=known):
            return names.get(known)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _SYNTAX:
            name = _SYNTAX[type(operator)]
        case ast.Call(func=ast.Name(id="ceildiv"), args=[left, right]):
            name = "ceildiv"
        case _:
            supported = "integers, names, + - * // and ceildiv(a, b)"
            raise ShapeFault(f"{ast.unparse(term)!r} is no dimension: expected {supported}")
    both = evaluate(left, names, arithmetic), evaluate(right, names, arithmetic)
    if all(isinstance(dim, int) for dim in both):
        return INTEGER_OPERATORS[name](*both)
    return arithmetic(name, *both)


def differ(left: Dim, right: Dim) -> bool:
    """Whether two dimensions are both known and not equal."""
    return isinstance(left, int) and isinstance(right, int) and left != right


def render(shape: Sequence[Dim]) -> str:
    """A shape for a message: `[batch, ?, 8]`."""
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
