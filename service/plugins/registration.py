"""What TensorRT's callbacks share and keep: the immutable node of a plan, and the registration of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from service.plugins.images import Bundle, ImageLibrary
from service.plugins.launching import Loader
from service.plugins.plugin import CudaPlugin
from service.plugins.tensors import Call, Tensor, TensorType, View


class StalePlugin(Exception):
    """The plan was made by another revision of the plugin's code."""


@dataclass
class Faults:
    """Exceptions from TensorRT's callbacks, which TensorRT itself would lose. Callbacks come in the caller's thread, so
    engines that run side by side do not see each other's."""

    caught: list[tuple[int, str, Exception]] = field(default_factory=list)

    @contextmanager
    def recorded(self, where: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.caught.append((threading.get_ident(), where, error))
            raise

    def message(self) -> str | None:
        """The first of all, as a sentence."""
        return f"{self.caught[0][1]}: {self.caught[0][2]}" if self.caught else None

    def take(self) -> tuple[str, Exception] | None:
        """The first of this thread, as a sentence and itself; all of this thread are forgotten."""
        mine = [each for each in self.caught if each[0] == threading.get_ident()]
        for each in mine:
            self.caught.remove(each)
        return (f"{mine[0][1]}: {mine[0][2]}", mine[0][2]) if mine else None

    def clear(self) -> None:
        self.caught.clear()


@dataclass
class Registration:
    """What the creators of one process share. `bundles` holds, for a build, each plugin's images; with `carry_all`
    every node carries its images, not only the first of its plugin."""

    library: ImageLibrary = field(default_factory=ImageLibrary)
    loader: Loader = field(default_factory=Loader)
    faults: Faults = field(default_factory=Faults)
    bundles: dict[type[CudaPlugin], Bundle] = field(default_factory=dict)
    carry_all: bool = False
    carried: set[type[CudaPlugin]] = field(default_factory=set)

    def start_build(self, bundles: Mapping[type[CudaPlugin], Bundle], carry_all: bool) -> None:
        self.bundles, self.carry_all = dict(bundles), carry_all
        self.carried.clear()
        self.faults.clear()


@dataclass(frozen=True)
class Alias:
    """Another name under which an importer of TensorRT's looks a plugin up, with integer fields of the importer's own.

    `read` makes of them the plugin's fields and the places of the inputs that the importer passes.
    """

    plugin: type[CudaPlugin]
    name: str
    namespace: str
    fields: tuple[str, ...]
    read: Callable[[Mapping[str, int]], tuple[dict[str, Any], tuple[int, ...]]]
    outputs: int = 1


@dataclass(frozen=True)
class Node:
    """Everything a plan keeps of one plugin node. TensorRT passes only the inputs that are present, in order."""

    plugin: CudaPlugin
    present: tuple[int, ...]
    """Their places among the declared inputs."""
    outputs: int
    digest: str = ""
    images: bytes = b""
    """The bundle of kernel images; empty where another node of the plugin carries it."""
    alias: Alias | None = None

    @property
    def registered_as(self) -> tuple[str, str, str]:
        """Name, version and namespace of the creator that TensorRT will ask for when it loads the plan."""
        found = self.alias or self.plugin
        return found.name, self.plugin.version, found.namespace

    def input(self, index: int) -> Tensor:
        """The declaration of TensorRT's input number `index`."""
        return self.plugin.inputs[self.present[index]]

    def spread(self, types: Sequence[TensorType]) -> list[TensorType | None]:
        """TensorRT's inputs in declared order, None for absent ones."""
        spread: list[TensorType | None] = [None] * len(self.plugin.inputs)
        for index, found in zip(self.present, types, strict=True):
            spread[index] = found
        return spread

    def named(self, types: Sequence[TensorType]) -> dict[str, TensorType]:
        return {self.input(index).name: found for index, found in enumerate(types)}

    def call(self, inputs: Sequence[View], outputs: Sequence[View], workspace: int) -> Call:
        tensors = {self.input(index).name: view for index, view in enumerate(inputs)}
        tensors |= {tensor.name: view for tensor, view in zip(self.plugin.outputs, outputs, strict=False)}
        return Call(tensors, workspace)
