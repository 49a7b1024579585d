"""Captured executions: one graph for each combination of shapes, the least recently used ones dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from service.backends.device_memory import checked, cudart
from service.errors import DeviceLost, ExecutionFailed

MOST = 32
T = TypeVar("T")


@dataclass
class Captured(Generic[T]):
    """`graph` is None until the combination has come twice, and 0 where it cannot be captured."""

    note: T
    graph: int | None = None


@dataclass
class CudaGraphs(Generic[T]):
    """Graphs of one stream, each with a note. One is captured when it comes for the second time: many never do."""

    stream: int
    _known: OrderedDict[Hashable, Captured[T]] = field(default_factory=OrderedDict)

    def replay(self, key: Hashable) -> T | None:
        """Launches the graph of `key` and gives its note, if there is one."""
        captured = self._known.get(key)
        if captured is None or not captured.graph:
            return None
        self._known.move_to_end(key)
        checked(cudart().cudaGraphLaunch(captured.graph, self.stream))
        return captured.note

    def executed(self, key: Hashable, note: T, enqueue: Callable[[], object]) -> None:
        """Called when `enqueue` has just executed `key` plainly and nothing runs on the stream any more."""
        captured = self._known.get(key)
        if captured is None:
            self._known[key] = Captured(note)
        elif captured.graph is None:
            captured.graph = self._capture(enqueue)
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            _destroy(self._known.popitem(last=False)[1])

    def clear(self) -> None:
        """Forgets all: what they refer to has moved."""
        while self._known:
            _destroy(self._known.popitem()[1])

    def _capture(self, enqueue: Callable[[], object]) -> int:
        """A graph, or 0 where the execution cannot be captured: then it goes on being executed plainly."""
        runtime = cudart()
        # Relaxed: TensorRT and plugins may call what a stricter mode forbids.
        checked(runtime.cudaStreamBeginCapture(self.stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
        failure: ExecutionFailed | None = None
        try:
            enqueue()
        except ExecutionFailed as error:
            failure = error
        status, graph = runtime.cudaStreamEndCapture(self.stream)
        if isinstance(failure, DeviceLost):
            raise failure
        if failure or int(status) != 0:
            runtime.cudaGetLastError()
            return 0
        status, executable = runtime.cudaGraphInstantiate(graph, 0)
        runtime.cudaGraphDestroy(graph)
        return int(executable) if int(status) == 0 else 0


def _destroy(captured: Captured[T]) -> None:
    if captured.graph:
        cudart().cudaGraphExecDestroy(captured.graph)
