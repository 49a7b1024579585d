"""What this host can do: creators and capabilities, read once at start by a child that may load every runtime.

The process that answers HTTP maps no TensorRT, ONNX Runtime or CUDA library, and a runtime that crashes while it is
looked at costs a line in `problems`, not the service.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from service.backends.base import Capabilities, OperatorKernel
from service.backends.host import Host
from service.backends.libraries import child_environment
from service.backends.registry import BACKENDS, backend
from service.backends.tensorrt import TensorRT
from service.plugins.catalogue import Catalogue, Entry, discover
from service.settings import Settings

ANSWER = "planforge-host: "
"""Marks the child's answer: runtimes print what they like."""


def probe(settings: Settings) -> Host:
    """Asks the child, one backend at a time, so that one that crashes takes no other along."""
    problems: list[str] = []
    found = discover(problems)
    capabilities: dict[str, Capabilities] = {}
    natives: dict[tuple[str, str, str], Entry] = {}
    for name in BACKENDS:
        answer = _ask(name, settings)
        if "problem" in answer:
            problems.append(f"{name}: {answer['problem']}")
            continue
        capabilities[name] = _capabilities_from_json(answer["capabilities"])
        natives |= {(each["name"], each["version"], each["namespace"]): each for each in answer["natives"]}
    return Host(Catalogue(found, tuple(natives.values())), capabilities, tuple(problems))


def _ask(name: str, settings: Settings) -> dict[str, Any]:
    libraries = [str(path) for path in settings.plugin_libraries]
    command = [sys.executable, "-m", "service.backends.probe", name, str(settings.kernel_cache), *libraries]
    environment = child_environment(settings.data_dir / "lib")
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    for line in child.stdout.splitlines():
        if line.startswith(ANSWER):
            answer: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
            return answer
    return {"problem": f"the process that looked at it ended with status {child.returncode}"}


def _capabilities_from_json(given: dict[str, Any]) -> Capabilities:
    kernels = tuple(
        OperatorKernel(**{**each, "datatypes": {key: tuple(kinds) for key, kinds in each["datatypes"].items()}})
        for each in given["kernels"]
    )
    return Capabilities(**{**given, "targets": tuple(given["targets"]), "kernels": kernels})


# In the child ---------------------------------------------------------------------------------------------------------


def _look(name: str, kernel_cache: Path, libraries: tuple[Path, ...]) -> dict[str, Any]:
    try:
        looked = backend(name, plugin_libraries=libraries, kernel_cache=kernel_cache)
        capabilities = asdict(looked.capabilities())
        natives = [*_natives(looked)] if isinstance(looked, TensorRT) else []
    except ImportError as error:
        return {"problem": f"not installed ({error})"}
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"}
    return {"capabilities": capabilities, "natives": natives}


def _natives(tensorrt: TensorRT) -> Iterator[Entry]:
    """Creators that are not ours. TensorRT's internal ones, which state no fields, are left out."""
    targets = list(tensorrt.capabilities().targets)
    for creator, origin in tensorrt.natives:
        fields = _stated_fields(creator)
        if not fields and origin == "tensorrt":
            continue
        yield {
            "name": creator.name,
            "version": creator.plugin_version,
            "namespace": creator.plugin_namespace,
            "summary": "",
            "operators": [],
            "fields": fields,
            "inputs": [],
            "outputs": [],
            "targets": targets,
            "origin": origin,
        }


def _stated_fields(creator: Any) -> list[Entry]:
    try:
        return [_describe(each) for each in creator.field_names]
    except Exception:  # whatever the binding makes of a creator that states none
        return []


def _describe(field: Any) -> Entry:
    return {
        "name": field.name,
        "type": field.type.name,
        "length": None,
        "required": False,
        "default": None,
        "choices": None,
        "minimum": None,
        "maximum": None,
        "description": "",
    }


def main() -> None:
    name, kernel_cache, *libraries = sys.argv[1:]
    answer = _look(name, Path(kernel_cache), tuple(map(Path, libraries)))
    print(ANSWER + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
