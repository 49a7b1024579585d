"""One execution context with a stream, buffers and captured graphs of its own: what a request borrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.backends.base import Array
from service.backends.cuda_graphs import CudaGraphs
from service.backends.device_memory import Lane
from service.backends.tensorrt_signature import Shape, Signature
from service.errors import ExecutionFailed
from service.plugins.registration import Faults

Shapes = dict[str, Shape]


class Execution:
    """Used by one request at a time, and not again after a failure.

    Copies there, kernels and copies back become one graph. That is as fast as TensorRT-RTX's own graphs (measured on an
    H200), spares a plugin's Python all launches but the first ones, and needs no call to TensorRT.
    """

    def __init__(self, context: Any, signature: Signature, faults: Faults) -> None:
        self._context, self._signature, self._faults = context, signature, faults
        self._lane = Lane.create()
        self._graphs: CudaGraphs[Shapes] = CudaGraphs(self._lane.stream)
        self._moves = 0
        self._profile = 0

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str], profile: int) -> list[Array]:
        """The named outputs. Raises ExecutionFailed."""
        shapes = {name: inputs[name].shape for name in self._signature.inputs}
        for name in shapes:
            self._lane.stage(name, inputs[name])
        self._forget_what_moved()
        key = (*shapes.values(), *outputs)
        results = self._graphs.replay(key) or self._executed(key, shapes, outputs, profile)
        self._lane.wait()
        return [self._result(name, results[name]) for name in outputs]

    def close(self) -> None:
        self._graphs.clear()
        self._lane.free()

    def _executed(self, key: tuple[Any, ...], shapes: Shapes, outputs: Sequence[str], profile: int) -> Shapes:
        if profile != self._profile:
            self._context.set_optimization_profile_async(profile, self._lane.stream)
            self._profile = profile
        results = self._enqueue(shapes, outputs)
        self._lane.wait()
        self._forget_what_moved()
        if not self._signature.on_host:  # values that set shapes would be captured with it
            self._graphs.executed(key, results, lambda: self._enqueue(shapes, outputs))
        return results

    def _enqueue(self, shapes: Shapes, outputs: Sequence[str]) -> Shapes:
        """The outputs' shapes."""
        for name, shape in shapes.items():
            self._set_input(name, shape)
        results = {name: self._set_output(name) for name in self._signature.outputs}
        done = self._context.execute_async_v3(self._lane.stream)
        if (stumbled := self._faults.take()) or not done:
            raise ExecutionFailed(stumbled[0] if stumbled else "TensorRT could not execute the engine")
        for name in outputs:
            self._lane.download(name, self._signature.size(name, results[name]))
        return results

    def _set_input(self, name: str, shape: Shape) -> None:
        if not self._context.set_input_shape(name, shape):
            raise ExecutionFailed(f"TensorRT refuses the shape {list(shape)} of {name}")
        self._lane.upload(name, self._signature.size(name, shape))
        buffer = self._lane.buffers[name]
        self._context.set_tensor_address(name, buffer.host if name in self._signature.on_host else buffer.device)

    def _set_output(self, name: str) -> Shape:
        shape = tuple(self._context.get_tensor_shape(name))
        if any(dim < 0 for dim in shape):
            raise ExecutionFailed(f"the shape of {name} depends on data, which is not supported yet")
        buffer = self._lane.reserve(name, self._signature.size(name, shape))
        self._context.set_tensor_address(name, buffer.device)
        return shape

    def _result(self, name: str, shape: Shape) -> Array:
        return self._lane.buffers[name].view(self._signature.dtype(name), shape).copy()

    def _forget_what_moved(self) -> None:
        """Graphs hold addresses: none is right any more once a buffer has grown."""
        if self._lane.moves != self._moves:
            self._graphs.clear()
            self._moves = self._lane.moves
