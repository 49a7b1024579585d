"""Plans for a GPU of compute capability 9.0, made on a machine without one. Run with TensorRT-RTX 1.6.1 installed:

    python -m tests.gpu.make_plans FOLDER [MODEL.onnx ...]

Each MODEL, beside which an .npz with inputs and outputs lies, must hold plugin nodes (`GET /engines/{id}/model` gives
such a file). FOLDER gets a plan and an .npz for each, and for each plugin and type that `carriers` can carry.
`PLANFORGE_GPU_PLANS=FOLDER pytest tests/gpu/test_plans.py` runs them on the GPU.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

from service.backends.base import BuildRequest, Range
from service.backends.embedding import compile_bundles, missing_images
from service.backends.tensorrt import TensorRT
from service.datatypes import DATATYPES, FLOATS
from service.plugins.creator import register
from service.plugins.evaluation import evaluate_reference
from service.plugins.registration import Alias
from tests.gpu.carriers import CARRIERS, WIDTH, carrier_model

TARGETS = ("sm_90",)


def make_plan(backend: TensorRT, model: Path, folder: Path) -> None:
    """The plan of a model whose inputs are [batch, ...]: every dynamic dimension from 1 to 256."""
    profile = {}
    for declared in onnx.load(model, load_external_data=False).graph.input:
        dims = [dim.dim_value for dim in declared.type.tensor_type.shape.dim]
        low, middle, high = (tuple(dim or stand_in for dim in dims) for stand_in in (1, 16, 256))
        profile[declared.name] = Range(low, middle, high)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "model.onnx"
        copy.write_bytes(model.read_bytes())
        built = backend.build(BuildRequest(copy, TARGETS, (profile,)), folder / f"{model.stem}.plan", lambda *_: None)
    (folder / f"{model.stem}.npz").write_bytes(model.with_suffix(".npz").read_bytes())
    print(model.stem, [(use.name, use.nodes) for use in built.plugins], file=sys.stderr)


def make_carried_plan(backend: TensorRT, alias: Alias, datatype: str, folder: Path) -> None:
    """One plugin in one type, with inputs and what the reference makes of them."""
    trt, registration = backend.flavour.trt, backend.registration
    bundles = compile_bundles([alias.plugin], TARGETS, folder / "kernels")
    registration.start_build(bundles, carry_all=False)
    builder = trt.Builder(backend.logger)
    network = builder.create_network(backend.flavour.network_flags())
    parser = trt.OnnxParser(network, backend.logger)
    assert parser.parse(carrier_model(alias, datatype).SerializeToString()), registration.faults.message()
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    inputs = {network.get_input(i).name: tuple(network.get_input(i).shape) for i in range(network.num_inputs)}
    for name, shape in inputs.items():
        if -1 in shape:
            profile.set_shape(name, (0, 3, WIDTH), (4, 3, WIDTH), (64, 3, WIDTH))
    config.add_optimization_profile(profile)
    path = folder / f"{alias.plugin.name}-{datatype}.plan"
    path.write_bytes(builder.build_serialized_network(network, config))
    assert not missing_images(path, bundles)
    _write_example(alias, datatype, inputs, path.with_suffix(".npz"))


def _write_example(alias: Alias, datatype: str, inputs: dict[str, tuple[int, ...]], path: Path) -> None:
    """Random inputs and the reference's outputs. NumPy files know no BF16: every array is kept as bytes of its own."""
    generator, dtype = np.random.default_rng(7), DATATYPES[datatype].numpy
    arrays = {
        name: generator.standard_normal([5 if dim < 0 else dim for dim in shape]).astype(dtype)
        for name, shape in inputs.items()
    }
    fields, _ = alias.read({})
    expected = evaluate_reference(alias.plugin(**fields), arrays, alias.outputs)
    arrays |= {tensor.name: array for tensor, array in zip(alias.plugin.outputs, expected, strict=False)}
    unsigned = {2: np.uint16, 4: np.uint32}[dtype.itemsize]
    np.savez(path, **{f"{name}:{datatype}": array.view(unsigned) for name, array in arrays.items()})


def main() -> None:
    folder, models = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    folder.mkdir(parents=True, exist_ok=True)
    backend = TensorRT("tensorrt_rtx", (), folder / "kernels")
    creators = register(backend.flavour.trt, [], backend.registration, CARRIERS)
    for model in models:
        make_plan(backend, model, folder)
    for alias in CARRIERS:
        for datatype in FLOATS:
            make_carried_plan(backend, alias, datatype, folder)
    print(len(creators), "carriers", file=sys.stderr)


if __name__ == "__main__":
    main()
