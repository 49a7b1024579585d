"""What the store takes and gives: plain values, none of them tied to a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.store.models import BlobRow, EngineRow

Json = dict[str, Any]


@dataclass(frozen=True)
class Blob:
    """Stored bytes; `size` in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True)
class NewEngine:
    """A checked request. `inputs`, `outputs` and `plugins` are as `GET /engines/{id}` gives them."""

    name: str
    backend: str
    model: Path | bytes
    targets: Sequence[str] = ()
    profiles: Sequence[Json] = ()
    serving: Json = field(default_factory=dict)
    verify: bool = False
    no_cache: bool = False
    priority: int = 0
    data: Mapping[str, Path] = field(default_factory=dict)
    """External data by the location that the model gives it."""
    inputs: Sequence[Json] = ()
    outputs: Sequence[Json] = ()
    plugins: Sequence[Json] = ()


@dataclass(frozen=True)
class Engine:
    """An engine as it stood when it was read. Times are in UTC, durations in seconds."""

    id: str
    name: str
    version: int
    status: str
    """queued, building, ready, failed or cancelled."""
    backend: str
    backend_version: str | None
    targets: tuple[str, ...]
    profiles: tuple[Json, ...]
    inputs: tuple[Json, ...]
    outputs: tuple[Json, ...]
    plugins: tuple[Json, ...]
    serving: Json
    verify: bool
    no_cache: bool
    cached: bool
    priority: int
    phase: str
    fraction: float
    """How far the build is, 0 to 1; never falls within one attempt."""
    attempts: int
    cancel_requested: bool
    error: Json | None
    """Problem details of a failed build."""
    model: Blob
    plan: Blob | None
    seconds_queued: float
    seconds_building: float
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Page:
    """Engines, newest first; `next` is the cursor of the page after, None on the last one."""

    engines: tuple[Engine, ...]
    next: str | None


def engine_from_row(row: EngineRow) -> Engine:
    build = row.build
    now = datetime.now(UTC)
    started, ended = build.started_at, build.ended_at
    return Engine(
        id=row.id,
        name=row.name,
        version=row.version,
        status=row.status,
        backend=row.backend,
        backend_version=row.backend_version,
        targets=tuple(row.targets),
        profiles=tuple(row.profiles),
        inputs=tuple(row.inputs),
        outputs=tuple(row.outputs),
        plugins=tuple(row.plugins),
        serving=row.serving,
        verify=row.verify,
        no_cache=row.no_cache,
        cached=row.cached,
        priority=row.priority,
        phase=build.phase,
        fraction=build.fraction,
        attempts=build.attempts,
        cancel_requested=build.cancel_requested,
        error=row.error,
        model=_blob(row.model),
        plan=_blob(row.plan) if row.plan else None,
        seconds_queued=_seconds(row.created_at, started or ended or now),
        seconds_building=_seconds(started, ended or now) if started else 0.0,
        created_at=row.created_at,
        updated_at=max(row.updated_at, build.advanced_at or row.updated_at),
    )


def _blob(row: BlobRow) -> Blob:
    return Blob(row.sha256, row.size)


def _seconds(start: datetime, end: datetime) -> float:
    """Never negative: the clocks of two machines may differ."""
    return max(0.0, (end - start).total_seconds())
