"""TensorRT's progress monitor to one fraction that never falls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from service.backends.base import Progress


@dataclass
class Phase:
    name: str
    steps: int
    share: float
    """Of the whole build."""
    done: int = 0


@dataclass
class Tracker:
    """Phases nest: an inner one is worth one step of the one around it."""

    report: Progress
    phases: list[Phase] = field(default_factory=list)
    fraction: float = 0.0

    def start(self, name: str, parent: str | None, steps: int) -> None:
        around = self._find(parent)
        share = around.share / max(around.steps, 1) if around else 1.0
        self.phases.append(Phase(name, max(steps, 1), share))
        self._advance(name)

    def step(self, name: str, step: int) -> None:
        phase = self._find(name)
        if phase:
            phase.done = min(step + 1, phase.steps)
            self._advance(name)

    def finish(self, name: str) -> None:
        self.phases = [phase for phase in self.phases if phase.name != name]

    def _advance(self, name: str) -> None:
        """Reports `name` with what is done; what a finished phase was worth, the step around it counts."""
        self.fraction = max(self.fraction, sum(phase.share * phase.done / phase.steps for phase in self.phases))
        self.report(name, self.fraction)

    def _find(self, name: str | None) -> Phase | None:
        return next((phase for phase in reversed(self.phases) if phase.name == name), None)


def monitor(trt: Any, report: Progress) -> Any:
    """An `IProgressMonitor` that reports to `report`."""
    tracker = Tracker(report)

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            tracker.start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            tracker.step(phase_name, step)
            return True

        def phase_finish(self, phase_name: str) -> None:
            tracker.finish(phase_name)

    return Monitor()
