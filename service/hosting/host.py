"""An engine host: the process that loads engines for one device and runs them.

`python -m service.hosting.host DEVICE SOCKET PARENT`: its end of the channel, and with whom it dies.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

from service.backends.base import Session
from service.children import DEVICE_LOST, end_with_parent
from service.errors import DeviceLost, ServiceError
from service.hosting.channel import Receiver, post
from service.hosting.direct import LARGE, DirectRuns
from service.hosting.leading import Lead
from service.hosting.mail import Mail
from service.hosting.memory import new_segment, open_segment
from service.hosting.messages import Done, Failed, Load, Message, Ran, Reply, Run, Start, Unload, encode
from service.hosting.occupancy import free_on, taken_on
from service.hosting.samples import warm_up
from service.hosting.tensors import place, room_for, view
from service.settings import Settings

SHORT = 0.0002
"""Seconds of a run that is not worth a switch of threads."""


class Host:
    """Answers messages until the other end of the channel is gone."""

    def __init__(self, end: socket.socket, start: Start, arena: int) -> None:
        self._mail = Mail(end)
        self._settings = Settings.model_validate_json(start.settings)
        self._arena = open_segment(arena)
        self._direct = DirectRuns(self._arena)
        self._taken = taken_on(start.device)
        self._sessions: dict[str, Session] = {}
        self._loading = threading.Lock()
        """One load at a time, so that each one's footprint can be told."""
        self._seconds: dict[str, float] = {}
        """How long each engine's last run took."""
        self._lead = Lead(self.serve)

    def serve(self) -> None:
        """A thread's life; ends with the process."""
        self._lead.take()
        while received := self._mail.receive():
            self._attend(*received)
        os._exit(0)

    def _attend(self, message: Message, descriptor: int | None) -> None:
        if not isinstance(message, Run) or self._seconds.get(message.engine, SHORT) >= SHORT:
            self._mail.flush()
            self._lead.pass_on()
            self._mail.send(*self._answer(message, descriptor))
            self._lead.take()
            return
        run = self._lead.begin_short()
        reply, outgoing = self._answer(message, descriptor)
        leads = self._lead.end_short(run)
        if leads and outgoing is None:
            self._mail.hold(reply)
        else:
            self._mail.send(reply, outgoing)
        if not leads:
            self._lead.take()

    def _answer(self, message: Message, descriptor: int | None) -> tuple[Reply, int | None]:
        """The reply, and the descriptor to send along."""
        try:
            if isinstance(message, Run):
                return self._run(message, descriptor)
            return Done(message.call, self._control(message)), None
        except DeviceLost as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(DEVICE_LOST)  # only a new process gets the device back
        except Exception as error:
            return failure(message.call, error), None

    def _control(self, message: Message) -> int:
        if isinstance(message, Load):
            return self._load(message)
        if isinstance(message, Unload):
            self._sessions.pop(message.engine).close()
        return 0

    def _load(self, message: Load) -> int:
        from service.backends import registry  # a backend's library is imported with the first engine that needs it

        with self._loading:
            settings = self._settings
            backend = registry.backend(message.backend, settings.plugin_libraries, settings.kernel_cache)
            with contextlib.suppress(ImportError):  # the library, which bears the backend's name, is no engine's burden
                importlib.import_module(message.backend)
            before = self._taken()
            session = backend.load(Path(message.plan))
            warm_up(session, message.samples, message.outputs)
            self._sessions[message.engine] = session
            return max(self._taken() - before, 0)

    def _run(self, message: Run, descriptor: int | None) -> tuple[Ran, int | None]:
        memory = self._arena if descriptor is None else open_segment(descriptor)
        inputs = {placed[0]: view(placed, memory) for placed in message.inputs}
        session = self._sessions[message.engine]
        started = time.perf_counter()
        placed = self._direct.run(session, message, inputs)
        outputs = session.run(inputs, message.outputs) if placed is None else []
        self._seconds[message.engine] = time.perf_counter() - started
        if placed is not None:
            return Ran(message.call, placed, 0), None
        size = room_for(outputs)
        if size >= LARGE:
            self._direct.remember(message, outputs)
        named = zip(message.outputs, outputs, strict=True)
        if size <= message.room:
            return Ran(message.call, place(named, self._arena, message.answer), 0), None
        outgoing, segment = new_segment(size)
        return Ran(message.call, place(named, segment, 0), size), outgoing


def failure(call: int, error: Exception) -> Failed:
    """What the other end raises again; a message that was not written for users stays in this process's log."""
    if isinstance(error, ServiceError):
        return Failed(call, type(error).__name__, str(error))
    traceback.print_exception(error)
    return Failed(call, "ExecutionFailed", f"{type(error).__name__} in the engine host; the service's log has more")


def main(descriptor: int, parent: int) -> None:
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent says when this one ends
    end = socket.socket(fileno=descriptor)
    received = Receiver(end).receive()
    if received is None:
        return
    (start,), arena = received
    assert isinstance(start, Start) and arena is not None
    post(end, encode([Done(start.call, free_on(start.device))]))
    Host(end, start, arena).serve()


if __name__ == "__main__":
    main(int(sys.argv[2]), int(sys.argv[3]))
