"""A plugin on real TensorRT, without a GPU: `python -m service.backends.conformance MODULE CLASS CACHE RESULTS`.

Writes one JSON object a line, the fields of `Result`. A child of `planforge plugins check`, since TensorRT may abort.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper, numpy_helper

from service.backends.base import BuildRequest
from service.backends.embedding import Bundles, compile_bundles
from service.backends.flavour import Flavour
from service.backends.libraries import child_environment
from service.backends.plan_builder import PlanBuilder
from service.backends.tensorrt import logger
from service.datatypes import DATATYPES
from service.errors import BuildFailed
from service.plugins.cases import Case, cases_of
from service.plugins.catalogue import Found
from service.plugins.creator import register
from service.plugins.declaration_checks import same
from service.plugins.field_collections import INPUTS, OUTPUTS, Collection
from service.plugins.nodes import plugin_node
from service.plugins.plugin import CudaPlugin
from service.plugins.references import IR_VERSION
from service.plugins.registration import Node, Registration
from service.plugins.results import Result
from service.plugins.tensorrt_checks import MODULE
from service.plugins.tracing import OPSET


@dataclass(frozen=True)
class Subject:
    """A plugin that is registered with TensorRT, and the cases that it must take."""

    plugin: type[CudaPlugin]
    flavour: Flavour
    registration: Registration
    creator: Any
    cases: Sequence[Case]
    cache: Path

    @property
    def target(self) -> str:
        """The newest that both the plugin and TensorRT can build for here: old ones lack datatypes."""
        return next(target for target in reversed(self.flavour.targets(None)) if target in self.plugin.targets)

    def results(self) -> Iterator[Result]:
        yield self._registered()
        bundles = compile_bundles([self.plugin], [self.target], self.cache)
        for case in _distinct(self.cases, self._node_key):
            yield self._travels(case, bundles)
        not_empty = [case for case in self.cases if all(0 not in drawn.shape for drawn in case.inputs.values())]
        for case in _distinct(not_empty, self._signature):
            yield self._builds(case)

    def _node_key(self, case: Case) -> str:
        """What a node keeps of a case."""
        return repr((sorted(case.fields.items()), sorted(case.inputs), len(case.output_names(self.plugin))))

    def _signature(self, case: Case) -> str:
        """What TensorRT tells apart: datatypes, present inputs, the number of outputs."""
        datatypes = sorted((name, drawn.datatype) for name, drawn in case.inputs.items())
        return repr((datatypes, len(case.output_names(self.plugin))))

    def _registered(self) -> Result:
        plugin = self.plugin
        registry = self.flavour.trt.get_plugin_registry()
        found = registry.get_creator(plugin.name, plugin.version, plugin.namespace)
        listed = {each.name for each in found.field_names} if found else set()
        missing = sorted({declared.name for declared in plugin.fields} - listed)
        said = f"registered, without {', '.join(missing)}" if missing else "registered" if found else "not registered"
        return Result(plugin.name, "creator", "", found is not None and not missing, said)

    def _travels(self, case: Case, bundles: Bundles) -> Result:
        """Fields through a creator, a clone of a clone, what a plan keeps of it, and a creator again."""
        trt, self_made = self.flavour.trt, self.plugin(**case.fields)
        self.registration.start_build(bundles, carry_all=True)
        present = [index for index, tensor in enumerate(self.plugin.inputs) if tensor.name in case.inputs]
        given = {name: self_made.values[name] for name in case.fields}
        own = {INPUTS: present, OUTPUTS: len(case.output_names(self.plugin))}
        parsed = Collection(trt, self.plugin.fields, given | own)
        made = self.creator.create_plugin("checked", parsed.tensorrt, trt.TensorRTPhase.BUILD)
        copy = made.clone().clone()
        loaded = self.creator.create_plugin("checked", copy.get_fields_to_serialize(), trt.TensorRTPhase.RUNTIME)
        again = loaded.clone()
        changed = [
            f"{name} changed in {where}"
            for where, node in (("a clone", copy.node), ("a plan", loaded.node), ("a loaded clone", again.node))
            for name in _differences(self_made, made.node, node)
        ]
        return Result(self.plugin.name, "clone and plan", case.name, not changed, "; ".join(changed))

    def _builds(self, case: Case) -> Result:
        found = [Found(self.plugin, "checked")]
        builder = PlanBuilder(self.flavour, self.registration, logger(self.flavour.trt), found, self.cache)
        with tempfile.TemporaryDirectory() as folder:
            model, plan = Path(folder) / "model.onnx", Path(folder) / "plan"
            model.write_bytes(model_of(self.plugin, case).SerializeToString())
            try:
                built = builder.build(BuildRequest(model, (self.target,), ()), plan, lambda phase, fraction: None)
            except BuildFailed as error:
                return Result(self.plugin.name, "build", case.name, False, str(error))
            digests = [f"{image.target} {image.sha256[:12]}" for use in built.plugins for image in use.kernels]
            found_in = f"{plan.stat().st_size} bytes for {', '.join(digests)}"
            return Result(self.plugin.name, "build", case.name, bool(digests), found_in)


def model_of(plugin: type[CudaPlugin], case: Case) -> ModelProto:
    """A model of the case's one node. Bytes are constants: TensorRT takes them in no other way."""
    arrays = case.draw()
    constant = {name: array for name, array in arrays.items() if array.dtype == DATATYPES["UINT8"].numpy}
    made = plugin(**case.fields)
    types = dict(zip(case.output_names(plugin), made.infer(case.types(plugin)), strict=False))
    names = [tensor.name if tensor.name in arrays else "" for tensor in plugin.inputs]
    graph = helper.make_graph(
        [plugin_node(made, names, list(types), "checked")],
        "checked",
        [_info(name, drawn.datatype, drawn.shape) for name, drawn in case.inputs.items() if name not in constant],
        [_info(name, kind.datatype or "", kind.shape or ()) for name, kind in types.items()],
        [numpy_helper.from_array(array, name) for name, array in constant.items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(plugin.namespace, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _info(name: str, datatype: str, shape: Sequence[int]) -> Any:
    return helper.make_tensor_value_info(name, DATATYPES[datatype].onnx, shape)


def _distinct(cases: Sequence[Case], key: Callable[[Case], str]) -> list[Case]:
    """The first case of each key."""
    first: dict[str, Case] = {}
    for case in cases:
        first.setdefault(key(case), case)
    return list(first.values())


def _differences(made: CudaPlugin, first: Node, other: Node) -> list[str]:
    fields = [
        each.name for each in made.fields if not same(each, made.values[each.name], other.plugin.values[each.name])
    ]
    kept = replace(first, plugin=made) == replace(other, plugin=made)
    return fields + ([] if kept else ["the node"])


def main(module: str, name: str, cache: Path, results: Path) -> None:
    plugin: type[CudaPlugin] = getattr(importlib.import_module(module), name)
    flavour = Flavour(MODULE, importlib.import_module(MODULE))
    registration = Registration()
    (creator,) = register(flavour.trt, [Found(plugin, "checked")], registration)
    cases = [case for case in cases_of(plugin)[0] if not case.fault]
    subject = Subject(plugin, flavour, registration, creator, cases, cache)
    with results.open("a") as file:
        for result in subject.results():
            print(json.dumps(asdict(result)), file=file, flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    environment = child_environment(Path(arguments[2]) / "libraries")
    if os.environ.get("LD_LIBRARY_PATH") != environment["LD_LIBRARY_PATH"] and "PLANFORGE_CHECKED" not in os.environ:
        # The loader reads its path when a process starts.
        again = [sys.executable, "-m", "service.backends.conformance", *arguments]
        os.execve(sys.executable, again, environment | {"PLANFORGE_CHECKED": "1"})
    main(arguments[0], arguments[1], Path(arguments[2]), Path(arguments[3]))
