"""Whether a graph holds together: names, operators, arity, attributes. Everything that is wrong is collected."""

from __future__ import annotations

from onnx import GraphProto, NodeProto

from service.network.bodies import escaped, shorten
from service.network.graph import CONTRIB, FAULTY_DOMAIN, NATIVE_DOMAIN, Graph
from service.network.operator_checks import check_operator
from service.network.operators import STANDARD_DOMAINS, near, signature
from service.network.ordering import sort
from service.network.walking import bodies

LONGEST_NAME = 4096


class Scope:
    """The tensors of a graph, and of those around it. `made_at` are pointers."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.made_at: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.made_at:
                return scope.made_at[name]
            scope = scope.outer
        return None


def check_structure(graph: Graph) -> set[str]:
    """Reports into `graph.faults`, and puts the nodes in order. Gives the names of nodes that no rule applies to."""
    checker = _Structure(graph)
    words, outermost = graph.words, graph.model.graph
    if not outermost.node:
        graph.faults.report(f"{words.graph}/{words.nodes}", "expected at least one node")
    checker.check(outermost, words.graph, None)
    if not outermost.output:
        graph.faults.report(f"{words.graph}/{words.outputs}", "expected at least one output")
    for index, output in enumerate(outermost.output):
        made = graph.tensors.get(output.name)
        if made:
            detail = f"{shorten(output.name)} is not made by a node but stands at {made}; an Identity node makes a copy"
            graph.faults.report(f"{words.graph}/{words.outputs}/{index}", detail)
    return checker.unsound


class _Structure:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.words, self.faults = graph, graph.words, graph.faults
        self.opsets = {each.domain: each.version for each in graph.model.opset_import}
        self.unsound: set[str] = set()

    def check(self, graph: GraphProto, pointer: str, outer: Scope | None) -> None:
        scope = Scope(outer)
        self._enter_declared(graph, pointer, scope)
        for node in graph.node:
            for index, name in enumerate(node.output):
                if name:
                    self._enter(name, self.graph.output_pointer(node, index), scope, node)
        for node in graph.node:
            self._check_node(node, scope)
        self._check_outputs(graph, pointer, scope)
        for cycle in sort(graph):
            said = " -> ".join(f"{self.graph.pointers[node.name]} ({shorten(tensor)})" for node, tensor in cycle)
            self.faults.report(self.graph.pointers[cycle[0][0].name], f"a cycle: {said} -> back to the first")
            self.unsound.update(node.name for node, _ in cycle)

    def _enter_declared(self, graph: GraphProto, pointer: str, scope: Scope) -> None:
        inside = scope.outer is not None
        for kind, names in (
            (self.words.inputs, [each.name for each in graph.input]),
            (self.words.constants, [each.name for each in graph.initializer]),
            ("sparse_initializer", [each.values.name for each in graph.sparse_initializer]),
        ):
            for index, name in enumerate(names):
                at = (
                    f"{pointer}/{kind}/{index}" if inside else self.graph.tensors.get(name, f"{pointer}/{kind}/{index}")
                )
                self._enter(name, at if name not in scope.made_at else f"{pointer}/{kind}/{index}", scope)

    def _enter(self, name: str, at: str, scope: Scope, node: NodeProto | None = None) -> None:
        problem = _name_problem(name)
        earlier = scope.find(name)
        if earlier is not None:
            problem = f"the tensor {shorten(name)} is made twice; {earlier} makes it already"
        if problem is not None:
            self.faults.report(at, problem)
            if node is not None:
                self.unsound.add(node.name)
        scope.made_at.setdefault(name, at)

    def _check_node(self, node: NodeProto, scope: Scope) -> None:
        for index, name in enumerate(node.input):
            if name and scope.find(name) is None:
                hint = near(name, tuple(scope.made_at)) if len(scope.made_at) < 1000 else ""
                self.faults.report(self.graph.input_pointer(node, index), f"no tensor {shorten(name)}{hint}")
                self.unsound.add(node.name)
        if node.domain == FAULTY_DOMAIN:
            self.unsound.add(node.name)
        elif node.domain in STANDARD_DOMAINS:
            self._check_standard(node)
        elif node.domain not in (NATIVE_DOMAIN, CONTRIB) and node.name not in self.graph.placements:
            detail = f"no operator {shorten(node.op_type)} in the domain {shorten(node.domain)!r}"
            self._unsound(node, detail + near(f"{node.domain}.{node.op_type}", _plugin_titles(self.graph)))
        before = len(self.faults)
        for name, body in bodies(node):
            at = f"{self.graph.pointers[node.name]}/{self.words.attributes}/{escaped(name)}"
            self.check(body, at, scope)
        if len(self.faults) > before:
            self.unsound.add(node.name)

    def _check_standard(self, node: NodeProto) -> None:
        version = self.opsets.get(node.domain)
        if version is None:
            self._unsound(node, f"the model imports no opset of the domain {node.domain or 'ai.onnx'}")
            return
        known = signature(node.domain, node.op_type, version)
        if known is None or known.deprecated:
            said = "was removed from" if known else "is not in"
            title = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self._unsound(node, f"the operator {shorten(title)} {said} opset {version}{near(node.op_type)}")
            return
        for pointer, detail in check_operator(self.graph, node, known):
            self.faults.report(pointer, detail)
            self.unsound.add(node.name)

    def _unsound(self, node: NodeProto, detail: str) -> None:
        self.faults.report(self.graph.pointers[node.name], detail)
        self.unsound.add(node.name)

    def _check_outputs(self, graph: GraphProto, pointer: str, scope: Scope) -> None:
        seen: set[str] = set()
        for index, output in enumerate(graph.output):
            at = f"{pointer}/{self.words.outputs}/{index}"
            if output.name in seen:
                self.faults.report(at, f"the output {shorten(output.name)} is named twice")
            elif output.name not in scope.made_at and (scope.outer is None or scope.find(output.name) is None):
                hint = near(output.name, tuple(scope.made_at)) if len(scope.made_at) < 1000 else ""
                self.faults.report(at, f"no tensor {shorten(output.name)}{hint}")
            seen.add(output.name)


def _name_problem(name: str) -> str | None:
    if not name:
        return "expected a name"
    if len(name) > LONGEST_NAME:
        return f"expected a name of at most {LONGEST_NAME} characters, got {len(name)}"
    return "expected a name without control characters" if not name.isprintable() and _has_control(name) else None


def _has_control(name: str) -> bool:
    return any(ord(each) < 32 or ord(each) == 127 for each in name)


def _plugin_titles(graph: Graph) -> tuple[str, ...]:
    return tuple(sorted({f"{each.namespace}.{each.name}" for each in graph.placements.values()}))
