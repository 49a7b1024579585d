from __future__ import annotations

import hashlib
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, update

from service.errors import NotFound, PlanDamaged
from service.store.blobs import Blobs
from service.store.claims import Claims
from service.store.contents import CHUNK
from service.store.database import Database
from service.store.models import ChunkRow, StagedRow


def content(size: int) -> bytes:
    """Bytes whose chunks all differ, the same for every call."""
    return random.Random(0).randbytes(size)


def chunk_count(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(ChunkRow)) or 0


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 3])
def test_every_length_comes_back_bit_equal(blobs: Blobs, tmp_path: Path, size: int) -> None:
    given, taken = tmp_path / "given", tmp_path / "taken"
    given.write_bytes(content(size))
    blob = blobs.put(given)
    assert (blob.sha256, blob.size) == (hashlib.sha256(content(size)).hexdigest(), size)
    blobs.copy_to(blob.sha256, taken)
    assert taken.read_bytes() == given.read_bytes()
    assert blobs.size(blob.sha256) == size
    assert all(len(piece) <= CHUNK for piece in blobs.chunks(blob.sha256))


def test_any_byte_survives(blobs: Blobs) -> None:
    every = bytes([0x00, 0x80, 0xFF]) + bytes(range(256)) * 3
    assert b"".join(blobs.chunks(blobs.put(every).sha256)) == every


def test_ranges(blobs: Blobs) -> None:
    data = content(2 * CHUNK + 3)
    sha256 = blobs.put(data).sha256
    within = [(0, 1), (3, 3), (1, 0), (CHUNK - 2, CHUNK + 2), (CHUNK, 2 * CHUNK)]
    for start, stop in [*within, (5, None), (2 * CHUNK + 1, 2 * CHUNK + 99), (2 * CHUNK + 99, None)]:
        assert b"".join(blobs.chunks(sha256, start, stop)) == data[start:stop]


def test_equal_bytes_are_stored_once(blobs: Blobs, database: Database) -> None:
    first = blobs.put(content(CHUNK + 1))
    assert blobs.put(content(CHUNK + 1)) == first
    assert chunk_count(database) == 2
    with database.read() as session:
        assert session.scalars(select(StagedRow)).all() == []


def test_unknown_bytes_are_not_found(blobs: Blobs, tmp_path: Path) -> None:
    for call in (blobs.size, blobs.verify, blobs.chunks, lambda sha256: blobs.copy_to(sha256, tmp_path / "taken")):
        with pytest.raises(NotFound):
            call("0" * 64)
    assert list(tmp_path.glob("taken*")) == []


def flip(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit flipped": flip,
    "cut by one byte": lambda data: data[:-1],
    "cut to nothing": lambda data: b"",
    "one byte more": lambda data: data + b"\0",
    "replaced": lambda data: b"\x08\x0a" + b"onnx" * (len(data) // 4),
}


def damage(database: Database, number: int, how: Callable[[bytes], bytes]) -> None:
    with database.write() as session:
        data = session.scalars(select(ChunkRow.data).where(ChunkRow.number == number)).one()
        session.execute(update(ChunkRow).where(ChunkRow.number == number).values(data=how(data)))


@pytest.mark.parametrize("how", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_noticed(blobs: Blobs, database: Database, tmp_path: Path, how: Callable[[bytes], bytes]) -> None:
    data = content(CHUNK + 1000)
    blob = blobs.put(data)
    damage(database, 1, how)
    with pytest.raises(PlanDamaged):
        blobs.copy_to(blob.sha256, tmp_path / "taken")
    assert list(tmp_path.glob("taken*")) == []
    received = []
    with pytest.raises(PlanDamaged):
        received.extend(blobs.chunks(blob.sha256))
    assert sum(map(len, received)) < len(data), "all of a damaged blob was given before it was noticed"


def test_a_missing_chunk_is_noticed_in_a_range_too(blobs: Blobs, database: Database) -> None:
    blob = blobs.put(content(CHUNK + 1000))
    with database.write() as session:
        session.execute(delete(ChunkRow).where(ChunkRow.number == 1))
    assert len(b"".join(blobs.chunks(blob.sha256, 0, 10))) == 10
    with pytest.raises(PlanDamaged, match="chunk 1"):
        list(blobs.chunks(blob.sha256, CHUNK + 5, CHUNK + 9))


def test_storing_damaged_bytes_again_heals_them(blobs: Blobs, database: Database) -> None:
    data = content(CHUNK + 1000)
    blob = blobs.put(data)
    damage(database, 1, flip)
    assert blobs.put(data) == blob
    assert b"".join(blobs.chunks(blob.sha256)) == data
    Claims(database).recover(attempts=3)
    assert chunk_count(database) == 2, "the damaged chunks stayed"


def test_memory_does_not_grow_with_the_size(blobs: Blobs, tmp_path: Path) -> None:
    given = tmp_path / "given"
    with given.open("wb") as file:
        for number in range(16):
            file.write(bytes([number]) * CHUNK)
    tracemalloc.start()
    try:
        blobs.copy_to(blobs.put(given).sha256, tmp_path / "taken")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * CHUNK
