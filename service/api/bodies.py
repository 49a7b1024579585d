"""Request bodies, under limits that are kept while the bytes arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request

from service.errors import TooLarge, UnsupportedMedia
from service.settings import MIB


def media_type(request: Request, accepted: tuple[str, ...], default: str) -> str:
    """The body's media type without parameters. Raises UnsupportedMedia for one that is not accepted."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("a compressed body is not accepted here")
    given = request.headers.get("content-type", default).partition(";")[0].strip().lower()
    if given not in accepted:
        raise UnsupportedMedia(f"expected the media type {' or '.join(accepted)}, got {given[:100] or 'none'}")
    return given


async def limited(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body as it arrives. Raises TooLarge once it is, or says that it will be, over `limit` bytes."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit:
            raise _too_large(limit)
        yield chunk


async def read_body_bytes(request: Request, limit: int) -> bytes:
    return b"".join([chunk async for chunk in limited(request, limit)])


def _too_large(limit: int) -> TooLarge:
    size = f"{limit // MIB} MiB" if limit % MIB == 0 else f"{limit} bytes"
    return TooLarge(f"the body is larger than {size}, the most that is accepted here")
