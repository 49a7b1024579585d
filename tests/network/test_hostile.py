"""What nobody sends by mistake: it is refused, in time, and the process lives."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import defs, helper, parser

from service.errors import InvalidRequest
from service.network.checking import check
from service.network.description import EngineOptions, EngineRequest, read_body
from service.network.importing import import_model
from service.network.lowering import lower
from service.settings import Settings
from tests.profiles import profiles_for, profiles_for_model

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def answer(host: Any, network: Any, limits: Settings | None = None) -> list[str]:
    """The pointers of the faults, none where the network is right."""
    try:
        body = {"name": "n", "network": network, "profiles": profiles_for(network)}
        request = read_body(EngineRequest, json.dumps(body).encode())
        graph = lower(request.network, host.catalogue)
        check(graph, request, host, limits or Settings())
    except InvalidRequest as error:
        return [fault.pointer for fault in error.faults]
    return []


def chain(count: int) -> dict[str, Any]:
    names = ["x", *(f"t{index}" for index in range(count))]
    nodes = [{"op": "Relu", "inputs": [names[i]], "outputs": [names[i + 1]]} for i in range(count)]
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["n"]}], "nodes": nodes, "outputs": [names[-1]]}


def test_a_chain_of_thousands_backwards(host):
    network = chain(5000)
    network["nodes"].reverse()
    assert answer(host, network) == []


def test_a_ring_of_thousands(host):
    network = chain(5000)
    network["nodes"][0]["inputs"] = [network["outputs"][0]]
    started = time.monotonic()
    assert answer(host, network) == ["/network/nodes/0"]
    assert time.monotonic() - started < 20


def test_every_node_reads_every_earlier_one(host):
    nodes = [
        {"op": "Sum", "inputs": ["x", *(f"t{i}" for i in range(index))], "outputs": [f"t{index}"]}
        for index in range(300)
    ]
    network = {**chain(1), "nodes": nodes, "outputs": ["t299"]}
    assert answer(host, network) == []


def test_doubling_has_no_price(host):
    nodes = [{"op": "Add", "inputs": [f"t{index}", f"t{index}"], "outputs": [f"t{index + 1}"]} for index in range(200)]
    network = {"inputs": [{"name": "t0", "datatype": "FP32", "shape": ["n"]}], "nodes": nodes, "outputs": ["t200"]}
    assert answer(host, network) == []


def test_shapes_that_double_at_every_node(host):
    nodes = [
        {"op": "Concat", "inputs": [f"t{i}", f"t{i}"], "outputs": [f"t{i + 1}"], "attributes": {"axis": 0}}
        for i in range(100)
    ]
    network = {"inputs": [{"name": "t0", "datatype": "FP32", "shape": [1]}], "nodes": nodes, "outputs": ["t100"]}
    assert answer(host, network)


def test_the_limit_on_nodes(host):
    assert answer(host, chain(101), Settings(max_nodes=100)) == ["/network/nodes"]
    request = EngineRequest.model_validate({"name": "n", "network": chain(11)})
    with pytest.raises(InvalidRequest, match="at most 10 nodes, got 11"):
        lower(request.network, host.catalogue, max_nodes=10)


def test_names_of_a_megabyte(host):
    long = "n" * 1_000_000
    network = chain(2)
    network["nodes"][0] |= {"op": long}
    assert answer(host, network) == ["/network/nodes/0/op"]
    network["nodes"][0] |= {"op": "Relu", "attributes": {long: long}}
    (pointer,) = answer(host, network)
    assert len(pointer) < 300


@pytest.mark.parametrize("dims", [[2**31 - 1] * 3, [0, 2**31 - 1, 2**31 - 1, 2**31 - 1], [2**31 - 1] * 64, []])
def test_huge_shapes(host, dims):
    network = chain(1)
    network["inputs"][0]["shape"] = dims
    assert bool(answer(host, network)) == (len(dims) in (3, 64))


def imported(host: Any, folder: Path, model: Any) -> list[str]:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    options = EngineOptions(name="n", profiles=profiles_for_model(model))
    try:
        check(import_model(path, {}, host.catalogue), options, host, Settings())
    except InvalidRequest as error:
        return [fault.detail for fault in error.faults]
    return []


HEAD = '<ir_version: 10, opset_import: ["" : %d, "ai.onnx.ml" : 5, "com.microsoft" : 1]>'


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        # Ends in an assertion of the standard library: a dimension below zero.
        (9, "g (float[4] x) => (y) { p = Pad <pads = [-9, 0]> (x) y = Slice <starts = [0], ends = [1]> (p) }"),
        # Never ends, and takes memory: the step is cut to 32 bits.
        (21, "g (float[2, 3] x) => (y) { s = Shape (x) a = Constant <value_ints = [0]> ()"
             " b = Constant <value_ints = [5]> () t = Constant <value_ints = [4611686018427387904]> ()"
             " q = Slice (s, a, b, a, t) y = ConstantOfShape (q) }"),
        # Reads through a null pointer.
        (21, "g (float[3] x) => (y) { a = com.microsoft.Unknown (x) y = ai.onnx.ml.DictVectorizer (a) }"),
    ],
)  # fmt: skip
def test_models_that_end_or_hang_onnx_itself(host, tmp_path, opset, text):
    started = time.monotonic()
    # The second is right, as far as one can say without following the values.
    assert bool(imported(host, tmp_path, parser.parse_model(HEAD % opset + text))) == ("Shape" not in text)
    assert time.monotonic() - started < 60
    assert answer(host, chain(3)) == []


def test_bodies_in_bodies_in_bodies(host, tmp_path):
    body = "t0 = Relu (x)"
    for depth in range(1, 25):
        body = f"t{depth} = If (c) <then_branch = g () => (t{depth - 1}) {{ {body} }},"
        body += f" else_branch = h () => (e{depth}) {{ e{depth} = Neg (x) }}>"
    model = parser.parse_model(HEAD % 21 + f"g (float[3] x, bool c) => (t24) {{ {body} }}")
    assert imported(host, tmp_path, model) == []


VALUES = st.sampled_from([0, 1, -1, 2, 7, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)])
OPERATORS = sorted({schema.name for schema in defs.get_all_schemas() if schema.domain == ""})
ATTRIBUTES = ["axis", "axes", "perm", "to", "kernel_shape", "pads", "strides", "num_outputs", "blocksize", "value_ints"]
NODES = st.fixed_dictionaries(
    {
        "op": st.sampled_from(OPERATORS),
        "inputs": st.lists(st.sampled_from(["x", "c", "a", "b", ""]), max_size=4),
        "outputs": st.lists(st.sampled_from(["a", "b", "d", ""]), min_size=1, max_size=2),
        "attributes": st.dictionaries(
            st.sampled_from(ATTRIBUTES), VALUES | st.lists(VALUES, max_size=4) | st.floats(allow_nan=False), max_size=3
        ),
    }
)


@QUIET
@given(
    nodes=st.lists(NODES, min_size=1, max_size=5),
    shape=st.lists(st.sampled_from([0, 1, 3, 8, 2**31 - 1, "n"]), max_size=4),
    data=st.lists(VALUES, min_size=1, max_size=4),
)
def test_any_network_of_operators_is_right_or_refused(host, nodes, shape, data):
    inputs = [{"name": "x", "datatype": "FP32", "shape": shape}]
    constants = [{"name": "c", "datatype": "INT64", "shape": [len(data)], "data": data}]
    answer(host, {"inputs": inputs, "constants": constants, "nodes": nodes, "outputs": ["a"]})


FIELDS = st.dictionaries(
    st.sampled_from(["scale", "bias", "axis", "activation", "K", "N", "bits"]),
    st.none() | st.booleans() | VALUES | st.just(10**400) | st.text(max_size=3) | st.lists(VALUES, max_size=2),
)


@QUIET
@given(fields=FIELDS, plugin=st.sampled_from(["ScaleBias", "MatMulNBits", "RMSNorm"]))
def test_any_fields_are_right_or_refused(host, fields, plugin):
    node = {"plugin": plugin, "inputs": ["x", "x", "x"], "outputs": ["y"], "fields": fields}
    answer(host, {**chain(1), "nodes": [node], "outputs": ["y"]})


MODEL = helper.make_model(
    helper.make_graph(
        [helper.make_node("ScaleBias", ["x"], ["h"], "n", domain="planforge", scale=2.0),
         helper.make_node("Reshape", ["h", "s"], ["y"], "m")],
        "g", [helper.make_tensor_value_info("x", 1, ["N", 8])], [helper.make_tensor_value_info("y", 1, None)],
        [helper.make_tensor("s", 7, [2], [-1, 4])],
    ),
    opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("planforge", 1)], ir_version=10,
)  # fmt: skip


@QUIET
@given(data=st.data())
def test_any_damage_to_a_file_is_right_or_refused(host, tmp_path, data):
    content = bytearray(MODEL.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    options = EngineOptions(name="n", profiles=profiles_for_model(MODEL))
    try:
        check(import_model(path, {}, host.catalogue), options, host, Settings())
    except InvalidRequest as error:
        assert error.faults
