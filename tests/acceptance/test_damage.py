"""Stored plans that are no longer what they were: found before anything loads them, and others go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService, serving

REQUEST = {"inputs": [{"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [1.0] * 8}]}
Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "cut by a byte": lambda plan: plan[:-1],
    "cut to nothing": lambda plan: b"",
    "a byte flipped": lambda plan: plan[:100] + bytes([plan[100] ^ 1]) + plan[101:],
    "replaced": lambda plan: b"vtrt" + bytes(len(plan) - 4),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    with serving(tmp_path_factory.mktemp("damaged")) as service:
        yield service


def damage(service: LiveService, engine: Body, how: Damage) -> None:
    with sqlite3.connect(service.data_dir / "planforge.db", timeout=30) as database:
        query = "SELECT c.rowid, c.data FROM chunks c JOIN blobs b ON c.content = b.content WHERE b.sha256 = ?"
        (row, data) = database.execute(query, [engine["plan"]["sha256"]]).fetchone()
        database.execute("UPDATE chunks SET data = ? WHERE rowid = ?", [how(data), row])


def distinct(name: str, scale: float) -> Body:
    """Engines with plans of their own: equal ones share their bytes."""
    body = scale_bias(name)
    body["network"]["nodes"][0]["fields"]["scale"] = scale
    return body


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("call", ["infer", "plan"])
def test_a_damaged_plan(service: LiveService, kind: str, call: str) -> None:
    number = list(DAMAGES).index(kind) * 2 + (call == "plan")
    other = service.built(distinct("other", 100.0))
    engine = service.built(distinct(f"damaged{number}", 2.0 + number))
    damage(service, engine, DAMAGES[kind])
    path = f"/engines/{engine['id']}"
    response = service.infer(engine["id"], REQUEST) if call == "infer" else service.http.get(f"{path}/plan")
    assert response.status_code == 500
    assert response.json()["type"] == "urn:planforge:plan-damaged"
    failed = service.http.get(path).json()
    assert (failed["status"], failed["error"]["type"]) == ("failed", "urn:planforge:plan-damaged")
    again = service.infer(engine["id"], REQUEST)
    assert again.status_code == 409
    assert "failed" in again.json()["detail"]
    assert service.infer(other["id"], REQUEST).json()["outputs"][0]["data"] == [101.0] * 8
