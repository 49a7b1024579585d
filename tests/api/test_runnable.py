"""Whether a host can execute an engine, for hosts that are not here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from service.api.runnable import obstacle, without_reference
from service.backends.base import Capabilities
from service.backends.host import Host
from service.plugins.catalogue import Catalogue, discover
from service.store.records import Blob, Engine

NOW = datetime.now(UTC)


def engine(
    backend: str = "tensorrt_rtx", targets: tuple[str, ...] = ("sm_86", "sm_120"), version: str | None = "1.7"
) -> Engine:
    return Engine(
        id="id", name="demo", version=1, status="ready", backend=backend, backend_version=version, targets=targets,
        profiles=(), inputs=(), outputs=(), plugins=(), serving={}, verify=False, no_cache=False, cached=False,
        priority=0, phase="", fraction=1.0,
        attempts=1, cancel_requested=False, error=None, model=Blob("", 0), plan=None,
        seconds_queued=0, seconds_building=0, created_at=NOW, updated_at=NOW,
    )  # fmt: skip


def host(target: str | None = "sm_86", version: str = "1.7", reason: str | None = None) -> Host:
    able = Capabilities("tensorrt_rtx", version, True, ("sm_86",), reason is None, target, reason)
    return Host(Catalogue(discover()), {"tensorrt_rtx": able})


@pytest.mark.parametrize("given, here, expected", [
    (engine(), host(), None),
    (engine(version=None), host(), None),
    (engine(), host(None, reason="no GPU on this host"), "no GPU on this host"),
    (engine(), host("sm_89"), "it is built for sm_86, sm_120, the GPU of this host is sm_89"),
    (engine(), host(version="1.6"), "it is built with tensorrt_rtx 1.7, this host has 1.6"),
    (engine("tensorrt"), host(), "tensorrt is not installed on this host"),
])  # fmt: skip
def test_obstacle(given: Engine, here: Host, expected: str | None) -> None:
    assert obstacle(given, here) == expected


def test_plugins_without_a_reference() -> None:
    ours = {"name": "ScaleBias", "version": "1", "namespace": "planforge"}
    native = {"name": "ROIAlign_TRT", "version": "2", "namespace": ""}
    with_plugins = Engine(**{**vars(engine()), "plugins": (ours, native)})
    assert without_reference(with_plugins, Catalogue(discover())) == ["ROIAlign_TRT"]
