"""The Python client against a running service, sync and async."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import httpx
import numpy as np
import pytest

from service import errors
from service.client import AsyncClient, Client
from service.client.calls import error_from_response
from tests.acceptance.networks import scale_bias
from tests.live import LiveService


def test_both_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, inspect.Signature]:
        return {name: inspect.signature(each) for name, each in vars(kind).items() if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient)


def test_sync(live: LiveService, tmp_path: Path) -> None:
    seen: list[str] = []
    with Client(live.url) as client:
        engine = client.build_json(scale_bias("client"))
        ready = client.wait(engine["id"], lambda each: seen.append(each["status"]))
        assert seen[-1] == "ready"
        outputs = client.infer("client", {"x": np.ones((2, 8), np.float32)}, ["y"])
        np.testing.assert_array_equal(outputs["y"], np.full((2, 8), 4, np.float32))
        outputs["y"] += 1  # the caller's own
        client.save_plan("client", tmp_path / "plan")
        assert (tmp_path / "plan").read_bytes() == client.plan(ready["id"])
        assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_async(live: LiveService, tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncClient(live.url) as client:
            engine = await client.build_json(scale_bias("client-async"))
            await client.wait(engine["id"])
            x = np.ones((2, 8), np.float32)
            several = await asyncio.gather(*(client.infer(engine["id"], {"x": x * n}) for n in range(8)))
            for n, outputs in enumerate(several):
                np.testing.assert_array_equal(outputs["y"], x * n * 3 + 1)
            await client.save_plan(engine["id"], tmp_path / "plan")
            assert (tmp_path / "plan").read_bytes() == await client.plan(engine["id"])
            assert {plugin["name"] for plugin in await client.plugins()} >= {"ScaleBias"}
            with pytest.raises(errors.NotFound):
                await client.engine("nope")

    asyncio.run(use())


def test_errors_are_typed(live: LiveService, scaled_name: str) -> None:
    with Client(live.url) as client:
        with pytest.raises(errors.NotFound, match="nope"):
            client.plan("nope")
        with pytest.raises(errors.InvalidRequest) as raised:
            client.build_json({"name": "x"})
        assert raised.value.faults == [errors.Fault("/network", "required, and not given")]
        with pytest.raises(errors.Conflict):
            client.cancel(scaled_name)
        with pytest.raises(errors.DeadlineExceeded, match=r"queued|building"):
            body = scale_bias("in-vain", targets=["sm_86"], backend="tensorrt_rtx")
            client.wait(client.build_json(body)["id"], timeout=0)


def test_a_build_that_fails_raises(live: LiveService) -> None:
    with Client(live.url) as client:
        engine = client.build_json(scale_bias("given-up", targets=["sm_86"], backend="tensorrt_rtx"))
        client.cancel(engine["id"])
        with pytest.raises(errors.BuildFailed, match="given-up:1 was not built: it was cancelled"):
            client.wait(engine["id"])


def test_what_is_no_tensor_is_refused_here(live: LiveService) -> None:
    with Client(live.url) as client, pytest.raises(ValueError, match="'x'"):
        client.infer("any", {"x": np.array(["text"])})


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"detail": 3}'])
def test_answers_of_others(content: bytes) -> None:
    """A proxy in between answers for itself."""
    error = error_from_response(httpx.Response(502, content=content))
    assert "502" in error.detail


@pytest.fixture
def scaled_name(live: LiveService) -> str:
    return str(live.built(scale_bias("for-errors"))["id"])
