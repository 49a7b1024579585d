"""The OpenAPI document says everything, and what it shows works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live import LiveService

Operation = dict[str, Any]
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document(live: LiveService) -> dict[str, Any]:
    return live.http.get("/openapi.json").json()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    for path, calls in document["paths"].items():
        for method, operation in calls.items():
            if method in METHODS:
                yield path, method, operation


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def test_every_call_is_there(document: dict[str, Any]) -> None:
    assert {(method, path) for path, method, _ in operations(document)} == {
        ("get", "/plugins"), ("get", "/plugins/{name}"),
        ("get", "/engines"), ("post", "/engines"), ("get", "/engines/{reference}"), ("delete", "/engines/{reference}"),
        ("post", "/engines/{reference}/cancel"), ("post", "/engines/{reference}/infer"),
        ("post", "/engines/{reference}/load"), ("post", "/engines/{reference}/unload"),
        ("patch", "/engines/{reference}"),
        ("get", "/engines/{reference}/plan"), ("get", "/engines/{reference}/model"),
        ("get", "/engines/{reference}/log"), ("get", "/healthz"), ("get", "/readyz"),
    }  # fmt: skip


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        part: Any = document
        for key in reference.removeprefix("#/").split("/"):
            part = part[key]


def test_every_error_is_a_problem_with_an_example(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        errors = {status: answer for status, answer in operation["responses"].items() if not status.startswith("2")}
        assert "default" in errors, (method, path)
        assert "{" not in path or "404" in errors, (method, path)
        for status, answer in errors.items():
            content = answer["content"]["application/problem+json"]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert content["example"]["detail"]
            if status != "default":
                assert content["example"]["status"] == int(status)


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    bodies = [operation["requestBody"] for _, _, operation in operations(document) if "requestBody" in operation]
    assert len(bodies) == 3
    for body in bodies:
        for content in body["content"].values():
            assert content["example"]


def test_the_examples_work(live: LiveService, document: dict[str, Any]) -> None:
    """In the order a user would try them: build, upload, ask in JSON, ask in bytes."""
    build = document["paths"]["/engines"]["post"]["requestBody"]["content"]
    infer = document["paths"]["/engines/{reference}/infer"]["post"]
    asked = {kind: content["example"] for kind, content in infer["requestBody"]["content"].items()}
    engine = live.built(build["application/json"]["example"])
    form = build["multipart/form-data"]["example"]
    model = live.client.model(engine["id"])
    files = {"options": (None, json.dumps(form["options"]), "application/json"), "model": model}
    assert set(form) == set(files)
    assert live.http.post("/engines", files=files).status_code == 202
    answer = live.infer(engine["id"], asked["application/json"]).json()
    assert answer == {**document_answer(infer), "model_version": str(engine["version"])}
    (length,) = [each["example"] for each in infer["parameters"] if each["name"] == "Inference-Header-Content-Length"]
    response = live.http.post(
        f"/engines/{engine['id']}/infer",
        content=asked["application/octet-stream"].encode(),
        headers={"Inference-Header-Content-Length": str(length), "content-type": "application/octet-stream"},
    )
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"


def document_answer(infer: Operation) -> dict[str, Any]:
    example: dict[str, Any] = infer["responses"]["200"]["content"]["application/json"]["example"]
    return example


def test_a_page_for_people(live: LiveService) -> None:
    response = live.http.get("/docs")
    assert response.status_code == 200
    assert "/openapi.json" in response.text
