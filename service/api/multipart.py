"""`multipart/form-data` whose parts go to disk as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.errors import InvalidRequest, TooLarge
from service.settings import MIB

MOST_PARTS = 10_000
ENOUGH = MIB
"""Bytes that are gathered before a thread writes them."""


@dataclass
class Part:
    """One part, in a file of our own naming: what the client calls it is only ever looked up."""

    name: str
    filename: str | None
    path: Path
    size: int = 0


@dataclass
class Parts:
    """Receives the parser's calls. `limits` bounds parts by name, in bytes."""

    folder: Path
    limits: Mapping[str, int]
    received: list[Part] = field(default_factory=list)
    complete: bool = False
    _headers: dict[bytes, bytes] = field(default_factory=dict)
    _header: list[bytes] = field(default_factory=lambda: [b"", b""])
    _file: BinaryIO | None = None

    def on_part_begin(self) -> None:
        self._headers = {}

    def on_header_begin(self) -> None:
        self._header = [b"", b""]

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header[0] += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1] += data[start:end]

    def on_header_end(self) -> None:
        self._headers[self._header[0].lower()] = self._header[1]

    def on_headers_finished(self) -> None:
        if len(self.received) >= MOST_PARTS:
            raise InvalidRequest(f"the body has more than {MOST_PARTS} parts")
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if b"name" not in options:
            raise InvalidRequest(f"part {len(self.received)} of the body has no name")
        filename = options.get(b"filename")
        part = Part(_text(options[b"name"]), None if filename is None else _text(filename), self._next_path())
        self._file = part.path.open("wb")
        self.received.append(part)

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self.received[-1]
        part.size += end - start
        limit = self.limits.get(part.name)
        if limit is not None and part.size > limit:
            raise TooLarge(f"the part {part.name} is larger than {limit} bytes, the most that is accepted here")
        assert self._file is not None
        self._file.write(memoryview(data)[start:end])

    def on_part_end(self) -> None:
        self.close()

    def on_end(self) -> None:
        self.complete = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _next_path(self) -> Path:
        return self.folder / str(len(self.received))

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {name: getattr(self, name) for name in dir(self) if name.startswith("on_")}


async def receive_parts(
    content_type: str, body: AsyncIterator[bytes], folder: Path, limits: Mapping[str, int]
) -> list[Part]:
    """All parts, in the order in which they came. Raises InvalidRequest, TooLarge."""
    _, options = parse_options_header(content_type)
    if not options.get(b"boundary"):
        raise InvalidRequest("multipart/form-data needs a boundary in its content type")
    parts = Parts(folder, limits)
    try:
        parser = MultipartParser(options[b"boundary"], parts.callbacks())  # type: ignore[arg-type]
        async for data in _gathered(body):
            await asyncio.to_thread(parser.write, data)
    except FormParserError as error:
        raise InvalidRequest(f"malformed multipart/form-data: {error}") from None
    finally:
        parts.close()
    if not parts.complete:
        raise InvalidRequest("malformed multipart/form-data: it ends before its closing boundary")
    return parts.received


async def _gathered(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    gathered = bytearray()
    async for chunk in body:
        gathered += chunk
        if len(gathered) >= ENOUGH:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _text(given: bytes) -> str:
    try:
        return given.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the name of a part is not UTF-8") from None
