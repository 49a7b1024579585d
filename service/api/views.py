"""Between the store's records and what the API takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from service.api.runnable import obstacle
from service.api.schemas import EngineBody, Progress, Seconds, StoredPlan
from service.backends.host import Host
from service.network.checking import Checked
from service.network.options import EngineOptions
from service.store.records import Engine, NewEngine


def body_from_engine(engine: Engine, host: Host) -> EngineBody:
    """An engine as `GET /engines/{id}` gives it."""
    reason = obstacle(engine, host)
    building = engine.status == "building"
    return EngineBody(
        runnable=reason is None,
        reason=reason,
        progress=Progress(phase=engine.phase, fraction=engine.fraction) if building else None,
        plan=StoredPlan(**asdict(engine.plan)) if engine.plan else None,
        profiles=[{name: _limits(each) for name, each in profile.items()} for profile in engine.profiles],
        seconds=Seconds(queued=engine.seconds_queued, building=engine.seconds_building),
        **{name: getattr(engine, name) for name in _AS_IT_IS},
    )


_AS_IT_IS = (
    "id", "name", "version", "status", "backend", "backend_version", "targets", "error", "inputs", "outputs", "plugins",
    "cached", "serving", "verify", "no_cache", "priority", "created_at", "updated_at",
)  # fmt: skip


def new_engine(options: EngineOptions, checked: Checked) -> NewEngine:
    """What is to be stored of a checked request. Serializes the model, which takes its time."""
    return NewEngine(
        name=options.name,
        backend=checked.backend,
        model=checked.model.SerializeToString(),
        targets=checked.targets,
        profiles=[{name: asdict(each) for name, each in profile.items()} for profile in checked.profiles],
        serving=options.serving.model_dump(),
        verify=options.verify,
        no_cache=options.no_cache,
        priority=options.priority,
        data=checked.data,
        inputs=[asdict(tensor) for tensor in checked.inputs],
        outputs=[asdict(tensor) for tensor in checked.outputs],
        plugins=[asdict(plugin) for plugin in checked.plugins],
    )


def _limits(stored: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {name: stored[name] for name in ("min", "opt", "max")}
    return {"values": bounds} if stored["values"] else bounds
