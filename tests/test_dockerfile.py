"""The image for CPUs, its every command line run in an empty environment outside a container: its service answers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from service.settings import Settings
from tests.dockerfile import Stage, context, stages

ROOT = Path(__file__).parents[1]
STAGES = stages((ROOT / "Dockerfile").read_text())
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage `cpu`."""
    root = tmp_path_factory.mktemp("image")
    stage = Stage(root, ROOT, free_port())
    stage.run(STAGES["cpu"])
    yield stage
    shutil.rmtree(root)


@pytest.fixture
def service(image: Stage) -> Iterator[subprocess.Popen[str]]:
    process = image.shell(f"exec {image.command}")
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def answer(url: str, process: subprocess.Popen[str], within: float = 30) -> httpx.Response:
    ends = time.monotonic() + within
    while True:
        try:
            return httpx.get(url)
        except httpx.TransportError:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < ends, "the service does not answer"
            time.sleep(0.1)


def test_the_installed_service_answers_and_ends_on_sigterm(image: Stage, service: subprocess.Popen[str]) -> None:
    address = f"http://127.0.0.1:{image.port}"
    assert answer(f"{address}/healthz", service).status_code == 200
    found = httpx.get(f"{address}/plugins").json()["plugins"]
    assert {"MatMulNBits", "RMSNorm", "ScaleBias"} <= {each["name"] for each in found}
    check = image.shell(image.healthcheck)
    assert check.wait(10) == 0, check.communicate()[0]
    service.terminate()
    assert service.wait(15) == 0, "SIGTERM must end it cleanly, or `docker stop` would have to kill it"
    assert image.shell(image.healthcheck).wait(10) != 0


def test_the_wheel_holds_what_is_no_python(image: Stage) -> None:
    installed = next((image.root / "opt/planforge/lib").glob("python3.*/site-packages"))
    for pattern in ("plugins_cuda/**/*.cu", "plugins_cuda/**/*.cuh", "migrations/**/*"):
        for path in ROOT.glob(pattern):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (installed / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    assert not (installed / "tests").exists()


def test_the_context_holds_only_what_the_package_is_made_of() -> None:
    tops = {path.parts[0] for path in context(ROOT)}
    assert tops == {"pyproject.toml", "README.md", "service", "plugins_cuda", "migrations"}


@pytest.mark.parametrize("line", [rest for stage in STAGES.values() for word, rest in stage if word == "RUN"])
def test_what_only_a_container_can_run_is_at_least_shell(line: str) -> None:
    subprocess.run(["/bin/sh", "-n", "-c", line], check=True)


@pytest.mark.parametrize("name", STAGES)
def test_nothing_runs_as_root(name: str) -> None:
    users = [rest for word, rest in STAGES[name] if word == "USER"]
    assert users and re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])


def test_the_images_differ_only_in_base_and_tensorrt() -> None:
    cpu, gpu = (set(STAGES[name]) for name in ("cpu", "gpu"))
    assert {word for word, _ in cpu - gpu} == {"FROM", "RUN"}
    assert {word for word, _ in gpu - cpu} == {"FROM", "ARG", "RUN"}


def test_compose_starts_commands_and_sets_settings_that_exist(image: Stage) -> None:
    for name, each in COMPOSE["services"].items():
        if name == "database":
            continue
        assert each["build"]["target"] in STAGES
        program, *arguments = each["command"]
        helped = image.shell(f"{program} {' '.join(arguments)} --help")
        said, _ = helped.communicate(timeout=30)
        assert helped.returncode == 0, said
        for variable in each["environment"]:
            assert variable.removeprefix("PLANFORGE_").lower() in Settings.model_fields
