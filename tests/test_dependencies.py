"""docs/dependencies.md and pyproject.toml name the same packages, and imports need no others."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SECTIONS = {
    "Always": PROJECT["project"]["dependencies"],
    **{f"Extra `{name}`": listed for name, listed in PROJECT["project"]["optional-dependencies"].items()},
    "To develop": PROJECT["dependency-groups"]["dev"],
}
NOT_INSTALLED_HERE = {"tensorrt"}
PART_OF = {"starlette": "fastapi", "pydantic-core": "pydantic", "protobuf": "onnx"}
"""Packages that another one is made of, and pins."""
OWN = {"service", "plugins_cuda", "migrations", "tests", "examples", "benchmarks"}


def names(requirements: Iterable[str]) -> list[str]:
    """Package names in the one spelling that counts."""
    return [re.split(r"[^A-Za-z0-9._-]", each)[0].lower().replace("_", "-") for each in requirements]


def explained() -> dict[str, list[str]]:
    """The packages in each section of the document."""
    sections = re.split(r"^## (.+)$", (ROOT / "docs/dependencies.md").read_text(), flags=re.MULTILINE)[1:]
    pairs = zip(sections[::2], sections[1::2], strict=True)
    return {title: re.findall(r"^- `([^`]+)`: \S", body, re.MULTILINE) for title, body in pairs}


def test_every_dependency_has_its_line_and_every_line_its_dependency() -> None:
    assert explained() == {title: names(listed) for title, listed in SECTIONS.items()}


@pytest.mark.parametrize("section", SECTIONS)
def test_lists_are_sorted(section: str) -> None:
    assert names(SECTIONS[section]) == sorted(names(SECTIONS[section]))


def imported(folders: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Top-level modules of other packages that files in the folders import."""
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        beside = {each.stem for each in path.parent.glob("*.py")}
        for module in modules(ast.parse(path.read_text())):
            if module not in sys.stdlib_module_names | OWN | NOT_INSTALLED_HERE | beside:
                yield module, path


def modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def provided_by(module: str) -> set[str]:
    """The packages whose declaration allows the import of a module."""
    providers = names(packages_distributions().get(module, []))
    return {PART_OF.get(each, each) for each in providers}


@pytest.mark.parametrize(
    ("folders", "allowed"),
    [
        (["service", "plugins_cuda", "migrations"], SECTIONS["Always"]),
        (["tests", "examples", "benchmarks"], [each for listed in SECTIONS.values() for each in listed]),
    ],
)
def test_nothing_is_imported_that_is_not_declared(folders: list[str], allowed: list[str]) -> None:
    wanted = set(names(allowed))
    found = set(imported(folders))
    declared = {module for module in {module for module, _ in found} if wanted & provided_by(module)}
    assert not {f"{path.relative_to(ROOT)} imports {module}" for module, path in found if module not in declared}
