"""The command line, as its users call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.acceptance.networks import scale_bias
from tests.live import LiveService

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(live: LiveService, tmp_path: Path) -> Run:
    """Runs a command in an empty folder, with the live service as the one to talk to."""

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "PLANFORGE_URL": live.url, **settings}
        command = [sys.executable, "-m", "service.cli", *arguments]
        pythonpath = str(Path(__file__).parents[1])
        return subprocess.run(
            command,
            env={**environment, "PYTHONPATH": pythonpath},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def failed(result: subprocess.CompletedProcess[str], status: int = 1) -> str:
    """What a command that failed said, which is never a traceback."""
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize("command", [
    (), ("serve",), ("worker",), ("plugins",), ("plugins", "list"), ("plugins", "new"), ("plugins", "check"),
    ("build",), ("infer",),
])  # fmt: skip
def test_help(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.returncode == 0
    assert result.stdout.startswith(f"usage: planforge{' ' if command else ''}{' '.join(command)}")


def test_called_wrongly(run: Run) -> None:
    assert "usage:" in failed(run(), 2)
    assert "serve" in failed(run("srve"), 2)
    assert "PLANFORGE_PORT" in failed(run("serve", "--port", "99999"), 2)
    assert "PLANFORGE_LEASE" in failed(run("serve", PLANFORGE_LEASE="soon"), 2)
    assert "expected debug" in failed(run("worker", "--log-level", "loud"), 2)
    assert "INPUT:MIN,OPT,MAX" in failed(run("build", "x.onnx", "--profile", "x:1,2"), 2)


def test_databases_that_cannot_be_used(run: Run) -> None:
    for command in ("serve", "worker"):
        assert "mysql" in failed(run(command, "--database-url", "mysql://nowhere/x"))
        assert "database" in failed(run(command, "--database-url", "sqlite:////proc/nowhere/x.db"))


def test_no_service_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    for command in (("build", "x.json"), ("infer", "x")):
        assert "planforge serve" in failed(run(*command, "--url", "http://127.0.0.1:9"))


def test_build_and_infer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(json.dumps(scale_bias("by-hand")))
    result = run("build", "net.json", "-o", "plans")
    assert result.returncode == 0, result.stderr
    assert "engine by-hand:1" in result.stdout
    assert "ready in" in result.stdout
    assert (tmp_path / "plans" / "by-hand-1.plan").stat().st_size > 0
    np.savez(tmp_path / "in.npz", x=np.ones((2, 8), np.float32), unused=np.ones(1))
    for arguments in ((), ("--reference",)):
        assert run("infer", "by-hand", "in.npz", "-o", "out.npz", *arguments).returncode == 0
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], np.full((2, 8), 4, np.float32))
    np.save(tmp_path / "x.npy", np.ones((1, 8), np.float32))
    assert "[4. 4." in run("infer", "by-hand:1", "x=x.npy").stdout


def test_build_an_onnx_file_with_external_data(run: Run, tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    weight = numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "graph", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "eye.onnx", save_as_external_data=True, location="eye.bin", size_threshold=0)
    assert "/profiles" in failed(run("build", "eye.onnx", "--backend", "onnxruntime"))
    result = run("build", "eye.onnx", "--backend", "onnxruntime", "--profile", "x:1x64,2x64,4x64")
    assert result.returncode == 0, result.stderr
    assert "engine eye:1" in result.stdout


def test_what_the_service_refuses_is_shown(run: Run, tmp_path: Path) -> None:
    body = scale_bias("refused")
    body["network"]["nodes"][0]["fields"]["scael"] = 1.0
    (tmp_path / "net.json").write_text(json.dumps(body))
    assert "/network/nodes/0/fields/scael" in failed(run("build", "net.json"))
    (tmp_path / "net.json").write_text("{")
    assert "net.json is not JSON" in failed(run("build", "net.json"))
    (tmp_path / "net.onnx").write_text("{")
    assert "not an ONNX model" in failed(run("build", "net.onnx"))
    assert "no such file" in failed(run("build", "nothing.json")).lower()
    assert "no engine 'nope'" in failed(run("infer", "nope"))


def test_plugins(run: Run, tmp_path: Path) -> None:
    listed = run("plugins", "list")
    assert "planforge.ScaleBias version 1" in listed.stdout
    assert run("plugins", "new", "SoftCap").returncode == 0
    assert (tmp_path / "soft_cap" / "kernel.cu").exists()
    assert "is there already" in failed(run("plugins", "new", "SoftCap"))
    assert "SoftCap" in failed(run("plugins", "new", "soft cap"), 2)
    checked = run("plugins", "check", "soft_cap")
    assert checked.returncode == 0, checked.stdout
    assert "all passed" in checked.stdout
    assert "nowhere" in failed(run("plugins", "check", "nowhere"))
