"""An exception in any of TensorRT's callbacks fails the build with its message. On real TensorRT-RTX, which itself
loses most of them, builds a broken plan after one in serialization, and dies of others."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.backends.libraries import child_environment
from service.builds.messages import Job
from tests.builds.yard import PROFILE, model_of

PLUGIN = '''
from service.plugins import FLOATS, CudaPlugin, Launch, Tensor, TensorType, field


class Faulty(CudaPlugin):
    """Raises where it is told to."""

    where: str = field("nowhere", "which method")
    inputs = (Tensor("x", FLOATS),)
    outputs = (Tensor("y", like="x"),)

    def _stumble(self, place):
        if self.where == place:
            raise RuntimeError(f"stumbled in {place}")

    def infer(self, given, *more):
        known = [kind for kind in given if kind and kind.shape is not None]
        self._stumble("shapes" if known else "datatypes")
        return super().infer(given, *more)

    def workspace(self, tensors):
        self._stumble("workspace")
        return 0

    @property
    def given_values(self):
        self._stumble("serialization")
        return super().given_values

    def reference(self, op, x):
        return op.Identity(x)
'''


BUILD = """
import sys
from functools import partial
from pathlib import Path
from service.backends.registry import backend
from service.builds.builder import run
run(Path(sys.argv[1]), 1, partial(backend, kernel_cache=Path(sys.argv[2])))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder to put on a path: an installed distribution with the faulty plugin."""
    folder = tmp_path / "site"
    info, module = folder / "faulty_ops-1.0.dist-info", folder / "faulty_ops"
    info.mkdir(parents=True)
    module.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[planforge.plugins]\nfaulty = faulty_ops.plugin\n")
    (module / "__init__.py").touch()
    (module / "plugin.py").write_text(PLUGIN)
    (module / "kernel.cu").write_text('extern "C" __global__ void nothing() {}\n')
    return folder


def build(package: Path, where: str, kernels: Path) -> dict[str, Any]:
    """The last event of a builder that knows the package."""
    sys.path.insert(0, str(package))
    try:
        faulty = importlib.import_module("faulty_ops.plugin").Faulty
        broken, faulty.given_values = faulty.given_values, faulty.__mro__[1].given_values
        model = model_of([(faulty(where=where), "x", "y")])
        faulty.given_values = broken
    finally:
        sys.path.remove(str(package))
        for name in [name for name in sys.modules if name.startswith("faulty_ops")]:
            del sys.modules[name]
    folder = package.parent
    (folder / "model.onnx").write_bytes(model)
    (folder / "job.json").write_text(Job("tensorrt_rtx", ("sm_86",), (PROFILE,), 2**36).to_json())
    environment = child_environment(folder / "lib") | {"PYTHONPATH": f"{package}:{Path.cwd()}"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder, kernels], env=environment, capture_output=True, text=True, check=True
    )
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


@pytest.mark.parametrize("where", ["datatypes", "shapes", "workspace", "serialization"])
def test_a_callbacks_exception_fails_the_build_with_its_message(package: Path, where: str, tmp_path: Path) -> None:
    last = build(package, where, tmp_path / "kernels")
    assert last["kind"] == "failed"
    assert f"stumbled in {where}" in last["detail"]
    assert "Faulty" in last["detail"]


def test_the_same_plugin_builds_where_nothing_is_raised(package: Path, tmp_path: Path) -> None:
    assert build(package, "nowhere", tmp_path / "kernels")["kind"] == "finished"
