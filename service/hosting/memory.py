"""Memory that the HTTP process and an engine host both see.

It is anonymous (memfd): it has no name in /dev/shm, and the kernel frees it with its last holder, however that ends.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect
from collections import deque

ALIGNMENT = 64


def aligned(size: int) -> int:
    """Bytes that a tensor of `size` bytes takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def new_segment(size: int) -> tuple[int, mmap.mmap]:
    """A segment's descriptor, for the caller to close, and its memory, which lives as long as arrays in it do."""
    descriptor = os.memfd_create("planforge", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, max(size, ALIGNMENT))
    return descriptor, mmap.mmap(descriptor, max(size, ALIGNMENT))


def open_segment(descriptor: int) -> mmap.mmap:
    """The memory behind a descriptor that another process sent; closes the descriptor."""
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


class Arena:
    """One segment, given out in regions by first fit: calls that follow each other use the same warm pages."""

    def __init__(self, size: int) -> None:
        self.descriptor, self.memory = new_segment(size)
        self._gaps = [(0, size)]
        """Offset and size of what is free, in order; neighbours are joined."""
        self._returned: deque[tuple[int, int]] = deque()
        """Given back, perhaps by another thread or the garbage collector; joined at the next `take`."""

    def take(self, size: int) -> int | None:
        """The offset of a region of `size` bytes (a positive multiple of the alignment), or None where none is left."""
        while self._returned:
            self._join(*self._returned.popleft())
        for index, (offset, room) in enumerate(self._gaps):
            if room > size:
                self._gaps[index] = (offset + size, room - size)
                return offset
            if room == size:
                del self._gaps[index]
                return offset
        return None

    def give_back(self, offset: int, size: int) -> None:
        """May be called from any thread."""
        self._returned.append((offset, size))

    def close(self) -> None:
        """Closes the descriptor; the memory itself goes with the last array in it."""
        os.close(self.descriptor)

    def _join(self, offset: int, size: int) -> None:
        gaps, index = self._gaps, bisect(self._gaps, (offset, size))
        if index < len(gaps) and gaps[index][0] == offset + size:
            size += gaps.pop(index)[1]
        if index and sum(gaps[index - 1]) == offset:
            index -= 1
            offset, size = gaps[index][0], gaps.pop(index)[1] + size
        gaps.insert(index, (offset, size))
