"""The bytes of an uploaded file to a model that can be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from onnx import IR_VERSION, ModelProto, defs

from service.errors import Fault, InvalidRequest
from service.network.bodies import shorten

LARGEST = 2**31 - 1
"""Bytes that Protocol Buffers take in one message."""
OLDEST_IR = 3


def read_model(path: Path) -> ModelProto:
    """The model of a file, of versions that the checks know. Raises InvalidRequest."""
    size = path.stat().st_size
    if size == 0:
        raise refused("/model", "the file is empty")
    if size > LARGEST:
        raise refused(
            "/model", f"an ONNX file holds at most {LARGEST} bytes, got {size}; put tensors into parts `data`"
        )
    try:
        model = ModelProto()
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        raise refused("/model", "the file is damaged, or no ONNX model") from None
    if not model.HasField("graph") or not model.ir_version:
        raise refused("/model", "the file is no ONNX model: it has no graph, or no IR version")
    model.DiscardUnknownFields()
    _check_texts(model)
    _check_versions(model)
    return model


def _check_texts(model: ModelProto) -> None:
    """Protocol Buffers read a text that is no UTF-8 as bytes, on which everything that expects a text fails."""
    waiting: list[Any] = [model]
    while waiting:
        for field, value in waiting.pop().ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting.extend([value] if isinstance(value, Message) else value)
            elif field.type == field.TYPE_STRING and not _is_text(value):
                raise refused("/model", "the file is damaged: a text in it is no UTF-8")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (not isinstance(value, bytes) and all(isinstance(each, str) for each in value))


def _check_versions(model: ModelProto) -> None:
    faults = []
    if not OLDEST_IR <= model.ir_version <= IR_VERSION:
        detail = f"expected an IR version from {OLDEST_IR} to {IR_VERSION}, got {model.ir_version}"
        faults.append(Fault("/model/ir_version", detail))
    known = defs.C.schema_version_map()
    seen: dict[str, int] = {}
    for index, each in enumerate(model.opset_import):
        each.domain = "" if each.domain == "ai.onnx" else each.domain
        pointer = f"/model/opset_import/{index}"
        newest = known[each.domain][1] if each.domain in known else LARGEST
        if not 1 <= each.version <= newest:
            domain = shorten(each.domain) or "ai.onnx"
            faults.append(Fault(pointer, f"expected an opset of {domain} from 1 to {newest}, got {each.version}"))
        if seen.setdefault(each.domain, each.version) != each.version:
            faults.append(Fault(pointer, f"the domain {shorten(each.domain) or 'ai.onnx'} is imported twice"))
    if faults:
        raise InvalidRequest.from_faults(faults)


def refused(pointer: str, detail: str) -> InvalidRequest:
    """One fault that leaves nothing else to look for."""
    return InvalidRequest.from_faults([Fault(pointer, detail)])
