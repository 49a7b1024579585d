"""How much the hosts may take, and how long."""

from __future__ import annotations

from dataclasses import dataclass

from service.settings import MIB, Settings


@dataclass(frozen=True)
class Limits:
    """Sizes are bytes, times are seconds."""

    arena: int = 256 * MIB
    """Memory that the HTTP process shares with each host; only what is used of it is taken."""
    memory: int | None = None
    """What the engines of a device may take together; None: `share` of what is free when its host starts."""
    share: float = 0.8
    start_patience: float = 60
    """How long a host may take to start."""
    heartbeat: float = 2
    """How often a host is asked whether it still answers."""
    heartbeat_patience: float = 10
    """How long it may take to answer; a host that loads an engine may take longer."""
    run_patience: float = 5
    """How long a run may go on after its deadline and the service's `request_timeout`, before its host is ended."""
    back_off: float = 0.25
    """How long a host stays down that died twice in a row; each further time doubles it."""
    longest_back_off: float = 30
    crashes: int = 3
    """After so many crashes in a row an engine is not started any more."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        return cls(
            arena=settings.shared_memory,
            memory=settings.engine_memory,
            share=settings.engine_memory_share,
            heartbeat=settings.heartbeat,
            heartbeat_patience=settings.heartbeat_patience,
            crashes=settings.engine_crashes,
        )
