"""The inputs of a request: out of its JSON, or out of the bytes behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.backends.base import Array, TensorInfo
from service.datatypes import DATATYPES
from service.protocol.conformance import described, shape_fault
from service.protocol.faults import DataFault, Faults, named, shown
from service.protocol.objects import Entry, entries
from service.protocol.parameters import Parameters, parameters_of, refuse
from service.protocol.tensors import decode_binary, decode_json

KEYS = ("name", "shape", "datatype", "parameters", "data")
REFUSED = {"shared_memory_region": "shared memory is not supported: send data, or bytes behind the JSON"}


@dataclass
class Inputs:
    """Reads the list of inputs. `start` is where the bytes behind the JSON begin; None where there can be none."""

    body: bytes
    start: int | None
    infos: Sequence[TensorInfo]
    faults: Faults
    arrays: dict[str, Array] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    """Where each input stands in the request."""

    def read(self, given: Any) -> None:
        offset = self.start if self.start is not None else len(self.body)
        for pointer, entry, info in entries(given, "inputs", self.infos, KEYS, self.faults):
            self.pointers[info.name] = pointer
            parameters = parameters_of(entry, pointer, self.faults)
            refuse(parameters, REFUSED, pointer, self.faults)
            known = len(self.faults)
            size = self._size(parameters, pointer)
            self._check(entry, info, pointer, binary="binary_data_size" in parameters)
            if len(self.faults) == known:
                self._decode(entry, info, pointer, size, offset)
            offset += size or 0
        for info in self.infos:
            if info.name not in self.pointers and type(given) is list:
                self.faults.report("/inputs", f"the input {info.name} ({described(info)}) is missing")
        if not self.faults and offset < len(self.body):
            self.faults.report("", f"{len(self.body) - offset} more bytes behind the JSON than the inputs have")

    def _size(self, parameters: Parameters, pointer: str) -> int | None:
        """Bytes of a binary tensor; None for one in JSON."""
        if "binary_data_size" not in parameters:
            return None
        size = parameters["binary_data_size"]
        if type(size) is not int or size < 0:
            detail = f"expected an integer of 0 or more, got {shown(size)}"
        elif self.start is None:
            detail = "bytes behind the JSON need the header Inference-Header-Content-Length"
        else:
            return size
        self.faults.report(f"{pointer}/parameters/binary_data_size", detail)
        return None

    def _decode(self, entry: Entry, info: TensorInfo, pointer: str, size: int | None, offset: int) -> None:
        shape = entry["shape"]
        try:
            if size is None:
                self.arrays[info.name] = decode_json(entry["data"], info.datatype, shape)
            else:
                self.arrays[info.name] = decode_binary(self.body, offset, size, info.datatype, shape)
        except DataFault as fault:
            where = "data" if size is None else "parameters/binary_data_size"
            self.faults.report(f"{pointer}/{where}{fault.pointer}", fault.detail)

    def _check(self, entry: Entry, info: TensorInfo, pointer: str, binary: bool) -> None:
        """All but the data themselves."""
        self._check_datatype(entry, info, pointer)
        wrong = shape_fault(entry.get("shape"), info)
        if wrong is not None:
            self.faults.report(f"{pointer}/shape{wrong[0]}", wrong[1])
        if binary == ("data" in entry):
            detail = "a binary tensor has no data" if binary else "expected data, or binary_data_size in parameters"
            self.faults.report(f"{pointer}/data", detail)

    def _check_datatype(self, entry: Entry, info: TensorInfo, pointer: str) -> None:
        given = entry.get("datatype")
        if given != info.datatype:
            got = "none" if given is None else named(given) if type(given) is str else shown(given)
            hint = "; there are no text tensors here" if given == "BYTES" else ""
            self.faults.report(f"{pointer}/datatype", f"expected {info.datatype}, got {got}{hint}")


def raw_input(body: bytes, infos: Sequence[TensorInfo]) -> dict[str, Array]:
    """The one input of an engine that the whole body is; its length says the one dimension that is dynamic.

    Raises DataFault.
    """
    if len(infos) != 1:
        raise DataFault("", f"a request of bytes alone needs an engine with one input, this one has {len(infos)}")
    [info] = infos
    if list(info.shape).count(-1) > 1:
        raise DataFault("", f"the shape of {info.name} ({described(info)}) does not follow from the number of bytes")
    row = math.prod(dim for dim in info.shape if dim != -1) * DATATYPES[info.datatype].itemsize
    shape = [len(body) // row if row and dim == -1 else max(dim, 0) for dim in info.shape]
    return {info.name: decode_binary(body, 0, len(body), info.datatype, shape)}
