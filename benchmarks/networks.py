"""The networks that are built."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from examples.mlp_block import HIDDEN, PROFILES, MlpBlock
from service.datatypes import DATATYPES

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("planforge", 1)]


@dataclass(frozen=True)
class Workload:
    name: str
    model: ModelProto
    profile: dict[str, dict[str, list[int]]]


def mlp_block() -> Workload:
    """The demo's, as a file."""
    network = MlpBlock.drawn().network()
    constants = [
        helper.make_tensor(each["name"], DATATYPES[each["datatype"]].onnx, each["shape"],
                           base64.b64decode(each["base64"]), raw=True)
        for each in network["constants"]
    ]  # fmt: skip
    nodes = [
        plugin(node["plugin"], node["inputs"], node["outputs"], **node["fields"])
        if "plugin" in node
        else helper.make_node(node["op"], node["inputs"], node["outputs"])
        for node in network["nodes"]
    ]
    return Workload("mlp-block", model(nodes, constants, HIDDEN, HIDDEN, network["outputs"][0]), PROFILES[0])


def blocks(count: int, width: int) -> Workload:
    """`count` times MatMul, plugin, Relu, with FP32 weights [width, width]."""
    generator = np.random.default_rng(0)
    nodes, constants, last = [], [], "x"
    for index in range(count):
        weights = (generator.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        constants.append(numpy_helper.from_array(weights, f"w{index}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"h{index}"]))
        nodes.append(plugin("ScaleBias", [f"h{index}"], [f"s{index}"], scale=1.5, activation="silu"))
        nodes.append(helper.make_node("Relu", [f"s{index}"], [last := f"y{index}"]))
    profile = {"x": {"min": [1, width], "opt": [16, width], "max": [64, width]}}
    return Workload(f"{count}-blocks-of-{width}", model(nodes, constants, width, width, last), profile)


def plugin(name: str, inputs: list[str], outputs: list[str], **fields: Any) -> NodeProto:
    return helper.make_node(name, inputs, outputs, domain="planforge", **fields)


def model(nodes: list[NodeProto], constants: list[TensorProto], wide: int, out: int, last: str) -> ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", wide])]
    outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", out])]
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    made: ModelProto = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    onnx.checker.check_model(made)
    return made


def hundred_nodes() -> dict[str, Any]:
    """A network description of 100 nodes, every third one a plugin."""
    vector = base64.b64encode(np.ones(64, np.float32).tobytes()).decode()
    constants = [{"name": f"c{index}", "datatype": "FP32", "shape": [64], "base64": vector} for index in range(34)]
    nodes: list[dict[str, Any]] = []
    for index in range(100):
        inputs, outputs = ["x" if index == 0 else f"t{index - 1}"], [f"t{index}"]
        match index % 3:
            case 0:
                nodes.append({"op": "Add", "inputs": [*inputs, f"c{index // 3}"], "outputs": outputs})
            case 1:
                fields = {"scale": 1.0 + index, "activation": "gelu"}
                nodes.append({"plugin": "ScaleBias", "inputs": inputs, "outputs": outputs, "fields": fields})
            case _:
                nodes.append({"op": "Relu", "inputs": inputs, "outputs": outputs})
    x = {"name": "x", "datatype": "FP32", "shape": [8, 64]}
    return {"inputs": [x], "constants": constants, "nodes": nodes, "outputs": ["t99"]}
