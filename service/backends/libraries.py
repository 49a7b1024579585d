"""Where TensorRT's libraries lie, and the environment a process needs to load them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

# module -> the package that holds its libraries
PACKAGES = {"tensorrt_rtx": "tensorrt_rtx_libs", "tensorrt": "tensorrt_libs"}


def library_folder(module: str) -> Path | None:
    """The folder of a module's shared libraries, found without importing it; None where it is not installed."""
    spec = importlib.util.find_spec(PACKAGES[module])
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def child_environment(links: Path) -> dict[str, str]:
    """This process's environment for a child that builds or runs engines.

    The ONNX parser opens TensorRT's library by its unversioned name while it adds a plugin layer, and ends the process
    where it finds none; the packages ship only the versioned one. So `links` gets a link of the unversioned name.
    """
    links.mkdir(parents=True, exist_ok=True)
    for module in PACKAGES:
        folder = library_folder(module)
        for library in sorted(folder.glob("lib*.so.*")) if folder else ():
            _link(links / f"{library.name.partition('.so')[0]}.so", library)
    path = filter(None, [str(links.resolve()), os.environ.get("LD_LIBRARY_PATH")])
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(path)}


def _link(link: Path, library: Path) -> None:
    if link.is_symlink() and link.readlink() == library:
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(library)
    fresh.replace(link)
