"""What a check of a plugin says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One check of a plugin, of one case where `case` is not empty."""

    plugin: str
    check: str
    case: str
    ok: bool
    detail: str = ""

    def __str__(self) -> str:
        said = ": ".join(filter(None, [self.case, self.detail]))
        return f"{'ok    ' if self.ok else 'FAILED'} {self.plugin} {self.check}{' - ' if said else ''}{said}"
