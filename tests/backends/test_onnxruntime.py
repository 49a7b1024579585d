"""The CPU backend from a model to a plan to answers, in ONNX Runtime itself."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from plugins_cuda.matmul_nbits.plugin import MatMulNBits
from plugins_cuda.rms_norm.plugin import RMSNorm
from plugins_cuda.scale_bias.plugin import ScaleBias
from service.backends.base import BuildRequest, TensorInfo
from service.backends.onnxruntime import OnnxRuntime
from service.datatypes import DATATYPES, WIRE_DATATYPES
from service.errors import BuildFailed, Conflict, ExecutionFailed
from tests.backends.models import build, model_of, take_over, with_function

LAYER = Path(__file__).parents[1] / "data" / "minilm-layer-q4-fp16.onnx"


def identity(datatype: str) -> onnx.ModelProto:
    return model_of(
        [helper.make_node("Identity", ["x"], ["y"])], {"x": (datatype, ["n", 3])}, {"y": (datatype, ["n", 3])}
    )


def test_a_quantized_layer_runs_with_onnx_runtimes_own_kernels(tmp_path: Path) -> None:
    model = onnx.load(LAYER)
    take_over(model, MatMulNBits, MatMulNBits.operators[0])
    assert not any(node.domain == "com.microsoft" for node in model.graph.node)
    built = build(model, tmp_path)
    plan = onnx.load(built.plan)
    native = [node for node in plan.graph.node if node.domain == "com.microsoft"]
    assert [node.op_type for node in native] == ["MatMulNBits"] * 6
    assert not any(node.domain == "planforge" for node in plan.graph.node)
    assert [(use.name, use.nodes, use.kernels) for use in built.plugins] == [("MatMulNBits", 6, ())]
    case = np.load(LAYER.with_suffix(".npz"))
    for path in (built.plan, tmp_path / "model.onnx"):  # the plan, and the stored model: functions only
        [encoded] = OnnxRuntime().load(path).run({"hidden": case["hidden"], "mask": case["mask"]}, ["encoded"])
        rows = (case["mask"][:, 0, 0] == 0)[..., None]
        off, wanted = (encoded - case["encoded"].astype(np.float64)) * rows, case["encoded"].astype(np.float64) * rows
        assert np.linalg.norm(off) < 1e-2 * np.linalg.norm(wanted)


def test_a_plugin_without_an_operator_runs_as_its_function(tmp_path: Path) -> None:
    first, doubled = with_function(ScaleBias(scale=2.0), ["x"], ["h"], "first")
    second, tripled = with_function(ScaleBias(scale=3.0, bias=1.0), ["h"], ["y"], "second")
    shape = ("FP32", ["n", 3])
    built = build(model_of([first, second], {"x": shape}, {"y": shape}, [doubled, tripled]), tmp_path)
    assert [use.fields[1]["scale"] for use in built.plugins] == [3.0]
    assert built.inputs == (TensorInfo("x", "FP32", (-1, 3)),)
    assert built.outputs == (TensorInfo("y", "FP32", (-1, 3)),)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    [y] = OnnxRuntime().load(built.plan).run({"x": x}, ["y"])
    np.testing.assert_array_equal(y, x * 6 + 1)


def test_several_outputs_come_in_the_order_asked_for(tmp_path: Path) -> None:
    node, function = with_function(RMSNorm(), ["x", "w", "r", ""], ["y", "sum"])
    matrix, vector = ("FP32", ["n", 4]), ("FP32", [4])
    model = model_of([node], {"x": matrix, "w": vector, "r": matrix}, {"y": matrix, "sum": matrix}, [function])
    session = OnnxRuntime().load(build(model, tmp_path).plan)
    given = {"x": np.ones((2, 4), np.float32), "w": np.ones(4, np.float32), "r": np.ones((2, 4), np.float32)}
    total, y = session.run(given, ["sum", "y"])
    np.testing.assert_array_equal(total, np.full((2, 4), 2.0))
    np.testing.assert_allclose(y, np.ones((2, 4)), rtol=1e-5)
    assert len(session.run(given, ["y"])) == 1


@pytest.mark.parametrize("datatype", WIRE_DATATYPES)
@pytest.mark.parametrize("rows", [0, 2])
def test_every_datatype_goes_in_and_comes_out(tmp_path: Path, datatype: str, rows: int) -> None:
    built = build(identity(datatype), tmp_path)
    assert built.inputs[0].datatype == datatype
    x = np.arange(rows * 3).reshape(rows, 3).astype(DATATYPES[datatype].numpy)
    [y] = OnnxRuntime().load(built.plan).run({"x": x}, ["y"])
    assert y.dtype == x.dtype and y.shape == (rows, 3)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
def test_inputs_may_be_views_and_scalars(tmp_path: Path, datatype: str) -> None:
    wide = np.arange(12).reshape(3, 4).astype(DATATYPES[datatype].numpy)
    session = OnnxRuntime().load(build(identity(datatype), tmp_path).plan)
    [y] = session.run({"x": wide.T}, ["y"])
    np.testing.assert_array_equal(y, wide.T)
    scalar = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": (datatype, [])}, {"y": (datatype, [])})
    [y] = OnnxRuntime().load(build(scalar, tmp_path).plan).run({"x": wide[1, 1]}, ["y"])
    assert y.shape == () and y == wide[1, 1]


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
def test_outputs_are_no_views_of_inputs(tmp_path: Path, datatype: str) -> None:
    through = model_of([], {"x": (datatype, ["n"])}, {"x": (datatype, ["n"])})
    x = np.ones(3, DATATYPES[datatype].numpy)
    [y] = OnnxRuntime().load(build(through, tmp_path).plan).run({"x": x}, ["x"])
    x[:] = 5
    np.testing.assert_array_equal(y, np.ones(3))


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
def test_threads_get_their_own_answers(tmp_path: Path, datatype: str) -> None:
    session = OnnxRuntime().load(build(identity(datatype), tmp_path).plan)
    wrong: list[Any] = []

    def ask(number: int) -> None:
        for turn in range(50):
            x = np.full((1 + (number + turn) % 4, 3), number, DATATYPES[datatype].numpy)
            [y] = session.run({"x": x}, ["y"])
            if y.shape != x.shape or not (y == x).all():
                wrong.append((number, turn))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_run_that_fails_says_why_and_the_next_one_works(tmp_path: Path) -> None:
    shapes = {"a": ("FP32", ["m", "k"]), "b": ("FP32", ["l", "n"])}
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], shapes, {"y": ("FP32", ["m", "n"])})
    session = OnnxRuntime().load(build(model, tmp_path).plan)
    wide, narrow = np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)
    with pytest.raises(ExecutionFailed, match="dimension mismatch") as failure:
        session.run({"a": wide, "b": wide}, ["y"])
    assert str(tmp_path) not in str(failure.value) and "onnxruntime_src" not in str(failure.value)
    with pytest.raises(ExecutionFailed, match="Unexpected input data type"):
        session.run({"a": narrow.astype(np.float64), "b": narrow}, ["y"])
    np.testing.assert_array_equal(session.run({"a": narrow, "b": narrow}, ["y"])[0], np.full((2, 2), 2.0))
    session.close()
    with pytest.raises(ExecutionFailed, match="unloaded"):
        session.run({"a": narrow, "b": narrow}, ["y"])


def test_what_onnx_runtime_does_not_know_fails_with_its_reason(tmp_path: Path) -> None:
    node = helper.make_node("Mystery", ["x"], ["y"], domain="trt.plugins")
    model = model_of([node], {"x": ("FP32", [2])}, {"y": ("FP32", [2])})
    with pytest.raises(BuildFailed, match=r"does not take the network.*Mystery") as failure:
        build(model, tmp_path)
    assert str(tmp_path) not in str(failure.value)
    with pytest.raises(Conflict, match="Mystery") as refusal:
        OnnxRuntime().load(tmp_path / "model.onnx")
    assert str(tmp_path) not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"not ONNX", b"vtrt" * 100])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "plan").write_bytes(content)
    with pytest.raises(Conflict, match=r"does not take the network: \w") as refusal:
        OnnxRuntime().load(tmp_path / "plan")
    assert str(tmp_path) not in str(refusal.value)


def external_model(folder: Path) -> onnx.ModelProto:
    """y = x + w, where w lies in `w.bin`, after 4 bytes that are not its."""
    weights = np.arange(3, dtype=np.float32)
    (folder / "w.bin").write_bytes(b"\xff" * 4 + weights.tobytes())
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "4"), ("length", "12")):
        tensor.external_data.add(key=key, value=value)
    shape = ("FP32", [3])
    return model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": shape}, {"y": shape}, initializers=[tensor])


def test_a_plan_holds_the_models_external_data(tmp_path: Path) -> None:
    built = build(external_model(tmp_path), tmp_path)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(OnnxRuntime().load(tmp_path / "model.onnx").run({"x": x}, ["y"])[0], [1, 2, 3])
    (tmp_path / "w.bin").unlink()
    np.testing.assert_array_equal(OnnxRuntime().load(built.plan).run({"x": x}, ["y"])[0], [1, 2, 3])


def test_more_than_one_file_can_hold_is_refused_before_it_is_read(tmp_path: Path) -> None:
    model = external_model(tmp_path)
    model.graph.initializer[0].dims[0] = 2**29
    del model.graph.initializer[0].external_data[1:]
    with pytest.raises(BuildFailed, match="one ONNX file holds no more than 2147483647"):
        build(model, tmp_path)


def test_external_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    model = external_model(tmp_path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(BuildFailed, match="the external data of the tensor w cannot be read"):
        build(model, tmp_path)


def test_capabilities_say_what_there_are_kernels_for() -> None:
    capabilities = OnnxRuntime().capabilities()
    assert (capabilities.buildable, capabilities.runnable, capabilities.targets) == (True, True, ())
    kernels = [each.datatypes for each in capabilities.kernels if each.name == "MatMulNBits"]
    assert {each["T1"] for each in kernels} >= {("FP32",), ("FP16",)}
    assert all(set(each["T3"]) == {"UINT8", *each["T1"]} for each in kernels)


def test_progress_never_falls(tmp_path: Path) -> None:
    seen: list[float] = []
    request = BuildRequest(tmp_path / "model.onnx", (), ())
    request.model.write_bytes(identity("FP32").SerializeToString())
    OnnxRuntime().build(request, tmp_path / "plan", lambda phase, fraction: seen.append(fraction))
    assert seen == sorted(seen) and seen[-1] == 1.0
