"""A loaded TensorRT engine: execution contexts that requests borrow, each with a stream and buffers of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.backends.base import Array
from service.backends.device_memory import Lane
from service.backends.runtime_cache import RuntimeCache
from service.backends.tensorrt_signature import Signature
from service.errors import ExecutionFailed, InvalidRequest
from service.plugins.registration import Registration


@dataclass
class Execution:
    """A context and what it runs on. Used by one request at a time."""

    context: Any
    lane: Lane
    profile: int = 0


class TensorRTSession:
    """Makes as many contexts as requests run at once; a context that failed is not used again.

    On TensorRT-RTX the runtime captures each shape in a CUDA graph and replays it, which spares a plugin's Python all
    launches but the first.
    """

    def __init__(self, trt: Any, runtime: Any, engine: Any, registration: Registration, cache: RuntimeCache) -> None:
        self._runtime, self._engine, self._registration, self._cache = runtime, engine, registration, cache
        self._signature = Signature.of(trt, engine)
        self._idle: list[Execution] = []
        self._lock = threading.Lock()
        self._configuration, self._compiled = self._configured(trt)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self._signature.inputs

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """The named outputs. Raises InvalidRequest for shapes outside every profile, ExecutionFailed for the rest."""
        profile = self._signature.profile_for({name: inputs[name].shape for name in self.inputs})
        if profile is None:
            raise InvalidRequest("the inputs' shapes lie outside every profile of the engine")
        with self._borrowed() as execution:
            self._select(execution, profile)
            for name in self.inputs:
                self._set_input(execution, name, np.ascontiguousarray(inputs[name]))
            shapes = {name: self._set_output(execution, name) for name in self._signature.outputs}
            if not execution.context.execute_async_v3(execution.lane.stream):
                raise ExecutionFailed(self._reason("TensorRT could not execute the engine"))
            for name in outputs:
                execution.lane.download(name, self._signature.size(name, shapes[name]))
            execution.lane.wait()
            if stumbled := self._registration.faults.take():
                raise ExecutionFailed(stumbled[0])
            return [self._result(execution.lane, name, shapes[name]) for name in outputs]

    def close(self) -> None:
        for execution in self._idle:
            execution.lane.free()
        self._idle.clear()

    def _configured(self, trt: Any) -> tuple[Any, Any]:
        """How contexts are made, and TensorRT-RTX's cache of what it compiles; `tensorrt` has neither."""
        if not hasattr(trt, "CudaGraphStrategy"):
            return None, None
        configuration = self._engine.create_runtime_config()
        configuration.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        compiled = configuration.create_runtime_cache()
        self._cache.fill(compiled)
        configuration.set_runtime_cache(compiled)
        return configuration, compiled

    @contextmanager
    def _borrowed(self) -> Iterator[Execution]:
        with self._lock:
            execution = self._idle.pop() if self._idle else self._new_execution()
        try:
            yield execution
        except BaseException:
            execution.lane.free()
            raise
        with self._lock:
            self._idle.append(execution)

    def _new_execution(self) -> Execution:
        arguments = [] if self._configuration is None else [self._configuration]
        context = self._engine.create_execution_context(*arguments)
        if context is None:
            raise ExecutionFailed(self._reason("TensorRT could not make an execution context"))
        if self._compiled is not None:
            self._cache.keep(self._compiled)
        return Execution(context, Lane.create())

    def _select(self, execution: Execution, profile: int) -> None:
        if profile != execution.profile:
            execution.context.set_optimization_profile_async(profile, execution.lane.stream)
            execution.profile = profile

    def _set_input(self, execution: Execution, name: str, array: Array) -> None:
        if not execution.context.set_input_shape(name, array.shape):
            raise ExecutionFailed(f"TensorRT refuses the shape {list(array.shape)} of {name}")
        buffer = execution.lane.upload(name, array)
        address = buffer.host if name in self._signature.on_host else buffer.device
        execution.context.set_tensor_address(name, address)

    def _set_output(self, execution: Execution, name: str) -> tuple[int, ...]:
        shape = tuple(execution.context.get_tensor_shape(name))
        if any(dim < 0 for dim in shape):
            raise ExecutionFailed(f"the shape of {name} depends on data, which is not supported yet")
        buffer = execution.lane.reserve(name, self._signature.size(name, shape))
        execution.context.set_tensor_address(name, buffer.device)
        return shape

    def _result(self, lane: Lane, name: str, shape: tuple[int, ...]) -> Array:
        return lane.buffers[name].view(self._signature.dtype(name), shape).copy()

    def _reason(self, otherwise: str) -> str:
        stumbled = self._registration.faults.take()
        return stumbled[0] if stumbled else otherwise
