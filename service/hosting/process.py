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
from service.errors import ServiceError, Unavailable
from service.hosting.channel import Receiver, channel, post
from service.hosting.memory import Arena
from service.hosting.messages import Done, Failed, Message, Ran, Start, encode

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
        self._unsent: deque[tuple[bytes, int | None]] = deque()
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
        """Sends without waiting; the descriptor stays the caller's to close."""
        if not self.alive:
            asyncio.get_running_loop().call_soon(replied, Unavailable(self._reason), None)
            return
        self._replied[message.call] = replied
        data = encode(message)
        if self._unsent:
            self._keep(data, descriptor)
            return
        try:
            post(self._end, data, descriptor)
        except BlockingIOError:
            self._keep(data, descriptor)
            asyncio.get_running_loop().add_writer(self._end, self._flush)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it ended just now; `_bury` replies

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
        try:
            while received := self._receiver.receive():
                self._hand_on(*received)
        except BlockingIOError:
            return
        except ConnectionResetError:
            pass
        asyncio.get_running_loop().remove_reader(self._end)
        self._process.kill()  # whoever has closed the channel is of no more use; mostly it is dead already

    def _hand_on(self, reply: Message, descriptor: int | None) -> None:
        replied = self._replied.pop(reply.call)
        if isinstance(reply, Failed):
            replied(getattr(errors, reply.error)(reply.detail), descriptor)
        else:
            assert isinstance(reply, Done | Ran)
            replied(reply, descriptor)

    def _keep(self, data: bytes, descriptor: int | None) -> None:
        self._unsent.append((data, None if descriptor is None else os.dup(descriptor)))

    def _flush(self) -> None:
        while self._unsent:
            data, descriptor = self._unsent[0]
            try:
                post(self._end, data, descriptor)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                pass
            self._drop_first()
        asyncio.get_running_loop().remove_writer(self._end)

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
