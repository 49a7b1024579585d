"""Errors as answers, where no real service can be made to fail so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from service import errors
from service.api.problems import MEDIA_TYPE, install_problem_handlers


def app_that_fails(error: Exception) -> FastAPI:
    app = FastAPI()
    install_problem_handlers(app)

    @app.get("/before")
    async def before() -> None:
        raise error

    @app.get("/during")
    async def during() -> StreamingResponse:
        async def content() -> AsyncIterator[bytes]:
            yield b"half"
            raise error

        return StreamingResponse(content())

    return app


def get(app: FastAPI, path: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_what_nobody_expected_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = get(app_that_fails(RuntimeError("/secret/path")), "/before")
    assert response.status_code == 500
    assert response.headers["content-type"] == MEDIA_TYPE
    assert "secret" not in response.text
    identifier = response.json()["detail"].rpartition(" ")[2]
    assert f"error {identifier}" in caplog.text
    assert "/secret/path" in caplog.text


def test_half_an_answer_is_cut_off() -> None:
    """Whoever gets it must not take it for a whole one."""
    with pytest.raises(ConnectionAbortedError):
        get(app_that_fails(errors.PlanDamaged("the stored bytes are others")), "/during")


@pytest.mark.parametrize(
    "kind", [kind for kind in errors.ServiceError.__subclasses__() if kind.__module__ == errors.__name__]
)
def test_every_error_of_ours(kind: type[errors.ServiceError]) -> None:
    fault = errors.Fault("/a~1b/0", "expected c")
    error = kind("why", [fault])
    response = get(app_that_fails(error), "/before")
    assert response.status_code == kind.status
    assert response.headers["content-type"] == MEDIA_TYPE
    assert ("retry-after" in response.headers) == (error.retry_after is not None)
    assert response.json() == {
        "type": errors.problem_type(kind),
        "title": kind.title,
        "status": kind.status,
        "detail": "why",
        "errors": [{"pointer": "/a~1b/0", "detail": "expected c"}],
    }


def test_types_differ() -> None:
    kinds = errors.ServiceError.__subclasses__()
    assert len({errors.problem_type(kind) for kind in kinds}) == len(kinds)
    assert errors.problem_type(errors.PlanDamaged) == "urn:planforge:plan-damaged"
