from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plugins_cuda.scale_bias.plugin import ScaleBias
from service.plugins import FLOATS, Call, CudaPlugin, Launch, Operator, PluginFault, Tensor, field
from service.plugins.case_checks import check_cases
from service.plugins.cases import Case, Drawn, error_between
from service.plugins.catalogue import BUILT_IN, discover
from service.plugins.conformance import check_package, check_plugin, plugins_of
from service.plugins.declaration_checks import check_declarations, check_fields
from service.plugins.kernel_checks import check_kernels, check_launches

PLUGINS = [found.plugin for found in discover() if found.origin == BUILT_IN]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_built_in_plugins_conform(plugin: type[CudaPlugin], cache: Path) -> None:
    results = list(check_plugin(plugin, cache))
    assert [str(result) for result in results if not result.ok] == []
    assert {"declaration", "fields", "shapes", "reference", "refusal", "launch", "kernel", "creator", "build"} <= {
        result.check for result in results
    }


def failures(results: Iterator[Any]) -> list[str]:
    return [result.detail for result in results if not result.ok]


class Careless(CudaPlugin):
    scale: float = field(1.0)
    inputs = (Tensor("x", FLOATS), Tensor("x", like="z"))
    outputs = (Tensor("y", like="x", optional=True), Tensor("w", ("FP12",), shape="[C"))
    operators = (Operator("other.Scale", ("v",), ("y",)),)
    targets = ("86",)


def test_careless_declarations_are_all_reported() -> None:
    (said,) = failures(check_declarations(Careless))
    for fault in (
        "no docstring",
        "no kernel.cu",
        "targets ('86',)",
        "field scale has no description",
        "the name x is given twice",
        "x is like z, which is no input",
        "an optional output stands before",
        "no datatype FP12",
        "'[C' is no shape",
        "other.Scale: v is no input",
    ):
        assert fault in said


class Doubled(CudaPlugin):
    """Twice x; its kernel is ScaleBias's, and everything else is as wrong as a test asks for."""

    factor: float = field(2.0, "factor")
    inputs = (Tensor("x", FLOATS),)
    outputs = (Tensor("y", like="x"),)
    targets = ("sm_86",)
    kernel, arguments, grid = "scale_bias_uniform_f32", 6, 1

    @classmethod
    def source(cls) -> Path:
        return ScaleBias.source()

    def launch(self, call: Call) -> Launch:
        arguments = (call["x"], call["y"], 1, self.factor, 0.0, 0)
        return Launch(self.kernel, self.grid, 32, arguments[: self.arguments])

    def reference(self, op: Any, x: Any) -> Any:
        return op.Mul(x, 2.0)


CASE = Case("one", {"x": Drawn((3,))})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"kernel": "scale_bias_f64"}, ["no kernel scale_bias_f64"]),
        ({"arguments": 5}, ["scale_bias_uniform_f32 takes 64 64 64 f32 f32 64, is given 64 64 64 f32 f32"]),
        ({"targets": ("sm_12",)}, ["has no target 'sm_12'"]),
    ],
)
def test_kernels_must_be_what_is_launched(changes: dict[str, Any], said: list[str], cache: Path) -> None:
    plugin = type("Doubled", (Doubled,), {"__doc__": Doubled.__doc__, **changes})
    plugin.fields = Doubled.fields
    found = failures(check_kernels(plugin, [CASE], cache))[: len(said) or None]
    assert len(found) == len(said) and all(part in text for part, text in zip(said, found, strict=True))


def test_an_empty_grid_is_reported() -> None:
    plugin = type("Doubled", (Doubled,), {"grid": 0})
    plugin.fields = Doubled.fields
    assert failures(check_launches(plugin, [CASE])) == ["scale_bias_uniform_f32: a grid of (0, 1, 1)"]


@pytest.mark.parametrize(
    ("case", "oracle", "said"),
    [
        (CASE, lambda plugin, inputs: [inputs["x"] * 2], []),
        (CASE, lambda plugin, inputs: [inputs["x"] * 2.001], ["relative error y 0.0"]),
        (Case("two", {"x": Drawn((3,), "FP16")}), lambda plugin, inputs: [inputs["x"] * 2], []),
        (Case("three", {"x": Drawn((3,))}, fault="too long"), None, ["not refused"]),
        (Case("four", {"x": Drawn((3,))}, {"factr": 1.0}, fault="something else"), None, ["no field of this name"]),
        (Case("five", {"x": Drawn((3,))}, {"factr": 1.0}), None, ["no field of this name"]),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else "",
)
def test_cases_are_held_against_their_oracle(case: Case, oracle: Any, said: Sequence[str]) -> None:
    found = failures(check_cases(Doubled, [case], oracle))
    assert len(found) == len(said) and all(part in text for part, text in zip(said, found, strict=True))


def test_shape_rules_are_held_against_the_reference() -> None:
    plugin = type("Doubled", (Doubled,), {"outputs": (Tensor("y", like="x", shape="[7]"),)})
    plugin.fields = Doubled.fields
    assert failures(check_cases(plugin, [CASE], None)) == ["y is float32[3], declared as FP32[7]"]


def test_a_field_that_changes_on_its_way_is_reported() -> None:
    class Rounding(Doubled):
        """Rounds."""

        level: int = field(1, "level")

        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.level += 1

    assert failures(check_fields(Rounding, [CASE])) == ["level changed in JSON"]


def test_error_between_sees_types_shapes_and_where_infinities_stand() -> None:
    ones = np.ones(4, np.float32)
    assert error_between(ones, ones) == 0
    assert error_between(ones * 1.5, ones) == pytest.approx(0.5)
    assert error_between(np.array([np.nan, 1], np.float32), np.array([np.nan, 1], np.float32)) == 0
    for other in (ones[:3], ones.astype(np.float64), np.array([np.inf, 1, 1, 1], np.float32)):
        assert error_between(other, ones) == np.inf or error_between(ones, other) == np.inf
    assert error_between(np.array([np.inf, 1, 1, 1], np.float32), ones) == np.inf


def test_packages_are_found_by_module_and_by_folder() -> None:
    assert plugins_of("plugins_cuda.scale_bias") == [ScaleBias]
    assert [plugin.name for plugin in plugins_of(str(ScaleBias.folder()))] == ["ScaleBias"]
    with pytest.raises(ValueError, match="holds no plugin"):
        list(check_package("no.such.package", Path("unused")))


def test_a_plugin_without_cases_fails() -> None:
    results = list(check_plugin(Doubled, Path("unused")))
    assert [result.check for result in results if not result.ok] == ["cases"]


def test_a_broken_reference_is_a_result_and_not_an_exception() -> None:
    class Broken(Doubled):
        """Broken."""

        def reference(self, op: Any, x: Any) -> Any:
            raise PluginFault("as if")

    assert failures(check_cases(Broken, [CASE], None)) == ["PluginFault: as if"]
