"""Parameters of a request and of its tensors: strings, numbers and booleans; those that nobody knows are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.protocol.faults import Faults, escaped, shown

Parameters = dict[str, Any]

LARGEST_TIMEOUT = 2**63 - 1


def parameters_of(given: Mapping[str, Any], pointer: str, faults: Faults) -> Parameters:
    """The `parameters` of the object at `pointer`; none where they are wrong."""
    parameters = given.get("parameters")
    if parameters is None:
        return {}
    if type(parameters) is not dict:
        faults.report(f"{pointer}/parameters", f"expected an object, got {shown(parameters)}")
        return {}
    for key, value in parameters.items():
        if type(value) not in (str, int, float, bool):
            detail = f"expected a string, a number or a boolean, got {shown(value)}"
            faults.report(f"{pointer}/parameters/{escaped(key)}", detail)
    return parameters


def flag(parameters: Parameters, name: str, pointer: str, faults: Faults, otherwise: bool = False) -> bool:
    """A boolean parameter of the object at `pointer`."""
    value = parameters.get(name, otherwise)
    if type(value) is not bool:
        faults.report(f"{pointer}/parameters/{name}", f"expected true or false, got {shown(value)}")
        return otherwise
    return value


def timeout_of(parameters: Parameters, faults: Faults) -> float | None:
    """The request's `timeout`, microseconds there and seconds here; 0 means none."""
    value = parameters.get("timeout", 0)
    if type(value) is not int or not 0 <= value <= LARGEST_TIMEOUT:
        faults.report("/parameters/timeout", f"expected microseconds, an integer of 0 or more, got {shown(value)}")
        return None
    return value / 1e6 or None


def refuse(parameters: Parameters, names: Mapping[str, str], pointer: str, faults: Faults) -> None:
    """Faults for parameters that would change the answer's meaning if they were ignored."""
    for name, why in names.items():
        if name in parameters:
            faults.report(f"{pointer}/parameters/{name}", why)
