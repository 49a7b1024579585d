"""The plugins that networks may use."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from service.api.documentation import answers
from service.api.schemas import Plugin, PluginList
from service.api.services import ServicesOf
from service.errors import NotFound
from service.plugins.catalogue import BUILT_IN

router = APIRouter(tags=["plugins"])


@router.get("/plugins", response_model=PluginList, responses=answers())
async def list_plugins(services: ServicesOf) -> dict[str, Any]:
    """Every creator, sorted by namespace and name."""
    return {"plugins": services.host.catalogue.entries}


@router.get("/plugins/{name}", response_model=Plugin, responses=answers(404))
async def get_plugin(
    services: ServicesOf, name: str, version: str | None = None, namespace: str | None = None
) -> dict[str, Any]:
    """One creator: where several have the name, ours before others and the newest version."""
    found = services.host.catalogue.find(name, version, namespace)
    if found:
        return max(found, key=_preference)
    asked = {"version": version, "namespace": namespace}
    narrowed = [f"{what} {given!r}" for what, given in asked.items() if given is not None]
    names = sorted({entry["name"] for entry in services.host.catalogue.entries})
    raise NotFound(f"no plugin {' '.join([repr(name), *narrowed])}; there are {', '.join(names)}")


def _preference(entry: dict[str, Any]) -> tuple[bool, int, str, str]:
    version = entry["version"]
    return entry["origin"] == BUILT_IN, int(version) if version.isdecimal() else 0, version, entry["namespace"]
