"""Which backend builds a network, and for which GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.backends.base import Capabilities
from service.network.bodies import Faults
from service.network.graph import Placement
from service.network.options import BACKEND_NAMES

TENSORRT_NAMES = ("tensorrt", "tensorrt_rtx")


@dataclass(frozen=True)
class Choice:
    """`targets` is empty for a backend that runs on the CPU."""

    backend: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Chooser:
    """`capabilities` by backend; `placements` are the network's plugins."""

    capabilities: Mapping[str, Capabilities]
    placements: Sequence[Placement]
    faults: Faults

    def choose(self, backend: str, targets: Sequence[str] | None) -> Choice | None:
        """None where nothing can be chosen, with the reason among the faults."""
        if targets and not self._distinct(targets):
            return None
        if backend == "auto":
            return self._auto(targets)
        found = self._named(backend)
        if found is None:
            return None
        if not found.targets and backend not in TENSORRT_NAMES:
            return self._on_cpu(backend, targets)
        return self._for_targets(found, targets) if targets else self._without_targets(found)

    def _auto(self, targets: Sequence[str] | None) -> Choice | None:
        if targets:
            return self._auto_for(targets)
        for name in BACKEND_NAMES:
            found = self.capabilities.get(name)
            if found and found.buildable and found.runnable:
                if name not in TENSORRT_NAMES:
                    return self._on_cpu(name, None)
                return self._for_host(found)
        reasons = "; ".join(f"{name}: {self._why_not(name)}" for name in BACKEND_NAMES)
        self.faults.report("/backend", f"no backend can execute here, so name one and its targets ({reasons})")
        return None

    def _auto_for(self, targets: Sequence[str]) -> Choice | None:
        """The first TensorRT backend that can build for all targets."""
        candidates = [found for name in TENSORRT_NAMES if (found := self.capabilities.get(name)) and found.buildable]
        for found in candidates:
            if set(targets) <= set(self._buildable(found)):
                return Choice(found.backend, tuple(targets))
        if not candidates:
            reasons = "; ".join(f"{name}: {self._why_not(name)}" for name in TENSORRT_NAMES)
            self.faults.report("/backend", f"no backend can build for GPUs here ({reasons})")
            return None
        # The fault that is nearest to being none: the backend that can build for most of them.
        best = max(candidates, key=lambda found: len(set(targets) & set(self._buildable(found))))
        return self._for_targets(best, targets)

    def _named(self, backend: str) -> Capabilities | None:
        found = self.capabilities.get(backend)
        if found is not None and found.buildable:
            return found
        possible = [name for name in BACKEND_NAMES if (c := self.capabilities.get(name)) and c.buildable]
        detail = (
            f"{backend} cannot build here: {self._why_not(backend)}; those that can: {', '.join(possible) or 'none'}"
        )
        self.faults.report("/backend", detail)
        return None

    def _on_cpu(self, backend: str, targets: Sequence[str] | None) -> Choice | None:
        if targets:
            self.faults.report("/targets", f"{backend} builds for the CPU and takes no targets")
            return None
        return Choice(backend, ())

    def _without_targets(self, found: Capabilities) -> Choice | None:
        """For this host's GPU where the backend supports it, else for everything that the plugins have kernels for."""
        if found.host_target is not None and found.host_target in found.targets:
            return self._for_host(found)
        everything = self._buildable(found)
        if not everything:
            self.faults.report(
                "/backend", f"{found.backend} has no target that all plugins of the network have kernels for"
            )
            return None
        return Choice(found.backend, everything)

    def _for_host(self, found: Capabilities) -> Choice | None:
        target = found.host_target
        if target is None:
            self.faults.report("/backend", f"{found.backend} does not say which GPU this host has")
            return None
        lacking = self._without_kernels(target)
        if lacking:
            self.faults.report("/backend", f"this host's GPU is {target}, for which {lacking} has no kernels")
            return None
        return Choice(found.backend, (target,))

    def _for_targets(self, found: Capabilities, targets: Sequence[str]) -> Choice | None:
        possible = self._buildable(found)
        offered = f"{found.backend} can build this network for {', '.join(possible) or 'none'}"
        wrong = [(index, target) for index, target in enumerate(targets) if target not in possible]
        for index, target in wrong:
            lacking = self._without_kernels(target)
            why = (
                f"{lacking} has no kernels for {target}" if target in found.targets else f"no builds for {target} here"
            )
            self.faults.report(f"/targets/{index}", f"{why}; {offered}")
        return None if wrong else Choice(found.backend, tuple(targets))

    def _buildable(self, found: Capabilities) -> tuple[str, ...]:
        return tuple(target for target in found.targets if not self._without_kernels(target))

    def _without_kernels(self, target: str) -> str:
        """The plugins that have no kernels for the target."""
        return ", ".join(sorted({each.title for each in self.placements if target not in each.targets}))

    def _why_not(self, name: str) -> str:
        found = self.capabilities.get(name)
        return "not installed" if found is None else found.reason or "not possible on this host"

    def _distinct(self, targets: Sequence[str]) -> bool:
        repeated = [index for index, target in enumerate(targets) if target in targets[:index]]
        for index in repeated:
            self.faults.report(f"/targets/{index}", f"{targets[index]} is named twice")
        return not repeated
