"""One end of the socket pair that joins the HTTP process and an engine host.

The socket keeps message borders (SOCK_SEQPACKET), so several threads of a host may wait for a message at once and each
gets a whole one, without a lock or a queue between them. Descriptors of shared memory travel beside a message.
"""

from __future__ import annotations

import array
import socket

from service.hosting.messages import Message, decode, encode

LARGEST = 200 * 1024
"""Bytes of a message; the kernel's default socket buffer takes no larger one."""
_ANCILLARY = socket.CMSG_SPACE(array.array("i").itemsize)


def channel() -> tuple[socket.socket, socket.socket]:
    """Both ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Receiver:
    """Reads messages into a buffer of its own: one for each thread."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = bytearray(LARGEST)
        self._view = memoryview(self._buffer)

    def receive(self) -> tuple[Message, int | None] | None:
        """A message, and the descriptor that came along for the caller to close; None once the other end is gone."""
        size, ancillary, _, _ = self._end.recvmsg_into([self._buffer], _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        if not size:
            return None
        descriptor = array.array("i", ancillary[0][2])[0] if ancillary else None
        return decode(self._view[:size]), descriptor


def send(end: socket.socket, message: Message, descriptor: int | None = None) -> None:
    """Sends; the descriptor stays the caller's to close."""
    post(end, encode(message), descriptor)


def post(end: socket.socket, data: bytes, descriptor: int | None = None) -> None:
    if descriptor is None:
        end.send(data)
    else:
        socket.send_fds(end, [data], [descriptor])
