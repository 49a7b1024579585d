"""Inference: Open Inference Protocol messages, as JSON or with binary tensors, to an engine and back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.api.bodies import media_type, read_body_bytes
from service.api.documentation import answers
from service.api.inference_messages import BINARY, BODY, HEADER_PARAMETER, JSON, RESPONSE
from service.api.lookup import Known
from service.api.runnable import require_ready, require_reference, require_runnable
from service.api.services import Services, ServicesOf
from service.protocol.messages import HEADER, InferRequest, header_length, parse_request
from service.protocol.responses import encode_response

router = APIRouter(tags=["inference"])
LARGE = 65536
"""Bytes from which on a message is read and written in a thread."""
T = TypeVar("T")


@router.post(
    "/engines/{reference}/infer",
    openapi_extra={**BODY, **HEADER_PARAMETER},
    response_class=Response,
    responses={200: RESPONSE, **answers(404, 409, 413, 415, 422, 500, 503, 504)},
)
async def infer(request: Request, services: ServicesOf, reference: str) -> Response:
    """Runs an engine. Never waits for a build."""
    length = header_length(request.headers.get(HEADER))
    kind = media_type(request, (JSON, BINARY), JSON if length is None else BINARY)
    limit = services.settings.max_json if length is None and kind == JSON else services.settings.max_infer
    body = await read_body_bytes(request, limit)
    known = await services.ready.get(reference)
    require_ready(known.engine)
    length = 0 if length is None and kind == BINARY else length
    asked = await _maybe_in_thread(len(body), parse_request, body, length, known.inputs, known.outputs, known.profiles)
    (require_reference if asked.reference else require_runnable)(known.engine, services.host)
    return await _unless_gone(request, _answer(services, known, asked))


async def _answer(services: Services, known: Known, asked: InferRequest) -> Response:
    engine = known.engine
    names = [output.name for output in asked.outputs]
    arrays = await services.hosts.infer(engine, asked.reference, asked.inputs, names, asked.timeout)
    size = sum(array.nbytes for array in arrays)
    encoded = await _maybe_in_thread(size, encode_response, asked, engine.name, str(engine.version), arrays)
    return Response(encoded.body, headers=encoded.headers)


async def _maybe_in_thread(size: int, function: Any, *arguments: Any) -> Any:
    """Small messages are not worth the change of threads; large ones must not hold up everyone else."""
    return function(*arguments) if size < LARGE else await asyncio.to_thread(function, *arguments)


async def _unless_gone(request: Request, answer: Coroutine[Any, Any, T]) -> T:
    """The answer, unless the client leaves first: then nobody works on it any longer."""
    working = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
