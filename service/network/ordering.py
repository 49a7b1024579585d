"""Nodes in an order in which each comes after those that it needs, and the cycles that stand against one."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator

from onnx import GraphProto, NodeProto

from service.network.walking import bodies

Cycle = list[tuple[NodeProto, str]]
"""Nodes in a circle, each with the tensor that it hands to the next."""


def needs(node: NodeProto) -> Iterator[str]:
    """The tensors that a node and its bodies read. Those that a body makes itself are among them; they do no harm."""
    yield from filter(None, node.input)
    for _, body in bodies(node):
        for inner in body.node:
            yield from needs(inner)
        for output in body.output:
            yield output.name


def sort(graph: GraphProto) -> list[Cycle]:
    """Puts the nodes in order, keeping theirs where it is one already. Gives the cycles, if there are any."""
    # A name that is made twice belongs to whoever stands first, as it does in what is said about it.
    maker: dict[str, int] = dict.fromkeys((each.name for each in (*graph.input, *graph.initializer)), -1)
    for index, node in enumerate(graph.node):
        for name in node.output:
            maker.setdefault(name, index)
    maker = {name: index for name, index in maker.items() if index >= 0 and name}
    needed = [{maker[name] for name in needs(node) if name in maker} for node in graph.node]
    if all(index > max(before, default=-1) for index, before in enumerate(needed)):
        return []
    order = _order(needed)
    if len(order) < len(needed):
        return [_cycle(graph, each) for each in _circles(needed, set(range(len(needed))) - set(order))]
    nodes = [graph.node[index] for index in order]
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return []


def _order(needed: list[set[int]]) -> list[int]:
    """Kahn's algorithm, always taking the first node that can be taken; without those on or behind a cycle."""
    users = defaultdict(list)
    missing = [len(before) for before in needed]
    for index, before in enumerate(needed):
        for each in before:
            users[each].append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    return order


def _circles(needed: list[set[int]], left: set[int]) -> list[list[int]]:
    """One cycle for each set of nodes that a walk backwards through what is needed runs into."""
    circles: list[list[int]] = []
    seen: set[int] = set()
    for start in sorted(left):
        path: dict[int, None] = {}
        at = start
        while at not in seen and at not in path:
            path[at] = None
            at = min(needed[at] & left)
        if at in path:
            walked = list(path)
            circles.append(walked[walked.index(at) :][::-1])
        seen.update(path)
    return circles


def _cycle(graph: GraphProto, circle: list[int]) -> Cycle:
    # From the node that stands first in what the user wrote.
    first = circle.index(min(circle))
    nodes = [graph.node[index] for index in (*circle[first:], *circle[:first])]
    after = [*nodes[1:], nodes[0]]
    return [(node, _handed(node, user)) for node, user in zip(nodes, after, strict=True)]


def _handed(node: NodeProto, user: NodeProto) -> str:
    wanted = set(needs(user))
    return str(next(name for name in node.output if name in wanted))
