"""docs/structure.md names files that exist, and imports point along the data's way only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNTIMES = ("tensorrt", "tensorrt_rtx", "onnxruntime", "cuda")

VOCABULARY = {"datatypes", "errors", "settings", "children", "scratch"}
"""Single modules below everything else."""
ALLOWED = {
    **dict.fromkeys(VOCABULARY, VOCABULARY),
    "plugins": {"datatypes"},
    "backends": {"datatypes", "errors", "settings", "plugins"},
    "shape_rules": {"children"},
    "network": {"datatypes", "errors", "plugins", "backends", "shape_rules"},
    "protocol": {"datatypes", "errors", "backends"},
    "store": {"errors"},
    "builds": {*VOCABULARY, "backends", "store"},
    "hosting": {*VOCABULARY, "backends"},
    "api": {*VOCABULARY, "backends", "plugins", "network", "protocol", "hosting", "store"},
    "app": {*VOCABULARY, "api", "backends", "network", "hosting", "store"},
    "client": {"datatypes", "errors"},
    "commands": {*VOCABULARY, "app", "backends", "builds", "client", "network", "plugins", "store"},
    "cli": {"commands"},
}
"""Which parts of `service` each part may import."""

PURE = ("network", "plugins", "protocol")
WORLD = {
    "asyncio", "alembic", "fastapi", "httpx", "multiprocessing", "socket", "sqlalchemy", "sqlite3", "starlette",
    "subprocess", "uvicorn",
}  # fmt: skip
"""HTTP, databases and processes."""
TOOLS = {"service/plugins/tensorrt_checks.py"}
"""What `planforge plugins check` runs, and no service."""

Import = tuple[str, bool]


def sources(*parts: str) -> list[Path]:
    return sorted(path for part in parts for path in (ROOT / "service").glob(f"{part}.py")) + sorted(
        path for part in parts for path in (ROOT / "service" / part).rglob("*.py")
    )


def imports(path: Path) -> Iterator[Import]:
    """Every module that a file imports, and whether that happens as soon as the file itself is imported."""
    yield from _imports(ast.parse(path.read_text()), True)


def _imports(node: ast.AST, at_once: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module, "imports are absolute"
            yield child.module, at_once
        else:
            deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _for_types_only(child)
            yield from _imports(child, at_once and not deferred)


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_every_file_that_the_document_names_exists() -> None:
    named = re.findall(r"`([\w/]+/[\w.]+\.\w+)`", (ROOT / "docs/structure.md").read_text())
    assert len(named) > 30
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_every_part_has_its_rule() -> None:
    parts = {path.stem for path in (ROOT / "service").iterdir() if path.name[0] not in "_."}
    assert parts == ALLOWED.keys()


@pytest.mark.parametrize("part", ALLOWED)
def test_imports_point_one_way(part: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(part)
        for module, _ in imports(path)
        if module.startswith("service.") and module.split(".")[1] not in ALLOWED[part] | {part}
    }
    assert not wrong


@pytest.mark.parametrize("part", PURE)
def test_what_computes_knows_nothing_of_the_world(part: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(part)
        for module, _ in imports(path)
        if module.split(".")[0] in WORLD and str(path.relative_to(ROOT)) not in TOOLS
    }
    assert not wrong


def test_no_module_imports_a_runtime_when_it_is_imported() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in [*(ROOT / "service").rglob("*.py"), *(ROOT / "plugins_cuda").rglob("*.py")]
        for module, at_once in imports(path)
        if at_once and module.split(".")[0] in RUNTIMES
    }
    assert not wrong


def test_the_http_process_imports_no_runtime_and_no_tracer() -> None:
    code = f"import sys, service.app; print([name for name in {[*RUNTIMES]} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.strip() == "[]"


def test_plugins_know_only_the_sdk() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "plugins_cuda").rglob("*.py")
        for module, _ in imports(path)
        if module.startswith("service.") and not module.startswith("service.plugins")
    }
    assert not wrong
