"""Engines by reference, remembered for a moment: an inference does not wait for the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from service.backends.base import Profile, Range, TensorInfo
from service.store.engines import Engines
from service.store.records import Engine

FRESH = 1.0
"""Seconds after which another process's changes are seen. Those that went through this process are seen at once."""
MOST = 4096


@dataclass(frozen=True)
class Known:
    """An engine, and what of it every inference needs."""

    engine: Engine
    until: float

    @cached_property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return _signature(self.engine.inputs)

    @cached_property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return _signature(self.engine.outputs)

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        return tuple({name: _range(each) for name, each in profile.items()} for profile in self.engine.profiles)


class ReadyEngines:
    """Lives in one event loop. Only ready engines are remembered: the others change."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._known: dict[str, Known] = {}

    async def get(self, reference: str) -> Known:
        """The engine, ready or not. Raises NotFound."""
        known = self._known.get(reference)
        if known and time.monotonic() < known.until:
            return known
        engine = await asyncio.to_thread(self._engines.get, reference)
        known = Known(engine, time.monotonic() + FRESH)
        if engine.status == "ready":
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[reference] = known
        return known

    def seen(self, engine: Engine) -> None:
        """An engine as it stands now: what was remembered of its name goes where it is no longer so."""
        remembered = {known.engine.id for known in self._known.values() if known.engine.name == engine.name}
        if engine.status != "ready" or engine.id not in remembered:
            self.forget(engine)

    def forget(self, engine: Engine) -> None:
        for reference in [each for each, known in self._known.items() if known.engine.name == engine.name]:
            del self._known[reference]


def _signature(tensors: Sequence[Mapping[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(each["name"], each["datatype"], tuple(each["shape"])) for each in tensors)


def _range(stored: Mapping[str, Any]) -> Range:
    low, best, high = (tuple(stored[bound]) for bound in ("min", "opt", "max"))
    return Range(low, best, high, stored["values"])
