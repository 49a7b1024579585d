"""Bytes before they are stored, in a file or in memory: measured, then cut into chunks, never all read at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_END, BufferedReader, BytesIO
from pathlib import Path

from service.store.contents import CHUNK
from service.store.records import Blob

File = BufferedReader | BytesIO


@contextmanager
def opened(source: Path | bytes) -> Iterator[File]:
    with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        yield file


def measured(file: File) -> Blob:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Blob(digest, file.seek(0, SEEK_END))


def chunks(file: File) -> Iterator[bytes]:
    file.seek(0)
    while data := file.read(CHUNK):
        yield data
