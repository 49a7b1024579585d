"""Profiles for networks whose tests are not about profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

BOUNDS = {"min": 1, "opt": 4, "max": 64}
Profiles = list[dict[str, dict[str, list[int]]]]


def profiles_for(network: Mapping[str, Any]) -> Profiles:
    """One profile for the dynamic inputs of a `network` of `POST /engines`, none where there are none."""
    inputs = network.get("inputs", [])
    return _profiles({each["name"]: each["shape"] for each in inputs if isinstance(each.get("shape"), list)})


def profiles_for_model(model: ModelProto) -> Profiles:
    """The same for an ONNX model."""
    constants = {each.name for each in model.graph.initializer}
    return _profiles(
        {
            value.name: [dim.dim_value if _is_static(dim) else None for dim in value.type.tensor_type.shape.dim]
            for value in model.graph.input
            if value.name not in constants
        }
    )


def _is_static(dim: Any) -> bool:
    return bool(dim.HasField("dim_value") and dim.dim_value != -1)


def _profiles(shapes: Mapping[str, Sequence[Any]]) -> Profiles:
    """The same range for all dynamic dimensions, since those of one name must have the same."""
    ranges = {
        name: {bound: [dim if isinstance(dim, int) else size for dim in shape] for bound, size in BOUNDS.items()}
        for name, shape in shapes.items()
        if not all(isinstance(dim, int) for dim in shape)
    }
    return [ranges] if ranges else []
