"""One build with TensorRT: compile kernels, parse, build, and look whether the kernels are in the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto

from service.backends.base import BuildRequest, Built, PluginUse, Progress, Range, TensorInfo
from service.backends.dressing import PluginNodes, dress
from service.backends.embedding import Bundles, compile_bundles, described, missing_images
from service.backends.flavour import Flavour
from service.backends.importers import dress_for_importers
from service.backends.progress import monitor
from service.backends.pruning import prune
from service.backends.splitting import join, split
from service.errors import BuildFailed
from service.plugins.catalogue import Found
from service.plugins.fields import jsonable
from service.plugins.nodes import values_from_attributes
from service.plugins.plugin import CudaPlugin
from service.plugins.registration import Registration
from service.plugins.shell import DATATYPES

# How far a build is when a part of it starts; TensorRT's own phases lie between building and searching.
COMPILING, DRESSING, PARSING, BUILDING, SEARCHING = 0.05, 0.25, 0.3, 0.4, 0.9


@dataclass
class PlanBuilder:
    """Everything a build needs that outlives it."""

    flavour: Flavour
    registration: Registration
    logger: Any
    found: Sequence[Found]
    cache: Path

    def build(self, request: BuildRequest, out: Path, progress: Progress) -> Built:
        """Writes the plan to `out`. Raises BuildFailed."""
        progress("Reading the model", 0.0)
        model, weights = split(request.model.read_bytes())
        prune(model.graph)
        nodes = plugin_nodes(model, self.found)
        if not self.flavour.imports_own_domains:
            model, nodes = dress_for_importers(model, nodes)
        uses = [*plugin_uses(nodes)]
        progress("Compiling kernels", COMPILING)
        bundles = compile_bundles(
            dict.fromkeys(plugin for _, plugin in nodes),
            request.targets,
            self.cache,
            lambda phase, fraction: progress(phase, COMPILING + (DRESSING - COMPILING) * fraction),
        )
        progress("Preparing plugin nodes", DRESSING)
        if self.flavour.imports_own_domains:
            dress(model, weights, nodes)
        network = self._build_with_images(join(model, weights), request, bundles, out, progress)
        return Built(
            plan=out,
            backend_version=self.flavour.trt.__version__,
            targets=request.targets,
            inputs=_infos(network.num_inputs, network.get_input),
            outputs=_infos(network.num_outputs, network.get_output),
            plugins=tuple(_with_images(use, plugin, bundles) for plugin, use in uses),
        )

    def _build_with_images(
        self, model: bytes, request: BuildRequest, bundles: Bundles, out: Path, progress: Progress
    ) -> Any:
        """One node of each plugin carries its images. TensorRT may have removed that very node: then all carry them."""
        for carry_all in (False, True):
            self.registration.start_build(bundles, carry_all)
            network = self._build_once(model, request, out, progress)
            progress("Looking for the kernels in the plan", SEARCHING)
            missing = missing_images(out, bundles)
            if not missing:
                return network
            print(f"not in the plan: {', '.join(missing)}", flush=True)
        raise BuildFailed(f"TensorRT left out the kernels of {', '.join(missing)}")

    def _build_once(self, model: bytes, request: BuildRequest, out: Path, progress: Progress) -> Any:
        trt = self.flavour.trt
        progress("Parsing", PARSING)
        builder = trt.Builder(self.logger)
        network = builder.create_network(self.flavour.network_flags())
        parser = trt.OnnxParser(network, self.logger)
        # The path is where external data lies; no file is read there.
        if not parser.parse(model, str(request.model)):
            raise BuildFailed(self._reason([_said(parser.get_error(i)) for i in range(parser.num_errors)]))
        config = builder.create_builder_config()
        self.flavour.configure(config, request.targets)
        for profile in request.profiles:
            config.add_optimization_profile(_profile(builder, profile))
        config.progress_monitor = monitor(
            trt, lambda phase, fraction: progress(phase, BUILDING + (SEARCHING - BUILDING) * fraction)
        )
        plan = builder.build_serialized_network(network, config)
        if self.registration.faults.message() or plan is None or plan.nbytes == 0:
            raise BuildFailed(self._reason([]))
        out.write_bytes(plan)
        return network

    def _reason(self, errors: Sequence[str]) -> str:
        """A plugin's own exception says more than what TensorRT makes of it."""
        return self.registration.faults.message() or next(iter([*errors, *self.logger.errors]), "TensorRT gave no plan")


def warm_up(flavour: Flavour, logger: Any) -> None:
    """Builds a network of one node for a target that every version has."""
    trt = flavour.trt
    builder = trt.Builder(logger)
    network = builder.create_network(flavour.network_flags())
    network.mark_output(network.add_identity(network.add_input("x", trt.float32, (1,))).get_output(0))
    config = builder.create_builder_config()
    flavour.configure(config, ["sm_86"])
    builder.build_serialized_network(network, config)


def plugin_nodes(model: ModelProto, found: Iterable[Found]) -> PluginNodes:
    """The model's plugin nodes with their classes. Plugins of other libraries, which have none, are not among them."""
    classes = {each.key: each.plugin for each in found}
    pairs = ((node, classes.get(_key(node))) for node in model.graph.node)
    return [(node, plugin) for node, plugin in pairs if plugin is not None]


def _key(node: onnx.NodeProto) -> tuple[str, str, str]:
    version = next((a.s.decode() for a in node.attribute if a.name == "plugin_version"), "1")
    return node.op_type, version, node.domain


def plugin_uses(nodes: PluginNodes) -> Iterable[tuple[type[CudaPlugin], PluginUse]]:
    """What the model uses, one entry a plugin, kernels still missing."""
    for plugin in dict.fromkeys(plugin for _, plugin in nodes):
        given = [values_from_attributes(node.attribute) for node, used in nodes if used is plugin]
        fields = tuple({name: jsonable(value) for name, value in plugin(**each).values.items()} for each in given)
        yield plugin, PluginUse(plugin.name, plugin.version, plugin.namespace, len(given), fields)


def _with_images(use: PluginUse, plugin: type[CudaPlugin], bundles: Bundles) -> PluginUse:
    images = bundles[plugin].images
    cubins = tuple(described(image) for image in images if not image.is_ptx)
    ptx = next((described(image) for image in images if image.is_ptx), None)
    return PluginUse(use.name, use.version, use.namespace, use.nodes, use.fields, cubins, ptx)


def _said(error: Any) -> str:
    """A parser's error with its node: of itself it may be no more than `false`."""
    kind = error.code().name.replace("_", " ").lower()
    return f"TensorRT's parser refuses the node {error.node_name()} ({error.node_operator()}), {kind}: {error.desc()}"


def _profile(builder: Any, ranges: dict[str, Range]) -> Any:
    profile = builder.create_optimization_profile()
    for name, limits in ranges.items():
        limit = profile.set_shape_input if limits.values else profile.set_shape
        limit(name, limits.min, limits.opt, limits.max)
    return profile


def _infos(count: int, get: Any) -> tuple[TensorInfo, ...]:
    tensors = [get(index) for index in range(count)]
    return tuple(TensorInfo(each.name, DATATYPES[each.dtype.name], tuple(each.shape)) for each in tensors)
