"""Plugins' nodes in a network: which plugin is meant, its fields, its tensors."""

from __future__ import annotations

from typing import Any

import pytest

from service.backends.host import Host
from service.errors import InvalidRequest
from service.network.checking import check
from service.network.description import EngineRequest
from service.network.lowering import lower
from service.plugins import FLOATS, CudaPlugin, Operator, PluginFault, Tensor, field, required
from service.plugins.catalogue import Catalogue, Found
from service.settings import Settings


class Twice(CudaPlugin):
    """y = x + x"""

    inputs = (Tensor("x", FLOATS),)
    outputs = (Tensor("y", like="x"),)

    def reference(self, op: Any, x: Any) -> Any:
        return op.Add(x, x)


class TwiceAgain(Twice):
    """The same, later."""

    name = "Twice"
    version = "2"
    inputs = Twice.inputs
    outputs = Twice.outputs


class TwiceElsewhere(Twice):
    """The same, of another house."""

    name = "Twice"
    namespace = "acme"


class Several(CudaPlugin):
    """Optional tensors on both sides, and an operator that it takes over."""

    width: int = required("columns", minimum=1)
    names: list[int] = field([1], "a list")
    note: str = field("", "text")

    inputs = (Tensor("a", FLOATS), Tensor("b", like="a", optional=True), Tensor("c", like="a", optional=True))
    outputs = (Tensor("y", like="a"), Tensor("z", like="a", optional=True), Tensor("w", like="a", optional=True))
    operators = (
        Operator(
            "com.microsoft.Several",
            inputs=("c", None, "a"),
            outputs=("z", "y", None),
            renamed={"Width": "width"},
            ignored=("speed",),
            fixed={"mode": 1},
        ),
    )

    def check(self, tensors: Any) -> Any:
        if self.width == 13:
            yield PluginFault("unlucky", "width")
        if self.width == 14:
            raise RuntimeError("broken")

    def reference(self, op: Any, a: Any, b: Any, c: Any) -> Any:
        return op.Identity(a), op.Neg(a), op.Abs(a)


NATIVE = {
    "name": "Native_TRT", "version": "1", "namespace": "", "summary": "", "operators": [], "inputs": [], "outputs": [],
    "fields": [{"name": "mode", "type": "INT32"}, {"name": "eps", "type": "FLOAT32"}, {"name": "kind", "type": "CHAR"}],
    "targets": ["sm_86"], "origin": "tensorrt",
}  # fmt: skip


@pytest.fixture(scope="module")
def own_host(host: Host) -> Host:
    found = tuple(Found(plugin, "tests") for plugin in (Twice, TwiceAgain, TwiceElsewhere, Several))
    return Host(Catalogue(found, (NATIVE,)), host.capabilities)


@pytest.fixture
def outcome(own_host, network):
    """The checked network of some nodes, or its faults by pointer."""

    def run(*nodes: dict[str, Any], backend: str = "onnxruntime", **parts: Any) -> Any:
        described = network(*nodes, **parts)
        profiles = [{"x": {"min": [1, 8], "opt": [2, 8], "max": [4, 8]}}]
        given = {"name": "n", "network": described, "backend": backend, "profiles": profiles}
        request = EngineRequest.model_validate(given)
        try:
            return check(lower(request.network, own_host.catalogue), request, own_host, Settings())
        except InvalidRequest as error:
            return {fault.pointer: fault.detail for fault in error.faults}

    return run


def several(**changed: Any) -> dict[str, Any]:
    return {"plugin": "Several", "inputs": ["x"], "outputs": ["y"], "fields": {"width": 1}, **changed}


def twice(**changed: Any) -> dict[str, Any]:
    return {"plugin": "Twice", "inputs": ["x"], "outputs": ["y"], **changed}


