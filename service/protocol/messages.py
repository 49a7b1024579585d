"""Open Inference Protocol: a request from its bytes. JSON, JSON with binary tensors behind it, or one bare tensor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from service.backends.base import Array, Profile, TensorInfo
from service.errors import Fault, InvalidRequest
from service.protocol.conformance import profile_faults
from service.protocol.faults import DataFault, Faults, shown
from service.protocol.inputs import Inputs, raw_input
from service.protocol.objects import entries, unknown_keys
from service.protocol.parameters import Parameters, flag, parameters_of, refuse, timeout_of

HEADER = "Inference-Header-Content-Length"
KEYS = ("id", "parameters", "inputs", "outputs")
OUTPUT_KEYS = ("name", "parameters")
REFUSED_OF_OUTPUTS = {
    "shared_memory_region": "shared memory is not supported: outputs come in the answer",
    "classification": "classification is not supported",
}


@dataclass(frozen=True)
class RequestedOutput:
    """`binary`: as bytes behind the answer's JSON."""

    name: str
    binary: bool = False


@dataclass(frozen=True)
class InferRequest:
    """A request that fits its engine. Input arrays may be read-only views of the body."""

    inputs: dict[str, Array]
    outputs: tuple[RequestedOutput, ...]
    """In the order asked for."""
    id: str | None = None
    reference: bool = False
    """Whether the network is to run as reference functions on the CPU."""
    timeout: float | None = None
    """Seconds."""


def header_length(value: str | None) -> int | None:
    """What the header Inference-Header-Content-Length says; None without it. Raises InvalidRequest."""
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", value.strip()):
        raise _invalid("", f"expected a number of bytes in the header {HEADER}, got {shown(value)}")
    return int(value)


def parse_request(
    body: bytes,
    header: int | None,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    profiles: Sequence[Profile] = (),
) -> InferRequest:
    """The request, checked against an engine's signature and profiles.

    `header`: how many bytes of the body are JSON; None for all of them, 0 where the body is the one input's bytes.
    Raises InvalidRequest with every fault that can be found.
    """
    faults = Faults()
    if header == 0:
        return _raw_request(body, inputs, outputs, profiles)
    if header is not None and header > len(body):
        raise _invalid("", f"the header {HEADER} says {header} bytes of JSON, and the body has {len(body)}")
    given = _object(body if header is None else body[:header])
    unknown_keys(given, KEYS, "", faults)
    parameters = parameters_of(given, "", faults)
    read = Inputs(body, header, inputs, faults)
    read.read(given.get("inputs"))
    request = InferRequest(
        read.arrays,
        _outputs(given, parameters, outputs, faults),
        _id(given, faults),
        flag(parameters, "reference", "", faults),
        timeout_of(parameters, faults),
    )
    if not faults:
        pointers = {name: f"{pointer}/shape" for name, pointer in read.pointers.items()}
        faults += profile_faults(read.arrays, profiles, pointers)
    if faults:
        raise InvalidRequest.from_faults(faults)
    return request


def _raw_request(
    body: bytes, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], profiles: Sequence[Profile]
) -> InferRequest:
    try:
        arrays = raw_input(body, inputs)
    except DataFault as fault:
        raise _invalid("", fault.detail) from None
    faults = list(profile_faults(arrays, profiles, dict.fromkeys(arrays, "")))
    if faults:
        raise InvalidRequest.from_faults(faults)
    return InferRequest(arrays, tuple(RequestedOutput(info.name, binary=True) for info in outputs))


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        given = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise _invalid("", f"not JSON: {error}") from None
    if type(given) is not dict:
        raise _invalid("", f"expected an object, got {shown(given)}")
    return given


def _id(given: Mapping[str, Any], faults: Faults) -> str | None:
    value = given.get("id")
    if value is not None and type(value) is not str:
        faults.report("/id", f"expected a string, got {shown(value)}")
        return None
    return value


def _outputs(
    given: Mapping[str, Any], parameters: Parameters, infos: Sequence[TensorInfo], faults: Faults
) -> tuple[RequestedOutput, ...]:
    """Those asked for, in that order; all where none is named."""
    binary = flag(parameters, "binary_data_output", "", faults)
    asked = given.get("outputs")
    if asked is None or asked == []:
        return tuple(RequestedOutput(info.name, binary) for info in infos)
    return tuple(_asked(asked, binary, infos, faults))


def _asked(asked: Any, binary: bool, infos: Sequence[TensorInfo], faults: Faults) -> Iterator[RequestedOutput]:
    for pointer, entry, info in entries(asked, "outputs", infos, OUTPUT_KEYS, faults):
        own = parameters_of(entry, pointer, faults)
        refuse(own, REFUSED_OF_OUTPUTS, pointer, faults)
        yield RequestedOutput(info.name, flag(own, "binary_data", pointer, faults, otherwise=binary))


def _invalid(pointer: str, detail: str) -> InvalidRequest:
    return InvalidRequest.from_faults([Fault(pointer, detail)])
