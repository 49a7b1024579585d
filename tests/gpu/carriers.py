"""Other plugins through TensorRT-RTX 1.6, whose parser makes plugin layers of a few operators only.

A test-only creator bears such an operator's name and makes another plugin's nodes: so each of ours is built, stored,
loaded and enqueued by TensorRT itself on compute capability 9.0, as `service.backends.importers` does for MatMulNBits.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import ModelProto, helper

from plugins_cuda.rms_norm.plugin import RMSNorm
from plugins_cuda.scale_bias.plugin import ScaleBias
from service.datatypes import DATATYPES
from service.plugins.registration import Alias

WIDTH = 96
CARRIERS = (
    Alias(ScaleBias, "CausalConvWithState", "", ("ndim",), lambda _: ({"activation": "silu"}, (0, 1, 2))),
    Alias(
        RMSNorm,
        "LinearAttention",
        "",
        ("q_num_heads", "kv_num_heads", "chunk_size"),
        lambda _: ({"epsilon": 1e-5}, (0, 1, 2)),
        outputs=2,
    ),
)
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "CausalConvWithState": {"ndim": 1, "activation": "silu"},
    "LinearAttention": {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear", "scale": 1.0, "chunk_size": 64},
}


def carrier_model(alias: Alias, datatype: str) -> ModelProto:
    """One node of the carrying operator: x [batch, 3, WIDTH] and what else the plugin takes."""
    kind = DATATYPES[datatype].onnx
    names = [tensor.name for tensor in alias.plugin.inputs[:3]]
    wanted = [tensor.name for tensor in alias.plugin.outputs[: alias.outputs]]
    shapes = {"x": ["batch", 3, WIDTH], "residual": ["batch", 3, WIDTH]}
    node = helper.make_node(alias.name, names, wanted, "carried", domain="com.microsoft", **_ATTRIBUTES[alias.name])
    graph = helper.make_graph(
        [node],
        "carrier",
        [helper.make_tensor_value_info(name, kind, shapes.get(name, [WIDTH])) for name in names],
        [helper.make_tensor_value_info(name, kind, None) for name in wanted],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
