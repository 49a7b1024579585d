"""The JSON body of `POST /engines`: a readable form of an ONNX graph, and what to do with it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, model_validator

from service.network.bodies import BRANCH, Strict, name_of, read_body, request_faults, shorten
from service.network.options import (
    LARGEST,
    OPTIONS_EXAMPLE,
    Batching,
    Dimension,
    EngineOptions,
    InputRange,
    Serving,
)

__all__ = [
    "Batching", "Constant", "EngineOptions", "EngineRequest", "Input", "InputRange", "Network", "Node", "Output",
    "Serving", "read_body", "request_faults",
]  # fmt: skip

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64",
    "FP8",
]  # fmt: skip
# Wider than an engine's name: tensors often come with the names that an exporter gave them.
TensorName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Reference = Annotated[str, Field(max_length=256, description="a tensor's name, or empty where optional and absent")]
SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,127}")


def _dimension(given: Any) -> int | str:
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 <= given <= LARGEST:
            raise ValueError(f"expected 0 to {LARGEST}, or a name for a dynamic dimension, got {given}")
        return given
    if not isinstance(given, str):
        raise ValueError(f"expected an integer, or a name for a dynamic dimension, got {name_of(given)}")
    if not SYMBOL.fullmatch(given):
        raise ValueError(f"expected a name such as batch for a dynamic dimension, got {shorten(given)!r}")
    return given


_SHOWN = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": SYMBOL.pattern}]}
Shape = Annotated[
    list[Annotated[int | str, BeforeValidator(_dimension), WithJsonSchema(_SHOWN)]],
    Field(max_length=64),
]


class Input(Strict):
    """An input of the engine. A string in `shape` is a dynamic dimension; equal strings are equal dimensions."""

    name: TensorName
    datatype: Datatype
    shape: Shape


class Constant(Strict):
    """A tensor of the network, as numbers (nested or flat) or as little-endian bytes."""

    name: TensorName
    datatype: Datatype
    shape: Annotated[list[Dimension], Field(max_length=64)]
    data: Any = None
    base64: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Constant:
        if ("data" in self.model_fields_set) == (self.base64 is not None):
            raise ValueError("expected either data or base64")
        return self


class Node(Strict):
    """An ONNX operator (`op`, `attributes`) or a plugin (`plugin`, `fields`)."""

    op: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    attributes: dict[str, Any] | None = None
    plugin: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    version: str | None = None
    namespace: str | None = None
    fields: dict[str, Any] | None = None
    name: Annotated[str, Field(max_length=256)] | None = None
    inputs: Annotated[list[Reference], Field(default_factory=list)]
    outputs: Annotated[list[Reference], Field(min_length=1)]

    @model_validator(mode="after")
    def _operator_or_plugin(self) -> Node:
        if (self.op is None) == (self.plugin is None):
            raise ValueError("expected either op or plugin")
        foreign = ("fields", "version", "namespace") if self.op is not None else ("attributes",)
        for key in foreign:
            if getattr(self, key) is not None:
                raise ValueError(f"{key} goes with {'plugin' if self.op is not None else 'op'}")
        return self


class Output(Strict):
    """An output whose type no rule can infer: behind a plugin that states none, or an operator of ONNX Runtime's."""

    name: TensorName
    datatype: Datatype
    shape: Shape


OutputOrName = Annotated[
    Annotated[TensorName, Tag(f"{BRANCH}name")] | Annotated[Output, Tag(f"{BRANCH}output")],
    Discriminator(lambda given: f"{BRANCH}name" if isinstance(given, str) else f"{BRANCH}output"),
]


class Network(Strict):
    """A graph. Nodes may stand in any order."""

    inputs: Annotated[list[Input], Field(default_factory=list)]
    constants: Annotated[list[Constant], Field(default_factory=list)]
    nodes: Annotated[list[Node], Field(min_length=1)]
    outputs: Annotated[list[OutputOrName], Field(min_length=1)]


NETWORK_EXAMPLE: dict[str, Any] = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": ["batch", 8]}],
    "constants": [{"name": "w", "datatype": "FP32", "shape": [8, 2], "data": [0.5] * 16}],
    "nodes": [
        {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]},
        {"plugin": "ScaleBias", "inputs": ["h"], "outputs": ["s"], "fields": {"scale": 3.0, "bias": 1.0}},
        {"op": "Relu", "inputs": ["s"], "outputs": ["y"]},
    ],
    "outputs": ["y"],
}


class EngineRequest(EngineOptions):
    """The body of `POST /engines`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**OPTIONS_EXAMPLE, "network": NETWORK_EXAMPLE}]})

    network: Network
