"""How engines are served: load, unload, change."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request

from service.api.bodies import media_type, read_body_bytes
from service.api.documentation import answers, schema_of
from service.api.runnable import require_ready, require_runnable
from service.api.schemas import ServedEngine
from service.api.services import Services, ServicesOf
from service.api.views import body_from_engine
from service.network.bodies import read_body
from service.network.options import ServingChange
from service.store.records import Engine

router = APIRouter(tags=["serving"])
JSON = "application/json"
CHANGE_EXAMPLE = {"serving": {"instances": 4, "batching": {"max_batch": 8, "max_delay_us": 500}}}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": schema_of(ServingChange), "example": CHANGE_EXAMPLE}},
    }
}


@router.post("/engines/{reference}/load", responses=answers(404, 409, 500, 503))
async def load_engine(services: ServicesOf, reference: str) -> ServedEngine:
    """Loads an engine, so that its first request does not wait for that. Answers once it is done."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    require_ready(engine)
    require_runnable(engine, services.host)
    await services.hosts.load(engine)
    return _shown(services, engine)


@router.post("/engines/{reference}/unload", responses=answers(404))
async def unload_engine(services: ServicesOf, reference: str) -> ServedEngine:
    """Gives back the memory of an engine, once its requests are answered. The next request loads it again."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    await services.hosts.unload(engine.id)
    return _shown(services, engine)


@router.patch("/engines/{reference}", openapi_extra=_BODY, responses=answers(404, 413, 415, 422))
async def change_engine(request: Request, services: ServicesOf, reference: str) -> ServedEngine:
    """Changes how an engine is served. What is not given stays as it is."""
    media_type(request, (JSON,), JSON)
    content = await read_body_bytes(request, services.settings.max_json)
    change = read_body(ServingChange, content)
    engine = await asyncio.to_thread(services.engines.get, reference)
    engine = await asyncio.to_thread(services.engines.change_serving, engine.id, change.given)
    services.ready.forget(engine)
    services.hosts.renew(engine)
    return _shown(services, engine)


def _shown(services: Services, engine: Engine) -> ServedEngine:
    services.ready.seen(engine)
    shown = body_from_engine(engine, services.host).model_dump()
    return ServedEngine(**shown, loaded=services.hosts.loaded(engine.id), memory=services.hosts.memory(engine.id))
