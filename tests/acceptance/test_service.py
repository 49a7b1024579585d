"""The process: what it says, what it loads, how it ends."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.networks import scale_bias
from tests.live import LiveService, serving

ENGINE_LIBRARIES = ("tensorrt", "nvinfer", "onnxruntime", "libcuda", "nvrtc", "libcudart")


def test_health(live: LiveService) -> None:
    assert live.http.get("/healthz").json() == {"status": "ok"}
    deadline = time.monotonic() + 10
    while live.http.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_http_process_maps_no_engine_library(live: LiveService, scaled: dict[str, object]) -> None:
    assert live.infer("scaled", {"inputs": [_x()]}).status_code == 200
    mapped = {line.split()[-1] for line in Path(f"/proc/{live.process.pid}/maps").read_text().splitlines()}
    assert not [path for path in mapped if any(each in Path(path).name.lower() for each in ENGINE_LIBRARIES)]
    assert not [path for path in mapped if "/tensorrt" in path or "/onnxruntime/" in path or "/cuda/" in path]


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path, lease=1) as service:
        (worker,) = _workers(service)
        worker.kill()
        service.built(scale_bias())
        assert _workers(service) != [worker]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as service:
        service.built(scale_bias())
        service.infer("scaled", {"inputs": [_x()]})
        family = psutil.Process(service.process.pid).children(recursive=True)
        assert len(family) >= 2  # the worker and an engine host
        service.process.send_signal(number)
        assert service.process.wait(15) == 0
        _, alive = psutil.wait_procs(family, 5)
        assert not alive
        assert not [line for line in service.said if "Traceback" in line]


@pytest.mark.parametrize("seconds", [0.3, 1.0, 1.7, 2.5, 4.0])
def test_a_signal_while_it_starts(tmp_path: Path, seconds: float) -> None:
    """Whatever it is about then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(seconds)
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    assert process.wait(15) in (0, -signal.SIGTERM)
    assert not psutil.wait_procs(family, 5)[1]
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_killed_hard_it_leaves_no_process(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.built(scale_bias())
        service.infer("scaled", {"inputs": [_x()]})
        family = psutil.Process(service.process.pid).children(recursive=True)
        service.process.kill()
        _, alive = psutil.wait_procs(family, 10)
        assert not alive


def test_an_api_alone_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-worker") as service:
        response = service.http.get("/readyz")
        assert response.status_code == 503
        assert "worker" in response.json()["detail"]
        assert int(response.headers["Retry-After"]) >= 1
        assert service.post(scale_bias()).status_code == 202


def test_a_build_and_its_plan_outlive_a_restart(tmp_path: Path) -> None:
    """The first call after it is an inference: nothing depends on what an earlier call set up."""
    with serving(tmp_path) as service:
        service.built(scale_bias())
    with serving(tmp_path, "--no-worker") as service:
        response = service.infer("scaled", {"inputs": [_x()]})
        assert response.json()["outputs"][0]["data"] == [4.0] * 8


def test_a_trailing_slash_changes_nothing(live: LiveService) -> None:
    for path in ("/plugins", "/plugins/ScaleBias", "/engines", "/healthz"):
        assert live.http.get(f"{path}/").json() == live.http.get(path).json()


def test_head_is_get_without_its_body(live: LiveService) -> None:
    head, get = live.http.head("/plugins"), live.http.get("/plugins")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(get.content))


def test_answers_do_not_wait_for_acknowledgements(live: LiveService) -> None:
    """Where they do, each takes 40 ms."""
    taken = []
    for _ in range(20):
        started = time.perf_counter()
        live.http.get("/healthz")
        taken.append(time.perf_counter() - started)
    assert statistics.median(taken) < 0.02


def test_an_address_in_use_is_said_in_a_line(live: LiveService) -> None:
    port = httpx.URL(live.url).port
    with (
        pytest.raises(
            AssertionError, match=f"planforge: cannot listen on 127.0.0.1 port {port}: Address already in use"
        ),
        serving(live.data_dir, "--port", str(port)),
    ):
        pass


def _x() -> dict[str, object]:
    return {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [1.0] * 8}


def _workers(service: LiveService) -> list[psutil.Process]:
    children = psutil.Process(service.process.pid).children()
    return [child for child in children if "worker" in child.cmdline()]
