"""A loaded TensorRT engine: execution contexts that requests borrow, each with a stream and buffers of its own."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.backends.base import Array
from service.backends.device_memory import Lane
from service.datatypes import DATATYPES
from service.errors import ExecutionFailed, InvalidRequest
from service.plugins.registration import Registration
from service.plugins.shell import DATATYPES as FROM_TENSORRT


@dataclass
class Execution:
    """A context and what it runs on. Used by one request at a time."""

    context: Any
    lane: Lane
    profile: int = 0


class TensorRTSession:
    """Makes as many contexts as requests run at once; a context that failed is not used again."""

    def __init__(self, trt: Any, runtime: Any, engine: Any, registration: Registration) -> None:
        self._trt, self._runtime, self._engine, self._registration = trt, runtime, engine, registration
        self._idle: list[Execution] = []
        self._lock = threading.Lock()
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self.inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        self._outputs = [name for name in names if name not in self.inputs]
        self._datatypes = {name: FROM_TENSORRT[engine.get_tensor_dtype(name).name] for name in names}

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """The named outputs. Raises InvalidRequest for shapes outside every profile, ExecutionFailed for the rest."""
        with self._borrowed() as execution:
            self._select_profile(execution, inputs)
            for name in self.inputs:
                self._set_input(execution, name, np.ascontiguousarray(inputs[name]))
            shapes = {name: self._set_output(execution, name) for name in self._outputs}
            if not execution.context.execute_async_v3(execution.lane.stream):
                raise ExecutionFailed(self._reason())
            for name in outputs:
                execution.lane.download(name, self._size(name, shapes[name]))
            execution.lane.wait()
            if self._registration.faults.message():
                raise ExecutionFailed(self._reason())
            return [execution.lane.buffers[name].view(self._dtype(name), shapes[name]).copy() for name in outputs]

    def close(self) -> None:
        for execution in self._idle:
            execution.lane.free()
        self._idle.clear()

    @contextmanager
    def _borrowed(self) -> Iterator[Execution]:
        with self._lock:
            execution = self._idle.pop() if self._idle else None
        if execution is None:
            self._registration.faults.clear()
            context = self._engine.create_execution_context()
            if context is None:
                raise ExecutionFailed(self._reason())
            execution = Execution(context, Lane.create())
        try:
            yield execution
        except BaseException:
            execution.lane.free()
            raise
        with self._lock:
            self._idle.append(execution)

    def _select_profile(self, execution: Execution, inputs: Mapping[str, Array]) -> None:
        for index in range(self._engine.num_optimization_profiles):
            if all(self._fits(name, index, inputs[name].shape) for name in self.inputs):
                if index != execution.profile:
                    execution.context.set_optimization_profile_async(index, execution.lane.stream)
                    execution.profile = index
                return
        raise InvalidRequest("the inputs' shapes lie outside every profile of the engine")

    def _fits(self, name: str, profile: int, shape: tuple[int, ...]) -> bool:
        if self._engine.is_shape_inference_io(name):
            return True  # its values count, and TensorRT checks them
        low, _, high = self._engine.get_tensor_profile_shape(name, profile)
        return len(low) == len(shape) and all(a <= dim <= b for a, dim, b in zip(low, shape, high, strict=True))

    def _set_input(self, execution: Execution, name: str, array: Array) -> None:
        context = execution.context
        if not context.set_input_shape(name, array.shape):
            raise ExecutionFailed(f"TensorRT refuses the shape {list(array.shape)} of {name}")
        buffer = execution.lane.upload(name, array)
        on_host = self._engine.get_tensor_location(name) == self._trt.TensorLocation.HOST
        context.set_tensor_address(name, buffer.host if on_host else buffer.device)

    def _set_output(self, execution: Execution, name: str) -> tuple[int, ...]:
        shape = tuple(execution.context.get_tensor_shape(name))
        if any(dim < 0 for dim in shape):
            raise ExecutionFailed(f"the shape of {name} depends on data, which is not supported yet")
        buffer = execution.lane.reserve(name, self._size(name, shape))
        execution.context.set_tensor_address(name, buffer.device)
        return shape

    def _dtype(self, name: str) -> np.dtype[Any]:
        return DATATYPES[self._datatypes[name]].numpy

    def _size(self, name: str, shape: tuple[int, ...]) -> int:
        return math.prod(shape) * self._dtype(name).itemsize

    def _reason(self) -> str:
        said = self._registration.faults.message()
        self._registration.faults.clear()
        return said or "TensorRT could not execute the engine"
