"""A loaded TensorRT engine: executions that requests borrow."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from service.backends.base import Array
from service.backends.runtime_cache import RuntimeCache
from service.backends.tensorrt_execution import Execution
from service.backends.tensorrt_signature import Signature
from service.errors import ExecutionFailed, InvalidRequest
from service.plugins.registration import Registration


class TensorRTSession:
    """Makes as many executions as requests run at once; one that failed is not used again."""

    def __init__(self, trt: Any, runtime: Any, engine: Any, registration: Registration, cache: RuntimeCache) -> None:
        self._runtime, self._engine, self._faults, self._cache = runtime, engine, registration.faults, cache
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
            return execution.run({name: np.ascontiguousarray(inputs[name]) for name in self.inputs}, outputs, profile)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _configured(self, trt: Any) -> tuple[Any, Any]:
        """How contexts are made, and TensorRT-RTX's cache of what it compiles; `tensorrt` has neither."""
        if not hasattr(trt, "IRuntimeCache"):
            return None, None
        configuration = self._engine.create_runtime_config()
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
            execution.close()
            raise
        with self._lock:
            self._idle.append(execution)

    def _new_execution(self) -> Execution:
        arguments = [] if self._configuration is None else [self._configuration]
        context = self._engine.create_execution_context(*arguments)
        if context is None:
            stumbled = self._faults.take()
            raise ExecutionFailed(stumbled[0] if stumbled else "TensorRT could not make an execution context")
        if self._compiled is not None:
            self._cache.keep(self._compiled)
        return Execution(context, self._signature, self._faults)
