"""The bytes of an engine: its plan, and the model that it was built from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.api.documentation import answers
from service.api.ranges import blob_response
from service.api.services import Services, ServicesOf
from service.errors import Conflict, PlanDamaged, problem_details
from service.store.records import Blob, Engine

router = APIRouter(tags=["engines"])
_BYTES: dict[str, Any] = {
    "description": "the bytes, or with `Range` (206) a part of them; `ETag` and `Repr-Digest` are from their SHA-256",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
_ANSWERS = {200: _BYTES, 206: _BYTES, **answers(404, 409, 416, 500)}


@router.get("/engines/{reference}/plan", response_class=Response, responses=_ANSWERS)
async def get_plan(request: Request, services: ServicesOf, reference: str) -> Response:
    """The plan as the backend wrote it."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    if engine.plan is None:
        raise Conflict(f"engine {engine.name}:{engine.version} is {engine.status}; only a ready one has a plan")
    return await _response(request, services, engine, engine.plan, "plan")


@router.get("/engines/{reference}/model", response_class=Response, responses=_ANSWERS)
async def get_model(request: Request, services: ServicesOf, reference: str) -> Response:
    """The ONNX model that was built: plugin nodes in their namespace, their reference functions in it."""
    engine = await asyncio.to_thread(services.engines.get, reference)
    return await _response(request, services, engine, engine.model, "onnx")


async def _response(request: Request, services: Services, engine: Engine, blob: Blob, suffix: str) -> Response:
    def chunks(start: int, stop: int) -> Iterator[bytes]:
        try:
            yield from services.blobs.chunks(blob.sha256, start, stop)
        except PlanDamaged as error:
            services.engines.fail(engine.id, problem_details(error))
            raise

    return await blob_response(request, blob, chunks, f"{engine.name}-{engine.version}.{suffix}")