def test_version_and_namespace_choose(outcome):
    for version, namespace in (("1", "planforge"), ("2", "planforge"), ("1", "acme")):
        (use,) = outcome(twice(version=version, namespace=namespace)).plugins
        assert (use.version, use.namespace) == (version, namespace)
    (use,) = outcome(twice(namespace="acme")).plugins
    assert use.namespace == "acme"


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({}, "/plugin", "Give version or namespace: Twice version 1 of namespace 'acme', Twice version 1 of"),
        ({"namespace": "planforge"}, "/plugin", "Give version"),
        ({"version": "3"}, "/version", "no Twice of version '3'; there are"),
        ({"namespace": "nowhere"}, "/namespace", "no Twice of namespace 'nowhere'; there are"),
        ({"plugin": "Twise"}, "/plugin", "did you mean Twice"),
        ({"plugin": "Elephant"}, "/plugin", "there are Native_TRT, Several, Twice"),
    ],
)
def test_a_plugin_that_is_not_there_or_not_the_only_one(outcome, changed, pointer, said):
    assert said in outcome(twice(**changed))[f"/network/nodes/0{pointer}"]


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({"fields": {}}, "/fields/width", "requires this field"),
        ({"fields": {"width": 1, "widht": 2}}, "/fields/widht", "has width, names, note"),
        ({"fields": {"width": "1"}}, "/fields/width", "expected an integer, got a string"),
        ({"fields": {"width": 1.0}}, "/fields/width", "expected an integer"),
        ({"fields": {"width": True}}, "/fields/width", "got a boolean"),
        ({"fields": {"width": 2**31}}, "/fields/width", "32 bits"),
        ({"fields": {"width": 0}}, "/fields/width", "at least 1"),
        ({"fields": {"width": 1, "names": 3}}, "/fields/names", "expected a list"),
        ({"fields": {"width": 1, "note": "a\0"}}, "/fields/note", "NUL"),
        ({"fields": {"width": 13}}, "/fields/width", "unlucky"),
        ({"fields": {"width": 14}}, "", "Several cannot say: RuntimeError: broken"),
        ({"inputs": []}, "/inputs/0", "requires the input a"),
        ({"inputs": ["", "x"]}, "/inputs/0", "requires the input a"),
        ({"inputs": ["x", "x", "x", "x"]}, "", "at most 3 inputs"),
        ({"inputs": ["x", "nothing"]}, "/inputs/1", "no tensor nothing"),
        ({"outputs": ["", "y"]}, "", "requires a name for the output y"),
        ({"outputs": ["y", "z", "w", "v"]}, "", "has 3 outputs, got 4"),
    ],
)
def test_each_fault_has_its_place(outcome, changed, pointer, said):
    node = several(**changed)
    found = outcome(node, outputs=[next(filter(None, node["outputs"]))])
    assert said in found[f"/network/nodes/0{pointer}"]


def test_types_are_said_at_the_tensor(outcome):
    constants = [
        {"name": "half", "datatype": "FP16", "shape": [8], "data": [0] * 8},
        {"name": "whole", "datatype": "INT64", "shape": [8], "data": [0] * 8},
    ]
    found = outcome(
        several(inputs=["x", "half"]), several(inputs=["whole"], outputs=["v"]), outputs=["y", "v"], constants=constants
    )
    assert found == {
        "/network/nodes/0/inputs/1": "b must be FP32 as a is, got FP16",
        "/network/nodes/1/inputs/0": "Several takes FP32 or FP16 or BF16 as a, got INT64",
    }


def test_what_is_absent_is_left_out_and_every_output_has_a_name(outcome):
    result = outcome(several(inputs=["x", "", "x"], outputs=["y", "", "w"]))
    (node,) = result.model.graph.node
    assert list(node.input) == ["x", "", "x"]
    assert node.output[0] == "y" and node.output[1] and node.output[2] == "w"
    (function,) = result.model.functions
    assert len(function.output) == 3


def test_equal_nodes_share_a_function(outcome):
    nodes = [
        several(outputs=["a"]),
        several(outputs=["b"]),
        several(outputs=["c"], fields={"width": 2}),
        several(outputs=["d"], inputs=["x", "x"]),
    ]
    result = outcome(*nodes, outputs=["a", "b", "c", "d"])
    assert len(result.model.functions) == 3
    assert {node.overload for node in result.model.graph.node} == {each.overload for each in result.model.functions}
    (use,) = result.plugins
    assert use.nodes == 4 and [fields["width"] for fields in use.fields] == [1, 1, 2, 1]
    assert use.fields[0] == {"width": 1, "names": [1], "note": ""}


