"""ONNX files: whole ones, damaged ones, ones with data elsewhere, and ones with functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from service.backends.host import Host
from service.errors import InvalidRequest
from service.network.checking import Checked, check
from service.network.description import EngineOptions
from service.network.importing import import_model
from service.settings import Settings
from tests.profiles import Profiles, profiles_for_model

HEAD = '<ir_version: 10, opset_import: ["" : 21, "local" : 1, "planforge" : 1, "com.microsoft" : 1]>'
Take = Callable[..., Checked]


def profiles(content: bytes) -> Profiles:
    try:
        return profiles_for_model(ModelProto.FromString(content))
    except DecodeError:
        return []


@pytest.fixture
def take(host: Host, tmp_path: Path) -> Take:
    def run(model: ModelProto | str | bytes, parts: Mapping[str, bytes] | None = None, **options: Any) -> Checked:
        if isinstance(model, str):
            model = parser.parse_model(HEAD + model)
        content = model if isinstance(model, bytes) else model.SerializeToString()
        path = tmp_path / "uploaded"
        path.write_bytes(content)
        files = {}
        for index, (location, part) in enumerate((parts or {}).items()):
            files[location] = tmp_path / f"part{index}"
            files[location].write_bytes(part)
        given = EngineOptions(name="n", **{"backend": "onnxruntime", "profiles": profiles(content), **options})
        return check(import_model(path, files, host.catalogue), given, host, Settings())

    return run


@pytest.fixture
def refusal(take: Take) -> Callable[..., dict[str, str]]:
    def run(*arguments: Any, **options: Any) -> dict[str, str]:
        with pytest.raises(InvalidRequest) as caught:
            take(*arguments, **options)
        found: dict[str, str] = {}
        for fault in caught.value.faults:
            found[fault.pointer] = "; ".join(filter(None, [found.get(fault.pointer), fault.detail]))
        return found

    return run


PLAIN = "agraph (float[N, 8] x) => (float[N, 8] y) { y = Relu (x) }"


def test_a_plain_model(take):
    result = take(PLAIN)
    assert result.inputs[0].shape == (-1, 8)
    assert [node.name for node in result.model.graph.node] == ["Relu_0"]


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x00" * 100, b"\x08\x0a", bytes(range(256)) * 50])
def test_what_is_no_model(refusal, content):
    assert refusal(content).keys() == {"/model"}


def test_a_model_that_was_cut(refusal):
    model = parser.parse_model(HEAD + PLAIN)
    graph_ends = model.SerializeToString().index(b"local") - 4
    for length in range(graph_ends):
        assert refusal(model.SerializeToString()[:length])


@pytest.mark.parametrize(
    ("ir", "opset", "pointer", "said"),
    [
        (2, 21, "/model/ir_version", "from 3 to"),
        (1000, 21, "/model/ir_version", "got 1000"),
        (10, 99, "/model/opset_import/0", "ai.onnx from 1 to"),
        (10, 2**62, "/model/opset_import/0", "got"),
        (10, 0, "/model/opset_import/0", "got 0"),
    ],
)
def test_versions_that_nobody_knows(refusal, ir, opset, pointer, said):
    model = parser.parse_model(HEAD + PLAIN)
    model.ir_version, model.opset_import[0].version = ir, opset
    assert said in refusal(model)[pointer]


def test_names_are_made_unique_and_pointers_lead_to_nodes(take, refusal):
    text = "agraph (float[N, 8] x) => (y) { [same] a = Relu (x) [same] b = Neg (a) [] y = Abs (b) }"
    names = [node.name for node in take(text).model.graph.node]
    assert names == ["same", "same_2", "Abs_2"]
    text = "agraph (float[N, 8] x, float[3] z) => (y) { [same] a = Relu (x) [same] b = Add (a, z) [] y = Abso (b) }"
    assert refusal(text).keys() == {"/model/graph/node/1", "/model/graph/node/2"}


def test_only_what_was_checked_is_left(take):
    model = parser.parse_model(HEAD + PLAIN)
    model.metadata_props.add(key="a", value="b")
    model.training_info.add().initialization.initializer.add(name="t", data_location=TensorProto.EXTERNAL)
    model.graph.quantization_annotation.add(tensor_name="x")
    model.graph.value_info.add(name="nonsense")
    content = model.SerializeToString() + b"\xfa\xff\x03\x04evil"  # an unknown field
    result = take(content).model
    assert not (result.metadata_props or result.training_info or result.graph.value_info)
    assert b"evil" not in result.SerializeToString()


def test_constants_of_old_models_are_no_inputs(take):
    model = parser.parse_model(HEAD + "agraph (float[N, 8] x, float[8] w) => (y) { y = Add (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(8, np.float32), "w"))
    assert [each.name for each in take(model).inputs] == ["x"]


def test_minus_one_is_dynamic_and_other_negative_sizes_are_not_sizes(take, refusal):
    model = parser.parse_model(HEAD + PLAIN)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert take(model).inputs[0].shape == (-1, 8)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5
    assert "/model/graph/input/0" in refusal(model)


@pytest.mark.parametrize(
    "kind",
    ["seq(float[N])", "float", "string[N]", "float8e5m2[2]", "complex64[2]", "optional(float[N])", "float8e4m3fn[2]"],
)
def test_inputs_that_no_request_can_carry(take, refusal, kind):
    text = f"agraph ({kind} x) => (y) {{ y = Identity (x) }}"
    if kind == "float":  # a scalar
        assert take(text).inputs[0].shape == ()
    else:
        assert "/model/graph/input/0" in refusal(text)


def test_an_input_without_a_shape(refusal):
    model = parser.parse_model(HEAD + PLAIN)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert "/model/graph/input/0" in refusal(model)


# Data elsewhere -------------------------------------------------------------------------------------------------------


def with_external(**entries: str) -> ModelProto:
    """y = x + w, w (FP32 [2000]) external."""
    model = parser.parse_model(HEAD + "agraph (float[N, 2000] x) => (y) { y = Add (x, w) }")
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[2000], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return model


PART = {"w.bin": bytes(8100)}


def test_external_data_from_parts(take):
    result = take(with_external(location="w.bin", offset="100", length="8000"), PART)
    (tensor,) = result.model.graph.initializer
    said = {entry.key: entry.value for entry in tensor.external_data}
    assert said == {"location": next(iter(result.data)), "offset": "100", "length": "8000"}
    assert result.data[said["location"]].read_bytes() == PART["w.bin"]


def test_length_and_offset_may_be_left_out(take):
    assert len(take(with_external(location="w.bin"), PART).data) == 1


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"location": "other.bin"}, "'other.bin' is no uploaded part (uploaded: w.bin)"),
        ({"location": "var/planforge.db"}, "'var/planforge.db'"),
        ({"location": "../w.bin"}, "'../w.bin'"),
        ({"location": "./w.bin"}, "'./w.bin'"),
        ({"location": "/etc/hostname"}, "'/etc/hostname'"),
        ({"location": "sub\\w.bin"}, "is no uploaded part"),
        ({"location": "*/_ORT_MEM_ADDR_/*"}, "is no uploaded part"),
        ({"location": "w.bin\0"}, "is no uploaded part"),
        ({"location": ""}, "expected a location"),
        ({}, "expected a location"),
        ({"location": "w.bin", "offset": "101"}, "ends at byte 8101 of 'w.bin', and the part has 8100 bytes"),
        ({"location": "w.bin", "offset": "-1"}, "'-1'"),
        ({"location": "w.bin", "offset": "1e3"}, "'1e3'"),
        ({"location": "w.bin", "offset": "9" * 30}, "expected a number of bytes as offset"),
        ({"location": "w.bin", "offset": "9" * 18}, "and the part has 8100 bytes"),
        ({"location": "w.bin", "length": "7999"}, "expected a length of 8000 bytes in 'w.bin', got 7999"),
        ({"location": "w.bin", "length": "8100"}, "expected a length of 8000"),
    ],
)
def test_locations_that_are_no_part_or_beyond_it(refusal, entries, said):
    detail = refusal(with_external(**entries), PART)["/model/graph/initializer/0"]
    assert said in detail and "the tensor w" in detail


def test_a_part_with_a_path_in_its_name_is_no_location(refusal):
    assert refusal(with_external(location="a/w.bin"), {"a/w.bin": bytes(8000)})


def external(name: str = "t", count: int = 2000) -> TensorProto:
    tensor = TensorProto(name=name, data_type=1, dims=[count], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/hostname")
    return tensor


def test_no_tensor_anywhere_reads_a_file(refusal):
    text = """agraph (float[N, 8] x, bool c) => (y) {
        a = Constant <value = float[1] {1}> ()
        b = If (c) <then_branch = g () => (t) { t = Constant <value = float[1] {1}> () },
                    else_branch = h () => (e) { e = Identity (x) }>
        y = local.f (x)
    }
    <domain: "local", opset_import: ["" : 21]> f (v) => (w) { k = Constant <value = float[1] {1}> () w = Add (v, k) }
    """
    model = parser.parse_model(HEAD + text)
    model.graph.node[0].attribute[0].t.CopyFrom(external())
    model.graph.node[1].attribute[0].g.node[0].attribute[0].t.CopyFrom(external())
    model.graph.node[1].attribute[1].g.initializer.append(external("inner"))
    model.functions[0].node[0].attribute[0].t.CopyFrom(external())
    sparse = model.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(external("s"))
    sparse.indices.CopyFrom(TensorProto(name="i", data_type=7, dims=[1], raw_data=bytes(8)))
    attribute = model.graph.node[2].attribute.add(name="odd", type=onnx.AttributeProto.INT)
    attribute.tensors.append(external())
    assert refusal(model).keys() >= {
        "/model/graph/node/0/attribute/value",
        "/model/graph/node/1/attribute/then_branch/node/0/attribute/value",
        "/model/graph/node/1/attribute/else_branch/initializer/0",
        "/model/functions/0/node/0/attribute/value",
        "/model/graph/sparse_initializer/0/values",
        "/model/graph/node/2/attribute/odd/0",
    }


def test_small_external_tensors_move_into_the_model(take):
    model = parser.parse_model(HEAD + "agraph (float[N, 8] x) => (y) { y = Reshape (x, s) }")
    tensor = model.graph.initializer.add(name="s", data_type=7, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="s.bin")
    result = take(model, {"s.bin": np.array([-1, 2, 4], np.int64).tobytes()})
    assert result.data == {} and result.outputs[0].shape == (-1, 2, 4)
    assert numpy_helper.to_array(result.model.graph.initializer[0]).tolist() == [-1, 2, 4]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dims": [3]}, "expected 12 bytes"),
        ({"dims": [-1]}, "below zero"),
        ({"dims": [2**62, 2**62]}, "bytes for its shape"),
        ({"data_type": 0}, "unknown type 0"),
        ({"data_type": 99}, "unknown type 99"),
        ({"dims": [1] * 70}, "at most 64 dimensions"),
    ],
)
def test_tensors_that_are_not_what_they_say(refusal, changed, said):
    model = parser.parse_model(HEAD + "agraph (float[N, 2] x) => (y) { y = Add (x, w) }")
    model.graph.initializer.append(
        TensorProto(**{"name": "w", "data_type": 1, "dims": [2], "raw_data": bytes(8)} | changed)
    )
    assert said in refusal(model)["/model/graph/initializer/0"]


@pytest.mark.parametrize("number", [n for n in TensorProto.DataType.values() if n not in (0, 8)])
def test_data_of_every_type_in_every_form(take, number):
    array = np.ones(5, helper.tensor_dtype_to_np_dtype(number))
    typed, raw = (helper.make_tensor("w", number, [5], array if raw else [1] * 5, raw=raw) for raw in (False, True))
    for tensor in (typed, raw):
        model = parser.parse_model(HEAD + PLAIN)
        model.graph.initializer.append(tensor)
        take(model)


# Functions ------------------------------------------------------------------------------------------------------------


def test_functions_are_expanded_and_what_is_in_them_is_checked(take, refusal):
    text = """agraph (float[N, 8] x) => (y) { h = local.f <k = 2.0> (x) y = local.f <k = 3.0> (h) }
    <domain: "local", opset_import: ["" : 21, "planforge" : 1]>
    f <k> (v) => (w) { a = planforge.ScaleBias <scale : float = @k> (v) w = local.g (a) }
    <domain: "local", opset_import: ["" : 21]> g (v) => (w) { w = Relu (v) }
    """
    result = take(text)
    assert [node.op_type for node in result.model.graph.node] == ["ScaleBias", "Relu", "ScaleBias", "Relu"]
    assert [fields["scale"] for fields in result.plugins[0].fields] == [2.0, 3.0]
    assert {function.domain for function in result.model.functions} == {"planforge"}
    assert refusal(text.replace("w = Relu", "w = Rellu")).keys() == {"/model/functions/1/node/0"}
    assert refusal(text.replace("@k", "@k, scal : float = 1.0")).keys() == {"/model/functions/0/node/0/attribute/scal"}


def test_overloads_are_told_apart(take):
    text = """agraph (float[N, 8] x) => (y) { h = local.f (x) y = local.f (h) }
    <domain: "local", opset_import: ["" : 21]> f (v) => (w) { w = Relu (v) }
    <domain: "local", opset_import: ["" : 21]> f (v) => (w) { w = Neg (v) }
    """
    model = parser.parse_model(HEAD + text)
    for index in range(2):
        model.functions[index].overload = model.graph.node[index].overload = str(index)
    assert [node.op_type for node in take(model).model.graph.node] == ["Relu", "Neg"]


@pytest.mark.parametrize(
    ("function", "call", "said"),
    [
        ('<domain: "planforge", opset_import: ["" : 21]> ScaleBias (x) => (y) { y = Neg (x) }',
         "planforge.ScaleBias (x)", "is a plugin here"),
        ('<domain: "planforge", opset_import: ["" : 21]> ScaleBias (x) => (y) { y = Neg (x) }',
         "Relu (x)", "is a plugin here"),
        ('<domain: "com.microsoft", opset_import: ["" : 21]> MatMulNBits (x) => (y) { y = Neg (x) }',
         "Relu (x)", "MatMulNBits takes over"),
        ('<domain: "com.microsoft", opset_import: ["" : 21]> FastGelu (x) => (y) { y = Neg (x) }',
         "com.microsoft.FastGelu (x)", "in the domain of operators"),
        ('<domain: "", opset_import: ["" : 21]> Relu (x) => (y) { y = Neg (x) }',
         "Relu (x)", "in the domain of operators"),
        ('<domain: "local", opset_import: ["" : 21, "local" : 1]> f (x) => (y) { y = local.f (x) }',
         "local.f (x)", "in a circle: local.f -> local.f"),
        ('<domain: "local", opset_import: ["" : 21, "local" : 1]> f (x) => (y) { y = local.g (x) }'
         '<domain: "local", opset_import: ["" : 21, "local" : 1]> g (x) => (y) { y = local.f (x) }',
         "local.g (x)", "in a circle: local.f -> local.g -> local.f"),
        ('<domain: "local", opset_import: ["" : 9]> f (x) => (y) { y = Softmax (x) }',
         "local.f (x)", "imports opset 9 and the model 21, between which Softmax changed"),
    ],
)  # fmt: skip
def test_functions_that_are_refused(refusal, function, call, said):
    model = f"agraph (float[N, 8] x) => (y) {{ y = {call} }} {function}"
    assert said in refusal(model)["/model/functions/0"]


def test_a_function_of_another_opset_in_which_its_operators_are_the_same(take):
    text = """agraph (float[N, 8] x) => (y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 18]> f (v) => (w) { w = Relu (v) }"""
    assert [node.op_type for node in take(text).model.graph.node] == ["Relu"]


def test_functions_that_grow_beyond_all_bounds(refusal):
    calls = "".join(
        f'<domain: "local", opset_import: ["" : 21, "local" : 1]> f{n} (x) => (y)'
        f" {{ a = local.f{n + 1} (x) y = local.f{n + 1} (a) }}"
        for n in range(60)
    )
    last = '<domain: "local", opset_import: ["" : 21]> f60 (x) => (y) { y = Relu (x) }'
    found = refusal(f"agraph (float[N, 8] x) => (y) {{ y = local.f0 (x) }} {calls} {last}")
    assert "nodes once expanded, got more than 10^12" in found["/model/functions"]


def chain(depth: int) -> str:
    calls = "".join(
        f'<domain: "local", opset_import: ["" : 21, "local" : 1]> f{n} (x) => (y) {{ y = local.f{n + 1} (x) }}'
        for n in range(depth)
    )
    last = f'<domain: "local", opset_import: ["" : 21]> f{depth} (x) => (y) {{ y = Relu (x) }}'
    return f"agraph (float[N, 8] x) => (y) {{ y = local.f0 (x) }} {calls} {last}"


def test_a_deep_chain_of_functions(take, refusal):
    assert [node.op_type for node in take(chain(50)).model.graph.node] == ["Relu"]
    assert refusal(chain(5000)).keys() == {"/model/functions"}


def test_a_function_that_calls_thousands_of_others(take):
    count = 3000
    calls = " ".join(f"t{n + 1} = local.f{n} (t{n})" for n in range(count))
    wide = f'<domain: "local", opset_import: ["" : 21, "local" : 1]> wide (t0) => (t{count}) {{ {calls} }}'
    others = "".join(
        f'<domain: "local", opset_import: ["" : 21]> f{n} (x) => (y) {{ y = Relu (x) }}' for n in range(count)
    )
    result = take(f"agraph (float[N, 8] x) => (y) {{ y = local.wide (x) }} {wide} {others}")
    assert len(result.model.graph.node) == count


def test_a_model_that_this_service_made_may_come_back(take):
    first = take("agraph (float[N, 8] x) => (y) { y = planforge.ScaleBias <scale = 2.0> (x) }").model
    assert len(first.functions) == 1
    again = take(ModelProto.FromString(first.SerializeToString())).model
    assert again.SerializeToString(deterministic=True) == first.SerializeToString(deterministic=True)


# Plugins and control flow ---------------------------------------------------------------------------------------------

IF = """agraph (float[N, 8] x, bool c) => (y) {{
    y = If (c) <then_branch = g () => (t) {{ {then} }}, else_branch = h () => (t) {{ t = Neg (x) }}>
}}"""


@pytest.mark.parametrize(
    "node", ["planforge.ScaleBias (x)", "com.microsoft.MatMulNBits (x, x, x)", "planforge.Unknown (x)"]
)
def test_plugins_in_bodies_are_refused(refusal, node):
    pointer = "/model/graph/node/0/attribute/then_branch/node/0"
    assert "cannot stand in the body of If" in refusal(IF.format(then=f"t = {node}"))[pointer]


def test_bodies_are_checked_like_graphs(take, refusal):
    assert take(IF.format(then="t = Relu (x)")).outputs[0].shape == (-1, 8)
    at = "/model/graph/node/0/attribute/then_branch"
    assert refusal(IF.format(then="t = Rellu (x)")).keys() == {f"{at}/node/0"}
    assert refusal(IF.format(then="t = Relu (z)")).keys() == {f"{at}/node/0/input/0"}
    assert refusal(IF.format(then="x = Not (c) t = Neg (x)")).keys() == {f"{at}/node/0/output/0"}
    assert refusal(IF.format(then="t = Concat <axis = 7> (x, x)")).keys() == {f"{at}/node/0"}
    assert refusal(IF.format(then="u = Relu (x)")).keys() >= {f"{at}/output/0"}


def test_bodies_side_by_side_share_names(take):
    text = IF.format(then="a = Cast <to = 7> (x) b = Add (a, a) t = Cast <to = 1> (b)").replace(
        "t = Neg (x)", "a = Neg (x) b = Abs (a) t = Sin (b)"
    )
    assert take(text).outputs[0].datatype == "FP32"


def test_an_operator_of_onnx_runtimes_own(take, refusal):
    text = "agraph (float[N, 8] x) => (float[N, 8] y) { y = com.microsoft.FastGelu (x) }"
    assert take(text).outputs[0].shape == (-1, 8)
    profiles = [{"x": {"min": [1, 8], "opt": [1, 8], "max": [1, 8]}}]
    options = EngineOptions.model_validate({"name": "n", "profiles": profiles})
    found = refusal(text, backend="tensorrt_rtx", profiles=options.profiles)
    assert "which no plugin here takes over" in found["/model/graph/node/0"]


def test_a_plugin_of_a_file_says_its_version(take, refusal):
    text = 'agraph (float[N, 8] x) => (y) {{ y = planforge.ScaleBias <plugin_version = "{}"> (x) }}'
    assert take(text.format("1")).plugins[0].version == "1"
    assert "version '7'" in refusal(text.format("7"))["/model/graph/node/0"]


def test_bodies_are_held_against_the_backend_too(refusal):
    text = IF.format(then="a = Cast <to = 11> (x) t = Cast <to = 1> (a)").replace("[N, 8]", "[4, 8]")
    at = "/model/graph/node/0/attribute/then_branch/node/0/output/0"
    assert refusal(text, backend="tensorrt_rtx") == {at: "TensorRT takes no FP64, and a is one"}


def test_a_constant_without_an_output(refusal):
    model = parser.parse_model(HEAD + "agraph (float[4, 8] x) => (y) { y = Relu (x) }")
    model.graph.node.add(op_type="Constant")
    assert refusal(model, backend="tensorrt_rtx").keys() >= {"/model/graph/node/1"}
