"""References are traced from Python: constants take the type beside them, absent inputs stay absent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.plugins import FLOATS, CudaPlugin, Tensor
from service.plugins.evaluation import evaluate_reference
from service.plugins.references import reference_function
from service.plugins.tracing import Tracer, Value


class Traced(CudaPlugin):
    """Whatever a test makes of it."""

    inputs = (Tensor("x", FLOATS), Tensor("extra", like="x", optional=True))
    outputs = (Tensor("y", like="x"), Tensor("also", like="x", optional=True))
    body: Callable[..., Any]

    def reference(self, op: Any, x: Any, extra: Any) -> Any:
        return type(self).body(op, x, extra)


def run(body: Callable[..., Any], *, outputs: int = 1, **inputs: Any) -> list[Any]:
    kind = type("Body", (Traced,), {"body": staticmethod(body), "__module__": Traced.__module__})
    return evaluate_reference(kind(), inputs, outputs)


X = np.array([[1.5, -2.0]], np.float16)


def test_numbers_become_constants_of_the_type_beside_them() -> None:
    (got,) = run(lambda op, x, _: op.Add(op.Mul(x, 2), 0.5), x=X)
    assert got.dtype == np.float16
    assert got.tolist() == [[3.5, -3.5]]


def test_a_number_takes_the_type_of_its_own_kind_of_input() -> None:
    """The condition of Where is no type for its branches."""
    (got,) = run(lambda op, x, _: op.Where(op.Greater(x, 0.0), x, -1.0), x=X)
    assert got.tolist() == [[1.5, -1.0]]


def test_python_decides_while_it_traces() -> None:
    def body(op: Any, x: Any, extra: Any) -> Any:
        return x if extra is None else op.Sub(x, extra)

    assert run(body, x=X)[0].tolist() == X.tolist()
    assert run(body, x=X, extra=X)[0].tolist() == [[0.0, 0.0]]


def test_an_output_may_be_an_input_and_stand_twice() -> None:
    first, second = run(lambda op, x, _: (x, x), outputs=2, x=X)
    assert first.tolist() == second.tolist() == X.tolist()


def test_an_operator_may_have_several_results() -> None:
    def body(op: Any, x: Any, _: Any) -> Any:
        left, right = op.Split(x, num_outputs=2, axis=1, _outputs=2)
        return op.Concat(right, left, axis=1)

    assert run(body, x=X)[0].tolist() == [[-2.0, 1.5]]


def test_absent_inputs_in_the_middle_stay_absent() -> None:
    op = Tracer()
    op.Clip(Value("x"), None, 6.0)
    assert list(op.nodes[-1].input)[:2] == ["x", ""]


def test_mistakes_are_said() -> None:
    op = Tracer()
    with pytest.raises(AttributeError, match="has no operator Multiply"):
        op.Multiply(Value("x"), 2)
    with pytest.raises(TypeError, match="Cast has no attribute too"):
        op.Cast(Value("x"), too=1)


def test_each_combination_is_an_overload_of_its_own() -> None:
    from plugins_cuda.scale_bias.plugin import ScaleBias

    overloads = {
        reference_function(ScaleBias(scale=scale), present, 1).overload
        for scale in (1.0, 2.0)
        for present in ([True], [True, True], [True, False, True])
    }
    assert len(overloads) == 6