def operator(**changed: Any) -> dict[str, Any]:
    given = {"op": "com.microsoft.Several", "inputs": ["", "", "x"], "outputs": ["", "y"], "attributes": {"Width": 3}}
    return given | changed


def test_an_operator_that_is_taken_over_becomes_the_plugin(outcome):
    attributes = {"Width": 3, "speed": 9, "mode": 1}
    result = outcome(operator(inputs=["k", "", "x"], outputs=["z", "y"], attributes=attributes,), outputs=["y", "z"],
                     constants=[{"name": "k", "datatype": "FP32", "shape": [], "data": 1}])  # fmt: skip
    (node,) = result.model.graph.node
    assert (node.domain, node.op_type) == ("planforge", "Several")
    assert (list(node.input), list(node.output)) == (["x", "", "k"], ["y", "z"])
    assert [each.name for each in node.attribute] == ["width", "plugin_version", "plugin_namespace"]


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({"attributes": {}}, "/attributes/width", "requires this field"),
        ({"attributes": {"Width": "a"}}, "/attributes/Width", "expected an integer, got a string"),
        ({"attributes": {"Width": 1, "mode": 2}}, "/attributes/mode", "takes 1 only, got 2"),
        ({"attributes": {"Width": 1, "odd": 2}}, "/attributes/odd", "no field of this name"),
        ({"attributes": {"Width": 13}}, "/attributes/Width", "unlucky"),
        ({"inputs": ["", "x", "x"]}, "/inputs/1", "has no such input"),
        ({"inputs": ["", "", "x", "x"]}, "/inputs/3", "has no such input"),
        ({"inputs": ["x"]}, "/inputs/2", "requires the input a"),
        ({"outputs": ["", "y", "z"]}, "/outputs/2", "has no such output"),
    ],
)
def test_a_takeover_says_faults_where_the_user_wrote(outcome, changed, pointer, said):
    assert said in outcome(operator(**changed), outputs=["y"])[f"/network/nodes/0{pointer}"]


def native(**changed: Any) -> dict[str, Any]:
    fields = {"mode": 1, "eps": 0.5, "kind": "fast"}
    return {"plugin": "Native_TRT", "inputs": ["x"], "outputs": ["y"], "fields": fields} | changed


STATED = [{"name": "y", "datatype": "FP32", "shape": ["batch", 8]}]


def test_a_native_creator_is_for_tensorrt_only(outcome):
    result = outcome(native(), outputs=STATED, backend="tensorrt_rtx")
    (node,) = result.model.graph.node
    assert (node.domain, node.op_type, len(result.model.functions)) == ("trt.plugins", "Native_TRT", 0)
    said = {each.name for each in node.attribute}
    assert said == {"mode", "eps", "kind", "plugin_version", "plugin_namespace"}
    assert result.outputs[0].shape == (-1, 8) and result.targets == ("sm_86",)
    assert "only TensorRT backends take it" in outcome(native(), outputs=STATED)["/network/nodes/0"]


def test_a_native_creator_states_no_types(outcome):
    assert "state the output" in outcome(native(), backend="tensorrt_rtx")["/network/outputs/0"]
    result = outcome(
        native(outputs=["h"]), {"op": "Relu", "inputs": ["h"], "outputs": ["y"]}, outputs=STATED, backend="tensorrt_rtx"
    )
    assert result.outputs[0].datatype == "FP32"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"mode": "1"}, "mode"),
        ({"mode": 2**31}, "mode"),
        ({"eps": None}, "eps"),
        ({"kind": 1}, "kind"),
        ({"a": 1}, "a"),
    ],
)
def test_a_native_creators_fields(outcome, fields, pointer):
    assert outcome(native(fields=fields), outputs=STATED, backend="tensorrt_rtx").keys() == {
        f"/network/nodes/0/fields/{pointer}"
    }
