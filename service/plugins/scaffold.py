"""`planforge plugins new NAME`: a plugin's folder that runs, to be changed into what its author needs."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from service.plugins.plugin import CudaPlugin

TEMPLATES = ("__init__.py", "plugin.py", "kernel.cu", "cases.py")
_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")


def write_plugin(name: str, into: Path, package: bool = False) -> Path:
    """Writes the plugin `name` (as `SoftCap`) and returns what to give to `planforge plugins check`.

    It becomes the folder `soft_cap` in `into`, or with `package` one that pip installs, `planforge-soft-cap`. Raises
    ValueError for a name that is no class's, FileExistsError where something is there already.
    """
    if not _NAME.fullmatch(name) or name == CudaPlugin.__name__:
        raise ValueError(f"{name!r} cannot name a plugin: expected a class name such as SoftCap")
    module = _module_name(name)
    root = into / (f"planforge-{module.replace('_', '-')}" if package else module)
    root.mkdir(parents=True)
    if package:
        _write("pyproject.toml", root, name, module)
    folder = root / module if package else root
    folder.mkdir(exist_ok=True)
    for template in TEMPLATES:
        _write(template, folder, name, module)
    return root


def _module_name(name: str) -> str:
    """`soft_cap` for `SoftCap`, `rms_norm` for `RMSNorm`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _write(template: str, folder: Path, name: str, module: str) -> None:
    text = (files("service.plugins") / "templates" / f"{template}.txt").read_text()
    filled = text.replace("PLUGIN_NAME", name).replace("MODULE_NAME", module)
    (folder / template).write_text(filled.replace("DISTRIBUTION", f"planforge-{module.replace('_', '-')}"))
