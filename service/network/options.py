"""What a request says beside its network: name, profiles, backend, targets, serving."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from service.network.bodies import Strict

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}$", description="letters, digits, dot, underscore, dash")]
Target = Annotated[str, Field(pattern=r"^sm_[0-9]{2,3}[af]?$")]
LARGEST = 2**31 - 1
"""Elements along one dimension."""
Dimension = Annotated[int, Field(ge=0, le=LARGEST)]
Value = Annotated[int, Field(ge=-(2**63), lt=2**63)]
BACKEND_NAMES = ("tensorrt", "tensorrt_rtx", "onnxruntime")

MOST_RANK = 64
MOST_PROFILES = 64


class Bounds(Strict):
    """The values of an input that sets shapes, flat."""

    min: Annotated[list[Value], Field(max_length=MOST_RANK)]
    opt: Annotated[list[Value], Field(max_length=MOST_RANK)]
    max: Annotated[list[Value], Field(max_length=MOST_RANK)]


class InputRange(Strict):
    """Shapes that an input may have (`opt` is the one to be fast for), or its values where those set shapes."""

    min: Annotated[list[Dimension], Field(max_length=MOST_RANK)] | None = None
    opt: Annotated[list[Dimension], Field(max_length=MOST_RANK)] | None = None
    max: Annotated[list[Dimension], Field(max_length=MOST_RANK)] | None = None
    values: Bounds | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> InputRange:
        given = [bound for bound in (self.min, self.opt, self.max) if bound is not None]
        if len(given) not in (0, 3) or bool(given) == bool(self.values):
            raise ValueError("expected either min, opt and max, or values")
        return self


class Batching(Strict):
    """Requests that wait for each other to run as one."""

    max_batch: Annotated[int, Field(ge=1, le=65536)]
    max_delay_us: Annotated[int, Field(ge=0, le=60_000_000)] = 500


class Serving(Strict):
    """How an engine is run; never part of what is built."""

    instances: Annotated[int, Field(ge=1, le=64, description="requests that run at a time")] = 1
    pinned: Annotated[bool, Field(description="never unloaded to make room")] = False
    warmup: Annotated[bool, Field(description="loaded and run once as soon as it is ready")] = False
    queue: Annotated[int, Field(ge=1, le=65536, description="requests that may wait")] = 64
    timeout_us: Annotated[int, Field(ge=0, le=3_600_000_000, description="longest time of a request; 0: none")] = 0
    batching: Batching | None = None


class ServingChange(Strict):
    """What `PATCH` takes; keys of `serving` that are not given stay as they are."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"serving": {"instances": 4}}]})

    serving: Serving

    @property
    def given(self) -> dict[str, Any]:
        whole = self.serving.model_dump()
        return {name: whole[name] for name in self.serving.model_fields_set}


OPTIONS_EXAMPLE: dict[str, Any] = {
    "name": "demo",
    "profiles": [{"x": {"min": [1, 8], "opt": [4, 8], "max": [64, 8]}}],
    "backend": "auto",
    "targets": ["sm_86", "sm_120"],
    "serving": {"instances": 2, "pinned": False, "warmup": False, "queue": 64, "timeout_us": 0, "batching": None},
    "verify": False,
    "no_cache": False,
    "priority": 0,
}


class EngineOptions(Strict):
    """The part `options` of an upload."""

    model_config = ConfigDict(json_schema_extra={"examples": [OPTIONS_EXAMPLE]})

    name: Name
    profiles: Annotated[
        list[dict[str, InputRange]],
        Field(
            default_factory=list,
            max_length=MOST_PROFILES,
            description="ranges by input; each profile has every input with a dynamic dimension, on every backend",
        ),
    ]
    backend: Literal["auto", "tensorrt", "tensorrt_rtx", "onnxruntime"] = "auto"
    targets: Annotated[list[Target], Field(min_length=1, max_length=64)] | None = None
    serving: Serving = Serving()
    verify: bool = False
    no_cache: bool = False
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0

    @field_validator("verify")
    @classmethod
    def _not_yet(cls, verify: bool) -> bool:
        if verify:
            raise ValueError("expected false: plans are not run against their reference after a build yet")
        return verify
