"""A running service: a process of its own, a fresh embedded store, a free port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from service.client import Client

START, END = 60, 20
"""Seconds that a service may take for it."""


class LiveService:
    """A running `planforge serve`."""

    def __init__(self, process: subprocess.Popen[str], url: str, data_dir: Path, said: list[str]) -> None:
        self.process = process
        self.url = url
        self.data_dir = data_dir
        self.said = said
        """Lines of standard error so far."""
        self.http = httpx.Client(base_url=url, timeout=60)
        self.client = Client(url)

    def post(self, body: Any) -> httpx.Response:
        return self.http.post("/engines", json=body)

    def built(self, body: dict[str, Any]) -> dict[str, Any]:
        """A ready engine of the body."""
        return self.client.wait(self.client.build_json(body)["id"], timeout=120)

    def infer(self, reference: str, body: Any) -> httpx.Response:
        return self.http.post(f"/engines/{reference}/infer", json=body)


@contextmanager
def serving(data_dir: Path, *arguments: str, **settings: object) -> Iterator[LiveService]:
    """A service with its own data folder; `settings` are PLANFORGE_* variables in lower case."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PLANFORGE_")}
    given = {f"PLANFORGE_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--data-dir", str(data_dir), *arguments]
    process = subprocess.Popen(
        command, env={**own, **given}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=data_dir
    )
    said: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reader.start()
    killer = threading.Timer(START, process.kill)
    killer.start()
    try:
        announced = re.search(r"http://\S+", process.stdout.readline())
        killer.cancel()
        assert announced, f"the service did not start: {''.join(said)}"
        yield LiveService(process, announced[0], data_dir, said)
    finally:
        killer.cancel()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END)
        finally:
            process.kill()
            process.wait()
            reader.join(5)
            process.stdout.close()
            process.stderr.close()
