"""Everything about a network that can be known before it is built. What is wrong is said all at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onnx import ModelProto, TypeProto

from service.backends.base import Capabilities, PluginUse, Range, TensorInfo
from service.backends.host import Host
from service.errors import Fault, InvalidRequest
from service.network.completion import complete, plugin_uses
from service.network.datatypes import RuntimeKernels, tensorrt_faults
from service.network.description import EngineOptions
from service.network.gpu_types import fitting
from service.network.graph import Graph, Inferred
from service.network.inference import infer
from service.network.outputs import check_outputs, tensor_info
from service.network.profiles import check_profiles
from service.network.structure import check_structure
from service.network.targets import TENSORRT_NAMES, Choice, Chooser
from service.network.walking import all_graphs


class Limits(Protocol):
    """What of the settings concerns a network."""

    @property
    def max_nodes(self) -> int: ...


@dataclass(frozen=True)
class Checked:
    """A network that can be built. `data` are the files of external tensors, by location."""

    model: ModelProto
    data: dict[str, Path]
    backend: str
    targets: tuple[str, ...]
    profiles: tuple[dict[str, Range], ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    plugins: tuple[PluginUse, ...]


def check(graph: Graph, options: EngineOptions, host: Host, limits: Limits) -> Checked:
    """Checks the graph against what this host can do, and completes its model; the graph is used up.

    Raises InvalidRequest with every fault that can be found at once.
    """
    _check_size(graph, limits.max_nodes)
    faults = graph.faults
    chooser = Chooser(host.capabilities, list(graph.placements.values()), faults)
    choice = chooser.choose(options.backend, options.targets)
    inputs = graph.model.graph.input
    profiles = check_profiles(inputs, options.profiles, faults)
    unsound = check_structure(graph)
    declared = _declared(graph)
    inferred = infer(graph, unsound, declared)
    if choice is not None:
        choice = fitting(choice, options.targets, inferred.types, faults)
        _check_backend(graph, inferred, choice, host.capabilities[choice.backend])
    outputs = check_outputs(graph, inferred.types, declared)
    faults.raise_any()
    assert choice is not None
    model = complete(graph, outputs)
    infos = (
        tuple(tensor_info(each) for each in model.graph.input),
        tuple(tensor_info(each) for each in model.graph.output),
    )
    return Checked(model, graph.data, choice.backend, choice.targets, profiles, *infos, plugin_uses(graph))


def _check_size(graph: Graph, most: int) -> None:
    count = 0
    for each in all_graphs(graph.model.graph):
        count += len(each.node)
        if count > most:
            pointer = f"{graph.words.graph}/{graph.words.nodes}"
            raise InvalidRequest.from_faults([Fault(pointer, f"expected at most {most} nodes, got {count} or more")])


def _declared(graph: Graph) -> dict[str, TypeProto]:
    """Types that the user states for tensors, which count where no rule infers one."""
    outermost = graph.model.graph
    infos = [*outermost.value_info, *outermost.output]
    return {info.name: info.type for info in infos if info.type.WhichOneof("value")}


def _check_backend(graph: Graph, inferred: Inferred, choice: Choice, capabilities: Capabilities) -> None:
    if choice.backend in TENSORRT_NAMES:
        found = tensorrt_faults(graph, inferred)
    else:
        found = RuntimeKernels(capabilities).faults(graph, inferred)
    for pointer, detail in found:
        graph.faults.report(pointer, detail)
