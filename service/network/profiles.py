"""Optimization profiles: which shapes (and values) the engine's inputs may have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx import ValueInfoProto

from service.backends.base import Range
from service.network.bodies import Faults, escaped, shorten
from service.network.description import InputRange
from service.network.rules import tensor_type
from service.plugins.shapes import Dim, render

Given = Mapping[str, InputRange]
BOUNDS = ("min", "opt", "max")
VALUE_DATATYPES = {"INT32": 2**31, "INT64": 2**63}


def check_profiles(
    inputs: Sequence[ValueInfoProto], given: Sequence[Given], faults: Faults
) -> tuple[dict[str, Range], ...]:
    """The profiles, with what is static left out."""
    types = {each.name: tensor_type(each.type) for each in inputs}
    dynamic = {name for name, kind in types.items() if not all(isinstance(dim, int) for dim in kind.shape or ())}
    if dynamic and not given:
        listed = ", ".join(f"{shorten(name)} {render(types[name].shape or ())}" for name in types if name in dynamic)
        faults.report("/profiles", f"dynamic dimensions need a profile with min, opt and max: {listed}")
    profiles = []
    for index, profile in enumerate(given):
        pointer = f"/profiles/{index}"
        for name in profile.keys() - types.keys():
            at = f"{pointer}/{escaped(name)}"
            faults.report(at, f"no input of this name; there are {', '.join(map(shorten, types)) or 'none'}")
        for name in sorted(dynamic - profile.keys()):
            faults.report(pointer, f"{shorten(name)} {render(types[name].shape or ())} is dynamic, and not given")
        ranges = {}
        for name, each in profile.items():
            if name in types:
                at = f"{pointer}/{escaped(name)}"
                found = _range(at, each, types[name].datatype, types[name].shape or (), faults)
                if found and (found.values or name in dynamic):
                    ranges[name] = found
        _check_symbols(pointer, ranges, {name: types[name].shape or () for name in ranges}, faults)
        profiles.append(ranges)
    return tuple(profile for profile in profiles if profile)


def _range(pointer: str, given: InputRange, datatype: str | None, shape: Sequence[Dim], faults: Faults) -> Range | None:
    before = len(faults)
    if given.values is not None:
        values = {bound: getattr(given.values, bound) for bound in BOUNDS}
        _check_values(f"{pointer}/values", values, datatype, shape, faults)
        pointer = f"{pointer}/values"
    else:
        values = {bound: getattr(given, bound) for bound in BOUNDS}
        for bound, dims in values.items():
            _check_shape(f"{pointer}/{bound}", dims, shape, faults)
    if len(faults) == before:
        _check_order(pointer, values, faults)
    if len(faults) > before:
        return None
    low, best, high = (tuple(values[bound]) for bound in BOUNDS)
    return Range(low, best, high, given.values is not None)


def _check_shape(pointer: str, dims: Sequence[int], shape: Sequence[Dim], faults: Faults) -> None:
    if len(dims) != len(shape):
        faults.report(pointer, f"expected {len(shape)} dimensions, as {render(shape)} has, got {len(dims)}")
        return
    for index, (got, wanted) in enumerate(zip(dims, shape, strict=True)):
        if isinstance(wanted, int) and got != wanted:
            faults.report(
                f"{pointer}/{index}", f"expected {wanted}, as the input's dimension is not dynamic, got {got}"
            )
    if math.prod(dims) >= 2**62:
        faults.report(pointer, "expected fewer than 2^62 elements")


def _check_values(
    pointer: str, values: Mapping[str, Sequence[int]], datatype: str | None, shape: Sequence[Dim], faults: Faults
) -> None:
    limit = VALUE_DATATYPES.get(datatype or "")
    if limit is None:
        faults.report(pointer, f"only an input of INT32 or INT64 has values that set shapes, this one is {datatype}")
        return
    if len(shape) > 1 or not all(isinstance(dim, int) for dim in shape):
        faults.report(pointer, f"expected an input of rank 0 or 1 and of known length, it is {render(shape)}")
        return
    for bound, given in values.items():
        if len(given) != math.prod(shape):
            faults.report(f"{pointer}/{bound}", f"expected {math.prod(shape)} values, got {len(given)}")
        if not all(-limit <= each < limit for each in given):
            faults.report(f"{pointer}/{bound}", f"expected values of {datatype}")


def _check_order(pointer: str, values: Mapping[str, Sequence[int]], faults: Faults) -> None:
    for low, high in (("min", "opt"), ("opt", "max")):
        for index, (smaller, larger) in enumerate(zip(values[low], values[high], strict=True)):
            if smaller > larger:
                at = f"{pointer}/{low}" if low == "min" else f"{pointer}/{high}"
                faults.report(at, f"expected {low} <= {high}, got {smaller} > {larger} at index {index}")


def _check_symbols(
    pointer: str, ranges: Mapping[str, Range], shapes: Mapping[str, Sequence[Dim]], faults: Faults
) -> None:
    """Dimensions of one name are equal, so a profile must give them the same range."""
    seen: dict[str, tuple[str, tuple[int, int, int]]] = {}
    for name, found in ranges.items():
        for index, dim in enumerate(() if found.values else shapes[name]):
            if not isinstance(dim, str):
                continue
            bounds = (found.min[index], found.opt[index], found.max[index])
            other, expected = seen.setdefault(dim, (name, bounds))
            if bounds != expected:
                detail = f"{shorten(dim)} is {list(bounds)} here and {list(expected)} in {shorten(other)}"
                faults.report(f"{pointer}/{escaped(name)}", f"expected one range of a dimension's name; {detail}")
