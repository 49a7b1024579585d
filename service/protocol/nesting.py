"""A tensor's data in JSON as one flat list, whether it was nested or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from service.protocol.faults import DataFault, shown

Locate = Callable[[int], str]
"""The JSON pointer, within the data, of the element with this number."""


def flattened(data: Any, shape: Sequence[int]) -> tuple[list[Any], Locate]:
    """All elements in order. Raises DataFault unless there are as many as the shape says, nested as it says or flat."""
    if type(data) is not list:
        if shape:
            raise DataFault("", f"expected a list, got {shown(data)}")
        return [data], lambda index: ""
    if len(shape) > 1 and data and type(data[0]) is list:
        return _unnested(data, shape), lambda index: pointer(index, shape)
    if len(data) != (count := math.prod(shape)):
        raise DataFault("", f"expected {count} elements, as the shape {list(shape)} says, got {len(data)}")
    return data, lambda index: f"/{index}"


def _unnested(data: list[Any], shape: Sequence[int]) -> list[Any]:
    level = [data]
    for depth, length in enumerate(shape):
        if not set(map(type, level)) <= {list}:
            index = next(index for index, row in enumerate(level) if type(row) is not list)
            raise DataFault(
                pointer(index, shape[:depth]), f"expected a list, as its neighbours, got {shown(level[index])}"
            )
        if not set(map(len, level)) <= {length}:
            index = next(index for index, row in enumerate(level) if len(row) != length)
            detail = f"expected {length} elements, as the shape {list(shape)} says, got {len(level[index])}"
            raise DataFault(pointer(index, shape[:depth]), detail)
        level = list(chain.from_iterable(level))
    return level


def pointer(index: int, shape: Sequence[int]) -> str:
    """Where the element with this number stands in data that are nested as `shape` says."""
    places = []
    for length in reversed(shape):
        index, place = divmod(index, length)
        places.append(f"/{place}")
    return "".join(reversed(places))
