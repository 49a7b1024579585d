"""Where `tensorrt` and `tensorrt_rtx` differ, and where their versions do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.backends.base import Capabilities
from service.backends.gpu import Gpu


@dataclass(frozen=True)
class Flavour:
    """One TensorRT module. `ahead_of_time`: it builds for GPUs that this host lacks."""

    name: str
    trt: Any

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", self.trt.__version__)[:3])

    @property
    def ahead_of_time(self) -> bool:
        return hasattr(self.trt, "ComputeCapability")

    @property
    def imports_own_domains(self) -> bool:
        """Whether the ONNX parser takes plugin nodes of any domain; TensorRT-RTX does so from 1.7 on."""
        return not self.ahead_of_time or self.version >= (1, 7)

    def targets(self, gpu: Gpu | None) -> tuple[str, ...]:
        """What it can build for on a host with this GPU."""
        if not self.ahead_of_time:
            return (gpu.target,) if gpu else ()
        numbers = {int(name[2:]) for name in dir(self.trt.ComputeCapability) if re.fullmatch(r"SM\d+", name)}
        # 9.0 was never a capability by name, but a plan for the default ones ran there up to 1.6.1.
        numbers |= {90} if self.version <= (1, 6, 1) else set()
        return tuple(f"sm_{number}" for number in sorted(numbers))

    def capabilities(self, gpu: Gpu | None) -> Capabilities:
        targets = self.targets(gpu)
        runnable = gpu is not None and gpu.target in targets
        return Capabilities(
            backend=self.name,
            version=self.trt.__version__,
            buildable=bool(targets),
            targets=targets,
            runnable=runnable,
            host_target=gpu.target if gpu else None,
            reason=None if runnable else self._refusal(gpu, targets),
        )

    def _refusal(self, gpu: Gpu | None, targets: Sequence[str]) -> str:
        if gpu is None:
            return "no GPU on this host"
        return f"{self.name} {self.trt.__version__} does not support this host's {gpu.name} ({gpu.target})"

    def configure(self, config: Any, targets: Sequence[str]) -> None:
        """Sets what the plan is built for. Without a GPU, leaving `CURRENT` in would end the process."""
        named = {f"sm_{name[2:]}" for name in dir(self.trt.ComputeCapability)} if self.ahead_of_time else set()
        if not named.issuperset(targets):
            return  # the GPU that it builds on, or the default capabilities that include 9.0
        config.num_compute_capabilities = len(targets)
        for index, target in enumerate(targets):
            config.set_compute_capability(getattr(self.trt.ComputeCapability, f"SM{target[3:]}"), index)

    def network_flags(self) -> int:
        return 1 << int(self.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
