"""Every sentence of the interface about the choice of backend and targets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.backends.base import Capabilities
from service.network.bodies import Faults
from service.network.graph import Placement
from service.network.targets import Choice, Chooser

RTX = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_120")
CPU = Capabilities("onnxruntime", "1.32.0", True, (), True)
AHEAD = Capabilities("tensorrt_rtx", "1.7.1", True, RTX, False, None, "no GPU on this host")
ON_RTX = replace(AHEAD, runnable=True, host_target="sm_86", reason=None)
ON_H200 = replace(AHEAD, host_target="sm_90", reason="TensorRT-RTX 1.7.1 does not run on sm_90")
TENSORRT = Capabilities("tensorrt", "11.0", True, ("sm_90",), True, "sm_90")
ABSENT = Capabilities("tensorrt", "", False, (), False, None, "not installed")
OLD_KERNELS = Placement("Old", "1", "planforge", ("sm_75", "sm_80"), {}, {})
NEW_KERNELS = Placement("New", "1", "planforge", ("sm_80", "sm_86", "sm_89", "sm_90"), {}, {})


def choose(backend, targets, *capabilities, placements=()):
    faults = Faults()
    chooser = Chooser({each.backend: each for each in capabilities}, placements, faults)
    choice = chooser.choose(backend, targets)
    assert (choice is None) == bool(faults)
    return choice or {fault.pointer: fault.detail for fault in faults}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ((TENSORRT, ON_RTX, CPU), Choice("tensorrt", ("sm_90",))),
        ((ON_RTX, CPU), Choice("tensorrt_rtx", ("sm_86",))),
        ((ABSENT, AHEAD, CPU), Choice("onnxruntime", ())),
        ((ABSENT, ON_H200, CPU), Choice("onnxruntime", ())),
    ],
)
def test_auto_takes_the_first_that_this_host_executes(capabilities, expected):
    assert choose("auto", None, *capabilities) == expected


def test_auto_where_nothing_executes():
    found = choose("auto", None, ABSENT, AHEAD)
    assert found == {
        "/backend": "no backend can execute here, so name one and its targets "
        "(tensorrt: not installed; tensorrt_rtx: no GPU on this host; onnxruntime: not installed)"
    }


def test_auto_with_targets_takes_the_first_tensorrt_that_builds_for_all():
    both = replace(TENSORRT, targets=("sm_86", "sm_90"), host_target="sm_86")
    assert choose("auto", ["sm_86"], both, AHEAD, CPU) == Choice("tensorrt", ("sm_86",))
    assert choose("auto", ["sm_86", "sm_120"], both, AHEAD, CPU) == Choice("tensorrt_rtx", ("sm_86", "sm_120"))


def test_auto_with_targets_keeps_their_order():
    assert choose("auto", ["sm_120", "sm_75"], AHEAD) == Choice("tensorrt_rtx", ("sm_120", "sm_75"))


def test_auto_with_targets_never_takes_the_cpu():
    assert "no backend can build for GPUs here" in choose("auto", ["sm_86"], ABSENT, CPU)["/backend"]


def test_auto_with_a_target_that_no_backend_has_names_those_that_there_are():
    found = choose("auto", ["sm_86", "sm_90", "sm_42"], AHEAD, CPU)
    assert found.keys() == {"/targets/1", "/targets/2"}
    assert found["/targets/1"].endswith("tensorrt_rtx can build this network for sm_75, sm_80, sm_86, sm_89, sm_120")


@pytest.mark.parametrize(
    ("capability", "placements", "expected"),
    [
        (ON_RTX, (), ("sm_86",)),
        (AHEAD, (), RTX),
        (ON_H200, (), RTX),
        (AHEAD, (NEW_KERNELS,), ("sm_80", "sm_86", "sm_89")),
        (AHEAD, (NEW_KERNELS, OLD_KERNELS), ("sm_80",)),
    ],
)
def test_a_named_backend_without_targets(capability, placements, expected):
    choice = choose("tensorrt_rtx", None, capability, CPU, placements=placements)
    assert choice == Choice("tensorrt_rtx", expected)


def test_a_named_backend_for_this_hosts_gpu_needs_kernels_for_it():
    found = choose("tensorrt_rtx", None, ON_RTX, placements=(OLD_KERNELS,))
    assert found == {"/backend": "this host's GPU is sm_86, for which planforge.Old has no kernels"}


def test_a_named_backend_without_any_target_that_all_plugins_have():
    lonely = replace(OLD_KERNELS, targets=("sm_100",))
    assert "no target that all plugins" in choose("tensorrt_rtx", None, AHEAD, placements=(lonely,))["/backend"]


def test_a_named_target_that_a_plugin_has_no_kernels_for():
    found = choose("tensorrt_rtx", ["sm_80", "sm_120"], AHEAD, placements=(NEW_KERNELS,))
    expected = "planforge.New has no kernels for sm_120; tensorrt_rtx can build this network for sm_80, sm_86, sm_89"
    assert found == {"/targets/1": expected}


@pytest.mark.parametrize("capabilities", [(ABSENT, AHEAD, CPU), (AHEAD, CPU)])
def test_a_backend_that_cannot_build_here(capabilities):
    expected = "tensorrt cannot build here: not installed; those that can: tensorrt_rtx, onnxruntime"
    assert choose("tensorrt", ["sm_90"], *capabilities) == {"/backend": expected}


def test_the_cpu_takes_no_targets():
    assert choose("onnxruntime", None, AHEAD, CPU) == Choice("onnxruntime", ())
    assert choose("onnxruntime", ["sm_86"], AHEAD, CPU).keys() == {"/targets"}


def test_a_target_is_named_once():
    assert choose("tensorrt_rtx", ["sm_86", "sm_80", "sm_86"], AHEAD) == {"/targets/2": "sm_86 is named twice"}
