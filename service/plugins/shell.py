"""The `IPluginV3` that a TensorRT layer holds: a thin shell around an immutable `Node`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from service.plugins.field_collections import DIGEST, IMAGES, INPUTS, OUTPUTS, REVISION, Collection
from service.plugins.launching import LoadedImage, current_capability, launch_all
from service.plugins.plugin import PluginFault
from service.plugins.registration import Node, Registration
from service.plugins.tensors import Tensor, TensorType, View

# TensorRT's DataType -> ours. UINT8 cannot reach a plugin: the builder hands such constants over as INT8.
DATATYPES = {
    "FLOAT": "FP32", "HALF": "FP16", "BF16": "BF16", "FP8": "FP8", "INT8": "INT8", "INT32": "INT32", "INT64": "INT64",
    "BOOL": "BOOL", "UINT8": "UINT8",
}  # fmt: skip


def shell_class(trt: Any, registration: Registration) -> Any:
    """The shell's class for one runtime."""
    bases = trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime

    class Shell(*bases):  # type: ignore[misc]
        def __init__(self, node: Node, image: LoadedImage | None = None) -> None:
            for base in bases:
                base.__init__(self)
            self.node, self.image = node, image
            self.plugin_name, self.plugin_version, self.plugin_namespace = node.registered_as
            self.num_outputs = node.outputs
            self.input_types: list[TensorType] = []
            self.output_types: list[TensorType] = []

        def _recorded(self, what: str) -> Any:
            return registration.faults.recorded(f"{self.plugin_name}.{what}")

        def get_capability_interface(self, kind: Any) -> Any:
            return self

        def clone(self) -> Shell:
            # An exception here would end the process, so nothing that can fail is done.
            copy = Shell(self.node, self.image)
            copy.input_types, copy.output_types = self.input_types, self.output_types
            return copy

        # Build ------------------------------------------------------------------------------------------------------

        def get_output_data_types(self, inputs: Sequence[Any]) -> list[Any]:
            with self._recorded("infer"):
                outputs = self._inferred([TensorType(self._datatype(i, kind)) for i, kind in enumerate(inputs)])
                return [_tensorrt_type(trt, output.datatype) for output in outputs]

        def get_output_shapes(self, inputs: Sequence[Any], shape_inputs: Sequence[Any], builder: Any) -> list[Any]:
            with self._recorded("infer"):
                types = [TensorType(None, tuple(map(_dim, shape))) for shape in inputs]
                outputs = self.node.plugin.infer(self.node.spread(types), _arithmetic(trt, builder))
                return [_dims_exprs(trt, builder, output) for output in outputs[: self.node.outputs]]

        def supports_format_combination(self, position: int, tensors: Sequence[Any], inputs: int) -> bool:
            with self._recorded("supports_format_combination"):
                if tensors[position].desc.format != trt.TensorFormat.LINEAR:
                    return False
                types = [self._datatype(i, tensors[i].desc.type) for i in range(min(position + 1, inputs))]
                if position < inputs:
                    return _accepts(self.node, [*types, *[None] * (inputs - len(types))])
                wanted = self._inferred([TensorType(kind) for kind in types])[position - inputs].datatype
                return bool(tensors[position].desc.type == _tensorrt_type(trt, wanted))

        def configure_plugin(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            pass

        def get_workspace_size(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
            with self._recorded("workspace"):
                types = [self._type(i, each.desc.type, each.max) for i, each in enumerate(inputs)]
                return self.node.plugin.workspace(self.node.named(types))

        def get_valid_tactics(self) -> list[int]:
            return []

        def get_fields_to_serialize(self) -> Any:
            with self._recorded("get_fields_to_serialize"):
                node = self.node
                own = {INPUTS: list(node.present), OUTPUTS: node.outputs, DIGEST: node.digest}
                own |= {REVISION: node.plugin.revision()} | ({IMAGES: node.images} if node.images else {})
                self.serialized = Collection(trt, node.plugin.fields, node.plugin.given_values | own)
                return self.serialized.tensorrt

        # Execution --------------------------------------------------------------------------------------------------

        def attach_to_context(self, context: Any) -> Shell:
            with self._recorded("attach_to_context"):
                attached = self.clone()
                bundle = registration.library.find(self.node.digest)
                attached.image = registration.loader.load(bundle, self.node.digest, current_capability())
                return attached

        def set_tactic(self, tactic: int) -> None:
            pass

        def on_shape_change(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            with self._recorded("on_shape_change"):
                self.input_types = [self._type(i, each.type, each.dims) for i, each in enumerate(inputs)]
                self.output_types = self._inferred(self.input_types)

        def enqueue(
            self,
            input_desc: Any,
            output_desc: Any,
            inputs: Sequence[int],
            outputs: Sequence[int],
            workspace: int,
            stream: int,
        ) -> None:
            with self._recorded("enqueue"):
                call = self.node.call(
                    _views(self.input_types, inputs), _views(self.output_types, outputs), workspace or 0
                )
                if not call.is_empty(self.node.plugin.outputs):
                    assert self.image is not None, "TensorRT enqueues attached plugins only"
                    launch_all(self.node.plugin.launch(call), self.image, stream)

        # ------------------------------------------------------------------------------------------------------------

        def _inferred(self, types: Sequence[TensorType]) -> list[TensorType]:
            return self.node.plugin.infer(self.node.spread(types))[: self.node.outputs]

        def _type(self, index: int, kind: Any, dims: Sequence[int]) -> TensorType:
            shape = tuple(None if dim < 0 else int(dim) for dim in dims)
            return TensorType(self._datatype(index, kind), shape)

        def _datatype(self, index: int, kind: Any) -> str:
            return declared_datatype(self.node.input(index), DATATYPES.get(kind.name, kind.name))

    return Shell


def declared_datatype(tensor: Tensor, found: str) -> str:
    """INT8 stands for UINT8 where a plugin declares that: TensorRT passes no UINT8 to plugins."""
    hidden = found == "INT8" and "UINT8" in tensor.datatypes and "INT8" not in tensor.datatypes
    return "UINT8" if hidden else found


def _tensorrt_type(trt: Any, datatype: str | None) -> Any:
    names = {ours: theirs for theirs, ours in DATATYPES.items()} | {"UINT8": "INT8"}
    return getattr(trt.DataType, names[datatype or "FP32"])


def _accepts(node: Node, types: Sequence[str | None]) -> bool:
    spread = node.spread([TensorType(kind) for kind in types])
    try:
        node.plugin.infer(spread)
    except PluginFault:
        return False
    return True


def _dim(expression: Any) -> Any:
    return expression.get_constant_value() if expression.is_constant() else expression


def _arithmetic(trt: Any, builder: Any) -> Callable[[str, Any, Any], Any]:
    """Dimension arithmetic over integers and TensorRT's expressions."""
    operations = trt.DimensionOperation
    table = {
        "add": operations.SUM, "sub": operations.SUB, "mul": operations.PROD, "floordiv": operations.FLOOR_DIV,
        "ceildiv": operations.CEIL_DIV,
    }  # fmt: skip

    def compute(operator: str, left: Any, right: Any) -> Any:
        return builder.operation(table[operator], _expression(builder, left), _expression(builder, right))

    return compute


def _expression(builder: Any, dim: Any) -> Any:
    return builder.constant(dim) if isinstance(dim, int) else dim


def _dims_exprs(trt: Any, builder: Any, output: TensorType) -> Any:
    dims = [_expression(builder, dim) for dim in output.shape or ()]
    expressions = trt.DimsExprs(len(dims))
    for index, dim in enumerate(dims):
        expressions[index] = dim
    return expressions


def _views(types: Sequence[TensorType], addresses: Sequence[int]) -> list[View]:
    return [
        View(address or 0, kind.datatype or "", tuple(kind.shape or ()))
        for kind, address in zip(types, addresses, strict=True)
    ]
