"""JSON bodies: read strictly, and what is wrong with one said with JSON pointers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from service.errors import Fault, InvalidRequest

MOST_FAULTS = 500
"""More than anyone reads; a hostile body cannot make an answer larger than this."""
LONGEST = 120
BRANCH = "\0"
"""Starts the tag of a union's branch."""

Body = TypeVar("Body", bound=BaseModel)


class Strict(BaseModel):
    """Base of every part of a body: no unknown keys, no conversions, finite numbers."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class Faults(list[Fault]):
    """Faults as they are found. Raises InvalidRequest with all of them once there are more than anyone reads."""

    def report(self, pointer: str, detail: str) -> None:
        self.append(Fault(pointer, detail))
        if len(self) >= MOST_FAULTS:
            raise InvalidRequest(f"{MOST_FAULTS} faults in the request, and maybe more", list(self))

    def raise_any(self) -> None:
        if self:
            raise InvalidRequest.from_faults(dict.fromkeys(self))


def read_body(kind: type[Body], body: bytes) -> Body:
    """A body read from its bytes. Raises InvalidRequest with every fault."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest.from_faults(request_faults(error)) from None


def request_faults(error: ValidationError) -> list[Fault]:
    """What pydantic found, as JSON pointers into the body."""
    found = error.errors(include_url=False, include_context=True)
    return [Fault(_pointer(each["loc"]), _detail(each)) for each in found[:MOST_FAULTS]]  # type: ignore[arg-type]


def escaped(part: Any) -> str:
    """A key as it stands in a JSON pointer (RFC 6901)."""
    return shorten(str(part).replace("~", "~0").replace("/", "~1"))


def shorten(text: str) -> str:
    """A user's own text, short and printable, for a message."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return shown if shown.isprintable() else "".join(c if c.isprintable() else "?" for c in shown)


def pointer_of(parts: Iterable[Any]) -> str:
    return "".join(f"/{escaped(part)}" for part in parts)


def _pointer(location: tuple[int | str, ...]) -> str:
    # Pydantic adds the branch of a union that it took, which is no key of the body.
    return pointer_of(part for part in location if not (isinstance(part, str) and part.startswith(BRANCH)))


_TEXTS = {
    "missing": "required, and not given",
    "extra_forbidden": "no such key",
    "string_type": "expected a string, got {got}",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
    "string_pattern_mismatch": "expected text of the form {pattern}, got {shown}",
    "int_type": "expected an integer, got {got}",
    "int_from_float": "expected an integer, got {got}",
    "float_type": "expected a number, got {got}",
    "bool_type": "expected true or false, got {got}",
    "list_type": "expected a list, got {got}",
    "dict_type": "expected an object, got {got}",
    "model_type": "expected an object, got {got}",
    "model_attributes_type": "expected an object, got {got}",
    "literal_error": "expected {expected}, got {shown}",
    "greater_than_equal": "expected at least {ge}, got {shown}",
    "less_than_equal": "expected at most {le}, got {shown}",
    "less_than": "expected less than {lt}, got {shown}",
    "too_short": "expected at least {min_length}, got {actual_length}",
    "too_long": "expected at most {max_length}, got {actual_length}",
    "finite_number": "expected a finite number",
    "json_invalid": "malformed JSON: {error}",
    "value_error": "{error}",
}


def _detail(error: dict[str, Any]) -> str:
    text = _TEXTS.get(error["type"])
    if text is None:
        return f"{error['msg']}, got {_shown(error['input'])}"
    got = {"got": name_of(error["input"]), "shown": _shown(error["input"])}
    return text.format(**got, **error.get("ctx", {}))


def _shown(value: Any) -> str:
    return shorten(repr(value)) if isinstance(value, str | int | float) else name_of(value)


def name_of(value: Any) -> str:
    """What JSON calls a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
    return "an object"
