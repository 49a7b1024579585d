"""Shape patterns over integers, symbolic and unknown dimensions."""

from __future__ import annotations

from typing import Any

import pytest

from service.plugins.shapes import Names, ShapeFault, ShapePattern


def bound(pattern: str, shape: tuple[Any, ...] | None, **names: Any) -> Names:
    ShapePattern(pattern).bind(shape, names)
    return names


def test_names_and_leading_dimensions_are_bound() -> None:
    assert bound("[..., K]", ("batch", 3, 8)) == {"...": ("batch", 3), "K": 8}


@pytest.mark.parametrize(
    ("pattern", "shape", "names"),
    [
        ("[C]", (3, 4), {}),
        ("[..., a, b]", (3,), {}),
        ("[C]", (3,), {"C": 4}),
        ("[2, C]", (3, 4), {}),
        ("[..., C]", (2, 3, 4), {"...": (2, 5)}),
        ("[..., C]", (2, 4), {"...": (2, 3)}),
        ("[N, ceildiv(K, 32)]", (8, 3), {"N": 8, "K": 100}),
    ],
)
def test_a_shape_that_does_not_fit_is_said(pattern: str, shape: tuple[Any, ...], names: Names) -> None:
    with pytest.raises(ShapeFault, match="expected"):
        bound(pattern, shape, **names)


def test_what_is_unknown_fits() -> None:
    assert bound("[N, C]", ("n", None), N=8)["N"] == 8
    assert bound("[..., C]", None) == {}


def test_outputs_are_computed() -> None:
    names: Names = {"...": ("batch",), "N": 12, "K": 100, "S": "seq"}
    built = ShapePattern("[..., N // 2, ceildiv(K, 32), N * 2 - 1, S, S + 1]").build(names)
    assert built == ("batch", 6, 4, 23, "seq", None)


def test_an_unknown_rank_stays_unknown() -> None:
    assert ShapePattern("[..., N]").build({"N": 3}) is None


def test_other_arithmetic_is_used_only_where_integers_end() -> None:
    def spelled(operator: str, left: Any, right: Any) -> str:
        return f"({left} {operator} {right})"

    assert ShapePattern("[2 * 3, S // 2]").build({"S": "seq"}, spelled) == (6, "(seq floordiv 2)")


@pytest.mark.parametrize("text", ["K", "[K", "[f(K)]", "[K ** 2]", "['x']"])
def test_a_text_that_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ShapeFault):
        ShapePattern(text).build({"K": 1})
