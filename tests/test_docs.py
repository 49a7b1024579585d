"""What README.md and docs/ show is what happens: commands are run, outputs compared, tables held against the code."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from examples.running import running_service
from service.plugins.evaluation import evaluate_reference
from service.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent
ADDRESS = "http://127.0.0.1:8000"
MOVING = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "ID",
    r"\b[0-9a-f]{64}\b": "SHA-256",
    r'"size":\d+': '"size":N',
}
"""What differs from run to run, or with the version of a compiler."""


def section(title: str, text: str = README) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found[1]


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of every code block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shell(script: str, folder: Path) -> str:
    """What the script prints, with this environment's programs in front."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env={**os.environ, "PATH": path}, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout.replace("\r", "")


def still(text: str, moving: dict[str, str]) -> list[str]:
    for pattern, replacement in moving.items():
        text = re.sub(pattern, replacement, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_service() as (address, _):
        yield address


def test_the_session_prints_what_the_readme_says(address: str, tmp_path: Path) -> None:
    parts = blocks(section("A session"))
    scripts, outputs = parts[::2], parts[1::2]
    assert len(scripts) == len(outputs) == 5
    for (language, script), (kind, expected) in zip(scripts, outputs, strict=True):
        assert (language, kind) == ("bash", "text")
        assert ADDRESS in script
        printed = shell(script.replace(ADDRESS, address), tmp_path)
        assert still(printed, MOVING) == still(expected, MOVING)
    assert (tmp_path / "ahead.plan").read_bytes()[:4] == b"vtrt"


def test_a_new_plugin_works_as_it_stands(tmp_path: Path) -> None:
    ((language, script),) = blocks(section("Adding a plugin"))
    assert language == "bash"
    assert "all passed" in shell(script, tmp_path)


def test_the_demo_prints_what_the_readme_says() -> None:
    expected = next(content for kind, content in blocks(section("Two commands")) if "make demo" in content)
    printed = shell("python -m examples.demo", ROOT)
    assert shapes(printed) == shapes(expected.removeprefix("$ make demo\n"))


def shapes(text: str) -> list[str]:
    """The lines without numbers and digests. Which phases of a build are seen is a matter of timing."""
    lines = still(text, {r"\b[0-9a-f]{16,64}\b": "SHA-256", r"\d+(\.\d+)?(e[+-]?\d+)?": "N"})
    return [" ".join(line.split()) for line in lines if not re.match(r"\s*N%", line) and "Installing" not in line]


def test_every_target_that_the_readme_names_is_in_the_makefile() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named and named <= targets


def test_the_table_of_settings_is_complete_and_right() -> None:
    rows = re.findall(r"^\| `PLANFORGE_(\w+)` \| (.+?) \| \S", section("Settings"), re.MULTILINE)
    assert [name.lower() for name, _ in rows] == list(Settings.model_fields)
    stated = {name.lower(): default.strip("`") for name, default in rows if default.startswith("`")}
    defaults = {name: Settings.model_fields[name].default for name in stated}
    assert stated == {name: f"{each:g}" if isinstance(each, float) else str(each) for name, each in defaults.items()}
    in_words = {"database_url", "plugin_libraries", "build_memory", "engine_memory"}
    assert Settings.model_fields.keys() - stated == in_words


def test_the_plugin_in_the_guide_computes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = next(content for kind, content in blocks((ROOT / "docs/plugins.md").read_text()) if kind == "python")
    (tmp_path / "soft_cap_of_the_guide.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    plugin = importlib.import_module("soft_cap_of_the_guide").SoftCap
    x = np.linspace(-50, 50, 101, dtype=np.float32)
    (y,) = evaluate_reference(plugin(cap=10.0), {"x": x}, 1)
    np.testing.assert_allclose(y, 10 * np.tanh(x.astype(np.float64) / 10), rtol=1e-5)


@pytest.mark.parametrize("path", ["README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(path: str) -> None:
    text = (ROOT / path).read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / path).parent / target).exists(), target
