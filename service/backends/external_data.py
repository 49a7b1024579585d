"""External tensor data into the model itself, so that a plan is one file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.checker import ValidationError
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data
from onnx.helper import tensor_dtype_to_np_dtype

from service.errors import BuildFailed

LARGEST = 2**31 - 1
"""Bytes that one ONNX file can have: Protocol Buffers take no more."""


def embed(model: ModelProto, path: Path) -> None:
    """Reads all external data of the model at `path`, in place. Raises BuildFailed where one file cannot hold it."""
    external = [tensor for tensor in tensors_of(model) if uses_external_data(tensor)]
    size = path.stat().st_size + sum(map(_size, external))
    if size > LARGEST:
        raise BuildFailed(f"the model with its data is {size} bytes, and one ONNX file holds no more than {LARGEST}")
    for tensor in external:
        try:
            load_external_data_for_tensor(tensor, str(path.parent))
        except (OSError, ValueError, ValidationError):  # whose messages have the path in them
            raise BuildFailed(f"the external data of the tensor {tensor.name} cannot be read") from None
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of the model: initializers and attributes, in functions and in bodies of control flow too."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from (tensor for node in function.node for tensor in _of_node(node))


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        yield from _of_attribute(attribute)


def _of_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
        yield from _of_graph(graph)


def _size(tensor: TensorProto) -> int:
    return int(math.prod(tensor.dims) * tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
