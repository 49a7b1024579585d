"""Plugins' nodes: which plugin a node means, and the node that stands for it in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto

from service.network.bodies import escaped, shorten
from service.network.graph import FAULTY_DOMAIN, NATIVE_DOMAIN, Graph, Placement
from service.network.natives import native_attributes
from service.network.operators import near
from service.plugins.catalogue import Catalogue, Entry
from service.plugins.nodes import plugin_node
from service.plugins.plugin import CudaPlugin, PluginFault


@dataclass(frozen=True)
class Written:
    """A node as the user wrote it. `inputs` and `outputs` are in the plugin's order; `name` is unique.

    `fields_at` is where its fields stand; `spots` where those fields and tensors do that stand elsewhere.
    """

    name: str
    pointer: str
    fields_at: str
    fields: Mapping[str, Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    spots: Mapping[str, str] = field(default_factory=dict)

    def spot(self, subject: str) -> str:
        if not subject:
            return self.pointer
        return self.spots.get(subject) or f"{self.fields_at}/{escaped(subject)}"


def faulty(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> NodeProto:
    """Stands for a node that something is wrong with, so that its tensors still exist."""
    return NodeProto(name=name, op_type="Faulty", domain=FAULTY_DOMAIN, input=inputs, output=outputs)


def find_entry(
    graph: Graph, catalogue: Catalogue, name: str, version: str | None, namespace: str | None, spots: Mapping[str, str]
) -> Entry | None:
    """The one plugin that is meant; where there is none, or more than one, a fault says which there are."""
    found = catalogue.find(name, version, namespace)
    if len(found) == 1:
        return found[0]
    if found:
        graph.faults.report(spots["plugin"], f"which {shorten(name)}? Give version or namespace: {_listed(found)}")
        return None
    same_name = catalogue.find(name)
    if not same_name:
        names = tuple(sorted({each["name"] for each in catalogue.entries}))
        hint = near(name, names) or f"; there are {', '.join(names[:30]) or 'none'}"
        graph.faults.report(spots["plugin"], f"no plugin {shorten(name)}{hint}")
        return None
    key = "namespace" if namespace is not None and not catalogue.find(name, None, namespace) else "version"
    asked = shorten(str(namespace if key == "namespace" else version))
    graph.faults.report(spots[key], f"no {shorten(name)} of {key} {asked!r}; there are {_listed(same_name)}")
    return None


def _listed(entries: Sequence[Entry]) -> str:
    shown = (f"{each['name']} version {each['version']} of namespace {each['namespace']!r}" for each in entries)
    return ", ".join(shown)


def place(graph: Graph, catalogue: Catalogue, entry: Entry, written: Written) -> NodeProto:
    """The plugin's node in the model; one that stands for it where its fields or outputs are wrong."""
    plugin = catalogue.plugin(entry["name"], entry["version"], entry["namespace"])
    if plugin is None:
        return _place_native(graph, entry, written)
    return place_plugin(graph, plugin, written)


def place_plugin(graph: Graph, plugin: type[CudaPlugin], written: Written) -> NodeProto:
    faults = [*_field_faults(plugin, written), *_output_faults(plugin, written)]
    for fault in faults:
        graph.faults.report(written.spot(fault.subject), fault.detail)
    if faults:
        return faulty(written.name, written.inputs, written.outputs)
    made = plugin(**written.fields)
    graph.placements[written.name] = Placement(
        plugin.name, plugin.version, plugin.namespace, plugin.targets, made.values, _all_spots(plugin, written), made
    )
    return plugin_node(made, written.inputs, _all_named(written), written.name)


def _field_faults(plugin: type[CudaPlugin], written: Written) -> list[PluginFault]:
    try:
        return list(plugin.field_faults(written.fields))
    except (ValueError, OverflowError) as error:  # a text that is no UTF-8, a number beyond all floats
        return [PluginFault(f"a field's value cannot be read: {error}")]


def _output_faults(plugin: type[CudaPlugin], written: Written) -> list[PluginFault]:
    required = [index for index, tensor in enumerate(plugin.outputs) if not tensor.optional]
    given = [*written.outputs]
    while given and not given[-1]:
        given.pop()
    if len(given) > len(plugin.outputs):
        return [PluginFault(f"{plugin.name} has {len(plugin.outputs)} outputs, got {len(given)}")]
    return [
        PluginFault(f"{plugin.name} requires a name for the output {plugin.outputs[index].name}")
        for index in required
        if index >= len(given) or not given[index]
    ]


def _all_named(written: Written) -> list[str]:
    """The outputs with a name for each but those at the end: TensorRT refuses an output without one."""
    last = max(index for index, name in enumerate(written.outputs) if name)
    return [name or f"{written.name}.unused_{index}" for index, name in enumerate(written.outputs[: last + 1])]


def _all_spots(plugin: type[CudaPlugin], written: Written) -> dict[str, str]:
    fields = {declared.name: f"{written.fields_at}/{declared.name}" for declared in plugin.fields}
    return {**fields, **written.spots}


def _place_native(graph: Graph, entry: Entry, written: Written) -> NodeProto:
    attributes, faults = native_attributes(entry, written.fields)
    for fault in faults:
        graph.faults.report(written.spot(fault.subject), fault.detail)
    if faults:
        return faulty(written.name, written.inputs, written.outputs)
    graph.placements[written.name] = Placement(
        entry["name"],
        entry["version"],
        entry["namespace"],
        tuple(entry["targets"]),
        dict(written.fields),
        written.spots,
    )
    return NodeProto(
        name=written.name,
        op_type=entry["name"],
        domain=NATIVE_DOMAIN,
        input=written.inputs,
        output=[name or f"{written.name}.unused_{index}" for index, name in enumerate(written.outputs)],
        attribute=attributes,
    )
