"""Reading stored bytes chunk by chunk, with their length and SHA-256 checked on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from service.errors import PlanDamaged
from service.store.database import Database
from service.store.models import ChunkRow
from service.store.records import Blob

CHUNK = 4 * 2**20
"""Bytes of a chunk; all but the last of a content have exactly so many."""


def read_range(database: Database, content: str, size: int, start: int, stop: int) -> Iterator[bytes]:
    """Bytes `start` to `stop` (exclusive) of `size`. Only lengths are checked. Raises PlanDamaged.

    Each chunk is read in a transaction of its own, since whoever takes them may be slow.
    """
    for number in range(start // CHUNK, -(-stop // CHUNK)):
        first = number * CHUNK
        with database.read() as session:
            row = session.get(ChunkRow, (content, number))
        if row is None or len(row.data) != min(CHUNK, size - first):
            raise PlanDamaged(f"chunk {number} of the stored bytes is {'missing' if row is None else 'cut'}")
        yield row.data[max(0, start - first) : stop - first]


def read_whole(database: Database, content: str, blob: Blob) -> Iterator[bytes]:
    """All bytes. Raises PlanDamaged before the last chunk is given, so that nobody ever holds all of a damaged blob."""
    digest = hashlib.sha256()
    held: bytes | None = None
    for data in read_range(database, content, blob.size, 0, blob.size):
        if held is not None:
            yield held
        digest.update(data)
        held = data
    if digest.hexdigest() != blob.sha256:
        raise PlanDamaged(f"the stored bytes have SHA-256 {digest.hexdigest()}, expected {blob.sha256}")
    if held is not None:
        yield held


def intact(database: Database, content: str, blob: Blob) -> bool:
    """Whether the stored bytes still are what they were."""
    try:
        for _ in read_whole(database, content, blob):
            pass
    except PlanDamaged:
        return False
    return True
