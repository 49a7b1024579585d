from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from service.plugins.scaffold import write_plugin

CHECK = """
import sys
from pathlib import Path
from service.plugins.conformance import check_package
results = list(check_package(sys.argv[1], Path(sys.argv[2])))
print(*results, sep="\\n")
sys.exit(not all(result.ok for result in results))
"""


def check(package: str | Path, cache: Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it imports the new plugin's module."""
    path = os.pathsep.join(map(str, filter(None, [folder, *sys.path])))
    return subprocess.run(
        [sys.executable, "-c", CHECK, package, cache],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("package", [False, True])
def test_a_new_plugin_conforms(tmp_path: Path, package: bool) -> None:
    root = write_plugin("GatedCap", tmp_path / "plugins", package)
    assert root.name == ("planforge-gated-cap" if package else "gated_cap")
    done = check(root, tmp_path / "kernels")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok     GatedCap build" in done.stdout


def test_a_new_package_says_how_it_is_found(tmp_path: Path) -> None:
    project = tomllib.loads((write_plugin("GatedCap", tmp_path, package=True) / "pyproject.toml").read_text())
    assert project["project"]["entry-points"] == {"planforge.plugins": {"GatedCap": "gated_cap.plugin"}}


def test_a_plugin_that_was_broken_does_not_conform(tmp_path: Path) -> None:
    root = write_plugin("Wrong", tmp_path)
    kernel = root / "kernel.cu"
    kernel.write_text(kernel.read_text().replace("float cap, long long size", "long long size, float cap"))
    done = check(root, tmp_path / "kernels")
    assert done.returncode == 1
    assert "FAILED Wrong kernel - parameters: wrong_bf16 takes 64 64 64 f32, is given 64 64 f32 64" in done.stdout


@pytest.mark.parametrize("name", ["softcap", "Soft-Cap", "../Cap", "", "CudaPlugin"])
def test_a_name_that_is_no_class_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a plugin"):
        write_plugin(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_plugin("RMSThing", tmp_path)
    with pytest.raises(FileExistsError):
        write_plugin("RMSThing", tmp_path)
    assert (tmp_path / "rms_thing" / "plugin.py").exists()
