"""Arrays into shared memory and back: one copy when they are placed, none when they are viewed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from service.backends.base import Array
from service.datatypes import DATATYPES
from service.hosting.memory import ALIGNMENT, aligned
from service.hosting.messages import Placed

NAMES = {datatype.numpy: name for name, datatype in DATATYPES.items()}
_DTYPES = {name: datatype.numpy for name, datatype in DATATYPES.items()}


class Rows:
    """Arrays that are placed one below the other, as one."""

    def __init__(self, parts: tuple[Array, ...]) -> None:
        self.parts = parts
        self.dtype = parts[0].dtype
        self.shape = (sum(map(len, parts)), *parts[0].shape[1:])
        self.nbytes = sum(part.nbytes for part in parts)


def room_for(arrays: Iterable[Array | Rows]) -> int:
    """Bytes that the arrays take together; never 0."""
    return sum(aligned(array.nbytes) for array in arrays) or ALIGNMENT


def place(named: Iterable[tuple[str, Array | Rows]], memory: Any, offset: int) -> tuple[Placed, ...]:
    """Copies the arrays into memory, one after the other from `offset` on, as contiguous rows."""
    placed = []
    for name, array in named:
        target = np.ndarray(array.shape, array.dtype, memory, offset)
        if isinstance(array, Rows):
            np.concatenate(array.parts, out=target)
        else:
            target[...] = array
        placed.append((name, NAMES[array.dtype], array.shape, offset))
        offset += aligned(array.nbytes)
    return tuple(placed)


def view(placed: Placed, memory: Any, start: int = 0) -> Array:
    """The tensor where it lies, in memory that begins at offset `start` of its segment."""
    _, datatype, shape, offset = placed
    return np.ndarray(shape, _DTYPES[datatype], memory, offset - start)
