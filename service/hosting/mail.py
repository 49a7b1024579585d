"""What comes to a host and goes from it. Everything but `send` is for the thread that leads (see `leading`)."""

from __future__ import annotations

import os
import socket
import time
from collections import deque

from service.hosting.channel import Receiver, packets, post
from service.hosting.messages import Failed, Message, Reply, encode

HELD = 0.00005
"""Seconds that a reply waits at most for others to go with."""
AWAKE = 0.0003
"""Seconds that a host stays awake after a short run; to be woken takes longer than most of them."""


class Mail:
    """Messages one by one, whatever packets they come in; replies to short runs in as few packets as possible."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._receiver = Receiver(end)
        self._waiting: deque[tuple[Message, int | None]] = deque()
        self._held: list[Reply] = []
        self._since = 0.0

    def receive(self) -> tuple[Message, int | None] | None:
        """The next message, and the descriptor that came along; None once the other end is gone."""
        while not self._waiting:
            soon = bool(self._held)
            self.flush()
            received = (self._at_once() if soon else None) or self._receiver.receive()
            if received is None:
                return None
            messages, descriptor = received
            self._waiting.extend((message, descriptor) for message in messages)
        return self._waiting.popleft()

    def _at_once(self) -> tuple[list[Message], int | None] | None:
        """Looks out for the next packet without sleeping: short runs tend to follow each other closely."""
        ends = time.perf_counter() + AWAKE
        while time.perf_counter() < ends:
            try:
                return self._receiver.receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
        return None

    def hold(self, reply: Reply) -> None:
        """Sends it with the next ones, soon."""
        now = time.perf_counter()
        if not self._held:
            self._since = now
        self._held.append(reply)
        if now - self._since > HELD:
            self.flush()

    def flush(self) -> None:
        held, self._held = self._held, []
        if held:
            for packet in packets(held):
                self._post(packet, held[0].call)

    def send(self, reply: Reply, descriptor: int | None = None) -> None:
        """Sends at once, from any thread, and closes the descriptor."""
        try:
            self._post(encode([reply]), reply.call, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _post(self, packet: bytes, call: int, descriptor: int | None = None) -> None:
        """`call`: the packet's only one, where it is too large."""
        try:
            post(self._end, packet, descriptor)
        except ValueError as error:
            post(self._end, encode([Failed(call, "ExecutionFailed", str(error))]))
        except (BrokenPipeError, ConnectionResetError):
            pass  # seen again by the next `receive`
