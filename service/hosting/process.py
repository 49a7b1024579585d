"""The HTTP process's side of one engine host process: starts it, passes messages, notices its end at once."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable

from service import errors
from service.children import outcome
from service.errors import ExecutionFailed, ServiceError, Unavailable
from service.hosting.channel import Receiver, channel, packets, post
from service.hosting.memory import Arena
from service.hosting.messages import Done, Failed, Message, Ran, Start, decode, encode
from service.hosting.wakefulness import Wakefulness

Replied = Callable[[Done | Ran | ServiceError, int | None], None]
"""Gets the reply, and the descriptor that came along, to close."""


class HostProcess:
    """Lives in one event loop. Every message that is sent gets exactly one reply: the host's, or why there is none."""

    def __init__(self, device: str, settings: str, arena: int, died: Callable[[], None] = lambda: None) -> None:
        """Starts the process; `settings` is the service's as JSON, `arena` the bytes of memory it shares.

        `died` is called when it has ended, before the requests in it fail.
        """
        self._device = device
        self._died = died
        self.arena = Arena(arena)
        self.loading = False
        """While the host loads an engine it may take long to answer."""
        self.next_call = itertools.count().__next__
        self.alive = True
        self._replied: dict[int, Replied] = {}
        self._outbox: list[Message] = []
        """What is to be sent in this turn of the event loop."""
        self._unsent: deque[tuple[bytes, int | None]] = deque()
        """Packets that the socket has not taken yet."""
        self._wakefulness = Wakefulness()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._killed_because: str | None = None
        self._reason = ""
        """Why it is no longer alive, as a sentence."""
        self._end, other = channel()
        with other:
            self._process = spawn(device, other.fileno())
        self._exit = os.pidfd_open(self._process.pid)
        self._receiver = Receiver(self._end)
        self._listen()
        self.free: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Bytes that were free on the device when the host started."""
        self.send(Start(self.next_call(), device, settings), self._started, self.arena.descriptor)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message, replied: Replied, descriptor: int | None = None) -> None:
        """Sends soon, without waiting; the descriptor stays the caller's to close."""
        if not self.alive:
            asyncio.get_running_loop().call_soon(replied, Unavailable(self._reason), None)
            return
        alone, idle = not self._replied, not self._outbox and not self._unsent
        self._replied[message.call] = replied
        if descriptor is None:
            self._outbox.append(message)
        else:
            self._unsent.append((encode([message]), os.dup(descriptor)))
        if alone:
            self._flush()
        elif idle:  # others may follow in this turn of the event loop
            asyncio.get_running_loop().call_soon(self._flush)

    async def ask(self, message: Message) -> Done:
        """Sends and waits. Raises the ServiceError that the host answers, or Unavailable where it dies."""
        answer: asyncio.Future[Done] = asyncio.get_running_loop().create_future()

        def replied(reply: Done | Ran | ServiceError, descriptor: int | None) -> None:
            if answer.done():
                return
            if isinstance(reply, Done):
                answer.set_result(reply)
            elif isinstance(reply, ServiceError):
                answer.set_exception(reply)

        self.send(message, replied)
        return await answer

    def kill(self, reason: str) -> None:
        """`reason` completes the sentence "the engine host for cuda:0 ..."."""
        self._killed_because = self._killed_because or reason
        self._process.kill()

    async def close(self, patience: float) -> None:
        """Ends the process: by the end of its channel, and after `patience` seconds by force."""
        if self.alive:
            self._end.shutdown(socket.SHUT_WR)
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), patience)
        except TimeoutError:
            self._process.kill()
            await self._ended

    def _started(self, reply: Done | Ran | ServiceError, descriptor: int | None) -> None:
        if isinstance(reply, Done):
            self.free.set_result(reply.size)
        elif isinstance(reply, ServiceError):
            self.free.set_exception(reply)
            self.free.exception()  # nobody may ask for it

    def _listen(self) -> None:
        self._end.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._end, self._read)
        loop.add_reader(self._exit, self._bury)

    def _read(self) -> None:
        """Takes what has come, as long as anything is waited for."""
        try:
            while received := self._receiver.receive():
                self._deliver(*received)
                self._wakefulness.received(last=not self._replied)
                if not self._replied:
                    return
        except BlockingIOError:
            return
        except ConnectionResetError:
            pass
        asyncio.get_running_loop().remove_reader(self._end)
        self._process.kill()  # whoever has closed the channel is of no more use; mostly it is dead already

    def _deliver(self, replies: list[Message], descriptor: int | None) -> None:
        for reply in replies:
            replied = self._replied.pop(reply.call)
            if isinstance(reply, Failed):
                replied(getattr(errors, reply.error)(reply.detail), descriptor)
            else:
                assert isinstance(reply, Done | Ran)
                replied(reply, descriptor)

    def _flush(self) -> None:
        if not self.alive:
            return
        messages, self._outbox = self._outbox, []
        if messages:
            self._unsent.extend((packet, None) for packet in packets(messages))
        while self._unsent:
            packet, descriptor = self._unsent[0]
            try:
                post(self._end, packet, descriptor)
            except BlockingIOError:
                self._continue_later()
                return
            except ValueError as error:
                (message,) = decode(packet)
                self._replied.pop(message.call)(ExecutionFailed(str(error)), None)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it ended just now; `_bury` replies
            self._drop_first()
        self._wakefulness.sent()

    def _continue_later(self) -> None:
        """The socket is full: goes on once it takes more."""
        loop = asyncio.get_running_loop()

        def writable() -> None:
            loop.remove_writer(self._end)
            self._flush()

        loop.add_writer(self._end, writable)

    def _drop_first(self) -> None:
        _, descriptor = self._unsent.popleft()
        if descriptor is not None:
            os.close(descriptor)

    def _bury(self) -> None:
        """The process has ended: what it still said counts, then everything that waits for it fails."""
        self._read()
        self.alive = False
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._exit)
        loop.remove_reader(self._end)
        loop.remove_writer(self._end)
        while self._unsent:
            self._drop_first()
        os.close(self._exit)
        self._end.close()
        self.arena.close()
        self._reason = f"the engine host for {self._device} {self._killed_because or outcome(self._process.wait())}"
        waiting, self._replied = self._replied, {}
        self._died()
        for replied in waiting.values():
            replied(Unavailable(self._reason), None)
        self._ended.set_result(None)


def spawn(device: str, descriptor: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "service.hosting.host", device, str(descriptor), str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor])
