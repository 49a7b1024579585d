from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from service.errors import Conflict, InvalidRequest, NotFound
from service.store.blobs import Blobs
from service.store.claims import Claims, Renewal
from service.store.contents import CHUNK
from service.store.database import Database
from service.store.engines import Engines
from tests.store.building import PROBLEM, build, new, rows


def test_keeps_all_of_a_request(engines: Engines, blobs: Blobs, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"\x00\x80\xff")
    request = new(
        targets=["sm_86"],
        profiles=[{"x": {"min": [1], "opt": [2], "max": [2**40], "values": False}}],
        serving={"instances": 2, "batching": None},
        verify=True,
        no_cache=True,
        priority=-5,
        data={"Gewichte ü \u4e2d.bin": weights, "again": weights},
        inputs=[{"name": "x\0", "datatype": "FP32", "shape": [-1]}],
        plugins=[{"name": "ScaleBias", "fields": [{"scale": 0.1 + 0.2, "text": "a\0b"}]}],
    )
    engine = engines.create(request)
    assert replace(engines.get(engine.id), seconds_queued=0) == replace(engine, seconds_queued=0)
    assert (engine.status, engine.version, engine.plan, engine.error) == ("queued", 1, None, None)
    assert (engine.targets, engine.profiles) == (("sm_86",), tuple(request.profiles))
    assert (engine.inputs, engine.plugins) == (tuple(request.inputs), tuple(request.plugins))
    assert (engine.serving, engine.verify, engine.no_cache, engine.priority) == (request.serving, True, True, -5)
    assert engine.created_at.tzinfo == UTC and engine.updated_at == engine.created_at
    assert b"".join(blobs.chunks(engine.model.sha256)) == request.model
    files = engines.files(engine.id)
    assert list(files) == list(request.data)
    assert all(b"".join(blobs.chunks(sha256)) == b"\x00\x80\xff" for sha256 in files.values())


def test_a_name_counts_its_versions_and_gives_none_twice(engines: Engines) -> None:
    assert [engines.create(new(name)).version for name in ("a", "a", "b", "a")] == [1, 2, 1, 3]
    engines.delete(engines.get("a:3").id)
    assert engines.create(new("a")).version == 4


def test_versions_are_unique_when_eight_threads_create_one_name(url: str) -> None:
    def create(_: int) -> int:
        return Engines(Database(url)).create(new("demo")).version

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(create, range(24))) == list(range(1, 25))


def test_references(engines: Engines, claims: Claims, tmp_path: Path) -> None:
    first, second, third = (engines.create(new()) for _ in range(3))
    assert engines.get("demo").id == third.id, "the newest, where none is ready"
    build(claims, tmp_path)
    build(claims, tmp_path)
    assert engines.get("demo").id == second.id, "the newest that is ready"
    assert [engines.get(f"demo:{version}").id for version in (1, 2, 3)] == [first.id, second.id, third.id]
    assert engines.get(third.id).id == third.id


def test_an_id_goes_before_a_name_that_looks_like_it(engines: Engines) -> None:
    engine = engines.create(new())
    namesake = engines.create(new(engine.id))
    assert engines.get(engine.id).id == engine.id
    assert engines.get(f"{engine.id}:1").id == namesake.id


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "other",
        "demo:2",
        "demo:0",
        "demo:01",
        "demo:1.0.0",
        "demo:",
        "demo:99999999999999999999",
        "demo:1:1",
        "a\0b",
    ],
)
def test_what_is_not_there_is_not_found(engines: Engines, reference: str) -> None:
    engines.create(new())
    for call in (engines.get, engines.log, engines.delete, engines.request_cancel):
        with pytest.raises(NotFound):
            call(reference)


def test_lists_newest_first_by_name_and_status(engines: Engines, claims: Claims, tmp_path: Path) -> None:
    a1, b1, a2 = (engines.create(new(name)) for name in "aba")
    build(claims, tmp_path)
    assert [engine.id for engine in engines.list().engines] == [a2.id, b1.id, a1.id]
    assert [engine.id for engine in engines.list(name="a").engines] == [a2.id, a1.id]
    assert [engine.id for engine in engines.list(status="ready").engines] == [a1.id]
    assert [engine.id for engine in engines.list(name="a", status="queued").engines] == [a2.id]
    assert engines.list(name="a\0", status="\0").engines == ()


