"""Which engine crashes its host.

Where only one engine was in the host, it was that one. Where several were, each is under suspicion: it runs with
nothing beside it until it has answered once, so that the next crash shows whose it is and none pays for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar


class Member(Protocol):
    """An engine of the device, with its requests."""

    crashes: int
    """In a row."""

    @property
    def busy(self) -> bool:
        """Whether it runs or is being loaded."""

    @property
    def wanting(self) -> bool:
        """Whether requests wait for it."""

    def pump(self) -> None:
        """Starts what may start."""


Engine = TypeVar("Engine", bound=Member)


class Suspicion(Generic[Engine]):
    """Of one device."""

    def __init__(self) -> None:
        self.members: list[Engine] = []
        self._suspects: list[Engine] = []

    @property
    def anyone(self) -> bool:
        return bool(self._suspects)

    def may_start(self, member: Engine) -> bool:
        """Whether the member may run or load now; where not, it is pumped again when that changes."""
        if not self._suspects:
            return True
        if not any(suspect.busy or suspect.wanting for suspect in self._suspects):
            return True
        return member in self._suspects and not any(each.busy for each in self.members)

    def changed(self) -> None:
        """Something ended or left: others may have waited for it."""
        if self._suspects:
            for member in [*self._suspects, *self.members]:
                member.pump()

    def crashed(self, inside: Sequence[Engine]) -> Engine | None:
        """The host died with these engines in it. The one whose fault it was, where that is certain."""
        for member in inside:
            if member not in self._suspects:
                self._suspects.append(member)
        if len(inside) != 1:
            return None
        inside[0].crashes += 1
        return inside[0]

    def cleared(self, member: Engine) -> None:
        """It has answered, or is not started any more."""
        if member in self._suspects:
            self._suspects.remove(member)
            for each in list(self.members):
                each.pump()

    def leave(self, member: Engine) -> None:
        self.members.remove(member)
        self.cleared(member)
