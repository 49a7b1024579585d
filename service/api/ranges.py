"""Stored bytes as an HTTP answer: whole or a part, with validators from their SHA-256 (RFC 9110, RFC 9530)."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from service.api.problems import problem_response
from service.errors import RangeNotSatisfiable
from service.store.records import Blob

Chunks = Callable[[int, int], Iterator[bytes]]
_RANGE = re.compile(r"bytes\s*=\s*(\d{0,400})\s*-\s*(\d{0,400})", re.IGNORECASE)
"""No number is so long in earnest, and Python refuses to read one of more than 4300 digits."""


async def blob_response(request: Request, blob: Blob, chunks: Chunks, filename: str) -> Response:
    """`chunks` gives the bytes from a start to a stop; it runs in threads. What it raises first is raised here."""
    headers = {
        "ETag": f'"{blob.sha256}"',
        "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(blob.sha256)).decode()}:",
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{filename}"',
        "Cache-Control": "no-cache",
    }
    if _matches(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    asked = _asked_range(request, headers["ETag"], blob.size)
    start, stop = asked or (0, blob.size)
    if asked and start >= stop:
        return _not_satisfiable(blob.size)
    if asked:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{blob.size}"
    headers["Content-Length"] = str(stop - start)
    status = 206 if asked else 200
    if request.method == "HEAD":
        return Response(headers=headers, status_code=status, media_type="application/octet-stream")
    content = await _started(chunks(start, stop))
    return StreamingResponse(content, status, headers, "application/octet-stream")


def _matches(condition: str | None, etag: str) -> bool:
    """Weak comparison, as If-None-Match asks for."""
    tags = [tag.strip().removeprefix("W/") for tag in (condition or "").split(",")]
    return tags == ["*"] or etag in tags


def _asked_range(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """Start and stop of the one range asked for; None for none, and for what RFC 9110 lets a server ignore."""
    asked = _RANGE.fullmatch(request.headers.get("range", "").strip()) if request.method == "GET" else None
    if asked is None or asked.groups() == ("", "") or request.headers.get("if-range", etag) != etag:
        return None
    first, last = asked.groups()
    if first and last and int(first) > int(last):
        return None
    start = int(first) if first else max(0, size - int(last))
    return start, min(int(last) + 1, size) if first and last else size


def _not_satisfiable(size: int) -> Response:
    response = problem_response(RangeNotSatisfiable(f"the content has {size} bytes"))
    response.headers["Content-Range"] = f"bytes */{size}"
    return response


async def _started(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, the first of which is there already: what is wrong with it still becomes a proper answer."""
    first = await asyncio.to_thread(next, chunks, b"")
    return _rest(first, chunks)


async def _rest(first: bytes, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    data = first
    while data:
        yield data
        data = await asyncio.to_thread(next, chunks, b"")
