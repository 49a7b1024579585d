"""Which plugins there are: found in `plugins_cuda/` and in packages, described as `GET /plugins` gives them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import plugins_cuda
from service.plugins.fields import Field, jsonable
from service.plugins.plugin import CudaPlugin
from service.plugins.tensors import Operator, Tensor

GROUP = "planforge.plugins"
BUILT_IN = "built-in"
Entry = dict[str, Any]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Found:
    """A plugin and where it came from: `built-in`, or the name of the package that brought it."""

    plugin: type[CudaPlugin]
    origin: str

    @property
    def key(self) -> Key:
        """Name, version, namespace: a plugin's identity."""
        return self.plugin.name, self.plugin.version, self.plugin.namespace


def discover(problems: list[str] | None = None) -> tuple[Found, ...]:
    """Every plugin, built-in ones first. Imports plugins' modules, and no runtime.

    A package whose plugins cannot be imported, or that repeats another's name, version and namespace, is left out and
    said in `problems`; without that list it raises.
    """
    found: dict[Key, Found] = {}
    for source in (_built_in(), _installed(problems)):
        for candidate in source:
            if candidate.key in found:
                _report(problems, f"{candidate.origin}: {' '.join(candidate.key)} is there already")
            else:
                found[candidate.key] = candidate
    return tuple(found.values())


def plugins_in(module: ModuleType | type[CudaPlugin]) -> list[type[CudaPlugin]]:
    """The plugins that a module defines (not those it merely imports), or the one class itself."""
    if isinstance(module, type):
        return [module]
    return [
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, CudaPlugin) and member.__module__ == module.__name__
    ]


def _built_in() -> Iterator[Found]:
    for path in sorted(Path(plugins_cuda.__path__[0]).glob("*/plugin.py")):
        module = importlib.import_module(f"plugins_cuda.{path.parent.name}.plugin")
        yield from (Found(plugin, BUILT_IN) for plugin in plugins_in(module))


def _installed(problems: list[str] | None) -> Iterator[Found]:
    for entry in entry_points(group=GROUP):
        origin = entry.dist.name if entry.dist else entry.name
        for plugin in _loaded(entry, origin, problems):
            yield Found(plugin, origin)


def _loaded(entry: EntryPoint, origin: str, problems: list[str] | None) -> list[type[CudaPlugin]]:
    try:
        plugins = plugins_in(entry.load())
    except Exception as error:  # whatever a stranger's module does when it is imported
        if problems is None:
            raise
        _report(problems, f"{origin}: {entry.value} cannot be imported: {type(error).__name__}: {error}")
        return []
    if not plugins:
        _report(problems, f"{origin}: {entry.value} holds no plugin")
    return plugins


def _report(problems: list[str] | None, text: str) -> None:
    if problems is None:
        raise ImportError(text)
    problems.append(text)


@dataclass(frozen=True)
class Catalogue:
    """What networks may use: our plugins, and creators of TensorRT or of loaded libraries (`natives`)."""

    found: tuple[Found, ...]
    natives: tuple[Entry, ...] = ()

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All of them as `GET /plugins` lists them, sorted by namespace and name."""
        everything = [*map(describe, self.found), *self.natives]
        return tuple(sorted(everything, key=lambda entry: (entry["namespace"], entry["name"], entry["version"])))

    def find(self, name: str, version: str | None = None, namespace: str | None = None) -> list[Entry]:
        """The entries of that name, narrowed by version and namespace where given."""
        return [
            entry
            for entry in self.entries
            if entry["name"] == name and version in (None, entry["version"]) and namespace in (None, entry["namespace"])
        ]

    def plugin(self, name: str, version: str | None = None, namespace: str | None = None) -> type[CudaPlugin] | None:
        """The class of the one entry that `find` gives; None for a native creator, or where it is not just one."""
        entries = self.find(name, version, namespace)
        if len(entries) != 1:
            return None
        return self._classes.get((name, entries[0]["version"], entries[0]["namespace"]))

    def taker(self, domain: str, op_type: str) -> tuple[type[CudaPlugin], Operator] | None:
        """The plugin that takes an ONNX operator over, and how."""
        return self._takers.get((domain, op_type))

    @cached_property
    def _classes(self) -> dict[Key, type[CudaPlugin]]:
        return {found.key: found.plugin for found in self.found}

    @cached_property
    def _takers(self) -> dict[tuple[str, str], tuple[type[CudaPlugin], Operator]]:
        return {
            (operator.domain, operator.op_type): (found.plugin, operator)
            for found in reversed(self.found)  # the first found wins
            for operator in found.plugin.operators
        }


def describe(found: Found) -> Entry:
    """A plugin as `GET /plugins` gives it."""
    plugin = found.plugin
    return {
        "name": plugin.name,
        "version": plugin.version,
        "namespace": plugin.namespace,
        "summary": (plugin.__doc__ or "").strip().partition("\n")[0].rstrip("."),
        "operators": [operator.name for operator in plugin.operators],
        "fields": [describe_field(declared) for declared in plugin.fields],
        "inputs": [_describe_input(tensor, plugin.inputs) for tensor in plugin.inputs],
        "outputs": [_describe_output(tensor) for tensor in plugin.outputs],
        "targets": list(plugin.targets),
        "origin": found.origin,
    }


def describe_field(declared: Field) -> Entry:
    return {
        "name": declared.name,
        "type": declared.type,
        "length": declared.length,
        "required": declared.required,
        "default": None if declared.required else jsonable(declared.default),
        "choices": list(declared.choices) or None,
        "minimum": declared.minimum,
        "maximum": declared.maximum,
        "description": declared.description,
    }


def _describe_input(tensor: Tensor, inputs: Sequence[Tensor]) -> Entry:
    by_name = {other.name: other for other in inputs}
    datatypes = tensor.datatypes or by_name[tensor.like].datatypes
    return {
        "name": tensor.name,
        "datatypes": list(datatypes),
        "optional": tensor.optional,
        "shape": tensor.shape or (f"as {tensor.like}" if tensor.like else "any"),
        "description": tensor.description,
    }


def _describe_output(tensor: Tensor) -> Entry:
    return {
        "name": tensor.name,
        "datatype": f"as {tensor.like}" if tensor.like else tensor.datatypes[0],
        "shape": tensor.shape or f"as {tensor.like}",
        "optional": tensor.optional,
        "description": tensor.description,
    }
