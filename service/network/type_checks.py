"""The types of a node's inputs against those that its operator takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import NodeProto, TensorProto, TypeProto

from service.datatypes import datatype_from_onnx
from service.network.graph import Graph
from service.network.operators import Parameter, signature

_SPELT = {
    TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8e4m3fn", TensorProto.STRING: "string",
}  # fmt: skip


def type_faults(graph: Graph, node: NodeProto, types: Mapping[str, TypeProto]) -> Iterator[tuple[str, str]]:
    """Pointers to inputs of types that the operator does not take, and what it takes."""
    opset = next((each.version for each in graph.model.opset_import if each.domain == node.domain), 0)
    known = signature(node.domain, node.op_type, opset)
    if known is None:
        return
    bound: dict[str, str] = {}
    for index, name in enumerate(node.input):
        if not name or name not in types or not known.inputs:
            continue
        parameter = known.input(index)
        found = spelt(types[name])
        wanted = bound.get(parameter.kind)
        if found not in parameter.types:
            yield graph.input_pointer(node, index), _expected(node, parameter, found)
        elif wanted is not None and found != wanted and parameter.homogeneous:
            detail = f"{node.op_type} takes {readable(wanted)} as {parameter.name} here, as its other inputs are"
            yield graph.input_pointer(node, index), f"{detail}, got {readable(found)}"
        elif parameter.homogeneous:
            bound[parameter.kind] = found


def _expected(node: NodeProto, parameter: Parameter, found: str) -> str:
    taken = sorted({readable(each) for each in parameter.types})
    return f"{node.op_type} takes {' or '.join(taken)} as {parameter.name}, got {readable(found)}"


def spelt(kind: TypeProto) -> str:
    """A type as schemas spell it: `tensor(float16)`."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        number = getattr(kind, which).elem_type
        element = _SPELT.get(number) or _element(number)
        return f"{which.removesuffix('_type')}({element})"
    if which == "sequence_type":
        return f"seq({spelt(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({spelt(kind.optional_type.elem_type)})"
    if which == "map_type":
        return f"map({_element(kind.map_type.key_type)},{spelt(kind.map_type.value_type)})"
    return "unknown"


def _element(number: int) -> str:
    # Rules pass on whatever number an attribute has.
    return TensorProto.DataType.Name(number).lower() if number in TensorProto.DataType.values() else f"type {number}"


_NUMBERS = {
    f"tensor({_SPELT.get(number) or TensorProto.DataType.Name(number).lower()})": number
    for number in TensorProto.DataType.values()
}


def readable(text: str) -> str:
    """A schema's type as this service calls it: FP16 for `tensor(float16)`."""
    found = datatype_from_onnx(_NUMBERS.get(text, 0))
    return found.name if found else text
