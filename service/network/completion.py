"""The model that is built: plugins' reference functions in it, and nothing that was not checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from onnx import FunctionProto, ModelProto, NodeProto, ValueInfoProto, helper

from service.backends.base import PluginUse
from service.network.graph import CONTRIB, NATIVE_DOMAIN, Alike, Graph, Placement
from service.plugins.fields import jsonable
from service.plugins.plugin import CudaPlugin
from service.plugins.references import IR_VERSION, overload, reference_function


def complete(graph: Graph, outputs: Sequence[ValueInfoProto]) -> ModelProto:
    """Attaches one function for each variant of a plugin, and points the nodes to them."""
    model = graph.model
    functions: dict[tuple[str, str, str], FunctionProto] = {}
    known: dict[Alike, FunctionProto] = {}
    for node in model.graph.node:
        placement = graph.placements.get(node.name)
        if placement is not None and placement.plugin is not None:
            # What an overload depends on is read from files: once for nodes that are written alike.
            alike = placement.alike(node)
            function = known.get(alike) or function_of(variant_of(placement.plugin, node))
            known[alike], node.overload = function, function.overload
            functions[function.domain, function.name, function.overload] = function
    model.ir_version = IR_VERSION
    del model.functions[:], model.graph.output[:], model.graph.value_info[:]
    model.functions.extend(functions.values())
    model.graph.output.extend(outputs)
    _import_domains(model)
    return model


@dataclass(frozen=True)
class Variant:
    """What a reference is traced for; `overload` names everything that it depends on."""

    kind: type[CudaPlugin]
    overload: str
    plugin: CudaPlugin = field(compare=False)
    present: tuple[bool, ...] = field(compare=False)
    outputs: int = field(compare=False)


def variant_of(plugin: CudaPlugin, node: NodeProto) -> Variant:
    present, outputs = tuple(map(bool, node.input)), len(node.output)
    return Variant(type(plugin), overload(plugin, present, outputs), plugin, present, outputs)


@lru_cache(4096)
def function_of(variant: Variant) -> FunctionProto:
    """The reference function; tracing one costs two milliseconds."""
    return reference_function(variant.plugin, variant.present, variant.outputs)


def _import_domains(model: ModelProto) -> None:
    """An opset for every domain that nodes have; those of plugins and of ONNX Runtime are always 1."""
    imported = {each.domain for each in model.opset_import}
    used = {function.domain for function in model.functions} | {
        node.domain for node in model.graph.node if node.domain in (NATIVE_DOMAIN, CONTRIB)
    }
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in sorted(used - imported))


def plugin_uses(graph: Graph) -> tuple[PluginUse, ...]:
    """The network's plugins, with the fields of each node, defaults included."""
    placed: dict[tuple[str, str, str], list[Placement]] = defaultdict(list)
    for node in graph.model.graph.node:
        if node.name in graph.placements:
            placement = graph.placements[node.name]
            placed[placement.namespace, placement.name, placement.version].append(placement)
    return tuple(
        PluginUse(name, version, namespace, len(uses), tuple(_fields(use) for use in uses))
        for (namespace, name, version), uses in sorted(placed.items())
    )


def _fields(placement: Placement) -> dict[str, object]:
    return {name: jsonable(value) for name, value in placement.fields.items()}
