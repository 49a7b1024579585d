"""Nothing stays behind, whichever side is killed; and the HTTP process never loads an engine library."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from service.errors import Unavailable
from service.hosting.limits import Limits
from service.hosting.messages import Ping
from service.hosting.process import HostProcess
from service.settings import Settings

CYCLES = 200


def held() -> tuple[list[str], int]:
    """What lies in /dev/shm (but for what other tests start there), and how many descriptors this process has."""
    gc.collect()
    named = [path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith(("PostgreSQL", "sem."))]
    return sorted(named), len(list(Path("/proc/self/fd").iterdir()))


def mapped(pid: int | str) -> int:
    """How many shared segments of ours a process sees."""
    return Path(f"/proc/{pid}/maps").read_text().count("memfd:planforge")


async def test_killing_hosts_leaves_nothing_behind():
    settings = Settings().model_dump_json()

    async def cycle() -> None:
        host = HostProcess("cpu", settings, 2**20)
        asked = asyncio.create_task(host.ask(Ping(host.next_call(), 0.0)))
        await asyncio.sleep(0)
        os.kill(host.pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="SIGKILL"):
            await asked

    await cycle()
    before, segments = held(), mapped("self")
    for _ in range(CYCLES):
        await cycle()
    assert held() == before and mapped("self") == segments


async def test_killing_a_host_amid_large_tensors_leaves_nothing_behind(opened, models):
    """Both through the arena and through segments of their own."""
    async with opened(limits=Limits(arena=2**20)) as hosts:
        small, large = (np.ones((1, size), np.float32) for size in (10, 10**6))
        before = None
        for _ in range(4):
            await hosts.infer(models.relu(), False, {"x": small}, ["y"])
            tasks = [asyncio.create_task(hosts.infer(models.relu(), False, {"x": large}, ["y"])) for _ in range(4)]
            await asyncio.sleep(0.002)
            os.kill(hosts.pids["cpu"], signal.SIGKILL)
            await asyncio.gather(*tasks, return_exceptions=True)
            tasks.clear()
            await hosts.infer(models.relu(), False, {"x": small}, ["y"])
            before = before or (held(), mapped("self"))
        assert (held(), mapped("self")) == before


SERVICE = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from service.hosting.supervisor import Hosts
from service.settings import Settings

async def main():
    plan = Path(sys.argv[1])
    engine = SimpleNamespace(id="relu", name="relu", version=1, backend="onnxruntime", serving={})
    engine.inputs = engine.outputs = engine.profiles = ()
    hosts = Hosts(Settings(data_dir=plan.parent), lambda engine, reference, folder: plan)
    await hosts.infer(engine, False, {"x": np.ones((1, 2), np.float32)}, ["y"])
    print(hosts.pids["cpu"], flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def service(tmp_path, models):
    """A process with hosts of its own, and the process of its host."""
    (tmp_path / "plan").write_bytes(models.relu().model.SerializeToString())
    command = [sys.executable, "-c", textwrap.dedent(SERVICE), str(tmp_path / "plan")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process, int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_http_process_maps_no_engine_library(service):
    process, host = service
    libraries = ("onnxruntime", "tensorrt", "nvinfer", "libcuda")
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert not [library for library in libraries if library in maps]
    assert "onnxruntime" in Path(f"/proc/{host}/maps").read_text()


@pytest.mark.parametrize("stopped", [False, True], ids=["", "while it does not run"])
def test_a_host_ends_with_the_http_process(service, stopped):
    process, host = service
    if stopped:
        os.kill(host, signal.SIGSTOP)
    process.kill()
    process.wait()
    ends = time.monotonic() + 10
    while Path(f"/proc/{host}/exe").exists() and alive(host):
        assert time.monotonic() < ends
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
