"""Every error that reaches a user, and the one place that knows which HTTP status each is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request: where (a JSON pointer into the body) and what."""

    pointer: str
    detail: str


@dataclass
class ServiceError(Exception):
    """What went wrong, as a sentence for the user; never a traceback, never a path of the server's."""

    detail: str
    faults: list[Fault] = field(default_factory=list)

    status = 500
    title = "Internal error"
    retry_after: float | None = None
    """Seconds after which the same request may succeed."""

    def __str__(self) -> str:
        return "; ".join([self.detail, *(f"{fault.pointer}: {fault.detail}" for fault in self.faults)])


class InvalidRequest(ServiceError):
    """The request's own content is wrong; `faults` says where."""

    status = 422
    title = "Invalid request"

    @classmethod
    def from_faults(cls, faults: Iterable[Fault]) -> InvalidRequest:
        listed = list(faults)
        return cls(f"{len(listed)} fault{'s' if len(listed) != 1 else ''} in the request", listed)


class NotFound(ServiceError):
    status = 404
    title = "Not found"


class MethodNotAllowed(ServiceError):
    status = 405
    title = "Method not allowed"


class Conflict(ServiceError):
    """The engine is in a state, or this host of a kind, that does not allow the call."""

    status = 409
    title = "Conflict"


class TooLarge(ServiceError):
    status = 413
    title = "Body too large"


class UnsupportedMedia(ServiceError):
    status = 415
    title = "Unsupported media type"


class RangeNotSatisfiable(ServiceError):
    status = 416
    title = "Range not satisfiable"


class PlanDamaged(ServiceError):
    """Stored bytes no longer match their SHA-256."""

    status = 500
    title = "Plan damaged"


@dataclass
class Unavailable(ServiceError):
    """Busy, or an engine host died; the same request may succeed later."""

    retry_after: float | None = 1.0

    status = 503
    title = "Unavailable"


class DeadlineExceeded(ServiceError):
    status = 504
    title = "Deadline exceeded"


class BuildFailed(ServiceError):
    """A build ended without a plan. Never an answer itself: it becomes the engine's `error`."""

    status = 500
    title = "Build failed"


class ExecutionFailed(ServiceError):
    """The engine was run and reported an error."""

    status = 500
    title = "Execution failed"


class DeviceLost(ExecutionFailed):
    """A CUDA error that stays: nothing works on the device any more until the process ends."""

    status = 503
    title = "Device lost"
    retry_after = 1.0


def problem_details(error: ServiceError) -> dict[str, object]:
    """RFC 9457 problem details, as errors are answered and kept."""
    details: dict[str, object] = {
        "type": problem_type(type(error)),
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
    }
    if error.faults:
        details["errors"] = [asdict(fault) for fault in error.faults]
    return details


def problem_type(kind: type[ServiceError]) -> str:
    """`urn:planforge:not-found` for NotFound."""
    return "urn:planforge:" + re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
