"""The CPU backend: its plan is one ONNX file, and what has no kernel in ONNX Runtime runs as its reference function.

Only child processes use it: ONNX Runtime can end the process that it runs in.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import onnx
from onnx import ModelProto

from service.backends.base import BuildRequest, Built, Capabilities, PluginUse, Progress, Session
from service.backends.external_data import embed
from service.backends.native import put_back, tensor_infos, undo
from service.backends.onnxruntime_kernels import Runtime
from service.backends.onnxruntime_session import OnnxRuntimeSession, Refused, load_session
from service.backends.plan_builder import plugin_nodes, plugin_uses
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
        kernels = Runtime.installed().kernels
        return Capabilities(self.name, self.version, buildable=True, targets=(), runnable=True, kernels=kernels)

    def build(self, request: BuildRequest, out: Path, progress: Progress) -> Built:
        """Embeds external data, puts back operators that ONNX Runtime has kernels for, and proves that it loads.

        Raises BuildFailed.
        """
        progress("Reading the model", 0.0)
        model = onnx.load(request.model, load_external_data=False)
        inputs, outputs = tensor_infos(model)
        uses = self._uses(model)
        replaced = put_back(model, self.found, Runtime.installed())
        progress("Embedding data", 0.1)
        embed(model, request.model)
        progress("Loading", 0.4)
        refused = self._refusal(model, out)
        if refused and replaced:
            # A kernel may take less than its types say; the reference takes all that the plugin does.
            print(f"back to reference functions, since operators put back are refused: {refused}", flush=True)
            undo(model, replaced)
            refused = self._refusal(model, out)
        if refused:
            raise BuildFailed(f"ONNX Runtime {self.version} does not take the network: {refused}")
        progress("Done", 1.0)
        return Built(out, self.version, (), inputs, outputs, uses)

    def load(self, plan: Path) -> Session:
        """Takes a plan, or a stored model with its external data beside it. Raises Conflict."""
        try:
            return OnnxRuntimeSession(load_session(plan))
        except Refused as error:
            raise Conflict(f"ONNX Runtime {self.version} does not take the network: {error}") from None

    def _uses(self, model: ModelProto) -> tuple[PluginUse, ...]:
        return tuple(use for _, use in plugin_uses(plugin_nodes(model, self.found)))

    def _refusal(self, model: ModelProto, out: Path) -> str:
        """Writes the plan; says why ONNX Runtime does not take it, or nothing."""
        out.write_bytes(model.SerializeToString())
        try:
            load_session(out)
        except Refused as error:
            return str(error)
        return ""
