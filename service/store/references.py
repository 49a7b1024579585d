"""What stands for an engine: its id, `NAME` (its newest ready version, else its newest) or `NAME:3`."""

from __future__ import annotations

import re

from sqlalchemy import case
from sqlalchemy.orm import Session

from service.errors import NotFound
from service.store.models import EngineRow
from service.store.states import engine_query

_REFERENCE = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,128})(:(?P<version>[1-9][0-9]{0,8}))?")


def engine_row(session: Session, reference: str) -> EngineRow:
    """The engine's row. Raises NotFound."""
    matched = _REFERENCE.fullmatch(reference)
    row = None
    if matched and matched["version"]:
        row = _version(session, matched["name"], int(matched["version"]))
    elif matched:
        row = _with_id(session, reference) or _newest(session, reference)
    if row is None:
        raise NotFound(f"no engine {reference!r}")
    return row


def _with_id(session: Session, engine_id: str) -> EngineRow | None:
    """Asked before names, since a name may look like an id."""
    return session.scalars(engine_query().where(EngineRow.id == engine_id)).first()


def _version(session: Session, name: str, version: int) -> EngineRow | None:
    return session.scalars(engine_query().where(EngineRow.name == name, EngineRow.version == version)).first()


def _newest(session: Session, name: str) -> EngineRow | None:
    ready_first = case((EngineRow.status == "ready", 0), else_=1)
    ordered = engine_query().where(EngineRow.name == name).order_by(ready_first, EngineRow.version.desc())
    return session.scalars(ordered.limit(1)).first()
