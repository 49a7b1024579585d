"""What the handlers work with, made once at start and handed to them by type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from service.api.lookup import ReadyEngines
from service.backends.host import Host
from service.hosting.supervisor import Hosts
from service.settings import Settings
from service.store.blobs import Blobs
from service.store.claims import Claims
from service.store.database import Database
from service.store.engines import Engines


@dataclass(frozen=True)
class Services:
    settings: Settings
    host: Host
    database: Database
    engines: Engines
    blobs: Blobs
    claims: Claims
    hosts: Hosts
    ready: ReadyEngines


def _services(request: Request) -> Services:
    return cast(Services, request.state.services)


ServicesOf = Annotated[Services, Depends(_services)]