def test_pages_are_stable_while_engines_come_and_go(engines: Engines) -> None:
    created = [engines.create(new()).id for _ in range(7)]
    page = engines.list(limit=3)
    seen = [engine.id for engine in page.engines]
    engines.create(new())
    engines.delete(seen[-1])
    while page.next:
        page = engines.list(limit=3, cursor=page.next)
        seen += [engine.id for engine in page.engines]
    assert seen == created[::-1]
    assert engines.list(limit=6).next is not None
    assert engines.list(limit=7).next is None, "no empty page behind a full one"


@pytest.mark.parametrize("cursor", ["", "x", "a\0b"])
def test_refuses_a_cursor_that_is_none(engines: Engines, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        engines.list(cursor=cursor)


def test_a_queued_engine_is_cancelled_at_once(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    assert engines.request_cancel(engine.id).status == "cancelled"
    assert engines.request_cancel(engine.id).status == "cancelled"
    assert claims.claim("worker", lease=60) is None


def test_a_building_engine_is_cancelled_by_its_worker(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    claim = claims.claim("worker", lease=60)
    assert claim and claims.renew(claim, 60) is Renewal.KEPT
    claims.append_log(claim, "half done\n")
    flagged = engines.request_cancel(engine.id)
    assert (flagged.status, flagged.cancel_requested) == ("building", True)
    assert claims.renew(claim, 60) is Renewal.CANCELLED
    assert claims.cancelled(claim).status == "cancelled"
    assert engines.log(engine.id) == "half done\n"


def test_there_is_nothing_to_cancel_in_a_finished_one(engines: Engines, claims: Claims, tmp_path: Path) -> None:
    engine = engines.create(new())
    build(claims, tmp_path)
    with pytest.raises(Conflict, match="demo:1 is ready"):
        engines.request_cancel(engine.id)
    assert engines.get(engine.id).status == "ready"


def test_a_ready_engine_can_turn_out_damaged(engines: Engines, claims: Claims, tmp_path: Path) -> None:
    engine = engines.create(new())
    assert engines.fail(engine.id, PROBLEM).status == "queued", "only what is ready can"
    build(claims, tmp_path)
    assert engines.fail(engine.id, PROBLEM).error == PROBLEM
    assert engines.get("demo").status == "failed"


def test_delete_removes_everything_that_no_other_engine_has(
    engines: Engines, claims: Claims, database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(random.Random(1).randbytes(9 * CHUNK))
    ids = [engines.create(new(data={"w": weights})).id for _ in range(2)]
    first, second = build(claims, tmp_path), build(claims, tmp_path)
    assert first.plan == second.plan
    engines.delete(ids[0])
    assert second.plan
    for sha256 in (second.plan.sha256, second.model.sha256, engines.files(ids[1])["w"]):
        blobs.verify(sha256)
    engines.delete(ids[1])
    assert rows(database) == {"names": 1}


def test_deleting_a_building_engine_takes_it_from_its_worker(
    engines: Engines, claims: Claims, database: Database
) -> None:
    engine = engines.create(new())
    claim = claims.claim("worker", lease=60)
    assert claim
    claims.append_log(claim, "half done\n")
    engines.delete(engine.id)
    assert claims.renew(claim, 60) is Renewal.LOST
    assert rows(database) == {"names": 1}


def test_bytes_survive_while_others_who_had_them_are_deleted(url: str) -> None:
    """Engines of one model come and go in four threads; whoever has an engine can always read it."""

    def come_and_go(number: int) -> None:
        database = Database(url)
        engines, blobs = Engines(database), Blobs(database)
        for _ in range(6):
            engine = engines.create(new(f"name{number}", model=b"the same model"))
            blobs.verify(engine.model.sha256)
            engines.delete(engine.id)
        database.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert rows(Database(url)) == {"names": 4}
