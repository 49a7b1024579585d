"""Functions that a model brings along: expanded where they are called, so that everything in them is checked too.

One that bears the name of a plugin or of an operator is refused: what would run depends on who runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from service.network.bodies import Faults, shorten
from service.network.external import empty
from service.network.graph import CONTRIB, FAULTY_DOMAIN, NATIVE_DOMAIN
from service.network.operators import STANDARD_DOMAINS, signature
from service.network.walking import bodies
from service.plugins.catalogue import Catalogue
from service.shape_rules.runner import shared

Key = tuple[str, str, str]
"""Domain, name, overload."""


def of_plugins(model: ModelProto, catalogue: Catalogue) -> dict[str, FunctionProto]:
    """Copies of the functions that bear a plugin's name, by pointer: they must be what the plugin brings itself."""
    return {
        f"/model/functions/{index}": FunctionProto.FromString(function.SerializeToString())
        for index, function in enumerate(model.functions)
        if _names_plugin(function, catalogue)
    }


def _names_plugin(function: FunctionProto, catalogue: Catalogue) -> bool:
    own = {(found.plugin.namespace, found.plugin.name) for found in catalogue.found}
    return (function.domain, function.name) in own


def expand(model: ModelProto, catalogue: Catalogue, most_nodes: int, faults: Faults) -> None:
    """Puts the model's functions where they are called, and leaves out those of plugins' names."""
    functions: dict[Key, FunctionProto] = {}
    before = len(faults)
    for index, function in enumerate(model.functions):
        pointer = f"/model/functions/{index}"
        if _names_plugin(function, catalogue):
            continue
        _check_name(function, pointer, catalogue, faults)
        if _key(function) in functions:
            faults.report(pointer, f"the function {_title(function)} is there twice")
        functions[_key(function)] = function
        _adapt(function, model, pointer, faults)
    _check_calls(model, functions, most_nodes, faults)
    kept = [FunctionProto.FromString(each.SerializeToString()) for each in functions.values()]
    del model.functions[:]
    if kept and len(faults) == before:
        model.functions.extend(kept)
        _inline(model, faults)
    if len(faults) > before:
        for node in _all_nodes(model.graph.node):
            node.domain = FAULTY_DOMAIN if _called(node) in functions else node.domain


def _inline(model: ModelProto, faults: Faults) -> None:
    constants = GraphProto(initializer=model.graph.initializer)
    # Weights need not travel: their names and types are enough.
    for tensor in model.graph.initializer:
        empty(tensor)
    expanded, said = shared().expand(model)
    if said:
        faults.report("/model/functions", f"functions cannot be expanded: {shorten(said.rpartition(': ')[2])}")
        expanded = model
    model.CopyFrom(expanded)
    del model.functions[:], model.graph.initializer[:]
    model.graph.initializer.extend(constants.initializer)


def _check_name(function: FunctionProto, pointer: str, catalogue: Catalogue, faults: Faults) -> None:
    title = _title(function)
    taken = catalogue.taker(function.domain, function.name)
    if taken is not None:
        faults.report(
            pointer, f"{title} is an operator that the plugin {taken[0].name} takes over; rename the function"
        )
    elif function.domain in (*STANDARD_DOMAINS, CONTRIB, NATIVE_DOMAIN):
        # ONNX Runtime would prefer its own kernel, TensorRT the function.
        faults.report(pointer, f"{title} stands in the domain of operators; give the function a domain of its own")


def _adapt(function: FunctionProto, model: ModelProto, pointer: str, faults: Faults) -> None:
    """Lets the function import the model's opsets where every operator in it is the same in both."""
    ours = {each.domain: each.version for each in model.opset_import}
    for imported in function.opset_import:
        wanted = ours.get(imported.domain)
        if wanted is None or wanted == imported.version:
            continue
        changed = sorted({node.op_type for node in _all_nodes(function.node) if _differs(node, imported, wanted)})
        if changed:
            versions = f"imports opset {imported.version} and the model {wanted}"
            faults.report(pointer, f"{_title(function)} {versions}, between which {', '.join(changed)} changed")
        imported.version = wanted
    _import_missing(function, model)


def _import_missing(function: FunctionProto, model: ModelProto) -> None:
    known = {each.domain for each in model.opset_import}
    model.opset_import.extend(each for each in function.opset_import if each.domain not in known)


def _differs(node: NodeProto, imported, wanted: int) -> bool:  # type: ignore[no-untyped-def]
    if node.domain != imported.domain:
        return False
    before, after = (signature(node.domain, node.op_type, version) for version in (imported.version, wanted))
    return before is not None and (after is None or before.since != after.since)


def _check_calls(model: ModelProto, functions: Mapping[Key, FunctionProto], most_nodes: int, faults: Faults) -> None:
    """Refuses recursion, and functions that call each other so often that they would never end."""
    counts: dict[Key, int] = {}
    for key, function in functions.items():
        cycle = _count_calls(key, functions, counts) if key not in counts else ""
        if cycle:
            faults.report(_pointer_of(model, function), f"functions call each other in a circle: {cycle}")
            return
    total = sum(_weight(node, counts) for node in _all_nodes(model.graph.node))
    if total > most_nodes:
        shown = total if total < 10**12 else "more than 10^12"
        faults.report("/model/functions", f"expected at most {most_nodes} nodes once expanded, got {shown}")


def _count_calls(start: Key, functions: Mapping[Key, FunctionProto], counts: dict[Key, int]) -> str:
    """Counts the nodes that the function expands to; says the circle that it runs into instead. Without recursion."""
    path = {start: _calls(functions[start], functions)}
    while path:
        key, calls = next(reversed(path.items()))
        called = next((each for each in calls if each not in counts), None)
        if called is None:
            counts[key] = sum(_weight(node, counts) for node in _all_nodes(functions[key].node))
            del path[key]
        elif called in path:
            names = list(path)
            circle = [*names[names.index(called) :], called]
            return " -> ".join(shorten(f"{domain}.{name}") for domain, name, _ in circle)
        else:
            path[called] = _calls(functions[called], functions)
    return ""


def _calls(function: FunctionProto, functions: Mapping[Key, FunctionProto]) -> Iterator[Key]:
    return (call for node in _all_nodes(function.node) if (call := _called(node)) in functions)


def _weight(node: NodeProto, counts: Mapping[Key, int]) -> int:
    return counts.get(_called(node), 1)


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for _, body in bodies(node):
            yield from _all_nodes(body.node)


def _called(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _key(function: FunctionProto) -> Key:
    return function.domain, function.name, function.overload


def _title(function: FunctionProto) -> str:
    return shorten(f"{function.domain}.{function.name}")


def _pointer_of(model: ModelProto, function: FunctionProto) -> str:
    index = next(index for index, each in enumerate(model.functions) if _key(each) == _key(function))
    return f"/model/functions/{index}"
