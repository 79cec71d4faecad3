"""The plan of the reverse pass: from inputs and cotangents of the answers to those of the inputs.

A plan is a graph of matrix values, and so is what runs it backwards: every value v has a cotangent,
the derivative of `Σ ⟨cotangent, answer⟩` by v, which is the sum of what its readers ask of it.

    C = A B        A asks for  C̄ Bᵀ,  B for  Aᵀ C̄
    c = f(x)       x asks for  f'(x) ⊙ c̄
    a sum, a view  its parts ask for their part of the whole, the whole for its part in place
    pick, place    one asks for the other

A loop runs backwards as a loop. In each step it takes the values that the step began with from
where the forward loop collected them, a row of every step, computes what it needs of the step
again, and hands cotangents from the next values to the carried ones. What the steps ask of a value
from outside is added up; where they ask for a column times a row, both are collected and multiplied
once afterwards. A long loop is first cut into a loop of loops (`cut`): then only the values that
each inner one begins with are kept, and that is all there is to checkpoints.

The cotangent of a symmetric value may be made symmetric: its other half meets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from inweave.exact.constants import identity, zeros
from inweave.run.backward.collected import Collected, Outside, rows_of, state
from inweave.run.backward.cotangents import HALF, Asked, ask, product, summed, total
from inweave.run.libraries.slopes import Slope, by_power, inside
from inweave.run.lines.code import live_nodes, stacked
from inweave.run.rules.cut import Copy, alive, cut, like
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import ONE
from inweave.run.values.node import LoopBody, Node

STORED = 4096  # entries of all states of a loop, up to which each is kept


class NoReverse(Exception):
    """Why a plan cannot be run backwards."""


class Reversed(NamedTuple):
    """The nodes of a reverse pass, and the cotangents of sources that they end with."""

    nodes: list[Node]
    outputs: list[Node]


def reverse(
    nodes: Sequence[Node],
    outputs: Sequence[Node],
    wanted: Iterable[Any],
    checked: bool = True,
    stored: int = STORED,
) -> Reversed:
    """The plan of the cotangents of `wanted` sources; that of answer i is ("cotangent", str(i)).

    `checked` if every function is known to have stayed in its domain. Loops with more than `stored`
    entries of states are cut.
    """
    nodes, outputs = cut(nodes, outputs, stored)
    made = _Reverse(live_nodes(outputs), checked)
    return made.run(nodes, outputs, list(wanted))


class _Reverse:
    def __init__(self, live: set[Node], checked: bool) -> None:
        self.graph = Graph()
        self.live, self.checked = live, checked

    def run(
        self, nodes: Sequence[Node], outputs: Sequence[Node], wanted: Sequence[Any]
    ) -> Reversed:
        graph, copy, asked = self.graph, Copy(self.graph), Asked()
        states = self._forward(nodes, copy)
        for i, node in enumerate(outputs):
            given = graph.source(("cotangent", str(i)), *node.shape, f"∂{node.label or 'answer'}")
            ask(asked, node, given)
        self._back(nodes, copy, states, asked)
        sources = {node.data: node for node in nodes if node.op == "source"}
        found = [self._read(sources[name], asked) for name in wanted]
        return Reversed(graph.scopes[0].nodes, found)

    def _read(self, source: Node, asked: Asked) -> Node:
        """The cotangent of a source: a value of its own."""
        found = self._cotangent(source, asked)
        if found is None:
            found = self.graph.const(zeros(*source.shape))
        base = found.args[0] if found.op == "view" else found
        if base.op in ("source", "const"):
            found = self.graph.make("scale", (found,), ONE, *found.shape)
        found.label = found.label or f"∂{source.label}"
        return found

    # -- forwards -----------------------------------------------------------------------------
    def _forward(self, nodes: Iterable[Node], copy: Copy) -> dict[Node, dict[int, list[Node]]]:
        """The plan itself; of every loop, the rows of the values that its steps begin with."""
        states = {}
        for node in nodes:
            if node not in self.live or node in copy.new:
                continue
            if node.op == "loop":
                states[node] = self._forward_loop(node, copy)
            elif node.op == "apply" and self.checked:
                copy.make(node, inside(node.data))
            elif node.op == "pointwise":
                raise NoReverse("a layer of units has no reverse pass")
            else:
                copy.make(node)
        return states

    def _forward_loop(self, node: Node, copy: Copy) -> dict[int, list[Node]]:
        graph, body = self.graph, node.data
        carried = alive(body, self.live)
        opened, level = graph.open(body.repeat), len(graph.scopes) - 1
        inner = copy.inner()
        inner.loops[body] = opened, level, False
        for i in carried:
            inner.new[body.phis[i]] = like(graph.phi(*body.phis[i].shape), body.phis[i])
        at = graph.at(opened, False, 1, level)
        kept = [i for i in carried if i not in stacked(body, self.live)]
        rows = [row for i in kept for row in rows_of(graph, inner.new[body.phis[i]])]
        collected = [Collected(graph, row, at) for row in rows]
        self._forward(body.nodes, inner)
        inits = [copy.new[body.inits[i]] for i in carried]
        nexts = [inner.new[body.nexts[i]] for i in carried]
        inits, nexts = inits + [c.init for c in collected], nexts + [c.next for c in collected]
        results = graph.close(inits, nexts)
        for result in self.live:
            if result.op == "result" and result.args[0] is node:
                copy.new[result] = like(results[carried.index(result.data)], result)
        left = iter(results[len(carried) :])
        return {i: [next(left) for _ in range(min(body.phis[i].shape))] for i in kept}

    # -- backwards ----------------------------------------------------------------------------
    def _back(
        self,
        nodes: Sequence[Node],
        copy: Copy,
        states: Mapping[Node, dict[int, list[Node]]],
        asked: Asked,
    ) -> None:
        """Ask of the parts what was asked of the whole, from the last node to the first."""
        for node in reversed(nodes):
            if node.op == "loop" and node in self.live:
                self._back_loop(node, copy, states[node], asked)
            elif node in asked and node.op not in ("source", "const", "phi", "result"):
                cotangent = self._cotangent(node, asked)
                assert cotangent is not None
                _RULES[node.op](self, node, cotangent, copy, asked)

    def _cotangent(self, node: Node, asked: Asked) -> Node | None:
        """The sum of all that was asked of a value; None if nothing was."""
        parts, symmetric = asked.get(node), node.symmetric
        if node.op == "result":
            symmetric = node.args[0].data.phis[node.data].symmetric
        if not parts:
            return None
        return total(self.graph, parts, node.shape, symmetric)

    def _back_loop(
        self, node: Node, copy: Copy, states: dict[int, list[Node]], asked: Asked
    ) -> None:
        graph, body = self.graph, node.data
        last = {
            result.data: cotangent
            for result in self.live
            if result.op == "result" and result.args[0] is node
            if (cotangent := self._cotangent(result, asked)) is not None
        }
        if not last:
            return
        opened, level = graph.open(body.repeat), len(graph.scopes) - 1
        at = graph.at(opened, True, 1, level)
        inner = copy.inner()
        inner.loops[body] = opened, level, True
        for i, rows in states.items():
            inner.new[body.phis[i]] = like(state(graph, rows, at, body.phis[i]), body.phis[i])
        collecting = stacked(body, self.live)
        self._again(body, collecting, inner)
        nested = self._forward([x for x in body.nodes if x not in inner.new], inner)
        asks = Asked()
        phis = {i: like(graph.phi(*body.phis[i].shape), body.phis[i]) for i in states}
        for i, phi in phis.items():
            phi.label = f"∂{body.phis[i].label}" if body.phis[i].label else ""
            ask(asks, body.nexts[i], phi)
        for i in collecting:
            if i in last:  # each row has its own cotangent, which no step changes
                after = body.nexts[i]
                ask(asks, after.args[1 - after.args.index(body.phis[i])], last[i])
        self._back(body.nodes, inner, nested, asks)
        inits = [last.get(i) or graph.const(zeros(*phi.shape)) for i, phi in phis.items()]
        nexts = [
            self._cotangent(body.phis[i], asks) or graph.const(zeros(*phi.shape))
            for i, phi in phis.items()
        ]
        outside = Outside(graph, at)
        within = set(body.nodes)
        for x, parts in asks.items():
            if x not in within and x.op != "const":
                outside.add(x, parts)
        inits, nexts = inits + outside.inits, nexts + outside.nexts
        results = graph.close(inits, nexts)
        for i, result in zip(phis, results, strict=False):
            ask(asked, body.inits[i], result)
        outside.ask(asked, results[len(phis) :])

    def _again(self, body: LoopBody, collecting: Iterable[int], inner: Copy) -> None:
        """What is only collected is not collected again."""
        for i in collecting:
            nothing = self.graph.const(zeros(*body.phis[i].shape))
            inner.new[body.phis[i]] = inner.new[body.nexts[i]] = nothing

    # -- what each operation asks -------------------------------------------------------------
    def _matmul(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        a, b = node.args
        A, B = copy.new[a], copy.new[b]
        if a.op != "const":
            ask(asked, a, product(self.graph, c, self.graph.flip(B)))
        if b.op != "const":
            ask(asked, b, product(self.graph, self.graph.flip(A), c))

    def _mul(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        for x, other in (node.args, node.args[::-1]):
            if x.op != "const":
                ask(asked, x, summed(self.graph, c, copy.new[other], x.shape))

    def _sum(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        for x, (sign, row, col) in zip(node.args, node.data[2], strict=True):
            if x.op != "const":
                ask(asked, x, self.graph.view(c, row, col, x.rows, x.cols), sign)

    def _view(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        row, col, _, _, flip = node.data
        ask(asked, node.args[0], self.graph.flip(c) if flip else c, 1, row, col)

    def _scale(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        ask(asked, node.args[0], self.graph.scale(node.data, c))

    def _diagonal(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        ask(asked, node.args[0], self.graph.entrywise(c, self.graph.const(identity(c.rows))))

    def _apply(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        graph, x, made = self.graph, node.args[0], copy.new[node]
        degree = by_power(made.data)
        if degree:  # r = x^-a: its slope is -a r^(1 + 1/a)
            slope = graph.entrywise(made, made)
            if degree == 3:
                slope = graph.scale(HALF, graph.entrywise(slope, made))
            ask(asked, x, graph.entrywise(c, slope), -1)
        else:
            slope = graph.apply(Slope(node.data), copy.new[x])
            ask(asked, x, graph.entrywise(c, slope))

    def _pick(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        x, at = node.args
        if x.op != "const":
            ask(asked, x, self.graph.make("place", (c, copy.new[at]), None, *x.shape))

    def _place(self, node: Node, c: Node, copy: Copy, asked: Asked) -> None:
        row, at = node.args
        if row.op != "const":
            ask(asked, row, self.graph.pick(c, copy.new[at]))


_RULES = {
    "matmul": _Reverse._matmul,
    "mul": _Reverse._mul,
    "sum": _Reverse._sum,
    "view": _Reverse._view,
    "scale": _Reverse._scale,
    "diagonal": _Reverse._diagonal,
    "apply": _Reverse._apply,
    "pick": _Reverse._pick,
    "place": _Reverse._place,
    "unit": lambda *_: None,
    "at": lambda *_: None,
}
