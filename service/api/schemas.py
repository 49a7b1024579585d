"""What the service answers with, as types: FastAPI documents and serializes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

Status = Literal["queued", "building", "ready", "failed", "cancelled"]


class PluginField(BaseModel):
    name: str
    type: str = Field(description="TensorRT's PluginFieldType")
    length: int | None = Field(description="null: a list")
    required: bool
    default: Any
    choices: list[Any] | None
    minimum: float | None
    maximum: float | None
    description: str


class PluginInput(BaseModel):
    name: str
    datatypes: list[str]
    optional: bool
    shape: str
    description: str


class PluginOutput(BaseModel):
    name: str
    datatype: str = Field(description="a type, or the input whose type it has")
    shape: str
    optional: bool
    description: str


class Plugin(BaseModel):
    """A creator that networks may use."""

    name: str
    version: str
    namespace: str
    summary: str
    operators: list[str] = Field(description="ONNX operators that it takes over")
    fields: list[PluginField]
    inputs: list[PluginInput]
    outputs: list[PluginOutput]
    targets: list[str] = Field(description="GPUs that its kernels can be compiled for")
    origin: str = Field(description="built-in, or the package or library that registered it")


class PluginList(BaseModel):
    plugins: list[Plugin]


class TensorSignature(BaseModel):
    name: str
    datatype: str
    shape: list[int] = Field(description="-1 is a dynamic dimension")


class Progress(BaseModel):
    phase: str
    fraction: float = Field(description="0 to 1, never falls")


class KernelImage(BaseModel):
    target: str
    size: int
    sha256: str


class PluginInPlan(BaseModel):
    name: str
    version: str
    namespace: str
    nodes: int
    fields: list[dict[str, Any]] = Field(description="one a node, defaults included")
    kernels: list[KernelImage] = Field([], description="images that stand in the plan verbatim")
    ptx: KernelImage | None = Field(None, description="for GPUs newer than all of the kernels' targets")


class StoredPlan(BaseModel):
    size: int
    sha256: str


class Seconds(BaseModel):
    queued: float
    building: float


class EngineBody(BaseModel):
    """A build and what became of it."""

    id: str
    name: str
    version: int
    status: Status
    backend: str
    backend_version: str | None
    targets: list[str]
    runnable: bool = Field(description="whether this host can execute it")
    reason: str | None = Field(description="why it cannot")
    progress: Progress | None = Field(description="while building")
    error: dict[str, Any] | None = Field(description="problem details when failed")
    inputs: list[TensorSignature]
    outputs: list[TensorSignature]
    profiles: list[dict[str, Any]]
    plugins: list[PluginInPlan]
    plan: StoredPlan | None
    cached: bool
    serving: dict[str, Any]
    verify: bool
    no_cache: bool
    priority: int
    seconds: Seconds
    created_at: datetime
    updated_at: datetime


class ServedEngine(EngineBody):
    """An engine, and what this service has of it in memory."""

    loaded: bool = Field(description="whether an engine host has it in memory")
    memory: int = Field(description="bytes that it takes there, measured when it was loaded")


class EngineList(BaseModel):
    engines: list[EngineBody]
    next: str | None = Field(description="the cursor of the next page")


class Health(BaseModel):
    status: Literal["ok"] = "ok"
