"""The HTTP process: what it is made of, and how that is started and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from service.api import engines, files, health, inference, plugins, serving
from service.api.documentation import document
from service.api.loading import Materialiser
from service.api.lookup import ReadyEngines
from service.api.paths import TrailingSlashes
from service.api.problems import install_problem_handlers
from service.api.services import Services
from service.api.warming import Warming
from service.backends.host import Host
from service.backends.probe import probe
from service.errors import InvalidRequest
from service.hosting.supervisor import Hosts
from service.network.checking import check
from service.network.description import EngineRequest
from service.network.lowering import lower
from service.network.options import EngineOptions, ServingChange
from service.scratch import sweep
from service.settings import Settings
from service.store.blobs import Blobs
from service.store.claims import Claims
from service.store.database import Database
from service.store.engines import Engines

log = logging.getLogger("planforge")
DESCRIPTION = "Builds TensorRT engines that contain custom CUDA plugins, keeps them in a database, and serves them."


def create_app(settings: Settings) -> FastAPI:
    """The application; nothing is opened or probed before it starts."""
    app = FastAPI(
        title="planforge",
        version=version("planforge"),
        description=DESCRIPTION,
        lifespan=partial(_lifespan, settings),
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        redoc_url=None,
    )
    for part in (plugins, engines, files, serving, inference, health):
        app.router.routes.extend(part.router.routes)
    document(app, (EngineRequest, EngineOptions, ServingChange))
    for route in app.routes:
        if isinstance(route, Route) and route.methods and "GET" in route.methods:
            route.methods.add("HEAD")
    install_problem_handlers(app)
    app.add_middleware(TrailingSlashes)
    return app


@asynccontextmanager
async def _lifespan(settings: Settings, app: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
    database = Database(settings.resolved_database_url)
    try:
        await asyncio.to_thread(_prepare, settings, database)
        host = await asyncio.to_thread(probe, settings)
        for problem in host.problems:
            log.info("%s", problem)
        await asyncio.to_thread(_warm_up, host, settings)
        engines, blobs = Engines(database), Blobs(database)
        loader = Materialiser(engines, blobs)
        hosts = Hosts(settings, loader, loader.give_up)
        warming = asyncio.create_task(Warming(engines, hosts, host).run())
        try:
            ready = ReadyEngines(engines)
            yield {"services": Services(settings, host, database, engines, blobs, Claims(database), hosts, ready)}
        finally:
            warming.cancel()
            await hosts.close()
    finally:
        database.close()


def _warm_up(host: Host, settings: Settings) -> None:
    """Checks a network, so that the first one of a user does not wait for all that is loaded on demand."""
    example = EngineRequest.model_validate(engines.EXAMPLE)
    with suppress(InvalidRequest):  # a host that cannot build for the example's targets
        check(lower(example.network, host.catalogue), example, host, settings)


def _prepare(settings: Settings, database: Database) -> None:
    sweep(settings.scratch)
    database.migrate()
