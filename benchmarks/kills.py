"""Kills either side of the border with SIGKILL, again and again, and looks for what stays behind.

python -m benchmarks.kills [--cycles 200]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import time
from pathlib import Path

from service.errors import Unavailable
from service.hosting.messages import Ping
from service.hosting.process import HostProcess
from service.settings import Settings

SETTINGS = Settings().model_dump_json()


def held() -> tuple[list[str], int]:
    """What lies in /dev/shm (but for semaphores of others), and how many descriptors this process has."""
    gc.collect()  # arrays in shared memory hold its descriptor
    named = [path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith("sem.")]
    return sorted(named), len(list(Path("/proc/self/fd").iterdir()))


async def kill_the_host() -> None:
    host = HostProcess("cpu", SETTINGS, 2**20)
    await host.free
    os.kill(host.pid, signal.SIGKILL)
    try:
        await host.ask(Ping(host.next_call(), 0.0))
    except Unavailable:
        return
    raise SystemExit("a killed host has answered")


def kill_the_other_side() -> None:
    """A process with a host of its own is killed; its host must end too."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        asyncio.run(stay(writing))
    os.close(writing)
    host = int(os.read(reading, 20))
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    ends = time.monotonic() + 10
    while running(host):
        if time.monotonic() > ends:
            raise SystemExit(f"host {host} outlives the process that started it")
        time.sleep(0.002)


async def stay(writing: int) -> None:
    host = HostProcess("cpu", SETTINGS, 2**20)
    await host.free
    os.write(writing, str(host.pid).encode())
    await asyncio.sleep(60)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=200)
    given = parser.parse_args()
    before = held()
    for _ in range(given.cycles):
        asyncio.run(kill_the_host())
        kill_the_other_side()
    print(f"{given.cycles} kills of each side; /dev/shm and descriptors before {before}, after {held()}")
    if held() != before:
        raise SystemExit("something stayed behind")


if __name__ == "__main__":
    main()
