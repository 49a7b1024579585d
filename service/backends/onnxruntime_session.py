"""A model in ONNX Runtime, on CPU: loading, running, and its errors in words that are fit for users."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from service.backends.base import Array
from service.datatypes import DATATYPES
from service.errors import ExecutionFailed

BF16 = DATATYPES["BF16"]
ERRORS_ONLY, SILENT = 3, 4  # levels of its log


class Refused(Exception):
    """ONNX Runtime does not load the model; the message says why."""


def load_session(path: Path) -> Any:
    """An `InferenceSession` of the ONNX file, with external data from the file's folder. Raises Refused."""
    try:
        return _session(str(path), ERRORS_ONLY, len(os.sched_getaffinity(0)))
    except Exception as error:  # its exceptions have no base of their own
        raise Refused(reason(error, path)) from None


def loads(model: bytes) -> bool:
    """Whether ONNX Runtime takes the model."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    # The last is what a kernel's own check raises.
    refusals = (
        binding.Fail, binding.InvalidArgument, binding.InvalidGraph, binding.NotImplemented, binding.RuntimeException
    )  # fmt: skip
    try:
        _session(model, SILENT, 1)
    except refusals:
        return False
    return True


def _session(model: str | bytes, log_level: int, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = log_level
    options.intra_op_num_threads = threads
    # Threads that wait for work by spinning take the cores from whoever brings it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # It keeps a plan of memory for every shape that it has ever seen, and shapes come from users.
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def reason(error: Exception, path: Path | None = None) -> str:
    """ONNX Runtime's message without its error code, its source files, and the place of the model."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
    if path is not None:
        text = re.sub(rf"Load(ing)? model (from )?{re.escape(str(path))} failed[:.]?\s*", "", text)
        text = text.replace(f"{path}", "the model").replace(f"{path.parent}/", "")
    # "/onnxruntime_src/core/x.cc:62 void onnxruntime::Compute(int) " before what it says
    return re.sub(r"\S+\.(?:cc|cpp|h|hpp):\d+ (?:[^()]*\([^()]*\)(?: const)?(?: \[[^\]]*\])? )?", "", text).strip()


class OnnxRuntimeSession:
    """Runs requests of several threads at once."""

    def __init__(self, session: Any) -> None:
        self._session = session
        kinds = {each.name: each.type for each in [*session.get_inputs(), *session.get_outputs()]}
        self._plain = "tensor(bfloat16)" not in kinds.values()

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """The named outputs, in that order. Raises ExecutionFailed."""
        session = self._session
        if session is None:
            raise ExecutionFailed("the engine has been unloaded")
        dense = {name: np.asarray(array, order="C") for name, array in inputs.items()}
        try:
            if self._plain:
                results: list[Array] = session.run(list(outputs), dense)
                return results
            values = {name: _value(array) for name, array in dense.items()}
            return [_array(value) for value in session.run_with_ort_values(list(outputs), values)]
        except Exception as error:  # its exceptions have no base of their own
            raise ExecutionFailed(reason(error)) from None

    def run_into(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> bool:
        """Writes the outputs to arrays of the caller's. False where they are not of these shapes, or anything fails."""
        session = self._session
        if session is None or not self._plain:
            return False
        binding = session.io_binding()
        try:
            for name, array in inputs.items():
                binding.bind_cpu_input(name, np.asarray(array, order="C"))
            for name, array in outputs.items():
                binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            session.run_with_iobinding(binding)
        except Exception:  # its exceptions have no base of their own; the ordinary run says what is wrong
            return False
        return True

    def close(self) -> None:
        """Lets the model go, once runs that are under way have ended."""
        self._session = None


def _value(array: Array) -> Any:
    """BF16, which NumPy does not know by itself, goes in as its bits."""
    from onnxruntime import OrtValue

    if array.dtype == BF16.numpy:
        return OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), BF16.onnx)
    return OrtValue.ortvalue_from_numpy(array)


def _array(value: Any) -> Array:
    """BF16 comes out through memory: ONNX Runtime gives no array of it."""
    if value.element_type() != BF16.onnx:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    result = np.empty(shape, BF16.numpy)
    if result.size:
        ctypes.memmove(result.ctypes.data, value.data_ptr(), result.nbytes)
    return result
