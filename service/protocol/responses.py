"""Open Inference Protocol: an answer as headers and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import to_json

from service.backends.base import Array
from service.datatypes import datatype_from_numpy
from service.protocol.messages import HEADER, InferRequest
from service.protocol.tensors import encode_binary, encode_json


@dataclass(frozen=True)
class Response:
    headers: dict[str, str]
    body: bytes


def encode_response(request: InferRequest, model_name: str, model_version: str, arrays: Sequence[Array]) -> Response:
    """The answer to the request. `arrays` are its outputs, in its order.

    Binary outputs lie behind the JSON, one after the other; the headers say so.
    """
    outputs, blobs = [], []
    for asked, array in zip(request.outputs, arrays, strict=True):
        datatype = datatype_from_numpy(array.dtype)
        if datatype is None:
            raise TypeError(f"no tensor on the wire has elements of {array.dtype}")
        described = to_json({"name": asked.name, "shape": array.shape, "datatype": datatype.name})[:-1]
        if asked.binary:
            blobs.append(encode_binary(array))
            outputs.append(b'%b,"parameters":{"binary_data_size":%d}}' % (described, array.nbytes))
        else:
            outputs.append(b'%b,"data":%b}' % (described, encode_json(array, datatype.name)))
    names = {"model_name": model_name, "model_version": model_version}
    head = to_json(names if request.id is None else names | {"id": request.id})[:-1]
    text = b'%b,"outputs":[%b]}' % (head, b",".join(outputs))
    if not blobs:
        return Response({"Content-Type": "application/json"}, text)
    headers = {"Content-Type": "application/octet-stream", HEADER: str(len(text))}
    return Response(headers, b"".join([text, *blobs]))
