"""RFC 9457 problem details: the one place where an error becomes an answer."""

from __future__ import annotations

import logging
import math
import uuid
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import InvalidRequest, MethodNotAllowed, NotFound, ServiceError, problem_details

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("planforge.api")


class ProblemFault(BaseModel):
    pointer: str = Field(description="JSON pointer into the body, for a file its part or node")
    detail: str


class Problem(BaseModel):
    """Why a request was not served."""

    type: str = Field(description="names the kind of error")
    title: str
    status: int
    detail: str
    errors: list[ProblemFault] | None = Field(None, description="every fault found in the request")


def problem_response(error: ServiceError) -> Response:
    headers = {} if error.retry_after is None else {"Retry-After": str(math.ceil(error.retry_after))}
    return JSONResponse(problem_details(error), error.status, headers, MEDIA_TYPE)


def install_problem_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ServiceError, _on_service_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_query)
    app.add_exception_handler(HTTPException, _on_routing)
    app.add_middleware(UnexpectedErrors)


async def _on_service_error(request: Request, error: Exception) -> Response:
    return problem_response(cast(ServiceError, error))


async def _on_invalid_query(request: Request, error: Exception) -> Response:
    """Bodies are read by our own code, so this is about the query."""
    faults = cast(RequestValidationError, error).errors()
    details = [f"query parameter {each['loc'][-1]}: {each['msg']}" for each in faults]
    return problem_response(InvalidRequest("; ".join(details)))


async def _on_routing(request: Request, error: Exception) -> Response:
    """No such path, or a method that it does not have."""
    routing = cast(HTTPException, error)
    if routing.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(_methods(request)))
        response = problem_response(MethodNotAllowed(f"{request.method} is not possible here, only {allowed}"))
        response.headers["Allow"] = allowed
        return response
    if routing.status_code == HTTPStatus.NOT_FOUND:
        return problem_response(NotFound("there is nothing at this path; /docs lists what there is"))
    raise error


def _methods(request: Request) -> set[str]:
    """All methods of the path; Starlette names those of its first route only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return {
        method for route in routes if route.matches(request.scope)[0] != Match.NONE for method in route.methods or ()
    }


class UnexpectedErrors:
    """Answers what nobody expected with an id under which the log has the rest, and nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watching(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watching)
        except ClientDisconnect:
            return  # nobody is left to answer
        except Exception:
            identifier = uuid.uuid4().hex[:12]
            log.exception("error %s while answering %s %s", identifier, scope.get("method"), scope.get("path"))
            if started:
                raise ConnectionAbortedError(f"error {identifier}") from None  # cuts the body short, as it must be
            error = ServiceError(f"something went wrong here; the server's log has it as error {identifier}")
            await problem_response(error)(scope, receive, send)
