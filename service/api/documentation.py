"""The OpenAPI document: bodies that our own code reads, and the errors of every call, with an example each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service import errors
from service.api.problems import MEDIA_TYPE, Problem
from service.errors import Fault, ServiceError, problem_details

Json = dict[str, Any]
REFERENCE = "#/components/schemas/{model}"

_EXAMPLES: dict[int, ServiceError] = {
    404: errors.NotFound("no engine 'demo'"),
    409: errors.Conflict("engine demo:1 is building; an engine answers once it is ready"),
    413: errors.TooLarge("the body is larger than 64 MiB, the most that is accepted here"),
    415: errors.UnsupportedMedia("expected the media type application/json, got text/plain"),
    416: errors.RangeNotSatisfiable("the plan has 153124 bytes"),
    422: errors.InvalidRequest.from_faults([Fault("/network/nodes/1/fields/scale", "expected a number, got a string")]),
    500: errors.PlanDamaged("the stored bytes do not match their SHA-256"),
    503: errors.Unavailable("the queue of engine demo:1 is full"),
    504: errors.DeadlineExceeded("no answer within 60 s"),
}


def answers(*statuses: int) -> dict[int | str, Json]:
    """The errors of a call for FastAPI's `responses`."""
    listed: dict[int | str, Json] = {status: _answer(_EXAMPLES[status]) for status in statuses}
    unexpected = ServiceError("something went wrong here; the server's log has it as error 0f1e2d3c4b5a")
    return {**listed, "default": _answer(unexpected)}


def _answer(error: ServiceError) -> Json:
    schema = {"$ref": REFERENCE.format(model=Problem.__name__)}
    content = {MEDIA_TYPE: {"schema": schema, "example": problem_details(error)}}
    return {"description": error.title, "content": content}


def schema_of(model: type[BaseModel]) -> Json:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def document(app: FastAPI, bodies: Sequence[type[BaseModel]]) -> None:
    """Makes the document, with the schemas of bodies that FastAPI does not read itself."""
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    models: list[type[BaseModel]] = [*bodies, Problem]
    shown: list[tuple[type[BaseModel], Literal["validation"]]] = [(model, "validation") for model in models]
    _, definitions = models_json_schema(shown, ref_template=REFERENCE)
    made["components"]["schemas"] |= definitions["$defs"]
    app.openapi = lambda: made  # type: ignore[method-assign]  # as FastAPI's documentation has it
