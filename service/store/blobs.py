"""Content-addressed bytes: plans, models and their external data, by SHA-256, in chunks of 4 MiB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from service.errors import NotFound
from service.store.contents import read_range, read_whole
from service.store.database import Database
from service.store.models import BlobRow
from service.store.records import Blob
from service.store.staging import Staging


class Blobs:
    """`sha256` is in hexadecimal, sizes and positions are bytes. Every call raises NotFound for an unknown `sha256`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._staging = Staging(database)

    def put(self, source: Path | bytes) -> Blob:
        """Stores a file or bytes."""
        with self._staging.staged(source) as staged, self._database.write() as session:
            return self._staging.keep(session, staged)

    def size(self, sha256: str) -> int:
        return self._row(sha256).size

    def chunks(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` to `stop` (exclusive), in pieces of at most 4 MiB.

        All of them are checked against length and SHA-256 before the last piece is given, a part against the length
        only. Raises PlanDamaged.
        """
        row = self._row(sha256)
        end = row.size if stop is None else min(stop, row.size)
        if (start, end) == (0, row.size):
            return read_whole(self._database, row.content, Blob(sha256, row.size))
        return read_range(self._database, row.content, row.size, start, end)

    def verify(self, sha256: str) -> None:
        """Reads everything. Raises PlanDamaged."""
        for _ in self.chunks(sha256):
            pass

    def copy_to(self, sha256: str, path: Path) -> None:
        """Writes the verified bytes to `path`, which appears whole or not at all. Raises PlanDamaged."""
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                for data in self.chunks(sha256):
                    file.write(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _row(self, sha256: str) -> BlobRow:
        with self._database.read() as session:
            row = session.get(BlobRow, sha256)
        if row is None:
            raise NotFound("the stored bytes are gone")
        return row
