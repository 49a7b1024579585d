"""How the OpenAPI document shows the messages of an inference."""

from __future__ import annotations

from typing import Any

from service.protocol.messages import HEADER

JSON, BINARY = "application/json", "application/octet-stream"
_TENSOR = {"name": "x", "shape": [2, 8], "datatype": "FP32"}
_OUTPUT = {"name": "y", "shape": [2, 2], "datatype": "FP32"}
REQUEST_EXAMPLE: dict[str, Any] = {"inputs": [{**_TENSOR, "data": [[2.0] * 8] * 2}], "parameters": {"reference": True}}
RESPONSE_EXAMPLE: dict[str, Any] = {
    "model_name": "demo",
    "model_version": "1",
    "outputs": [{**_OUTPUT, "data": [25.0] * 4}],
}
_HEADER_EXAMPLE = (
    '{"inputs":[{"name":"x","shape":[2,8],"datatype":"FP32","parameters":{"binary_data_size":64}}],'
    '"parameters":{"reference":true,"binary_data_output":true}}'
)
BINARY_EXAMPLE = _HEADER_EXAMPLE + "\0\0\0@" * 16
"""Sixteen times 2.0 in FP32, whose bytes are text."""
HEADER_PARAMETER = {
    "parameters": [
        {
            "name": HEADER,
            "in": "header",
            "schema": {"type": "integer", "minimum": 0},
            "description": "bytes of JSON before binary tensors; 0: the body is the one input's bytes",
            "example": len(_HEADER_EXAMPLE),
        }
    ]
}


def _tensor(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["name", "shape", "datatype"],
        "properties": {
            "name": {"type": "string"},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "datatype": {"type": "string"},
            "parameters": {"type": "object"},
            **data,
        },
    }


_DATA = {"data": {"type": "array", "items": {}, "description": "nested or flat, row by row"}}
_REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "description": "comes back in the answer"},
        "inputs": {"type": "array", "items": _tensor(_DATA)},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}},
            },
            "description": "which outputs, in which order; all where none is named",
        },
        "parameters": {
            "type": "object",
            "properties": {
                "reference": {"type": "boolean", "description": "run the reference functions on CPU, not the plan"},
                "timeout": {"type": "integer", "description": "microseconds within which the answer is wanted"},
                "binary_data_output": {"type": "boolean", "description": "outputs as bytes behind the JSON"},
            },
        },
    },
}
_RESPONSE = {
    "type": "object",
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": {"type": "array", "items": _tensor(_DATA)},
    },
}
_BYTES = {"type": "string", "format": "binary", "description": "JSON as above, then the binary tensors in their order"}

BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": _REQUEST, "example": REQUEST_EXAMPLE},
            BINARY: {"schema": _BYTES, "example": BINARY_EXAMPLE},
        },
    }
}
RESPONSE = {
    "description": "the outputs; as bytes where asked for, and the header then says where the JSON ends",
    "headers": {HEADER: {"schema": {"type": "integer"}, "description": "bytes of JSON before binary tensors"}},
    "content": {JSON: {"schema": _RESPONSE, "example": RESPONSE_EXAMPLE}, BINARY: {"schema": _BYTES}},
}
