"""What one host can do, as a process that loads no runtime knows it."""

from __future__ import annotations

from dataclasses import dataclass

from service.backends.base import Capabilities
from service.plugins.catalogue import Catalogue


@dataclass(frozen=True)
class Host:
    """`capabilities` by backend; one that is not installed is not in it, and `problems` says why."""

    catalogue: Catalogue
    capabilities: dict[str, Capabilities]
    problems: tuple[str, ...] = ()
