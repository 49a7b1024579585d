"""UUIDv7: identifiers that sort by the time they were made (RFC 9562, section 5.7)."""

from __future__ import annotations

import secrets
import threading
import time
import uuid

_RANDOM_BITS = 74


class Identifiers:
    """Makes identifiers that rise strictly within a process, also within a millisecond or when the clock goes back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            self._last = fresh if fresh > self._last else self._last + 1 + secrets.randbits(32)
            return str(_uuid7(self._last))


def _uuid7(value: int) -> uuid.UUID:
    """48 bits of milliseconds and 74 random ones, with the version and the variant put between them."""
    milliseconds, rest = divmod(value, 1 << _RANDOM_BITS)
    upper, lower = divmod(rest, 1 << 62)
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | upper << 64 | 0b10 << 62 | lower)


new_id = Identifiers().next
