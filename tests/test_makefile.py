"""The commands that everybody types, as far as they can be tried without waiting for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | variables
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A tree with just enough to install: pip is a program that writes down how it was called."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def environment_maker(folder: Path, version: str, works: bool = True) -> Path:
    """A stand-in for a Python of that version. What it makes has a `python` that logs its arguments."""
    path = folder / "bin" / "python"
    path.parent.mkdir(exist_ok=True)
    pretended = f"import sys; sys.version_info = ({version.replace('.', ', ')})"
    path.write_text(f"""#!/bin/sh
case "$1" in
-c) [ {int(works)} = 1 ] && exec {sys.executable} -c "{pretended}; $2" ;;
-m) mkdir -p .venv/bin && cp "$0" .venv/bin/python; echo "$@" >> calls ;;
esac
""")
    path.chmod(0o755)
    return path


def calls(clone: Path) -> list[str]:
    log = clone / "calls"
    return log.read_text().splitlines() if log.exists() else []


def test_installing_twice_costs_nothing_until_the_project_file_changes(clone: Path) -> None:
    python = environment_maker(clone, "3.12")
    first = run("make", "install", f"PYTHON={python}", cwd=clone)
    assert first.returncode == 0, first.stderr
    assert [call.split()[1] for call in calls(clone)] == ["venv", "pip", "pip"]
    assert calls(clone)[-1].endswith("--editable . --group dev")
    began = time.monotonic()
    assert run("make", "install", cwd=clone, PATH="/usr/bin:/bin").returncode == 0
    assert time.monotonic() - began < 1
    assert len(calls(clone)) == 3
    later = (clone / ".venv/.installed").stat().st_mtime + 5
    os.utime(clone / "pyproject.toml", (later, later))
    assert run("make", "install", cwd=clone).returncode == 0
    assert len(calls(clone)) == 5, "the environment is kept, the packages are refreshed"


@pytest.mark.parametrize(("version", "works"), [("3.10", True), ("3.13", True), ("3.12", False)])
def test_a_python_that_does_not_do_is_passed_over(clone: Path, version: str, works: bool) -> None:
    environment_maker(clone, version, works).rename(clone / "bin/python3.12")
    good = environment_maker(clone, "3.11")
    good.rename(clone / "bin/python3.11")
    result = run("make", "install", cwd=clone, PATH=f"{clone / 'bin'}:/usr/bin:/bin")
    assert result.returncode == 0, result.stderr
    assert (clone / ".venv/bin/python").read_text() == (clone / "bin/python3.11").read_text()


def test_without_any_python_it_says_what_is_missing(clone: Path) -> None:
    for name in ("python3.12", "python3.11", "python3"):
        environment_maker(clone, "3.9").rename(clone / "bin" / name)
    result = run("make", "install", cwd=clone, PATH=f"{clone / 'bin'}:/usr/bin:/bin")
    assert result.returncode != 0
    assert "PYTHON=" in result.stderr
    assert not (clone / ".venv/.installed").exists()


def test_help_lists_every_target() -> None:
    phony = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY"))
    listed = [line.split()[0] for line in run("make", "help").stdout.splitlines()]
    assert sorted(listed) == sorted(phony.split()[1:])


def test_ci_runs_check_and_test_with_the_real_models_where_they_are(tmp_path: Path) -> None:
    tree = tmp_path / "clone"
    (tree / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", tree / ".ci")
    (tree / "Makefile").write_text("check test:\n\t@echo $@ $(PLANFORGE_TEST_CASES)\n")
    told = {"PLANFORGE_TEST_CASES": ""}
    assert run(tree / ".ci/run", cwd=tmp_path, **told).stdout.splitlines() == ["check", "test"]
    (tmp_path / "shared/cases").mkdir(parents=True)
    cases = str(tmp_path / "shared/cases")
    assert run(tree / ".ci/run", cwd=tmp_path, **told).stdout.splitlines() == [f"check {cases}", f"test {cases}"]
    (tree / "Makefile").write_text("check:\n\t@false\ntest:\n\t@echo never\n")
    failed = run(tree / ".ci/run", cwd=tmp_path, **told)
    assert failed.returncode != 0 and "never" not in failed.stdout


def test_hooks_are_the_commands_of_make_check() -> None:
    assert [repository["repo"] for repository in HOOKS] == ["local"], "nothing is fetched"
    checks = run("make", "--dry-run", "check").stdout
    for hook in HOOKS[0]["hooks"]:
        assert hook["entry"] in checks


def test_hooks_refuse_a_commit(tmp_path: Path) -> None:
    shutil.copy(ROOT / ".pre-commit-config.yaml", tmp_path)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    (tmp_path / "bad.py").write_text("import os\nx = [1,2]\n")
    for command in (["init", "--quiet"], ["add", "bad.py", ".pre-commit-config.yaml"]):
        assert run("git", *command, cwd=tmp_path).returncode == 0
    pre_commit = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    refused = run(*pre_commit, "ruff-check", cwd=tmp_path, PRE_COMMIT_HOME=str(tmp_path / "home"))
    assert refused.returncode == 1 and "F401" in refused.stdout, refused.stdout + refused.stderr
    refused = run(*pre_commit, "ruff-format", cwd=tmp_path, PRE_COMMIT_HOME=str(tmp_path / "home"))
    assert refused.returncode == 1 and "bad.py" in refused.stdout
