"""The same build without the service: TensorRT-RTX's Python API, and plugins that do what a build asks and no more.

    python -m benchmarks.direct MODEL PLAN PROFILE IMAGES TARGET...

PROFILE is JSON as the service takes it. Below the folder IMAGES, `ScaleBias/` holds what ScaleBias's plan must carry.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt_rtx as trt

BASES = (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime)
FIELDS = ("N", "K", "bits", "block_size", "epsilon", "scale", "bias", "axis", "activation", "_inputs", "_outputs")


class Plugin(*BASES):  # type: ignore[misc]
    """`columns`: the last dimension of the output, None for the input's own."""

    def __init__(self, name: str, columns: int | None, fields: dict[str, Any]) -> None:
        for base in BASES:
            base.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace = name, "1", "planforge"
        self.num_outputs = 1
        self.columns, self.fields = columns, fields

    def get_capability_interface(self, kind: Any) -> Plugin:
        return self

    def clone(self) -> Plugin:
        return Plugin(self.plugin_name, self.columns, self.fields)

    def get_output_data_types(self, inputs: list[Any]) -> list[Any]:
        return inputs[:1]

    def get_output_shapes(self, inputs: list[Any], shape_inputs: list[Any], builder: Any) -> list[Any]:
        output = trt.DimsExprs(inputs[0])
        if self.columns is not None:
            output[len(output) - 1] = builder.constant(self.columns)
        return [output]

    def supports_format_combination(self, position: int, tensors: list[Any], inputs: int) -> bool:
        tensor = tensors[position].desc
        return tensor.format == trt.TensorFormat.LINEAR and tensor.type in (trt.float32, trt.int8)

    def configure_plugin(self, inputs: list[Any], outputs: list[Any]) -> None:
        pass

    def get_valid_tactics(self) -> list[int]:
        return []

    def get_fields_to_serialize(self) -> Any:
        kinds = {np.dtype(np.int32): trt.PluginFieldType.INT32, np.dtype(np.float32): trt.PluginFieldType.FLOAT32}
        kept = [
            trt.PluginField(name, data, kinds.get(data.dtype, trt.PluginFieldType.INT8))
            for name, data in self.fields.items()
        ]
        return trt.PluginFieldCollection(kept)


class Creator(trt.IPluginCreatorV3One):  # type: ignore[misc]
    """The first node that it makes carries the plugin's kernel images, as in the service's plans."""

    def __init__(self, name: str, images: dict[str, np.ndarray[Any, Any]]) -> None:
        super().__init__()
        self.name, self.plugin_version, self.plugin_namespace = name, "1", "planforge"
        self.images = images
        self.field_names = trt.PluginFieldCollection([trt.PluginField(name) for name in FIELDS])

    def create_plugin(self, name: str, collection: Any, phase: Any) -> Plugin:
        fields = {each.name: np.array(each.data) for each in collection if each.size}
        columns = int(fields["N"][0]) if "N" in fields else None
        images, self.images = self.images, {}
        return Plugin(self.name, columns, fields | images)


def register(folder: Path) -> list[Creator]:
    creators = [
        Creator(plugin.name, {path.name: np.fromfile(path, np.int8) for path in sorted(plugin.iterdir())})
        for plugin in sorted(folder.iterdir())
    ]
    for creator in creators:
        trt.get_plugin_registry().register_creator(creator, creator.plugin_namespace)
    return creators


def build(model: Path, plan: Path, profile: dict[str, dict[str, list[int]]], targets: list[str]) -> None:
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(model)):
        raise SystemExit("\n".join(parser.get_error(index).desc() for index in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.num_compute_capabilities = len(targets)
    for index, target in enumerate(targets):
        config.set_compute_capability(getattr(trt.ComputeCapability, target.upper().replace("_", "")), index)
    limits = builder.create_optimization_profile()
    for name, shapes in profile.items():
        limits.set_shape(name, shapes["min"], shapes["opt"], shapes["max"])
    config.add_optimization_profile(limits)
    data = builder.build_serialized_network(network, config)
    if data is None:
        raise SystemExit("TensorRT-RTX gave no plan")
    plan.write_bytes(data)


def main() -> None:
    model, plan, profile, images, *targets = sys.argv[1:]
    creators = register(Path(images))
    build(Path(model), Path(plan), json.loads(profile), targets)
    del creators  # until here the registry pointed to them


if __name__ == "__main__":
    main()
