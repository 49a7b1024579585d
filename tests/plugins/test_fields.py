"""Fields: what a value may be, what a fault says, and that nothing changes on the way to TensorRT and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.plugins import CudaPlugin, PluginFault, field, required
from service.plugins.nodes import plugin_node, values_from_attributes


class Everything(CudaPlugin):
    """A plugin with a field of every kind."""

    count: int = field(4, "how many", choices=(4, 8))
    ratio: float = field(0.5, "how much", minimum=0.0, maximum=1.0)
    mode: str = field("fast", "which way")
    blob: bytes = field(b"", "anything")
    sizes: list[int] = required("one a level", minimum=1)
    weights: list[float] = field([], "one a level")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("count", 5, "expected one of 4, 8, got 5"),
        ("count", 4.0, "expected an integer, got a number"),
        ("count", True, "expected an integer, got a boolean"),
        ("count", 2**40, "expected an integer of 32 bits"),
        ("ratio", "0.5", "expected a number, got a string"),
        ("ratio", 1.5, "expected at most 1.0, got 1.5"),
        ("ratio", float("nan"), "expected a finite number"),
        ("ratio", 1e39, "in the range of FP32"),
        ("ratio", 10**400, "in the range of FP32"),
        ("mode", 3, "expected a string, got a number"),
        ("mode", "a\0b", "NUL"),
        ("mode", b"\xff", "UTF-8"),
        ("blob", "not base64!", "expected base64"),
        ("sizes", 3, "expected a list of integers, got a number"),
        ("sizes", [1, 0], "expected at least 1, got 0"),
        ("sizes", [1, "2"], "expected a list of integers, got a string"),
        ("weights", None, "expected a list of numbers, got null"),
        ("countt", 4, "has no field of this name; it has count, ratio, mode, blob, sizes, weights"),
    ],
)
def test_a_wrong_value_is_said_with_what_was_expected(name: str, value: Any, said: str) -> None:
    faults = list(Everything.field_faults({"sizes": [1], name: value}))
    assert [fault.subject for fault in faults] == [name]
    assert said in faults[0].detail


def test_every_fault_is_found_at_once() -> None:
    faults = list(Everything.field_faults({"count": "x", "mode": 1, "typo": 0}))
    assert {fault.subject for fault in faults} == {"count", "mode", "typo", "sizes"}


def test_a_required_field_is_required() -> None:
    with pytest.raises(PluginFault, match="requires this field"):
        Everything()


@given(
    count=st.sampled_from([4, 8]),
    ratio=st.floats(0, 1, width=32),
    mode=st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    blob=st.binary(),
    sizes=st.lists(st.integers(1, 2**31 - 1)),
    weights=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)),
)
def test_values_survive_an_onnx_node(**values: Any) -> None:
    plugin = Everything(**values)
    again = Everything(**values_from_attributes(plugin_node(plugin, ["x"], ["y"], "node").attribute))
    assert again.values == plugin.values
    assert again.given == plugin.given


def test_only_given_fields_become_attributes() -> None:
    node = plugin_node(Everything(sizes=[3]), ["x", "", ""], ["y"], "node")
    assert {attribute.name for attribute in node.attribute} == {"sizes", "plugin_version", "plugin_namespace"}
    assert list(node.input) == ["x"]


def test_a_declaration_that_no_field_can_have_is_refused_where_it_stands() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.shape"):

        class Wrong(CudaPlugin):
            shape: dict[str, int] = field({}, "no such kind")


def test_a_default_must_be_a_valid_value() -> None:
    with pytest.raises(ValueError, match="expected at most 1"):

        class WrongDefault(CudaPlugin):
            ratio: float = field(2.0, "too much", maximum=1.0)


def test_bytes_read_the_same_through_json_and_attribute() -> None:
    image = bytes([0x00, 0x80, 0xFF]) + np.random.default_rng(0).bytes(1000)
    from service.plugins.fields import jsonable

    assert Everything(sizes=[], blob=jsonable(image)).values["blob"] == image
