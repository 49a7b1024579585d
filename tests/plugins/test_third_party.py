"""A plugin that another package brings: written by the scaffold, built and installed by pip, checked and used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.plugins.scaffold import write_plugin
from tests.live import LiveService, serving


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip has installed the package into."""
    folder = tmp_path_factory.mktemp("third-party")
    package = write_plugin("SoftCap", folder, package=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder / "site"), str(package)], check=True, timeout=120)
    return folder / "site"


@pytest.fixture(scope="module")
def service(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site))
        with serving(tmp_path_factory.mktemp("service")) as service:
            yield service


def test_the_command_line_checks_it(site: Path) -> None:
    command = [sys.executable, "-m", "service.cli", "plugins", "check", "planforge-soft-cap"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all passed" in done.stdout


def test_the_service_lists_builds_and_runs_it(service: LiveService) -> None:
    plugin = service.client.plugin("SoftCap")
    assert plugin["origin"] == "planforge-soft-cap"
    network = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": ["rows", 4]}],
        "nodes": [{"plugin": "SoftCap", "inputs": ["x"], "outputs": ["y"], "fields": {"cap": 2.0}}],
        "outputs": ["y"],
    }
    profiles = [{"x": {"min": [1, 4], "opt": [1, 4], "max": [8, 4]}}]
    service.built({"name": "capped", "network": network, "profiles": profiles, "backend": "onnxruntime"})
    x = np.array([[0.5, -1.0, 3.0, 100.0]], np.float32)
    (y,) = service.client.infer("capped", {"x": x}).values()
    np.testing.assert_allclose(y, 2 * np.tanh(x / 2), rtol=1e-6)
    ahead = service.built({"name": "ahead", "network": network, "profiles": profiles, "targets": ["sm_86"]})
    assert ahead["backend"] == "tensorrt_rtx"
    (used,) = ahead["plugins"]
    assert [kernel["target"] for kernel in used["kernels"]] == ["sm_86"]
