"""Whether this host can execute an engine, and if not, why."""

from __future__ import annotations

from service.backends.host import Host
from service.errors import Conflict
from service.plugins.catalogue import Catalogue
from service.store.records import Engine


def obstacle(engine: Engine, host: Host) -> str | None:
    """Why this host cannot execute the engine's plan; None where it can."""
    capabilities = host.capabilities.get(engine.backend)
    if capabilities is None:
        return f"{engine.backend} is not installed on this host"
    if not capabilities.runnable:
        return capabilities.reason or f"{engine.backend} cannot run on this host"
    if engine.targets and capabilities.host_target not in engine.targets:
        return f"it is built for {', '.join(engine.targets)}, the GPU of this host is {capabilities.host_target}"
    built_with = engine.backend_version
    if engine.targets and built_with not in (None, capabilities.version):
        return f"it is built with {engine.backend} {built_with}, this host has {capabilities.version}"
    return None


def without_reference(engine: Engine, catalogue: Catalogue) -> list[str]:
    """The plugins of an engine that are no plugins of ours: nothing but TensorRT can run them."""
    return [
        plugin["name"]
        for plugin in engine.plugins
        if catalogue.plugin(plugin["name"], plugin["version"], plugin["namespace"]) is None
    ]


def require_ready(engine: Engine) -> None:
    """Raises Conflict for an engine that is not built, or failed."""
    if engine.status == "ready":
        return
    why = f": {engine.error['detail']}" if engine.error else ""
    raise Conflict(f"engine {engine.name}:{engine.version} is {engine.status}, not ready{why}")


def require_runnable(engine: Engine, host: Host) -> None:
    """Raises Conflict, with the way out where there is one, for an engine that this host cannot execute."""
    reason = obstacle(engine, host)
    if reason is None:
        return
    lacking = without_reference(engine, host.catalogue)
    hint = "" if lacking else '; with "parameters": {"reference": true} its network runs here, on the CPU'
    raise Conflict(f"engine {engine.name}:{engine.version} cannot run on this host: {reason}{hint}")


def require_reference(engine: Engine, host: Host) -> None:
    """Raises Conflict for an engine with a plugin that nothing but TensorRT can run."""
    lacking = without_reference(engine, host.catalogue)
    if lacking:
        raise Conflict(f"there is no reference of {', '.join(lacking)}: nothing but {engine.backend} runs it")
