"""What engines are warmed up with."""

from __future__ import annotations

import numpy as np
import pytest

from service.errors import DeadlineExceeded
from service.hosting.samples import samples, warm_up

STATIC = {"name": "x", "datatype": "FP32", "shape": [2, 3]}
DYNAMIC = {"name": "y", "datatype": "FP16", "shape": [-1, 3]}
VALUES = {"name": "n", "datatype": "INT64", "shape": [2]}


def ranged(opt: list[int], values: bool = False) -> dict:
    return {"min": opt, "opt": opt, "max": opt, "values": values}


def test_one_sample_for_each_profile():
    assert samples([STATIC], []) == ((("x", "FP32", (2, 3), ()),),)
    assert samples([STATIC, DYNAMIC], []) == ()
    profiles = [{"y": ranged([rows, 3]), "n": ranged([4, 5], values=True)} for rows in (1, 8)]
    first, second = samples([STATIC, DYNAMIC, VALUES], profiles)
    assert first == (("x", "FP32", (2, 3), ()), ("y", "FP16", (1, 3), ()), ("n", "INT64", (2,), (4, 5)))
    assert second[1] == ("y", "FP16", (8, 3), ())


async def test_warm_up_runs_before_the_first_request(opened, models):
    """An engine that does not come to an end with its own profile's values is never loaded."""
    profile = {"times": {"min": [1], "opt": [10**9], "max": [10**9], "values": True}}
    async with opened() as hosts:
        cold, warm = models.slow(), models.slow(warmup=True)
        object.__setattr__(warm, "profiles", (profile,))
        object.__setattr__(warm, "id", "warm")
        assert (await hosts.infer(cold, False, {"times": np.array(2)}, ["count"]))[0] == 2
        with pytest.raises(DeadlineExceeded):
            await hosts.infer(warm, False, {"times": np.array(2)}, ["count"], deadline=1)


def test_values_and_zeros_reach_the_session():
    class Session:
        def run(self, inputs, outputs):
            self.seen = inputs, outputs
            return []

    session = Session()
    warm_up(session, ((("n", "INT64", (2,), (4, 5)), ("x", "BF16", (0, 3), ())),), ("y",))
    inputs, outputs = session.seen
    assert inputs["n"].tolist() == [4, 5] and inputs["x"].shape == (0, 3) and outputs == ("y",)
