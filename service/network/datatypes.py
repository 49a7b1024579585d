"""Whether a backend takes the network's types and operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from onnx import NodeProto, TypeProto

from service.backends.base import Capabilities, OperatorKernel
from service.datatypes import DATATYPES, WIRE_DATATYPES
from service.network.bodies import shorten
from service.network.graph import CONTRIB, FAULTY_DOMAIN, Graph, Inferred, Types
from service.network.operators import Signature, signature
from service.network.rules import tensor_type
from service.network.type_checks import readable, spelt
from service.network.walking import all_graphs

TENSORRT_DATATYPES = ("FP32", "FP16", "BF16", "FP8", "INT8", "INT32", "INT64", "BOOL", "INT4", "FLOAT4E2M1")
Found = Iterator[tuple[str, str]]


def engine_faults(pointers: Mapping[str, str], types: Types) -> Found:
    """Engine inputs or outputs (by name) of types that no request can carry."""
    for name, pointer in pointers.items():
        kind = types.get(name)
        if kind is None:
            continue
        if kind.WhichOneof("value") != "tensor_type":
            yield pointer, f"expected a tensor, {shorten(name)} is {spelt(kind)}"
        elif tensor_type(kind).datatype not in WIRE_DATATYPES:
            possible = " ".join(WIRE_DATATYPES)
            yield pointer, f"expected one of {possible}, {shorten(name)} is {tensor_type(kind).datatype}"


def tensorrt_faults(graph: Graph, inferred: Inferred) -> Found:
    """Tensors of types that TensorRT does not take, and operators that only ONNX Runtime has."""
    into_plugins = _constants_of_plugins(graph)
    for name, pointer in graph.tensors.items():
        yield from _tensorrt_type(name, pointer, inferred.types, into_plugins)
    for each in all_graphs(graph.model.graph):
        for node in each.node:
            if node.domain == CONTRIB:
                what = f"{node.op_type} of {CONTRIB} is an operator of ONNX Runtime's, which no plugin here takes over"
                yield graph.pointers[node.name], f"{what}; TensorRT backends have nothing for it"
            for index, name in enumerate(node.output):
                pointer = graph.output_pointer(node, index)
                yield from _tensorrt_type(name, pointer, inferred.seen_by(node), into_plugins)


def _tensorrt_type(name: str, pointer: str, types: Types, into_plugins: Collection[str]) -> Found:
    kind = types.get(name, TypeProto())
    found = spelt(kind) if kind.WhichOneof("value") not in (None, "tensor_type") else tensor_type(kind).datatype
    if found is None or found in TENSORRT_DATATYPES or (found == "UINT8" and name in into_plugins):
        return
    where = " but in a constant that only plugins read" if found == "UINT8" else ""
    yield pointer, f"TensorRT takes no {found}{where}, and {shorten(name)} is one"


def _constants_of_plugins(graph: Graph) -> set[str]:
    """Constants that nothing but plugins read."""
    outermost = graph.model.graph
    constants = {tensor.name for tensor in outermost.initializer}
    for node in outermost.node:
        if node.op_type == "Constant" and node.domain == "":
            constants.update(node.output)
    for each in all_graphs(outermost):
        for node in each.node:
            if node.name not in graph.placements:
                constants -= set(node.input)
        constants -= {output.name for output in each.output}
    return constants


class RuntimeKernels:
    """ONNX Runtime's kernels, where it says which it has."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._kernels: dict[tuple[str, str], list[OperatorKernel]] = defaultdict(list)
        for kernel in capabilities.kernels:
            self._kernels["" if kernel.domain == "ai.onnx" else kernel.domain, kernel.name].append(kernel)

    def faults(self, graph: Graph, inferred: Inferred) -> Found:
        """Nodes that ONNX Runtime cannot run: no kernel, or none for these types."""
        opsets = {each.domain: each.version for each in graph.model.opset_import}
        for each in all_graphs(graph.model.graph):
            for node in each.node:
                placement = graph.placements.get(node.name)
                if placement is not None and placement.plugin is None:
                    detail = f"{placement.title} is TensorRT's own and has no reference: only TensorRT backends take it"
                    yield graph.pointers[node.name], detail
                elif placement is None and node.domain != FAULTY_DOMAIN and self._kernels:
                    yield from self._node_faults(graph, node, inferred.seen_by(node), opsets.get(node.domain, 1))

    def _node_faults(self, graph: Graph, node: NodeProto, types: Types, opset: int) -> Found:
        known = signature(node.domain, node.op_type, opset)
        version = known.since if known else opset
        named = self._kernels.get((node.domain, node.op_type), [])
        kernels = [kernel for kernel in named if kernel.since <= version <= kernel.until]
        pointer = graph.pointers[node.name]
        if node.op_type == "Constant" and node.domain == "":
            return
        if known is None and not named:
            title = f"{node.op_type} of {shorten(node.domain)}"
            yield pointer, f"{title} is taken over by no plugin here, and ONNX Runtime has no kernel for it"
        elif known is not None and not known.is_function and not kernels:
            yield pointer, f"ONNX Runtime has no kernel for {node.op_type} of opset {opset}"
        elif known is not None and not known.is_function:
            yield from self._type_faults(graph, node, types, known, kernels)

    def _type_faults(
        self, graph: Graph, node: NodeProto, types: Types, known: Signature, kernels: Sequence[OperatorKernel]
    ) -> Found:
        used = _bound(node, types, known)
        if any(_fits(kernel, used) for kernel in kernels):
            return
        shown = ", ".join(sorted(set(used.values())))
        yield graph.pointers[node.name], f"ONNX Runtime has no kernel for {node.op_type} of {shown}"


def _bound(node: NodeProto, types: Types, known: Signature) -> dict[str, str]:
    """The operator's type parameters, with the types that they have here."""
    used: dict[str, str] = {}
    tensors = [(known.inputs, node.input), (known.outputs, node.output)]
    for parameters, names in tensors:
        for index, name in enumerate(names):
            if name in types and parameters:
                parameter = parameters[min(index, len(parameters) - 1)]
                used.setdefault(parameter.kind, readable(spelt(types[name])))
    return used


def _fits(kernel: OperatorKernel, used: Mapping[str, str]) -> bool:
    for parameter, found in used.items():
        allowed = kernel.datatypes.get(parameter) if found in DATATYPES else None
        # FP16 runs in FP32, between casts that ONNX Runtime adds by itself.
        widened = {found, "FP32"} if found == "FP16" else {found}
        if allowed is not None and not widened & {readable(each) for each in allowed}:
            return False
    return True
