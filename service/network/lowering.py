"""The JSON description to an ONNX graph."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from service.datatypes import DATATYPES
from service.errors import Fault, InvalidRequest
from service.network.attributes import AttributeFault, attribute_from_json
from service.network.bodies import escaped
from service.network.constants import DataFault, tensor_from_base64, tensor_from_numbers
from service.network.description import Constant, Input, Network, Node, Output
from service.network.graph import CONTRIB, JSON_WORDS, Graph, Names
from service.network.operators import introduced, signature
from service.network.placing import Written, faulty, find_entry, place
from service.network.takeover import adopt
from service.plugins.catalogue import Catalogue
from service.plugins.references import IR_VERSION
from service.plugins.tracing import OPSET

MOST_NODES = 100_000


def lower(network: Network, catalogue: Catalogue, max_nodes: int = MOST_NODES) -> Graph:
    """The network as a graph. What is wrong with single nodes and constants is in its `faults`.

    Raises InvalidRequest for a network with more than `max_nodes` nodes.
    """
    if len(network.nodes) > max_nodes:
        detail = f"expected at most {max_nodes} nodes, got {len(network.nodes)}"
        raise InvalidRequest.from_faults([Fault(f"{JSON_WORDS.graph}/nodes", detail)])
    lowering = _Lowering(network, catalogue)
    lowering.run()
    return lowering.graph


class _Lowering:
    def __init__(self, network: Network, catalogue: Catalogue) -> None:
        self.network, self.catalogue = network, catalogue
        self.opset = _opset(network)
        opsets = [helper.make_opsetid("", self.opset)]
        model = ModelProto(ir_version=IR_VERSION, producer_name="planforge", opset_import=opsets)
        model.graph.name = "network"
        self.graph = Graph(model, JSON_WORDS)
        self.names = Names()

    def run(self) -> None:
        target: GraphProto = self.graph.model.graph
        for index, given in enumerate(self.network.inputs):
            target.input.append(_value_info(given))
            self.graph.tensors.setdefault(given.name, f"{JSON_WORDS.graph}/inputs/{index}")
        for index, constant in enumerate(self.network.constants):
            pointer = f"{JSON_WORDS.graph}/constants/{index}"
            target.initializer.append(self._tensor(constant, pointer))
            self.graph.tensors.setdefault(constant.name, pointer)
        for index, node in enumerate(self.network.nodes):
            target.node.append(self._node(node, index))
        for output in self.network.outputs:
            target.output.append(ValueInfoProto(name=output) if isinstance(output, str) else _value_info(output))

    def _tensor(self, constant: Constant, pointer: str) -> TensorProto:
        try:
            if constant.base64 is not None:
                return tensor_from_base64(constant.name, constant.datatype, constant.shape, constant.base64)
            return tensor_from_numbers(constant.name, constant.datatype, constant.shape, constant.data)
        except DataFault as fault:
            self.graph.faults.report(f"{pointer}/{fault.key}", fault.detail)
        return TensorProto(name=constant.name, data_type=DATATYPES[constant.datatype].onnx, dims=constant.shape)

    def _node(self, node: Node, index: int) -> NodeProto:
        name = self.names.unique(node.name or f"{node.op or node.plugin}_{index}")
        pointer = self.graph.pointers[name] = f"{JSON_WORDS.graph}/nodes/{index}"
        if node.plugin is not None:
            return self._plugin(node, node.plugin, name, pointer)
        return self._operator(node, node.op or "", name, pointer)

    def _plugin(self, node: Node, plugin: str, name: str, pointer: str) -> NodeProto:
        spots = {key: f"{pointer}/{key}" for key in ("plugin", "version", "namespace")}
        entry = find_entry(self.graph, self.catalogue, plugin, node.version, node.namespace, spots)
        if entry is None:
            return faulty(name, node.inputs, node.outputs)
        inputs = {each["name"]: f"{pointer}/inputs/{index}" for index, each in enumerate(entry["inputs"])}
        fields = node.fields or {}
        written = Written(name, pointer, f"{pointer}/fields", fields, node.inputs, node.outputs, inputs)
        return place(self.graph, self.catalogue, entry, written)

    def _operator(self, node: Node, op: str, name: str, pointer: str) -> NodeProto:
        domain, _, op_type = op.rpartition(".")
        domain = "" if domain == "ai.onnx" else domain
        lowered = NodeProto(name=name, op_type=op_type, domain=domain, input=node.inputs, output=node.outputs)
        if not self._add_attributes(lowered, node, pointer):
            return faulty(name, node.inputs, node.outputs)
        return adopt(self.graph, self.catalogue, lowered, self.opset)

    def _add_attributes(self, lowered: NodeProto, node: Node, pointer: str) -> bool:
        known = signature(lowered.domain, lowered.op_type, self.opset)
        right = True
        for name, value in (node.attributes or {}).items():
            # An attribute that the operator does not have is said with all else about the node.
            kind = known.attributes.get(name) if known else None
            try:
                lowered.attribute.append(attribute_from_json(name, value, kind))
            except AttributeFault as fault:
                self.graph.faults.report(f"{pointer}/attributes/{escaped(name)}", str(fault))
                right = False
        return right


def _opset(network: Network) -> int:
    """The references' opset, or the first newer one that has every operator used."""
    used = {node.op.removeprefix("ai.onnx.") for node in network.nodes if node.op and CONTRIB not in node.op}
    return max([OPSET, *(introduced(name) or 0 for name in used)])


def _value_info(given: Input | Output) -> ValueInfoProto:
    return helper.make_tensor_value_info(given.name, DATATYPES[given.datatype].onnx, given.shape)
