"""NumPy arrays in the Open Inference Protocol's binary tensor extension, as a client writes and reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.datatypes import DATATYPES, datatype_from_numpy
from service.errors import ServiceError

Array = np.ndarray[Any, np.dtype[Any]]
LENGTH = "Inference-Header-Content-Length"


def message_from_arrays(
    inputs: Mapping[str, Array], outputs: Sequence[str] | None, parameters: Mapping[str, Any]
) -> tuple[dict[str, str], bytes]:
    """Headers and body of a request for `outputs` (None: all). Raises ValueError for arrays of other types."""
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    header: dict[str, Any] = {
        "inputs": [_described(name, array) for name, array in arrays.items()],
        "parameters": {"binary_data_output": True, **parameters},
    }
    if outputs is not None:
        header["outputs"] = [{"name": name} for name in outputs]
    start = json.dumps(header).encode()
    body = b"".join([start, *(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays.values())])
    return {LENGTH: str(len(start)), "Content-Type": "application/octet-stream"}, body


def outputs_from_message(headers: Mapping[str, str], body: bytes) -> dict[str, Array]:
    """Outputs by name, each an array of its own. Raises ServiceError for what is not such a message."""
    try:
        length = int(headers.get(LENGTH, len(body)))
        position, arrays = length, {}
        for output in json.loads(body[:length])["outputs"]:
            dtype, shape = DATATYPES[output["datatype"]].numpy, output["shape"]
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                arrays[output["name"]] = np.array(output["data"], dtype).reshape(shape)
                continue
            flat = np.frombuffer(body, dtype, math.prod(shape), position)
            arrays[output["name"]] = flat.reshape(shape).copy()
            position += size
    except (ValueError, KeyError, TypeError) as error:
        raise ServiceError(f"the answer is no inference response: {error}") from None
    return arrays


def _described(name: str, array: Array) -> dict[str, Any]:
    datatype = datatype_from_numpy(array.dtype.newbyteorder("="))
    if datatype is None:
        raise ValueError(f"input {name!r} has elements of type {array.dtype}, which no tensor has here")
    size = {"binary_data_size": array.nbytes}
    return {"name": name, "shape": list(array.shape), "datatype": datatype.name, "parameters": size}
