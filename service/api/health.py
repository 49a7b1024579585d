"""Whether the process answers, and whether the service can do its work."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from service.api.documentation import answers
from service.api.schemas import Health
from service.api.services import Services, ServicesOf
from service.errors import Unavailable

router = APIRouter(tags=["service"])
BEATS_MISSED = 3
"""A worker that has missed so many is not counted on."""


@router.get("/healthz", responses=answers())
async def healthz() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz", responses=answers(503))
async def readyz(services: ServicesOf) -> Health:
    """The database is reachable and a worker is alive."""
    reasons = await asyncio.to_thread(_reasons, services)
    if reasons:
        raise Unavailable("; ".join(reasons))
    return Health()


def _reasons(services: Services) -> list[str]:
    if not services.database.reachable():
        return ["the database cannot be reached"]
    within = BEATS_MISSED * services.settings.lease
    if not services.claims.worker_alive(within):
        return [f"no worker was heard from for {within:g} s"]
    return []
