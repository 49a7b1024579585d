"""What the engines of one device take, and which of them give way to another."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from service.errors import Unavailable


class Tenant(Protocol):
    """A loaded engine."""

    label: str
    last_used: float

    @property
    def evictable(self) -> bool:
        """Whether it neither runs nor is wanted nor is pinned."""


Engine = TypeVar("Engine", bound=Tenant)


class Budget(Generic[Engine]):
    """Sizes are bytes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._sizes: dict[Engine, int] = {}

    @property
    def used(self) -> int:
        return sum(self._sizes.values())

    def victims(self, size: int, label: str) -> list[Engine]:
        """Whom to unload for another engine of `size`, the least recently used first.

        Raises Unavailable where all that may be unloaded is not enough.
        """
        chosen: list[Engine] = []
        missing = self.used + size - self.total
        for tenant in sorted(self._sizes, key=lambda tenant: tenant.last_used):
            if missing <= 0:
                break
            if tenant.evictable:
                chosen.append(tenant)
                missing -= self._sizes[tenant]
        if missing > 0:
            held = self.used - sum(self._sizes[tenant] for tenant in chosen)
            raise Unavailable(
                f"{label} takes {size} bytes; the device's engines may take {self.total}, and those in use or pinned "
                f"take {held}"
            )
        return chosen

    def enter(self, tenant: Engine, size: int) -> None:
        self._sizes[tenant] = size

    def size_of(self, tenant: Engine) -> int:
        return self._sizes.get(tenant, 0)

    def leave(self, tenant: Engine) -> None:
        self._sizes.pop(tenant, None)
