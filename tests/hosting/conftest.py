"""Real engines for real host processes: small ONNX models that the ONNX Runtime backend loads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from service.backends.base import Array
from service.datatypes import datatype_from_onnx
from service.hosting.supervisor import Hosts
from service.settings import Settings

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@dataclass(frozen=True)
class StoredEngine:
    """What the hosts see of an engine; `model` is what its plan is."""

    id: str
    model: onnx.ModelProto
    serving: dict[str, Any] = field(default_factory=dict)
    version: int = 1
    profiles: tuple[dict[str, Any], ...] = ()
    backend: str = "onnxruntime"

    @property
    def name(self) -> str:
        return self.id

    @property
    def inputs(self) -> list[dict[str, Any]]:
        return [described(value) for value in self.model.graph.input]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return [described(value) for value in self.model.graph.output]


def described(value: onnx.ValueInfoProto) -> dict[str, Any]:
    tensor = value.type.tensor_type
    datatype = datatype_from_onnx(tensor.elem_type)
    assert datatype is not None
    shape = [-1 if dimension.dim_param else dimension.dim_value for dimension in tensor.shape.dim]
    return {"name": value.name, "datatype": datatype.name, "shape": shape}


def relu(**serving: Any) -> StoredEngine:
    """y = max(x, 0)."""
    x, y = (helper.make_tensor_value_info(name, FLOAT, ["rows", "columns"]) for name in "xy")
    return StoredEngine("relu", model([helper.make_node("Relu", ["x"], ["y"])], [x], [y]), serving)


def slow(**serving: Any) -> StoredEngine:
    """count = times, one by one: 10**9 of them take many minutes."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["on"]), helper.make_node("Add", ["so_far", "one"], ["more"])],
        "body",
        [
            helper.make_tensor_value_info("turn", INT64, []),
            helper.make_tensor_value_info("going", BOOL, []),
            helper.make_tensor_value_info("so_far", INT64, []),
        ],
        [helper.make_tensor_value_info("on", BOOL, []), helper.make_tensor_value_info("more", INT64, [])],
    )
    nodes = [
        helper.make_node("Constant", [], ["one"], value_int=1),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Loop", ["times", "", "zero"], ["count"], body=body),
    ]
    times, count = (helper.make_tensor_value_info(name, INT64, []) for name in ("times", "count"))
    return StoredEngine("slow", model(nodes, [times], [count]), serving)


def crashing(**serving: Any) -> StoredEngine:
    """ONNX Runtime 1.32 ends with SIGFPE when this attention gets a batch of 0."""
    shapes = {"q": ["batch", 1, 16], "k": ["batch", 1, 16], "v": ["batch", 1, 16]}
    past = {"past_k": ["batch", 1, 0, 16], "past_v": ["batch", 1, 0, 16]}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (shapes | past).items()]
    inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"]))
    inputs.append(helper.make_tensor_value_info("total", TensorProto.INT32, [1]))
    node = helper.make_node(
        "GroupQueryAttention",
        [value.name for value in inputs],
        ["y", "present_k", "present_v"],
        domain="com.microsoft",
        num_heads=1,
        kv_num_heads=1,
    )
    outputs = [helper.make_tensor_value_info("y", FLOAT, ["batch", 1, 16])]
    return StoredEngine("crashing", model([node], inputs, outputs), serving)


def attention_inputs(batch: int) -> dict[str, Array]:
    """For `crashing`: a batch of 1 is right, a batch of 0 ends the host."""
    floats = {name: np.ones((batch, 1, 16), np.float32) for name in "qkv"}
    past = {name: np.ones((batch, 1, 0, 16), np.float32) for name in ("past_k", "past_v")}
    return floats | past | {"lengths": np.zeros(batch, np.int32), "total": np.ones(1, np.int32)}


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "graph", inputs, outputs), ir_version=10, opset_imports=opsets)


def materialise(engine: StoredEngine, reference: bool, folder: Path) -> Path:
    onnx.save(engine.model, folder / "plan")
    return folder / "plan"


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Any]:
    """Hosts for the length of an `async with`."""

    @asynccontextmanager
    async def open_hosts(**options: Any) -> AsyncIterator[Hosts]:
        settings = Settings(data_dir=tmp_path, request_timeout=options.pop("request_timeout", 30))
        hosts = Hosts(settings, options.pop("materialise", materialise), **options)
        try:
            yield hosts
        finally:
            await hosts.close(patience=0.2)

    return open_hosts


@pytest.fixture
def models() -> SimpleNamespace:
    return SimpleNamespace(relu=relu, slow=slow, crashing=crashing, attention_inputs=attention_inputs)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine gets an event loop of its own, and no more than a minute."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, 60))
    return True
