"""The CPU backend: its plan is one ONNX file, and what has no kernel in ONNX Runtime runs as its reference function.

Only child processes use it: ONNX Runtime can end the process that it runs in.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import onnx
from onnx import ModelProto, ValueInfoProto

from service.backends.base import BuildRequest, Built, Capabilities, PluginUse, Progress, Session, TensorInfo
from service.backends.external_data import embed
from service.backends.native import Natives
from service.backends.onnxruntime_kernels import attributes, kernels
from service.backends.onnxruntime_session import OnnxRuntimeSession, Refused, load_session, loads
from service.backends.plan_builder import plugin_nodes, plugin_uses
from service.datatypes import datatype_from_onnx
from service.errors import BuildFailed, Conflict
from service.plugins.catalogue import Found, discover


class OnnxRuntime:
    """Builds and runs on any host, whatever the targets."""

    name = "onnxruntime"

    @cached_property
    def version(self) -> str:
        import onnxruntime

        return str(onnxruntime.__version__)

    @cached_property
    def found(self) -> tuple[Found, ...]:
        """Our plugins. A package whose plugins cannot be imported costs only the networks that use them."""
        return discover(problems=[])

    def capabilities(self) -> Capabilities:
        return Capabilities(self.name, self.version, buildable=True, targets=(), runnable=True, kernels=kernels())

    def build(self, request: BuildRequest, out: Path, progress: Progress) -> Built:
        """Puts back operators that ONNX Runtime has kernels for, embeds external data, and proves that it loads.

        Raises BuildFailed.
        """
        progress("Choosing kernels", 0.0)
        model = onnx.load(request.model, load_external_data=False)
        uses = self._uses(model)
        Natives(attributes(), loads).put_back(model, self.found)
        progress("Embedding data", 0.3)
        embed(model, request.model)
        out.write_bytes(model.SerializeToString())
        progress("Loading", 0.6)
        try:
            load_session(out)
        except Refused as error:
            raise BuildFailed(self._refusal(error)) from None
        progress("Done", 1.0)
        return Built(out, self.version, (), _inputs(model), tuple(map(_info, model.graph.output)), uses)

    def load(self, plan: Path) -> Session:
        """Takes a plan, or a stored model with its external data beside it. Raises Conflict."""
        try:
            return OnnxRuntimeSession(load_session(plan))
        except Refused as error:
            raise Conflict(self._refusal(error)) from None

    def _uses(self, model: ModelProto) -> tuple[PluginUse, ...]:
        return tuple(use for _, use in plugin_uses(plugin_nodes(model, self.found)))

    def _refusal(self, error: Refused) -> str:
        return f"ONNX Runtime {self.version} does not take the network: {error}"


def _inputs(model: ModelProto) -> tuple[TensorInfo, ...]:
    weights = {each.name for each in model.graph.initializer}
    return tuple(_info(each) for each in model.graph.input if each.name not in weights)


def _info(value: ValueInfoProto) -> TensorInfo:
    tensor = value.type.tensor_type
    datatype = datatype_from_onnx(tensor.elem_type)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
    return TensorInfo(value.name, datatype.name if datatype else "", shape)
