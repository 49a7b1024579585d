"""A store that builds are queued in, and networks to build."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from plugins_cuda.scale_bias.plugin import ScaleBias
from service.plugins import CudaPlugin
from service.plugins.nodes import plugin_node
from service.plugins.references import IR_VERSION, reference_function
from service.settings import Settings
from service.store.blobs import Blobs
from service.store.database import Database
from service.store.engines import Engines
from service.store.records import Engine, NewEngine

WIDTH = 8
PROFILE = {"x": {"min": [1, WIDTH], "opt": [4, WIDTH], "max": [64, WIDTH]}}


def model_of(nodes: Sequence[tuple[CudaPlugin, str, str] | NodeProto], width: int = WIDTH, **weights: Any) -> bytes:
    """A model from x [batch, width] to y; a plugin node is (plugin, input, output)."""
    functions, protos = {}, []
    for index, node in enumerate(nodes):
        if isinstance(node, tuple):
            plugin, source, target = node
            function = reference_function(plugin, [True], 1)
            functions[function.overload] = function
            node = plugin_node(plugin, [source], [target], f"node{index}", function.overload)
        protos.append(node)
    infos = [onnx.helper.make_tensor_value_info(name, 1, ["batch", width]) for name in ("x", "y")]
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = onnx.helper.make_graph(protos, "network", infos[:1], infos[1:], constants)
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("planforge", 1)]
    model = onnx.helper.make_model(
        graph, functions=list(functions.values()), opset_imports=opsets, ir_version=IR_VERSION
    )
    return bytes(model.SerializeToString())


def small_model() -> bytes:
    return model_of([(ScaleBias(scale=3.0), "x", "h"), onnx.helper.make_node("Relu", ["h"], ["y"], "relu")])


def blocks_model(blocks: int, width: int) -> bytes:
    """MatMul, plugin and Relu, so many times over."""
    generator = np.random.default_rng(0)
    weights = {f"w{i}": generator.standard_normal((width, width)).astype(np.float32) for i in range(blocks)}
    nodes: list[Any] = []
    source = "x"
    for i in range(blocks):
        target = "y" if i == blocks - 1 else f"r{i}"
        nodes += [
            onnx.helper.make_node("MatMul", [source, f"w{i}"], [f"m{i}"], f"matmul{i}"),
            (ScaleBias(scale=0.5), f"m{i}", f"s{i}"),
            onnx.helper.make_node("Relu", [f"s{i}"], [target], f"relu{i}"),
        ]
        source = target
    return model_of(nodes, width, **weights)


@dataclass
class Yard:
    """A fresh store with what works on it."""

    settings: Settings
    database: Database
    engines: Engines
    blobs: Blobs

    def queue(self, model: bytes | None = None, **given: Any) -> Engine:
        request = {"name": "net", "backend": "tensorrt_rtx", "targets": ["sm_86"], "profiles": [PROFILE]} | given
        return self.engines.create(NewEngine(model=model or small_model(), **request))

    def forget_kernels(self) -> None:
        """Lets workers that start from now on compile all kernels, which takes seconds: time to disturb a build."""
        self.settings.kernel_cache.unlink()

    def queue_large(self) -> Engine:
        """24 blocks."""
        width = 512
        profile = {"x": {"min": [1, width], "opt": [4, width], "max": [64, width]}}
        return self.queue(blocks_model(24, width), profiles=[profile])

    def wait(self, engine: Engine, until: Callable[[Engine], bool] | None = None, seconds: float = 60) -> Engine:
        """The engine once `until` holds (by default: once its build is over)."""
        over = until or (lambda now: now.status not in ("queued", "building"))
        ends = time.monotonic() + seconds
        while not over(now := self.engines.get(engine.id)):
            assert time.monotonic() < ends, f"still {now.status} after {seconds} s"
            time.sleep(0.01)
        return now

    def plan(self, engine: Engine) -> bytes:
        assert engine.plan is not None
        return b"".join(self.blobs.chunks(engine.plan.sha256))
