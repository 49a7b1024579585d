"""One end of the socket pair that joins the HTTP process and an engine host.

The socket keeps packets whole (SOCK_SEQPACKET). A descriptor of shared memory travels beside a packet of one message.
"""

from __future__ import annotations

import array
import socket
from collections.abc import Iterator, Sequence

from service.hosting.messages import Message, decode, encode

LARGEST = 200 * 1024
"""Bytes of a packet; the kernel's default socket buffer takes no larger one."""
_ANCILLARY = socket.CMSG_SPACE(array.array("i").itemsize)


def channel() -> tuple[socket.socket, socket.socket]:
    """Both ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Receiver:
    """Reads packets into a buffer of its own: one for each thread."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = bytearray(LARGEST)
        self._view = memoryview(self._buffer)

    def receive(self, flags: int = 0) -> tuple[list[Message], int | None] | None:
        """Messages, and the descriptor that came along for the caller to close; None once the other end is gone."""
        size, ancillary, _, _ = self._end.recvmsg_into([self._buffer], _ANCILLARY, socket.MSG_CMSG_CLOEXEC | flags)
        if not size:
            return None
        descriptor = array.array("i", ancillary[0][2])[0] if ancillary else None
        return decode(self._view[:size]), descriptor


def packets(messages: Sequence[Message]) -> Iterator[bytes]:
    """As few as hold the messages. One message alone may be too large: then `post` says so."""
    data = encode(messages)
    if len(data) <= LARGEST or len(messages) == 1:
        yield data
        return
    half = len(messages) // 2
    yield from packets(messages[:half])
    yield from packets(messages[half:])


def post(end: socket.socket, packet: bytes, descriptor: int | None = None) -> None:
    """Sends; the descriptor stays the caller's to close. Raises ValueError for a packet that is too large."""
    if len(packet) > LARGEST:
        raise ValueError("the request names too many tensors")
    if descriptor is None:
        end.send(packet)
    else:
        socket.send_fds(end, [packet], [descriptor])
