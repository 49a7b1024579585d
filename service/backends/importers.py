"""The road of TensorRT-RTX up to 1.6, the last that runs on compute capability 9.0.

Its ONNX parser has importers of its own for a few operators and makes plugin layers of those alone: it looks a creator
of the operator's name up, in no namespace, and passes fields of its own naming. `com.microsoft.MatMulNBits` (FP16
activations) is one of them. Every other plugin node is inlined: TensorRT then fuses the reference itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
import onnx.inliner
from onnx import ModelProto

from service.backends.dressing import PluginNodes
from service.plugins.catalogue import Found
from service.plugins.nodes import values_from_attributes
from service.plugins.operators import operator_node
from service.plugins.plugin import CudaPlugin
from service.plugins.registration import Alias

DOMAIN, MATMUL = "com.microsoft", "MatMulNBits"
FIELDS = ("k", "n", "accuracy_level", "bits", "block_size", "is_uint4", "has_zeros", "has_bias")


def aliases(found: Iterable[Found]) -> list[Alias]:
    """Creators under the names that the importers look up."""
    return [Alias(each.plugin, MATMUL, "", FIELDS, _read_matmul) for each in found if _imported(each.plugin)]


def _read_matmul(fields: Mapping[str, int]) -> tuple[dict[str, Any], tuple[int, ...]]:
    values = {"K": fields["k"], "N": fields["n"], "bits": fields["bits"], "block_size": fields["block_size"]}
    present = (0, 1, 2, *((3,) if fields["has_zeros"] else ()), *((4,) if fields["has_bias"] else ()))
    return values, present


def dress_for_importers(model: ModelProto, nodes: PluginNodes) -> tuple[ModelProto, PluginNodes]:
    """The model for the importers, and the plugin nodes that are left as such."""
    kept = [(node, plugin) for node, plugin in nodes if _imported(plugin)]
    for node, plugin in kept:
        operator = next(each for each in plugin.operators if each.op_type == MATMUL)
        node.CopyFrom(operator_node(plugin(**values_from_attributes(node.attribute)), operator, node))
    inlined = onnx.inliner.inline_local_functions(model)
    if kept:
        del inlined.opset_import[:]
        inlined.opset_import.extend([*model.opset_import, onnx.helper.make_opsetid(DOMAIN, 1)])
    return inlined, kept


def _imported(plugin: type[CudaPlugin]) -> bool:
    return any((each.domain, each.op_type) == (DOMAIN, MATMUL) for each in plugin.operators)
