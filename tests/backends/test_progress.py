"""The progress monitor's phases as one fraction."""

from __future__ import annotations

from service.backends.progress import Tracker


def test_nested_phases_never_fall_and_fill_their_step() -> None:
    seen: list[tuple[str, float]] = []
    tracker = Tracker(lambda phase, fraction: seen.append((phase, fraction)))
    tracker.start("build", None, 2)
    tracker.start("graph", "build", 4)
    for step in range(4):
        tracker.step("graph", step)
    tracker.finish("graph")
    tracker.step("build", 0)
    tracker.start("tactics", "build", 1)
    tracker.step("tactics", 0)
    tracker.finish("tactics")
    tracker.step("build", 1)
    tracker.finish("build")
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert fractions == [0, 0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 1.0, 1.0]


def test_more_steps_than_announced_do_not_overflow() -> None:
    seen: list[float] = []
    tracker = Tracker(lambda _, fraction: seen.append(fraction))
    tracker.start("build", None, 1)
    for step in range(5):
        tracker.step("build", step)
    assert max(seen) == 1.0


def test_an_unknown_phase_changes_nothing() -> None:
    tracker = Tracker(lambda *_: None)
    tracker.step("never started", 3)
    tracker.finish("never started")
    assert tracker.fraction == 0
