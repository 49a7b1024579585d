from __future__ import annotations

import time

from service.store.claims import Claim, Claims
from service.store.engines import Engines
from tests.store.building import new


def lost(claims: Claims) -> Claim:
    """A claim whose worker died."""
    claim = claims.claim("worker 7", lease=0.01)
    assert claim
    time.sleep(0.05)
    return claim


def test_a_lost_build_is_tried_again_a_counted_number_of_times(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    for attempt in (1, 2):
        assert lost(claims).attempt == attempt
        assert claims.recover(attempts=3) == [engine.id]
        queued = engines.get(engine.id)
        assert (queued.status, queued.fraction, queued.seconds_building) == ("queued", 0.0, 0.0)
    assert lost(claims).attempt == 3
    assert claims.recover(attempts=3) == [engine.id]
    failed = engines.get(engine.id)
    assert failed.status == "failed" and failed.error
    assert failed.error["detail"] == "given up: worker worker 7 was lost during attempt 3 of 3"
    assert claims.claim("worker", lease=60) is None
    assert claims.recover(attempts=3) == []
    assert engines.log(engine.id).splitlines() == [
        f"worker worker 7 was lost during attempt {attempt} of 3" for attempt in (1, 2, 3)
    ]


def test_a_lost_build_that_was_to_be_cancelled_is(engines: Engines, claims: Claims) -> None:
    engine = engines.create(new())
    lost(claims)
    engines.request_cancel(engine.id)
    claims.recover(attempts=3)
    assert (engines.get(engine.id).status, engines.get(engine.id).error) == ("cancelled", None)


def test_a_living_lease_is_left_alone(engines: Engines, claims: Claims) -> None:
    engines.create(new())
    assert claims.claim("worker", lease=60)
    assert claims.recover(attempts=1) == []
