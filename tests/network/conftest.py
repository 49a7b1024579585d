"""A host that can build for GPUs and run on the CPU, and ways to lower and check a network on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.backends.base import Capabilities
from service.backends.host import Host
from service.errors import InvalidRequest
from service.network.checking import Checked, check
from service.network.description import EngineRequest
from service.network.lowering import lower
from service.plugins.catalogue import Catalogue, discover
from service.settings import Settings
from tests.profiles import profiles_for

TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_120")


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue(discover())


@pytest.fixture(scope="session")
def host(catalogue: Catalogue) -> Host:
    """No GPU: TensorRT-RTX builds, ONNX Runtime (whose kernels are not stated) also runs."""
    builds = Capabilities("tensorrt_rtx", "1.7.1.116", True, TARGETS, False, None, "no GPU on this host")
    runs = Capabilities("onnxruntime", "1.32.0", True, (), True)
    return Host(catalogue, {"tensorrt_rtx": builds, "onnxruntime": runs})


@pytest.fixture
def checked(host: Host) -> Callable[..., Checked]:
    def run(network: dict[str, Any], **options: Any) -> Checked:
        options.setdefault("profiles", profiles_for(network))
        request = EngineRequest.model_validate({"name": "tested", "network": network, **options})
        return check(lower(request.network, host.catalogue), request, host, Settings())

    return run


@pytest.fixture
def faults(checked: Callable[..., Checked]) -> Callable[..., dict[str, str]]:
    """The faults of a network that is wrong, by pointer; several of one pointer are joined."""

    def run(network: dict[str, Any], **options: Any) -> dict[str, str]:
        with pytest.raises(InvalidRequest) as caught:
            checked(network, **options)
        found: dict[str, str] = {}
        for fault in caught.value.faults:
            found[fault.pointer] = "; ".join(filter(None, [found.get(fault.pointer), fault.detail]))
        return found

    return run


@pytest.fixture
def network() -> Callable[..., dict[str, Any]]:
    """A network with the input x of FP32 [batch, 8] and the given nodes; the last node's first output is its output."""

    def make(*nodes: dict[str, Any], outputs: list[Any] | None = None, **parts: Any) -> dict[str, Any]:
        inputs = [{"name": "x", "datatype": "FP32", "shape": ["batch", 8]}]
        chosen = outputs if outputs is not None else [nodes[-1]["outputs"][0]]
        return {"inputs": inputs, "nodes": list(nodes), "outputs": chosen, **parts}

    return make
