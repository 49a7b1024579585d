"""Where `tensorrt` and `tensorrt_rtx` differ.

`tensorrt` cannot be installed here, so FakeTensorRT stands in for its module: it is a FAKE, and shows only that the
differences of its interface are met, not that TensorRT does what it should. `tensorrt_rtx` is the real one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.backends.flavour import Flavour
from service.backends.gpu import Gpu

H200 = Gpu("NVIDIA H200", "sm_90", "13000")
RTX4090 = Gpu("NVIDIA GeForce RTX 4090", "sm_89", "13000")


def fake_tensorrt(version: str = "11.0.0.1") -> Any:
    """A FAKE `tensorrt`: no ComputeCapability, which is how it differs."""
    return SimpleNamespace(__version__=version, NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1))


def fake_old_rtx() -> Any:
    """A FAKE `tensorrt_rtx` 1.6.1, as far as its targets go."""
    names = ("SM75", "SM80", "SM86", "SM89", "SM120", "CURRENT", "NONE")
    capability = SimpleNamespace(**{name: name for name in names})
    return SimpleNamespace(__version__="1.6.1.120", ComputeCapability=capability)


class Config:
    """Records what it is told."""

    def __init__(self) -> None:
        self.num_compute_capabilities = 0
        self.set: list[tuple[Any, int]] = []

    def set_compute_capability(self, capability: Any, index: int) -> None:
        self.set.append((capability, index))


def test_tensorrt_builds_for_the_gpu_it_runs_on_only() -> None:
    flavour = Flavour("tensorrt", fake_tensorrt())
    alone, hosted = flavour.capabilities(None), flavour.capabilities(H200)
    assert (alone.buildable, alone.runnable, alone.targets) == (False, False, ())
    assert (hosted.buildable, hosted.runnable, hosted.targets) == (True, True, ("sm_90",))
    config = Config()
    flavour.configure(config, ["sm_90"])
    assert config.set == []
    assert flavour.imports_own_domains
    assert flavour.network_flags() == 2


def test_rtx_builds_ahead_of_time() -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    flavour = Flavour("tensorrt_rtx", trt)
    capabilities = flavour.capabilities(None)
    assert {"sm_75", "sm_80", "sm_86", "sm_89", "sm_120"} <= set(capabilities.targets)
    assert (capabilities.buildable, capabilities.runnable) == (True, False)
    assert capabilities.reason == "no GPU on this host"
    config = Config()
    flavour.configure(config, ["sm_86", "sm_120"])
    assert config.set == [(trt.ComputeCapability.SM86, 0), (trt.ComputeCapability.SM120, 1)]
    assert config.num_compute_capabilities == 2


def test_rtx_says_which_gpu_it_does_not_support() -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    capabilities = Flavour("tensorrt_rtx", trt).capabilities(H200)
    assert not capabilities.runnable
    assert capabilities.reason == f"tensorrt_rtx {trt.__version__} does not support this host's NVIDIA H200 (sm_90)"
    assert Flavour("tensorrt_rtx", trt).capabilities(RTX4090).runnable


def test_rtx_1_6_takes_hopper_by_its_default_capabilities() -> None:
    flavour = Flavour("tensorrt_rtx", fake_old_rtx())
    assert flavour.targets(None) == ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
    assert flavour.capabilities(H200).runnable
    assert not flavour.imports_own_domains
    config = Config()
    flavour.configure(config, ["sm_86", "sm_90"])
    assert config.set == []
