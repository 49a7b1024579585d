"""A serialized model taken apart into its small part and its weights, and put together again.

A model is mostly weights, and nothing but plugins' constants changes on the way to TensorRT. To parse and write all of
it anew takes longer than TensorRT takes for the rest, so the weights stay the bytes that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx import ModelProto, TensorProto

GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
NAME = onnx.TensorProto.NAME_FIELD_NUMBER


@dataclass
class Weights:
    """The initializers of a model's graph, serialized, by name."""

    tensors: dict[str, memoryview | bytes]

    def read(self, name: str) -> TensorProto:
        tensor: TensorProto = TensorProto.FromString(bytes(self.tensors[name]))
        return tensor

    def write(self, name: str, tensor: TensorProto) -> None:
        self.tensors[name] = tensor.SerializeToString()


def split(data: bytes) -> tuple[ModelProto, Weights]:
    """The model without its graph's initializers, and those."""
    model, weights = bytearray(), Weights({})
    whole = memoryview(data)
    for number, field, payload in _fields(whole):
        model += _graph_without_weights(payload, weights) if number == GRAPH else field
    return ModelProto.FromString(bytes(model)), weights


def join(model: ModelProto, weights: Weights) -> bytes:
    """The serialized model with the initializers in it. `model` loses its graph."""
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    tensors = [piece for tensor in weights.tensors.values() for piece in (_head(INITIALIZER, len(tensor)), tensor)]
    size = len(graph) + sum(map(len, tensors))
    return b"".join([model.SerializeToString(), _head(GRAPH, size), graph, *tensors])


def _graph_without_weights(graph: memoryview, weights: Weights) -> bytes:
    kept = bytearray()
    for number, field, payload in _fields(graph):
        if number == INITIALIZER:
            weights.tensors[_name(payload)] = payload
        else:
            kept += field
    return _head(GRAPH, len(kept)) + kept


def _name(tensor: memoryview) -> str:
    return next((bytes(payload).decode() for number, _, payload in _fields(tensor) if number == NAME), "")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Number, whole bytes and content of each field of a serialized message."""
    place = 0
    while place < len(message):
        start = place
        key, place = _varint(message, place)
        content = place
        match key & 7:
            case 0:
                _, place = _varint(message, place)
            case 1:
                place += 8
            case 2:
                length, content = _varint(message, place)
                place = content + length
            case 5:
                place += 4
            case other:
                raise ValueError(f"a protobuf field of wire type {other}")
        yield key >> 3, message[start:place], message[content:place]


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """The number at `place`, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _head(number: int, length: int) -> bytes:
    """What stands before a field's bytes: its number and their length."""
    return _encoded(number << 3 | 2) + _encoded(length)


def _encoded(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
