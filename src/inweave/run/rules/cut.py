"""Long loops as loops of loops: the same plan, made anew in another graph.

What runs a loop backwards needs the values that every step began with. Of a loop of loops it needs
those that each inner one began with, and of the inner ones, which are run again, those of their own
steps: of T steps about 2√T.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

from inweave.run.lines.code import live_nodes
from inweave.run.values.graph import Graph
from inweave.run.values.node import LoopBody, Node


@dataclass
class Copy:
    """Where the nodes of a plan are in another graph; and what its open loops have become."""

    graph: Graph
    new: dict[Node, Node] = field(default_factory=dict)
    loops: dict[LoopBody, tuple[LoopBody, int, bool]] = field(default_factory=dict)

    def inner(self) -> Copy:
        """The same for what happens inside a loop."""
        return Copy(self.graph, dict(self.new), dict(self.loops))

    def make(self, node: Node, data: Any = None) -> None:
        """A node that is no part of a loop's frame, of the same parts."""
        data = node.data if data is None else data
        args = tuple(self.new[arg] for arg in node.args)
        if node.op == "at":
            looped, backward, height = node.data
            body, level, turned = self.loops[looped]
            made = self.graph.at(body, backward != turned, height, level)
        elif node.op == "view":
            made = self.graph.view(args[0], *data)
        else:
            made = self.graph.make(node.op, args, data, *node.shape)
        self.new[node] = like(made, node)


def like(made: Node, node: Node) -> Node:
    """A node that holds what another one does."""
    made.symmetric = made.symmetric or node.symmetric
    made.label = made.label or node.label
    return made


def alive(body: LoopBody, live: set[Node]) -> list[int]:
    return [i for i, phi in enumerate(body.phis) if phi in live]


# -- loops of loops --------------------------------------------------------------------------------
def cut(
    nodes: Sequence[Node], outputs: Sequence[Node], stored: int
) -> tuple[Sequence[Node], Sequence[Node]]:
    """The same plan, its long loops cut into loops of loops of about as many steps each.

    A loop over rows is not, nor is one that holds another: they know which step it is.
    """
    live = live_nodes(outputs)
    long = {x for x in live if x.op == "loop" and _is_long(x.data, live, stored)}
    if not long:
        return nodes, outputs
    copy = Copy(Graph())
    _cut_scope(copy, nodes, live, long)
    return copy.graph.scopes[0].nodes, [copy.new[node] for node in outputs]


def _is_long(body: LoopBody, live: set[Node], stored: int) -> bool:
    size = sum(body.phis[i].size for i in alive(body, live))
    special = any(node.op in ("at", "loop") for node in body.nodes if node in live)
    return body.repeat > 3 and size * body.repeat > stored and not special


def _cut_scope(copy: Copy, nodes: Iterable[Node], live: set[Node], long: set[Node]) -> None:
    for node in nodes:
        if node not in live or node in copy.new:
            continue
        if node.op != "loop":
            copy.make(node)
            continue
        body, carried = node.data, alive(node.data, live)
        values = [copy.new[body.inits[i]] for i in carried]
        if node in long:
            steps = _steps(body.repeat)
            whole, rest = divmod(body.repeat, steps)
            values = _looped(copy, body, carried, values, live, long, (whole, steps))
            if rest:
                values = _looped(copy, body, carried, values, live, long, (rest,))
        else:
            values = _looped(copy, body, carried, values, live, long, (body.repeat,))
        found = dict(zip(carried, values, strict=True))
        for result in live:
            if result.op == "result" and result.args[0] is node:
                copy.new[result] = like(found[result.data], result)


def _steps(repeat: int) -> int:
    """Of how many steps the inner loops are: about a root, a divisor if one is near."""
    root = isqrt(repeat)
    near = [k for k in range(max(2, root // 2), 2 * root + 1) if repeat % k == 0]
    return min(near, key=lambda k: abs(k - root), default=root)


def _looped(
    copy: Copy,
    body: LoopBody,
    carried: Sequence[int],
    values: Sequence[Node],
    live: set[Node],
    long: set[Node],
    times: tuple[int, ...],
) -> list[Node]:
    """The steps of a loop so many times, in so many loops one inside the other."""
    graph = copy.graph
    opened = graph.open(times[0])
    phis = [like(graph.phi(*body.phis[i].shape), body.phis[i]) for i in carried]
    if times[1:]:
        after = _looped(copy, body, carried, phis, live, long, times[1:])
    else:
        inner = copy.inner()
        inner.loops[body] = opened, len(graph.scopes) - 1, False
        inner.new.update(zip((body.phis[i] for i in carried), phis, strict=True))
        _cut_scope(inner, body.nodes, live, long)
        after = [inner.new[body.nexts[i]] for i in carried]
    results = graph.close(values, after)
    return [like(result, body.phis[i]) for i, result in zip(carried, results, strict=True)]
