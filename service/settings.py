"""All settings, read from `PLANFORGE_*` environment variables. An invalid one refuses to start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 2**20
Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Settings(BaseSettings):
    """Sizes are bytes, times are seconds."""

    model_config = SettingsConfigDict(env_prefix="PLANFORGE_", extra="forbid")

    data_dir: Path = Path("var")
    """Where the embedded database, uploads under way and compiled kernels lie."""
    database_url: str = ""
    """SQLAlchemy's; empty means SQLite in `data_dir`."""
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    log_level: str = "info"

    max_upload: Positive = 16 * 1024 * MIB
    max_json: Positive = 64 * MIB
    max_infer: Positive = 1024 * MIB
    """Of a request with binary tensors, which is held in memory."""
    max_nodes: Positive = 100_000
    """Nodes of a network, those in the bodies of control flow included."""

    plugin_libraries: Annotated[tuple[Path, ...], NoDecode] = ()
    """Shared libraries with TensorRT plugins of their own, separated by colons."""

    build_timeout: Seconds = 3600
    build_memory: Annotated[int, Field(gt=0, default_factory=_physical_memory)]
    """Private memory a build may take; all that the machine has, if not set."""
    build_attempts: Positive = 3
    """How often a build is started again whose worker died."""
    lease: Seconds = 15
    """A worker that has not been heard from for so long has lost its build."""
    poll: Seconds = 0.05
    """How often an idle worker looks for a build that another process queued."""

    request_timeout: Seconds = 60
    """Longest time an inference may take when neither request nor engine says."""
    engine_memory: Positive | None = None
    """What the loaded engines of a device may take together; a share of what is free, if not set."""
    engine_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Of what is free on a device when its engine host starts."""
    engine_crashes: Positive = 3
    """After so many crashes of its host in a row an engine is `failed`."""
    shared_memory: Annotated[int, Field(ge=MIB, multiple_of=4096)] = 256 * MIB
    """Through which tensors travel to a host and back; more than fits goes through memory of its own."""
    heartbeat: Seconds = 2
    """How often an engine host is asked whether it still answers."""
    heartbeat_patience: Seconds = 10
    """How long it may take to answer before it is ended."""

    @field_validator("plugin_libraries", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        return tuple(filter(None, given.split(":"))) if isinstance(given, str) else given

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{(self.data_dir / 'planforge.db').resolve()}"

    @property
    def kernel_cache(self) -> Path:
        """Compiled images, by content."""
        return self.data_dir / "kernels"

    @property
    def scratch(self) -> Path:
        """Files that a crash may leave behind and a start removes."""
        return self.data_dir / "scratch"
