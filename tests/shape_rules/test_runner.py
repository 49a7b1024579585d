"""ONNX's rules in children: they answer, they ask for plugins' types, and one that ends is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from onnx import GraphProto, ModelProto, ValueInfoProto, helper, parser

from service.shape_rules import runner as module
from service.shape_rules.messages import FINAL, PLUGIN, RULES_DOMAIN
from service.shape_rules.runner import Runner

HEAD = f'<ir_version: 10, opset_import: ["" : 21, "local" : 1, "ai.onnx.ml" : 5, "{RULES_DOMAIN}" : 1]>'


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


def parsed(text: str) -> ModelProto:
    return parser.parse_model(HEAD + text)


def same(question: GraphProto) -> GraphProto:
    return GraphProto(output=[ValueInfoProto(type=question.input[0].type)])


def type_of(model: ModelProto, name: str) -> list[int | str]:
    infos = {each.name: each for each in (*model.graph.value_info, *model.graph.output)}
    return [dim.dim_value or dim.dim_param for dim in infos[name].type.tensor_type.shape.dim]


def test_types_and_what_is_wrong(runner):
    text = "g (float[N, 8] x, float[3] z) => (y) { a = Transpose (x) y = Neg (a) [bad] b = Add (x, z) }"
    model, said = runner.infer(parsed(text), same)
    assert type_of(model, "y") == [8, "N"]
    assert "node name: bad" in said and "Incompatible dimensions" in said


def plugin_chain(alike: list[int]) -> ModelProto:
    nodes = [
        helper.make_node(PLUGIN, [f"t{i}"], [f"t{i + 1}"], domain=RULES_DOMAIN, index=i, alike=each)
        for i, each in enumerate(alike)
    ]
    info = helper.make_tensor_value_info("t0", 1, ["N", 8])
    graph = helper.make_graph(nodes, "g", [info], [ValueInfoProto(name=f"t{len(alike)}")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(RULES_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(("final", "expected"), [(FINAL, ["0", "2"]), ("", ["0", "1", "2", "3"])])
def test_asks_once_for_nodes_that_are_alike(runner, final, expected):
    asked = []

    def rule(question: GraphProto) -> GraphProto:
        asked.append(question.name)
        return GraphProto(name=final, output=same(question).output)

    model, said = runner.infer(plugin_chain([7, 7, 5, 7]), rule)
    assert (asked, said) == (expected, "")
    assert type_of(model, "t4") == ["N", 8]


def test_an_unknown_answer_leaves_what_follows_unknown(runner):
    model, said = runner.infer(plugin_chain([0, 1]), lambda question: GraphProto())
    assert said == ""
    assert not model.graph.output[0].type.WhichOneof("value")


def test_an_exception_of_a_rule_comes_out(runner):
    def rule(question: GraphProto) -> GraphProto:
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        runner.infer(plugin_chain([0]), rule)
    assert runner.infer(plugin_chain([0]), same)[1] == ""


def test_functions_are_expanded(runner):
    function = '<domain: "local", opset_import: ["" : 21]> f (a) => (b) { b = Relu (a) }'
    model, said = runner.expand(parsed(f"g (float[3] x) => (y) {{ y = local.f (x) }} {function}"))
    assert (said, [node.op_type for node in model.graph.node]) == ("", ["Relu"])


def test_a_model_that_ends_the_child_is_said_and_the_next_one_works(runner):
    model, said = runner.infer(parsed("g () => (y) { y = ai.onnx.ml.DictVectorizer (unknown) }"), same)
    assert said == "the process that applies ONNX's rules was killed by signal 11 (SIGSEGV)"
    assert not model.graph.node
    assert runner.infer(plugin_chain([0]), same)[1] == ""


def test_a_child_that_hangs_is_ended(runner, monkeypatch):
    assert runner.infer(plugin_chain([0]), same)[1] == ""  # a child is up
    monkeypatch.setattr(module, "SECONDS", 0.5)
    children = []

    def rule(question: GraphProto) -> GraphProto:
        child = int(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()[-1])
        children.append(child)
        os.kill(child, signal.SIGSTOP)
        return same(question)

    _, said = runner.infer(plugin_chain([0]), rule)
    assert "signal 9" in said and children


def test_children_are_kept_and_used_side_by_side(runner):
    runner.warm_up()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda count: runner.infer(plugin_chain([0] * count), same), range(1, 25)))
    assert [type_of(model, f"t{count}") for count, (model, _) in enumerate(results, 1)] == [["N", 8]] * 24
    assert 1 <= runner._idle.qsize() <= module.MOST_IDLE


def test_a_child_ends_when_nobody_needs_it(runner):
    runner.warm_up()
    child = runner._idle.get()
    runner._idle.put(child)
    runner.close()
    assert child.returncode == 0
