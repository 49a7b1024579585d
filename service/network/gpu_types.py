"""Types that not every GPU has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.network.bodies import Faults, shorten
from service.network.graph import Types
from service.network.rules import tensor_type
from service.network.targets import Choice

LACKING = {"sm_75": "BF16"}
"""Measured on TensorRT-RTX 1.7.1: with such a tensor in the network it refuses to build for the target."""


def fitting(choice: Choice, asked: Sequence[str] | None, types: Types, faults: Faults) -> Choice:
    """The choice without targets that lack a type of the network's; those that were asked for by name are faults."""
    first = {found: name for name, kind in types.items() if (found := tensor_type(kind).datatype)}
    wrong = {target: LACKING[target] for target in choice.targets if LACKING.get(target) in first}
    for index, target in enumerate(asked or ()):
        if target in wrong:
            detail = f"{target} has no {wrong[target]}, and {shorten(first[wrong[target]])} is one"
            faults.report(f"/targets/{index}", detail)
    return replace(choice, targets=tuple(target for target in choice.targets if target not in wrong))
