"""What makes a plugin fit to be used: `planforge plugins check PACKAGE`, and the tests of the built-in ones.

Everything that can be known without a GPU: declarations, fields, shapes, the reference against independent arithmetic,
kernels for every target, and TensorRT's side (in a child process, as TensorRT may abort) where it is installed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from service.plugins.case_checks import check_cases
from service.plugins.cases import cases_of
from service.plugins.catalogue import GROUP, plugins_in
from service.plugins.declaration_checks import check_declarations, check_fields
from service.plugins.kernel_checks import check_kernels, check_launches
from service.plugins.plugin import CudaPlugin
from service.plugins.results import Result
from service.plugins.tensorrt_checks import check_tensorrt


def check_package(package: str, cache: Path) -> Iterator[Result]:
    """All checks of all plugins of a package: the name of an installed package, an importable module, or a folder.

    `cache` keeps compiled kernels. Raises ValueError where there is no plugin.
    """
    plugins = plugins_of(package)
    if not plugins:
        raise ValueError(f"{package} holds no plugin: expected an installed package, a module or a plugin's folder")
    for plugin in plugins:
        yield from check_plugin(plugin, cache)


def check_plugin(plugin: type[CudaPlugin], cache: Path) -> Iterator[Result]:
    """All checks of one plugin, cheapest first. An exception within a check is a failure of that check."""
    yield from _guarded(plugin, "declaration", lambda: check_declarations(plugin))
    try:
        cases, oracle = cases_of(plugin)
    except Exception as error:
        yield Result(plugin.name, "cases", "", False, f"cases.py cannot be used: {type(error).__name__}: {error}")
        return
    right = [case for case in cases if not case.fault]
    yield Result(plugin.name, "cases", "", bool(right), f"{len(cases)} cases, {len(cases) - len(right)} to be refused")
    yield from _guarded(plugin, "fields", lambda: check_fields(plugin, right))
    yield from _guarded(plugin, "case", lambda: check_cases(plugin, cases, oracle))
    yield from _guarded(plugin, "launch", lambda: check_launches(plugin, right))
    yield from _guarded(plugin, "kernel", lambda: check_kernels(plugin, right, cache))
    yield from _guarded(plugin, "tensorrt", lambda: check_tensorrt(plugin, cache))


def plugins_of(package: str) -> list[type[CudaPlugin]]:
    """The plugins of an installed package, a module, or a folder with `plugin.py` in it or in folders below."""
    installed = [entry for entry in entry_points(group=GROUP) if entry.dist and entry.dist.name == package]
    if installed:
        return [plugin for entry in installed for plugin in plugins_in(entry.load())]
    if Path(package).is_dir():
        return [plugin for module in _modules_in(Path(package).resolve()) for plugin in plugins_in(module)]
    return _plugins_of_module(package)


def _plugins_of_module(name: str) -> list[type[CudaPlugin]]:
    """Of `name.plugin` for a package whose plugin stands there, else of the module itself."""
    found = [spelled for spelled in (f"{name}.plugin", name) if _exists(spelled)]
    return plugins_in(importlib.import_module(found[0])) if found else []


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # a parent that is not there or no package; no name at all
        return False


def _modules_in(folder: Path) -> Iterator[ModuleType]:
    """The plugin modules in a folder, imported by their packages' names."""
    for path in sorted([*folder.glob("plugin.py"), *folder.glob("*/plugin.py"), *folder.glob("src/*/plugin.py")]):
        top = path.parent
        while (top.parent / "__init__.py").exists():
            top = top.parent
        if str(top.parent) not in sys.path:
            sys.path.insert(0, str(top.parent))
        yield importlib.import_module(".".join(path.relative_to(top.parent).with_suffix("").parts))


def _guarded(plugin: type[CudaPlugin], check: str, run: Callable[[], Iterator[Result]]) -> Iterator[Result]:
    try:
        yield from run()
    except Exception as error:
        yield Result(plugin.name, check, "", False, f"{type(error).__name__}: {error}")
