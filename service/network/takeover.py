"""Nodes that become a plugin's: operators that one takes over, and nodes that name one outright."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import NodeProto

from service.network.bodies import escaped, shorten
from service.network.graph import CONTRIB, NATIVE_DOMAIN, Graph
from service.network.operators import STANDARD_DOMAINS, signature
from service.network.placing import Written, faulty, find_entry, place, place_plugin
from service.plugins.catalogue import Catalogue, Entry
from service.plugins.nodes import RESERVED, values_from_attributes
from service.plugins.plugin import CudaPlugin, PluginFault
from service.plugins.tensors import Operator


def adopt(graph: Graph, catalogue: Catalogue, node: NodeProto, opset: int) -> NodeProto:
    """The plugin's node where the node is one; else the node itself. `node.name` is unique and has its pointer."""
    taken = catalogue.taker(node.domain, node.op_type)
    if taken is not None:
        return _take_over(graph, node, *taken)
    if not names_plugin(catalogue, node, opset):
        return node
    entry = _entry(graph, catalogue, node)
    if entry is None:
        return faulty(node.name, node.input, node.output)
    fields, unreadable = _values(node)
    _report_unreadable(graph, node, unreadable)
    pointer = graph.pointers[node.name]
    names = [tensor["name"] for tensor in entry["inputs"]]
    spots = {name: graph.input_pointer(node, index) for index, name in enumerate(names)}
    written = Written(node.name, pointer, f"{pointer}/{graph.words.attributes}", fields, node.input, node.output, spots)
    return place(graph, catalogue, entry, written)


def names_plugin(catalogue: Catalogue, node: NodeProto, opset: int) -> bool:
    """Whether the node's domain or attributes say that it is a plugin."""
    if node.domain in STANDARD_DOMAINS or node.domain == CONTRIB:
        # A creator of TensorRT's is often written without a domain.
        return signature(node.domain, node.op_type, opset) is None and bool(_candidates(catalogue, node))
    return _is_plugin_domain(catalogue, node.domain) or bool(_candidates(catalogue, node))


def _is_plugin_domain(catalogue: Catalogue, domain: str) -> bool:
    return domain == NATIVE_DOMAIN or any(found.plugin.namespace == domain for found in catalogue.found)


def _candidates(catalogue: Catalogue, node: NodeProto) -> list[Entry]:
    said, version = _said(node)
    namespaces = [said] if said is not None else [node.domain, ""]
    return [entry for each in dict.fromkeys(namespaces) for entry in catalogue.find(node.op_type, version, each)]


def _entry(graph: Graph, catalogue: Catalogue, node: NodeProto) -> Entry | None:
    candidates = _candidates(catalogue, node)
    if len(candidates) == 1:
        return candidates[0]
    said, version = _said(node)
    namespace = said if said is not None else None if node.domain == NATIVE_DOMAIN else node.domain
    pointer = graph.pointers[node.name]
    spots = dict.fromkeys(("plugin", "version", "namespace"), pointer)
    return find_entry(graph, catalogue, node.op_type, version, namespace, spots)


def _said(node: NodeProto) -> tuple[str | None, str | None]:
    """Namespace and version, where the node's attributes say them."""
    texts = {each.name: each.s.decode(errors="replace") for each in node.attribute if each.name in RESERVED}
    return texts.get("plugin_namespace"), texts.get("plugin_version")


def _take_over(graph: Graph, node: NodeProto, plugin: type[CudaPlugin], operator: Operator) -> NodeProto:
    pointer, before = graph.pointers[node.name], len(graph.faults)
    values, unreadable = _values(node)
    _report_unreadable(graph, node, unreadable)
    fields, spots = {}, {}
    for name, value in values.items():
        spot = f"{pointer}/{graph.words.attributes}/{escaped(name)}"
        if name in operator.fixed and value != operator.fixed[name]:
            graph.faults.report(spot, f"{plugin.name} takes {operator.fixed[name]} only, got {shorten(str(value))}")
        if name not in operator.fixed and name not in operator.ignored:
            ours = operator.renamed.get(name, name)
            fields[ours], spots[ours] = value, spot
    for detail, at in _foreign(graph, node, plugin, operator):
        graph.faults.report(at, detail)
    if len(graph.faults) > before:
        return faulty(node.name, node.input, node.output)
    spots |= {ours: graph.input_pointer(node, index) for index, ours in enumerate(operator.inputs) if ours}
    written = Written(
        node.name,
        pointer,
        f"{pointer}/{graph.words.attributes}",
        fields,
        _ordered([tensor.name for tensor in plugin.inputs], operator.inputs, node.input),
        _ordered([tensor.name for tensor in plugin.outputs], operator.outputs, node.output),
        spots,
    )
    return place_plugin(graph, plugin, written)


def _foreign(graph: Graph, node: NodeProto, plugin: type[CudaPlugin], operator: Operator) -> Iterator[tuple[str, str]]:
    """Tensors that the operator has and the plugin has not, with where they stand."""
    for kind, ours, names, at in (
        ("input", operator.inputs, node.input, graph.input_pointer),
        ("output", operator.outputs, node.output, graph.output_pointer),
    ):
        for index, name in enumerate(names):
            if name and (index >= len(ours) or ours[index] is None):
                yield f"{plugin.name}, which takes {operator.name} over, has no such {kind}", at(node, index)


def _ordered(ours: list[str], theirs: tuple[str | None, ...], names: Any) -> list[str]:
    """The operator's tensors in the plugin's order."""
    by_name = {own: name for own, name in zip(theirs, names, strict=False) if own}
    return [by_name.get(each, "") for each in ours]


def _values(node: NodeProto) -> tuple[dict[str, Any], list[str]]:
    """The node's attributes as fields, and the names of those that cannot be read as any."""
    values: dict[str, Any] = {}
    unreadable = []
    for attribute in node.attribute:
        try:
            values |= {name: _as_text(value) for name, value in values_from_attributes([attribute]).items()}
        except (ValueError, TypeError, PluginFault):
            unreadable.append(attribute.name)
    return values, unreadable


def _as_text(value: Any) -> Any:
    # ONNX has bytes for what JSON calls a string; fields are read as JSON has them.
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _report_unreadable(graph: Graph, node: NodeProto, names: list[str]) -> None:
    for name in names:
        spot = f"{graph.pointers[node.name]}/{graph.words.attributes}/{escaped(name)}"
        graph.faults.report(spot, "expected a value that a plugin's field can have")
