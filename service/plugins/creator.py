"""TensorRT's side of a plugin: the creators that its registry knows.

TensorRT keeps pointers where Python would copy, swallows exceptions or dies of them, and clones at will. All of that is
met here and in `shell`, once: a node is an immutable `Node`, whatever TensorRT holds is a thin shell around it, field
data lives as long as its shell, and the first exception of any callback is kept for whoever called TensorRT.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.plugins.catalogue import Found
from service.plugins.field_collections import (
    DIGEST,
    IMAGES,
    INPUTS,
    OUTPUTS,
    REVISION,
    declaration,
    read_fields,
    read_integers,
)
from service.plugins.fields import Field
from service.plugins.images import Bundle, ImageFault
from service.plugins.plugin import CudaPlugin
from service.plugins.registration import Alias, Node, Registration, StalePlugin
from service.plugins.shell import shell_class


def register(trt: Any, found: Iterable[Found], registration: Registration, aliases: Iterable[Alias] = ()) -> list[Any]:
    """Registers a creator for every plugin with the runtime `trt`. Keep the result for as long as they are needed."""
    creator = creator_class(trt, registration)
    creators = [*(creator(each.plugin) for each in found), *(creator(alias.plugin, alias) for alias in aliases)]
    registry = trt.get_plugin_registry()
    for each in creators:
        if not registry.register_creator(each, each.plugin_namespace):
            raise RuntimeError(f"{trt.__name__} refused the creator {each.plugin_namespace}.{each.name}")
    return creators


def creator_class(trt: Any, registration: Registration) -> Any:
    """The creator's class for one runtime: it makes shells for a build, and again when a plan is loaded."""
    shell = shell_class(trt, registration)

    class Creator(trt.IPluginCreatorV3One):  # type: ignore[misc]
        def __init__(self, plugin: type[CudaPlugin], alias: Alias | None = None) -> None:
            super().__init__()
            self.plugin, self.alias = plugin, alias
            self.name, self.plugin_namespace = (alias or plugin).name, (alias or plugin).namespace
            self.plugin_version = plugin.version
            imported = [Field(0, name=name, kind="int") for name in alias.fields] if alias else []
            self.declaration = declaration(trt, [*plugin.fields, *imported])
            self.field_names = self.declaration.tensorrt

        def create_plugin(self, name: str, collection: Any, phase: Any) -> Any:
            with registration.faults.recorded(f"{name or 'a node'} ({self.plugin.name})"):
                return shell(self._node(collection, phase == trt.TensorRTPhase.BUILD))

        def _node(self, collection: Any, building: bool) -> Node:
            values, own = read_fields(self.plugin, collection)
            if not building:
                return node_from_plan(self.plugin, values, own, registration, self.alias)
            if self.alias:
                values, present = self.alias.read(read_integers(collection))
                own = {INPUTS: present, OUTPUTS: self.alias.outputs}
            return node_for_build(self.plugin, values, own, registration, self.alias)

    return Creator


def node_for_build(
    plugin: type[CudaPlugin],
    values: dict[str, Any],
    own: dict[str, Any],
    registration: Registration,
    alias: Alias | None = None,
) -> Node:
    """A node as the parser found it. The first of each plugin carries the images."""
    bundle = registration.bundles.get(plugin)
    if bundle is None:
        raise ImageFault(f"{plugin.name} has no compiled kernels")
    carries = registration.carry_all or plugin not in registration.carried
    registration.carried.add(plugin)
    return Node(
        plugin(**values),
        present=tuple(own.get(INPUTS, range(len(plugin.inputs)))),
        outputs=own.get(OUTPUTS, len(plugin.outputs)),
        digest=registration.library.add(bundle),
        images=bundle.to_bytes() if carries else b"",
        alias=alias,
    )


def node_from_plan(
    plugin: type[CudaPlugin],
    values: dict[str, Any],
    own: dict[str, Any],
    registration: Registration,
    alias: Alias | None = None,
) -> Node:
    """A node as a plan kept it. Raises StalePlugin where other code made it, ImageFault where images are damaged."""
    if own.get(REVISION) != plugin.revision():
        raise StalePlugin(f"the plan was made by another revision of {plugin.name}'s code: rebuild the engine")
    images = own.get(IMAGES, b"")
    if images:
        registration.library.add(Bundle.from_bytes(images))
    return Node(plugin(**values), tuple(own[INPUTS]), own[OUTPUTS], own[DIGEST], images, alias)
