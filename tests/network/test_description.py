"""What a body may look like, and where its faults are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.errors import InvalidRequest
from service.network.description import NETWORK_EXAMPLE, EngineOptions, EngineRequest, read_body


def body(**changed: Any) -> bytes:
    return json.dumps({"name": "demo", "network": NETWORK_EXAMPLE, **changed}).encode()


def faults(content: bytes) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        read_body(EngineRequest, content)
    return {fault.pointer: fault.detail for fault in caught.value.faults}


def test_the_examples_of_the_schema_are_right():
    for kind in (EngineRequest, EngineOptions):
        for example in kind.model_json_schema()["examples"]:
            read_body(kind, json.dumps(example).encode())


def test_defaults():
    read = read_body(EngineRequest, body())
    assert (read.backend, read.targets, read.profiles, read.priority) == ("auto", None, [], 0)
    assert (read.serving.instances, read.serving.batching, read.serving.queue) == (1, None, 64)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"name": }', b"null", b"[]", b'"x"'])
def test_what_is_no_object_is_a_fault_of_the_whole_body(content):
    assert faults(content).keys() == {""}


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({"nmae": "x"}, "/nmae", "no such key"),
        ({"name": "a b"}, "/name", "'a b'"),
        ({"name": "x" * 129}, "/name", "form"),
        ({"name": ""}, "/name", "form"),
        ({"name": "a\n"}, "/name", "form"),
        ({"name": 3}, "/name", "expected a string, got an integer"),
        ({"priority": "1"}, "/priority", "expected an integer, got a string"),
        ({"priority": 1.5}, "/priority", "expected an integer"),
        ({"priority": True}, "/priority", "expected an integer, got a boolean"),
        ({"verify": 1}, "/verify", "true or false"),
        ({"verify": True}, "/verify", "expected false: plans are not run"),
        ({"backend": "cuda"}, "/backend", "onnxruntime"),
        ({"targets": []}, "/targets", "at least 1"),
        ({"targets": ["86"]}, "/targets/0", "'86'"),
        ({"serving": {"instances": 0}}, "/serving/instances", "at least 1"),
        ({"serving": {"batching": {}}}, "/serving/batching/max_batch", "required"),
        ({"serving": {"batching": {"max_batch": 0}}}, "/serving/batching/max_batch", "at least 1"),
        ({"profiles": [{"x": {"min": [1]}}]}, "/profiles/0/x", "min, opt and max"),
        ({"profiles": [{"x": {"min": [1], "opt": [1], "max": [-1]}}]}, "/profiles/0/x/max/0", "at least 0"),
        ({"profiles": {"x": {}}}, "/profiles", "expected a list, got an object"),
        ({"network": {}}, "/network/nodes", "required"),
    ],
)
def test_each_fault_has_its_place(changed, pointer, said):
    assert said in faults(body(**changed))[pointer]


@pytest.mark.parametrize("dimension", [-1, 1.5, True, None, "", "a b", "1", 2**31, 18446744073709551616, [1]])
def test_dimensions_are_sizes_or_names(dimension):
    network = {**NETWORK_EXAMPLE, "inputs": [{"name": "x", "datatype": "FP32", "shape": [8, dimension]}]}
    assert faults(body(network=network)).keys() == {"/network/inputs/0/shape/1"}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_are_finite(number):
    assert "/priority" in faults(body(priority=0).replace(b'"priority": 0', f'"priority": {number}'.encode()))


def test_a_node_is_an_operator_or_a_plugin():
    nodes = [
        {"outputs": ["y"]},
        {"op": "Relu", "plugin": "ScaleBias", "outputs": ["y"]},
        {"op": "Relu", "fields": {}, "outputs": ["y"]},
        {"plugin": "ScaleBias", "attributes": {}, "outputs": ["y"]},
        {"op": "Relu", "outputs": []},
    ]
    found = faults(body(network={"nodes": nodes, "outputs": ["y"]}))
    assert found.keys() == {f"/network/nodes/{index}" for index in range(4)} | {"/network/nodes/4/outputs"}


def test_everything_is_said_at_once_and_keys_are_escaped():
    found = faults(body(name=1, **{"a/b~c": 1}, targets="sm_86"))
    assert found.keys() == {"/name", "/a~1b~0c", "/targets"}


def test_a_hostile_key_is_not_repeated_at_length():
    found = faults(body(**{"k" * 1_000_000: 1}))
    assert len(next(iter(found))) < 200
