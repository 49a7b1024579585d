"""How the protocol's parts say what is wrong, and how they show what they got."""

from __future__ import annotations

from typing import Any

from service.errors import Fault

LONGEST = 60
"""Characters of a value that a message shows."""

MOST = 100
"""Faults that are reported of one request."""


class DataFault(ValueError):
    """Something wrong with a tensor's data: `pointer` leads from the data to it."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer, self.detail = pointer, detail


class Faults(list[Fault]):
    """Everything wrong with one request."""

    def report(self, pointer: str, detail: str) -> None:
        if len(self) < MOST:
            self.append(Fault(pointer, detail))


def shown(value: Any) -> str:
    """A JSON value in words, at most a line of them."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return _cut(str(value))
        case str():
            return f"the string {_cut(value)!r}"
        case list():
            return "a list"
    return "an object"


def named(name: str) -> str:
    """A name that a user gave, short enough for a message."""
    return _cut(name)


def escaped(key: str) -> str:
    """A key as part of a JSON pointer."""
    return _cut(key).replace("~", "~0").replace("/", "~1")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
