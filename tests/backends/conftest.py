"""What the backends' tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kernels(pytestconfig: pytest.Config) -> Path:
    """Compiled kernels outlive a test: what is tested here is not the compiler."""
    cache = pytestconfig.cache
    assert cache is not None
    return cache.mkdir("kernels")
