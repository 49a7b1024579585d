"""Arrays into shared memory and back: one copy when they are placed, none when they are viewed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from service.backends.base import Array
from service.datatypes import DATATYPES
from service.hosting.memory import ALIGNMENT, aligned
from service.hosting.messages import Placed

_NAMES = {datatype.numpy: name for name, datatype in DATATYPES.items()}
_DTYPES = {name: datatype.numpy for name, datatype in DATATYPES.items()}


def room_for(arrays: Iterable[Array]) -> int:
    """Bytes that the arrays take together; never 0."""
    return sum(aligned(array.nbytes) for array in arrays) or ALIGNMENT


def place(named: Iterable[tuple[str, Array]], memory: Any, offset: int) -> tuple[Placed, ...]:
    """Copies the arrays into memory, one after the other from `offset` on, as contiguous rows."""
    placed = []
    for name, array in named:
        np.ndarray(array.shape, array.dtype, memory, offset)[...] = array
        placed.append((name, _NAMES[array.dtype], array.shape, offset))
        offset += aligned(array.nbytes)
    return tuple(placed)


def view(placed: Placed, memory: Any, start: int = 0) -> Array:
    """The tensor where it lies, in memory that begins at offset `start` of its segment."""
    _, datatype, shape, offset = placed
    return np.ndarray(shape, _DTYPES[datatype], memory, offset - start)
