"""`make demo`: a transformer's MLP block with three CUDA plugins, built, checked against NumPy, and looked into."""

from __future__ import annotations

import hashlib
import re
import sys
import time
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from examples.mlp_block import HIDDEN, PROFILES, Array, MlpBlock
from examples.running import end_cleanly_on_sigterm, running_service
from service.client import Client
from service.errors import ServiceError

TARGETS = ["sm_86", "sm_120"]
TOLERANCE = 1e-4
ELF = b"\x7fELF"


class Wrong(Exception):
    """Something is not as it must be."""


@dataclass
class Demo:
    client: Client
    block: MlpBlock
    x: Array

    def run(self) -> None:
        self.list_plugins()
        here = self.build("here", {})
        self.infer(here, reference=False)
        ahead = self.build("ahead", {"backend": "tensorrt_rtx", "targets": TARGETS})
        self.look_into_plan(ahead)
        self.infer(ahead, reference=True)

    def list_plugins(self) -> None:
        say("Plugins")
        for plugin in self.client.plugins():
            if plugin["origin"] == "built-in":
                summary = plugin["summary"].splitlines()[0]
                print(f"  {plugin['namespace']}.{plugin['name']} {plugin['version']}: {summary}")

    def build(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Posts the block and follows its build."""
        body = {"name": name, "network": self.block.network(), "profiles": PROFILES, **options}
        engine = self.client.build_json(body)
        say(f"Build of {engine['name']}:{engine['version']} for {engine['backend']}", engine["targets"])
        engine = self.client.wait(engine["id"], Follower().look)
        print(f"  ready in {engine['seconds']['building']:.1f} s")
        return engine

    def infer(self, engine: dict[str, Any], reference: bool) -> None:
        """Compares the engine's answer with NumPy's in float64."""
        say(f"Inference with {engine['name']}", ["by the plugins' reference functions"] if reference else [])
        if reference and not engine["runnable"]:
            print(f"  the plan itself cannot run here: {engine['reason']}")
        y = self.client.infer(engine["id"], {"x": self.x}, parameters={"reference": reference})["y"]
        expected = self.block.compute(self.x)
        error = float(np.linalg.norm(y - expected) / np.linalg.norm(expected))
        print(f"  y is {y.dtype} {list(y.shape)}, relative error against NumPy {error:.1e}")
        if y.shape != expected.shape or not error < TOLERANCE:
            raise Wrong(f"expected a relative error under {TOLERANCE}, got {error}")

    def look_into_plan(self, engine: dict[str, Any]) -> None:
        """Finds every kernel that the service says is in the plan."""
        say("Plan")
        plan = self.client.plan(engine["id"])
        digest = hashlib.sha256(plan).hexdigest()
        print(f"  {len(plan)} bytes, SHA-256 {digest}")
        if {"size": len(plan), "sha256": digest} != engine["plan"]:
            raise Wrong(f"the service says {engine['plan']}")
        for plugin in engine["plugins"]:
            print(f"  {plugin['name']}, {plugin['nodes']} node{'s' if plugin['nodes'] > 1 else ''}:")
            if [kernel["target"] for kernel in plugin["kernels"]] != TARGETS:
                raise Wrong(f"expected kernels for {TARGETS}")
            for kernel in plugin["kernels"]:
                print(f"    {kernel['target']:<6} {kernel['size']:>7} bytes, SHA-256 {kernel['sha256'][:16]}...")
                if not 1 <= occurrences(plan, kernel["size"], kernel["sha256"]) <= 2:
                    raise Wrong("this kernel does not stand in the plan once or twice")


class Follower:
    """Prints a build's phases as they come."""

    def __init__(self) -> None:
        self._seen = ""

    def look(self, engine: dict[str, Any]) -> None:
        progress = engine["progress"]
        if progress and progress["phase"] != self._seen:
            self._seen = progress["phase"]
            print(f"  {progress['fraction']:4.0%} {self._seen}", flush=True)


def occurrences(plan: bytes, size: int, sha256: str) -> int:
    """How often machine code of this size and digest stands in the plan."""
    places = [match.start() for match in re.finditer(re.escape(ELF), plan)]
    return sum(hashlib.sha256(plan[place : place + size]).hexdigest() == sha256 for place in places)


def say(title: str, details: list[str] | None = None) -> None:
    print(f"\n{title}{': ' if details else ''}{', '.join(details or [])}", flush=True)


def main() -> int:
    end_cleanly_on_sigterm()
    began = time.monotonic()
    x = np.random.default_rng(1).standard_normal((7, HIDDEN)).astype(np.float32)
    try:
        with running_service() as (address, _), Client(address) as client:
            print(f"planforge at {address}, with an empty store")
            Demo(client, MlpBlock.drawn(), x).run()
    except KeyboardInterrupt:
        return 130
    except (Wrong, ServiceError, httpx.HTTPError, RuntimeError) as error:
        print(f"\nThe demo FAILED: {error}", file=sys.stderr)
        return 1
    seconds = time.monotonic() - began
    print(f"\nEverything is right, after {seconds:.0f} s: the answers are NumPy's, and the kernels are in the plan.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
