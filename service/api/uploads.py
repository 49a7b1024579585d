"""The form of `POST /engines`: parts `options`, `model` and any number of `data`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from service.api.bodies import limited
from service.api.multipart import Part, receive_parts
from service.network.bodies import Faults, read_body, shorten
from service.network.options import EngineOptions
from service.settings import Settings

NAMES = ("options", "model", "data")


@dataclass(frozen=True)
class Upload:
    """An ONNX file and its external data by location, all in a folder that its receiver removes."""

    options: EngineOptions
    model: Path
    data: Mapping[str, Path]


async def receive_upload(request: Request, settings: Settings, folder: Path) -> Upload:
    """Raises InvalidRequest, TooLarge."""
    body = limited(request, settings.max_upload)
    limits = {"options": settings.max_json}
    parts = await receive_parts(request.headers["content-type"], body, folder, limits)
    return await asyncio.to_thread(_upload_from_parts, parts)


def _upload_from_parts(parts: list[Part]) -> Upload:
    faults = Faults()
    for part in parts:
        if part.name not in NAMES:
            faults.report("", f"unknown part {shorten(part.name)!r}, expected {', '.join(NAMES)}")
    named = {name: [part for part in parts if part.name == name] for name in NAMES}
    for name in ("options", "model"):
        if len(named[name]) != 1:
            faults.report(f"/{name}", f"expected one part {name}, got {len(named[name]) or 'none'}")
    data = _by_location(named["data"], faults)
    faults.raise_any()
    options = read_body(EngineOptions, named["options"][0].path.read_bytes())
    return Upload(options, named["model"][0].path, data)


def _by_location(parts: list[Part], faults: Faults) -> dict[str, Path]:
    data: dict[str, Path] = {}
    for part in parts:
        if not part.filename:
            faults.report("/data", "a part data needs a file name: the location that the model gives it")
        elif part.filename in data:
            faults.report("/data", f"two parts data have the file name {shorten(part.filename)!r}")
        else:
            data[part.filename] = part.path
    return data
