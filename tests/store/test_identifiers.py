from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.store.identifiers import Identifiers, new_id


def test_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_rises_strictly_within_a_millisecond_and_across_threads() -> None:
    identifiers = Identifiers()
    made = [identifiers.next() for _ in range(5000)]
    assert made == sorted(set(made))
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: identifiers.next(), range(2000)))) == 2000


def test_rises_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    identifiers = Identifiers()
    first = identifiers.next()
    earlier = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: earlier)
    assert identifiers.next() > first
