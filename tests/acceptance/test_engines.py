"""Engines from the request to the plan, on both kinds of backend."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import onnx
import pytest

from service.errors import BuildFailed
from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService


def test_accepted(live: LiveService) -> None:
    response = live.post(scale_bias("accepted"))
    engine = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/engines/{engine['id']}"
    assert engine["status"] in ("queued", "building")
    assert uuid.UUID(engine["id"]).version == 7
    assert abs((datetime.now(UTC) - datetime.fromisoformat(engine["created_at"])).total_seconds()) < 60


def test_on_the_cpu(live: LiveService, scaled: Body) -> None:
    assert scaled["status"] == "ready"
    assert scaled["backend"] == "onnxruntime"
    assert (scaled["runnable"], scaled["reason"], scaled["error"], scaled["progress"]) == (True, None, None, None)
    assert scaled["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
    assert scaled["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 8]}]
    assert scaled["profiles"] == scale_bias()["profiles"]
    (plugin,) = scaled["plugins"]
    assert (plugin["name"], plugin["version"], plugin["namespace"], plugin["nodes"]) == (
        "ScaleBias",
        "1",
        "planforge",
        1,
    )
    assert plugin["fields"] == [{"scale": 3.0, "bias": 1.0, "axis": -1, "activation": "none"}]
    assert scaled["seconds"]["building"] > 0


def test_ahead_of_time(live: LiveService, ahead_of_time: Body) -> None:
    """For GPUs that are not here: the plan carries a kernel for each, bit by bit."""
    assert ahead_of_time["targets"] == ["sm_86", "sm_120"]
    assert (ahead_of_time["runnable"], ahead_of_time["reason"]) == (False, "no GPU on this host")
    plan = live.client.plan(ahead_of_time["id"])
    kernels = ahead_of_time["plugins"][0]["kernels"]
    assert [kernel["target"] for kernel in kernels] == ["sm_86", "sm_120"]
    starts = [match.start() for match in re.finditer(b"\x7fELF", plan)]
    for kernel in kernels:
        images = [plan[start : start + kernel["size"]] for start in starts]
        copies = [hashlib.sha256(image).hexdigest() for image in images].count(kernel["sha256"])
        assert 1 <= copies <= 2


@pytest.mark.parametrize("fixture", ["scaled", "ahead_of_time"])
def test_the_plan(live: LiveService, fixture: str, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(fixture)
    response = live.http.get(f"/engines/{engine['id']}/plan")
    digest = hashlib.sha256(response.content)
    assert response.headers["content-type"] == "application/octet-stream"
    assert engine["plan"] == {"size": len(response.content), "sha256": digest.hexdigest()}
    assert response.headers["etag"] == f'"{digest.hexdigest()}"'
    assert response.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"


def test_parts_of_a_plan(live: LiveService, ahead_of_time: Body) -> None:
    path, size = f"/engines/{ahead_of_time['id']}/plan", ahead_of_time["plan"]["size"]
    whole = live.http.get(path)

    def part(asked: str, **headers: str) -> Any:
        return live.http.get(path, headers={"range": asked, **headers})

    for asked, start, stop in (("bytes=0-0", 0, 1), ("bytes=5-", 5, size), ("bytes=-7", size - 7, size),
                               (f"bytes=9-{size * 2}", 9, size)):  # fmt: skip
        response = part(asked)
        assert response.status_code == 206
        assert response.content == whole.content[start:stop]
        assert response.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
        assert response.headers["content-length"] == str(stop - start)
    beyond = part(f"bytes={size}-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    endless = "9" * 5000
    for ignored in ("bytes=1-0", "lines=1-2", "bytes=0-1,3-4", "bytes=-", f"bytes=0-{endless}", f"bytes={endless}-"):
        assert part(ignored).status_code == 200
    etag = whole.headers["etag"]
    assert part("bytes=0-0", **{"if-range": etag}).status_code == 206
    assert part("bytes=0-0", **{"if-range": '"other"'}).status_code == 200
    for condition in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        unchanged = live.http.get(path, headers={"if-none-match": condition})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
    head = live.http.head(path)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(size))


def test_the_model(live: LiveService, ahead_of_time: Body) -> None:
    model = onnx.load_from_string(live.client.model(ahead_of_time["id"]))
    onnx.checker.check_model(model)
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("planforge", "ScaleBias")
    assert [(function.domain, function.name) for function in model.functions] == [("planforge", "ScaleBias")]


def test_the_log(live: LiveService, ahead_of_time: Body) -> None:
    response = live.http.get(f"/engines/{ahead_of_time['id']}/log")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert "ScaleBias" in response.text
    assert str(live.data_dir) not in response.text


def test_versions_of_a_name(live: LiveService) -> None:
    first, second = live.built(scale_bias("versions")), live.built(scale_bias("versions"))
    assert (first["version"], second["version"]) == (1, 2)
    assert live.client.engine("versions")["id"] == second["id"]
    assert live.client.engine("versions:1")["id"] == first["id"]
    live.client.delete("versions:2")
    assert live.client.engine("versions")["id"] == first["id"]
    assert live.built(scale_bias("versions"))["version"] == 3


def test_listing(live: LiveService) -> None:
    ids = [live.client.build_json(scale_bias("listed"))["id"] for _ in range(3)]
    assert [each["id"] for each in live.client.engines(name="listed")["engines"]] == ids[::-1]
    page = live.client.engines(name="listed", limit=2)
    assert [each["id"] for each in page["engines"]] == [ids[2], ids[1]]
    rest = live.client.engines(name="listed", limit=2, cursor=page["next"])
    assert [each["id"] for each in rest["engines"]] == [ids[0]]
    assert rest["next"] is None
    for each in ids:
        live.client.wait(each)
    assert live.client.engines(name="listed", status="failed")["engines"] == []
    assert len(live.client.engines(name="listed", status="ready")["engines"]) == 3


def test_cancel(live: LiveService) -> None:
    """One of them is queued or building for certain: the worker does one at a time."""
    engines = [
        live.client.build_json(scale_bias("cancelled", "FP16", "tensorrt_rtx", targets=["sm_89"])) for _ in range(2)
    ]
    for engine in engines[::-1]:
        response = live.http.post(f"/engines/{engine['id']}/cancel")
        assert response.status_code == 202
    for engine in engines:
        ended = finished(live, engine["id"])
        assert (ended["status"], ended["error"], ended["plan"]) == ("cancelled", None, None)
        assert live.http.get(f"/engines/{engine['id']}/log").status_code == 200
        assert live.http.get(f"/engines/{engine['id']}/plan").status_code == 409


def test_what_ended_cannot_be_cancelled(live: LiveService, scaled: Body) -> None:
    response = live.http.post(f"/engines/{scaled['id']}/cancel")
    assert response.status_code == 409
    assert "ready" in response.json()["detail"]


def test_delete(live: LiveService) -> None:
    ready = live.built(scale_bias("deleted"))
    building = live.client.build_json(scale_bias("deleted", backend="tensorrt_rtx", targets=["sm_86"]))
    for engine in (ready, building):
        assert live.http.delete(f"/engines/{engine['id']}").status_code == 204
        for path in ("", "/plan", "/model", "/log"):
            assert live.http.get(f"/engines/{engine['id']}{path}").status_code == 404
    assert live.client.engines(name="deleted")["engines"] == []


def test_priority_goes_first(live: LiveService) -> None:
    """While one builds, the later but more urgent one overtakes the one before it."""
    live.client.build_json(scale_bias("urgency", backend="tensorrt_rtx", targets=["sm_86"]))
    low = live.client.build_json(scale_bias("urgency", priority=-1))
    high = live.client.build_json(scale_bias("urgency", priority=1))
    low, high = live.client.wait(low["id"]), live.client.wait(high["id"])
    assert high["updated_at"] < low["updated_at"]


def finished(live: LiveService, reference: str) -> Body:
    seen: list[Body] = []
    with suppress(BuildFailed):
        live.client.wait(reference, seen.append, 60)
    return seen[-1]
