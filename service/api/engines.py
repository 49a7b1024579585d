"""Engines: build, find, follow, cancel, delete."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from service.api.bodies import media_type, read_body_bytes
from service.api.documentation import answers, schema_of
from service.api.schemas import EngineBody, EngineList, Status
from service.api.services import Services, ServicesOf
from service.api.uploads import Upload, receive_upload
from service.api.views import body_from_engine, new_engine
from service.network.bodies import read_body
from service.network.checking import check
from service.network.description import NETWORK_EXAMPLE, EngineRequest
from service.network.graph import Graph
from service.network.importing import import_model
from service.network.lowering import lower
from service.network.options import OPTIONS_EXAMPLE, EngineOptions
from service.scratch import scratch_folder
from service.store.records import Engine

router = APIRouter(tags=["engines"])
JSON, FORM = "application/json", "multipart/form-data"
EXAMPLE = {**OPTIONS_EXAMPLE, "network": NETWORK_EXAMPLE}
FORM_EXAMPLE = {
    "options": {"name": "uploaded", "profiles": OPTIONS_EXAMPLE["profiles"], "backend": "auto"},
    "model": "(the bytes of model.onnx)",
}
_FORM = {
    "type": "object",
    "required": ["options", "model"],
    "additionalProperties": False,
    "properties": {
        "options": schema_of(EngineOptions),
        "model": {"type": "string", "format": "binary", "description": "an ONNX file"},
        "data": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "description": "external data; the file name is the location that the model gives it",
        },
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": schema_of(EngineRequest), "example": EXAMPLE},
            FORM: {"schema": _FORM, "encoding": {"options": {"contentType": JSON}}, "example": FORM_EXAMPLE},
        },
    }
}


class Listing(BaseModel):
    """What `GET /engines` may be asked for."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    status: Status | None = None
    limit: int = Field(100, ge=1, le=100)
    cursor: str | None = Field(None, description="`next` of the page before")


@router.post("/engines", status_code=202, openapi_extra=_BODY, responses=answers(413, 415, 422))
async def create_engine(request: Request, response: Response, services: ServicesOf) -> EngineBody:
    """Checks a network and queues its build."""
    if media_type(request, (JSON, FORM), JSON) == JSON:
        content = await read_body_bytes(request, services.settings.max_json)
        engine = await asyncio.to_thread(_create_from_json, services, content)
    else:
        with scratch_folder(services.settings.scratch, "upload") as folder:
            upload = await receive_upload(request, services.settings, folder)
            engine = await asyncio.to_thread(_create_from_upload, services, upload)
    response.headers["Location"] = f"/engines/{engine.id}"
    return _shown(services, engine)


def _create_from_json(services: Services, content: bytes) -> Engine:
    asked = read_body(EngineRequest, content)
    return _create(services, asked, lower(asked.network, services.host.catalogue, services.settings.max_nodes))


def _create_from_upload(services: Services, upload: Upload) -> Engine:
    catalogue, most = services.host.catalogue, services.settings.max_nodes
    return _create(services, upload.options, import_model(upload.model, upload.data, catalogue, most))


def _create(services: Services, options: EngineOptions, graph: Graph) -> Engine:
    return services.engines.create(new_engine(options, check(graph, options, services.host, services.settings)))


@router.get("/engines", responses=answers(422))
async def list_engines(services: ServicesOf, listing: Annotated[Listing, Query()]) -> EngineList:
    """Newest first."""
    page = await asyncio.to_thread(services.engines.list, listing.name, listing.status, listing.limit, listing.cursor)
    return EngineList(engines=[_shown(services, engine) for engine in page.engines], next=page.next)


@router.get("/engines/{reference}", responses=answers(404))
async def get_engine(services: ServicesOf, reference: str) -> EngineBody:
    """One engine, by id, `NAME` (its newest ready version) or `NAME:3`."""
    return _shown(services, await asyncio.to_thread(services.engines.get, reference))


@router.post("/engines/{reference}/cancel", status_code=202, responses=answers(404, 409))
async def cancel_engine(services: ServicesOf, reference: str) -> EngineBody:
    """Ends a queued or building engine as `cancelled`; its log stays."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    return _shown(services, await asyncio.to_thread(services.engines.request_cancel, engine.id))


@router.delete("/engines/{reference}", status_code=204, response_class=Response, responses=answers(404))
async def delete_engine(services: ServicesOf, reference: str) -> Response:
    """Removes an engine and all that is kept of it; cancels its build first."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    await asyncio.to_thread(services.engines.delete, engine.id)
    services.ready.forget(engine)
    return Response(status_code=204, background=BackgroundTask(services.hosts.unload, engine.id))


@router.get("/engines/{reference}/log", response_class=PlainTextResponse, responses=answers(404))
async def get_log(services: ServicesOf, reference: str) -> Response:
    """What the build has written so far."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    return PlainTextResponse(await asyncio.to_thread(services.engines.log, engine.id))


def _shown(services: Services, engine: Engine) -> EngineBody:
    services.ready.seen(engine)
    return body_from_engine(engine, services.host)
