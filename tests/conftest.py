"""A real service for every test that drives one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live import LiveService, serving


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """One service for all tests that do it no harm."""
    with serving(tmp_path_factory.mktemp("service")) as service:
        yield service
