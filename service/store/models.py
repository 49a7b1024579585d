"""The tables. Wide rows are written once or twice; what changes often (`builds`, `logs`) stands in narrow ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, ForeignKey, Index, LargeBinary, String, Text, TypeDecorator
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class UtcTime(TypeDecorator[datetime]):
    """A point in time, in UTC on both sides, also where the database forgets the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class AnyText(TypeDecorator[str]):
    """Text that a program wrote: what no database keeps (NUL, half surrogates) becomes U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


Identifier = String(36)
Sha256 = String(64)
Json = JSON(none_as_null=True)


class Base(DeclarativeBase):
    type_annotation_map = {datetime: UtcTime, dict[str, Any]: Json, list[Any]: Json}  # noqa: RUF012


class NameRow(Base):
    """A name and the last version given under it, which is never given again."""

    __tablename__ = "names"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    last_version: Mapped[int]


class EngineRow(Base):
    """What was asked for and what became of it."""

    __tablename__ = "engines"
    __table_args__ = (Unique("name", "version"), Index("ix_engines_queue", "status", "priority", "id"))

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    name: Mapped[str] = mapped_column(ForeignKey("names.name"))
    version: Mapped[int]
    status: Mapped[str] = mapped_column(String(16))
    backend: Mapped[str] = mapped_column(String(32))
    backend_version: Mapped[str | None] = mapped_column(Text)
    targets: Mapped[list[Any]]
    profiles: Mapped[list[Any]]
    inputs: Mapped[list[Any]]
    outputs: Mapped[list[Any]]
    plugins: Mapped[list[Any]]
    serving: Mapped[dict[str, Any]]
    verify: Mapped[bool]
    no_cache: Mapped[bool]
    cached: Mapped[bool] = mapped_column(default=False)
    priority: Mapped[int] = mapped_column(BigInteger)
    error: Mapped[dict[str, Any] | None]
    model_sha256: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    plan_sha256: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    build: Mapped[BuildRow] = relationship(passive_deletes="all")
    model: Mapped[BlobRow] = relationship(foreign_keys=[model_sha256])
    plan: Mapped[BlobRow | None] = relationship(foreign_keys=[plan_sha256])


class FileRow(Base):
    """External data of an engine's model. The location is the user's and of any length, so no key."""

    __tablename__ = "engine_files"

    engine_id: Mapped[str] = mapped_column(ForeignKey("engines.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    location: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"), index=True)


class BuildRow(Base):
    """How an engine's build stands. Whoever knows `token` holds the claim; it is None while nobody does."""

    __tablename__ = "builds"

    engine_id: Mapped[str] = mapped_column(ForeignKey("engines.id", ondelete="CASCADE"), primary_key=True)
    token: Mapped[str | None] = mapped_column(Identifier)
    worker: Mapped[str | None] = mapped_column(Text)
    lease_until: Mapped[datetime | None] = mapped_column(index=True)
    attempts: Mapped[int] = mapped_column(default=0)
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    phase: Mapped[str] = mapped_column(AnyText, default="")
    fraction: Mapped[float] = mapped_column(default=0.0)
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    advanced_at: Mapped[datetime | None]


class LogRow(Base):
    """A piece of a build's log, in the order of `id`."""

    __tablename__ = "logs"
    __table_args__ = (Index("ix_logs_engine_id", "engine_id", "id"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    engine_id: Mapped[str] = mapped_column(ForeignKey("engines.id", ondelete="CASCADE"))
    text: Mapped[str] = mapped_column(AnyText)


class BlobRow(Base):
    """Bytes by their SHA-256. The chunks stand under `content`, so that damaged ones can be replaced."""

    __tablename__ = "blobs"

    sha256: Mapped[str] = mapped_column(Sha256, primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    content: Mapped[str] = mapped_column(Identifier, unique=True)


class ChunkRow(Base):
    """A piece of a content; all but the last are of one size."""

    __tablename__ = "chunks"

    content: Mapped[str] = mapped_column(Identifier, primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class StagedRow(Base):
    """A content that somebody is about to refer to, or that nobody refers to any more and that can go."""

    __tablename__ = "staged"

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    content: Mapped[str] = mapped_column(Identifier, index=True)
    touched_at: Mapped[datetime]


class WorkerRow(Base):
    """When a worker was last heard from."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(256), primary_key=True)
    seen_at: Mapped[datetime]
