"""The parent's side: children that are kept for the next model, and replaced when a model has ended one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from queue import Empty, SimpleQueue
from threading import Timer
from typing import cast

from onnx import GraphProto, ModelProto

from service.children import outcome
from service.shape_rules.messages import ASK, EXPAND, INFER, INFER_TYPES, MODEL, SAID, TYPES, Gone, receive, send

MOST_IDLE = 4
SECONDS = 90.0
"""A model may take so long, waiting included."""

Rule = Callable[[GraphProto], GraphProto]
"""A plugin's rule, as `messages.ASK` and `messages.TYPES` say."""


class Ended(Exception):
    """A model has ended the child that dealt with it; the text says how."""


class Runner:
    """May be used from several threads at once: each use has a child to itself."""

    def __init__(self) -> None:
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def infer(self, model: ModelProto, rule: Rule) -> tuple[ModelProto, str]:
        """The model with the types that follow, and what ONNX has against it (empty: nothing)."""
        try:
            return self._use(INFER, model, rule)
        except Ended:
            pass
        try:
            return self._use(INFER_TYPES, model, rule)
        except Ended as error:
            return ModelProto(), str(error)

    def expand(self, model: ModelProto) -> tuple[ModelProto, str]:
        """The model with its functions where they are called, and why it could not be done (empty: it was)."""
        try:
            return self._use(EXPAND, model, lambda question: question)
        except Ended as error:
            return ModelProto(), str(error)

    def warm_up(self) -> None:
        """Starts a child, so that the first model does not wait for it."""
        if self._idle.empty():
            self._idle.put(self._start())

    def close(self) -> None:
        """Ends the children that nobody uses."""
        while True:
            try:
                self._end(self._idle.get_nowait())
            except Empty:
                return

    def _use(self, kind: bytes, model: ModelProto, rule: Rule) -> tuple[ModelProto, str]:
        try:
            child = self._idle.get_nowait()
        except Empty:
            child = self._start()
        timer = Timer(SECONDS, child.kill)
        timer.daemon = True
        timer.start()
        try:
            result = _converse(child, kind, model, rule)
        except BaseException as error:
            self._end(child)
            if isinstance(error, Gone):
                raise Ended(f"the process that applies ONNX's rules {outcome(child.returncode)}") from None
            raise
        finally:
            timer.cancel()
        if self._idle.qsize() < MOST_IDLE:
            self._idle.put(child)
        else:
            self._end(child)
        return result

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "service.shape_rules.child"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not yet sent to a child that is gone
                    continue
        try:
            child.wait(1)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _converse(child: subprocess.Popen[bytes], kind: bytes, model: ModelProto, rule: Rule) -> tuple[ModelProto, str]:
    assert child.stdin is not None and child.stdout is not None
    said = ""
    send(child.stdin, kind, model.SerializeToString())
    while True:
        kind, content = receive(child.stdout)
        if kind == ASK:
            send(child.stdin, TYPES, rule(GraphProto.FromString(content)).SerializeToString())
        elif kind == SAID:
            said = content.decode(errors="replace")
        elif kind == MODEL:
            return cast(ModelProto, ModelProto.FromString(content)), said


@cache
def shared() -> Runner:
    """The runner of this process. It starts nothing before it is used, and its children end with the process."""
    return Runner()
