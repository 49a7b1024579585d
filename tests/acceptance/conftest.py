"""Engines that many acceptance tests ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.networks import Body, scale_bias
from tests.live import LiveService


@pytest.fixture
def body() -> Body:
    """A right body, to be made wrong."""
    return scale_bias()


@pytest.fixture(scope="session")
def scaled(live: LiveService) -> Body:
    """A ready engine on the CPU."""
    return live.built(scale_bias())


@pytest.fixture(scope="session")
def ahead_of_time(live: LiveService) -> Body:
    """A ready TensorRT-RTX engine for GPUs that this host has not."""
    return live.built(scale_bias("ahead", backend="tensorrt_rtx", targets=["sm_86", "sm_120"]))


@pytest.fixture
def faults(live: LiveService) -> Callable[[Any], dict[str, str]]:
    """The faults of a body that must be refused, by pointer."""

    def refused(given: Any) -> dict[str, str]:
        response = live.post(given)
        assert response.status_code == 422, response.text
        return {fault["pointer"]: fault["detail"] for fault in response.json()["errors"]}

    return refused
