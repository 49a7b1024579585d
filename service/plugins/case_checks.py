"""Checks of a plugin's cases: refused as they should be, or right in shape, type and value."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

from service.datatypes import DATATYPES
from service.plugins.cases import Array, Case, Oracle
from service.plugins.evaluation import NoKernel, evaluate_operator, evaluate_reference
from service.plugins.plugin import CudaPlugin, PluginFault
from service.plugins.results import Result
from service.plugins.tensors import TensorType


def check_cases(plugin: type[CudaPlugin], cases: Sequence[Case], oracle: Oracle | None) -> Iterator[Result]:
    """What the reference gives against the shape rule, the oracle, and ONNX Runtime's kernels."""
    for case in cases:
        try:
            made = plugin(**case.fields)
            types = made.infer(case.types(plugin))[: case.outputs]
        except PluginFault as fault:
            refused = bool(case.fault) and case.fault in str(fault)
            yield Result(plugin.name, "refusal" if case.fault else "shapes", case.name, refused, str(fault))
            continue
        if case.fault:
            yield Result(plugin.name, "refusal", case.name, False, f"not refused; expected {case.fault!r}")
            continue
        inputs = case.draw()
        try:
            results = evaluate_reference(made, inputs, case.outputs)
        except Exception as error:
            yield Result(plugin.name, "reference", case.name, False, f"{type(error).__name__}: {error}")
            continue
        yield _check_types(plugin, case, results, types)
        if oracle is not None:
            yield _compare("reference", case, made, results, oracle_outputs(oracle, made, inputs, types))
        yield from _check_peers(made, case, inputs, results)


def oracle_outputs(
    oracle: Oracle, plugin: CudaPlugin, inputs: Mapping[str, Array], types: Sequence[TensorType]
) -> list[Array]:
    """The oracle's outputs, rounded to the outputs' types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # extreme values overflow, and are meant to
        outputs = oracle(plugin, inputs)
        return [
            output.astype(DATATYPES[kind.datatype or ""].numpy) for output, kind in zip(outputs, types, strict=False)
        ]


def _check_types(plugin: type[CudaPlugin], case: Case, results: Sequence[Array], types: Sequence[TensorType]) -> Result:
    wrong = [
        f"{name} is {result.dtype}{list(result.shape)}, declared as {kind.datatype}{list(kind.shape or ())}"
        for name, result, kind in zip(case.output_names(plugin), results, types, strict=True)
        if result.shape != kind.shape or result.dtype != DATATYPES[kind.datatype or ""].numpy
    ]
    return Result(plugin.name, "shapes", case.name, not wrong, "; ".join(wrong))


def _check_peers(
    plugin: CudaPlugin, case: Case, inputs: Mapping[str, Array], results: Sequence[Array]
) -> Iterator[Result]:
    for operator in plugin.operators if case.peer else ():
        try:
            peers = evaluate_operator(plugin, operator, inputs, len(results))
        except NoKernel:
            continue
        yield _compare(operator.name, case, plugin, results, peers)


def _compare(check: str, case: Case, plugin: CudaPlugin, results: Sequence[Array], expected: Sequence[Array]) -> Result:
    errors = [case.error_of(got, wanted) for got, wanted in zip(results, expected, strict=True)]
    allowed = [case.tolerance_for(wanted) for wanted in expected]
    ok = all(error <= limit for error, limit in zip(errors, allowed, strict=True))
    said = ", ".join(f"{name} {error:.2g}" for name, error in zip(case.output_names(type(plugin)), errors, strict=True))
    return Result(plugin.name, check, case.name, ok, f"relative error {said}")
