"""Inputs that an engine certainly takes: what it is warmed up with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from service.backends.base import Array, Session
from service.datatypes import DATATYPES
from service.errors import ServiceError
from service.hosting.messages import Sample


def samples(inputs: Sequence[Mapping[str, Any]], profiles: Sequence[Mapping[str, Any]]) -> tuple[Sample, ...]:
    """One for each profile, at its `opt`; none where a dynamic input is in no profile.

    `inputs` are as api.md gives them, `profiles` map their names to the fields of a `Range`.
    """
    found = (_sample(inputs, profile) for profile in profiles or [{}])
    return tuple(sample for sample in found if sample is not None)


def _sample(inputs: Sequence[Mapping[str, Any]], profile: Mapping[str, Any]) -> Sample | None:
    sample: list[tuple[str, str, tuple[int, ...], tuple[int, ...]]] = []
    for each in inputs:
        shape, values = each["shape"], []
        given = profile.get(each["name"])
        if given is not None and given.get("values"):
            shape, values = [len(given["opt"])] * len(shape), given["opt"]
        elif given is not None:
            shape = given["opt"]
        if -1 in shape:
            return None
        sample.append((each["name"], each["datatype"], tuple(shape), tuple(values)))
    return tuple(sample)


def warm_up(session: Session, given: Sequence[Sample], outputs: Sequence[str]) -> None:
    """Runs an engine once with each sample. One that does not compute from zeros is loaded all the same."""
    for sample in given:
        inputs = {name: _array(datatype, shape, values) for name, datatype, shape, values in sample}
        with suppress(ServiceError):
            session.run(inputs, outputs)


def _array(datatype: str, shape: tuple[int, ...], values: tuple[int, ...]) -> Array:
    dtype = DATATYPES[datatype].numpy
    return np.array(values, dtype).reshape(shape) if values else np.zeros(shape, dtype)
