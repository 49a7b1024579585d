"""Named tensors of a request: lists of objects with known keys, whose names are an engine's, each once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from service.backends.base import TensorInfo
from service.protocol.faults import Faults, escaped, named, shown

Entry = dict[str, Any]


def unknown_keys(given: Mapping[str, Any], known: Collection[str], pointer: str, faults: Faults) -> None:
    for key in given:
        if key not in known:
            faults.report(f"{pointer}/{escaped(key)}", f"unknown key; there are {', '.join(known)}")


def entries(
    given: Any, key: str, infos: Sequence[TensorInfo], known: Collection[str], faults: Faults
) -> Iterator[tuple[str, Entry, TensorInfo]]:
    """The objects of the list under `key` that name a tensor of `infos`, each with its pointer."""
    if type(given) is not list:
        faults.report(f"/{key}", f"expected a list, got {shown(given)}")
        return
    by_name = {info.name: info for info in infos}
    seen: set[str] = set()
    for index, entry in enumerate(given):
        pointer = f"/{key}/{index}"
        if type(entry) is not dict:
            faults.report(pointer, f"expected an object, got {shown(entry)}")
            continue
        unknown_keys(entry, known, pointer, faults)
        name = entry.get("name")
        if type(name) is not str:
            faults.report(f"{pointer}/name", f"expected a string, got {shown(name)}" if "name" in entry else "missing")
        elif name not in by_name:
            listed = ", ".join(by_name) or "none"
            faults.report(f"{pointer}/name", f"the engine has no {key[:-1]} {named(name)}; it has {listed}")
        elif name in seen:
            faults.report(f"{pointer}/name", f"{named(name)} is there already")
        else:
            seen.add(name)
            yield pointer, entry, by_name[name]
