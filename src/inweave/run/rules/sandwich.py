"""Loops that multiply from both sides, `X ← L X R + C`, by powers of L and of R.

The covariance of a linear system, `P ← A P Aᵀ + Q`, is one. If 2ʲ steps are `X ← L X R + C`, twice
as many are `X ← L L X R R + (C + L C R)`: two products for the powers, or one where R is the
transpose of L, and two for what is added (R. A. Smith's doubling). As with powers from one side,
those of symmetric matrices are computed unseen, others where they can be looked at (`trusted`).
One of them may be missing: a matrix is looked at here where `power` looks at columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from inweave.exact.constants import identity
from inweave.run.rules.power import MOST, StaysALoop, Way, is_nothing
from inweave.run.values.graph import Graph
from inweave.run.values.node import LOOK, LoopBody, Node, Powers, Work, work

FEWEST = 32  # steps for which a look at matrices pays in a batch of few prompts, too


class _Step(NamedTuple):
    """So many steps: `left X right + added`, if anything is; a side may be an identity."""

    left: Node
    right: Node
    added: Node | None = None

    def sides(self, graph: Graph) -> str:
        """Those that have powers of their own; `LL` if the right one is the left's transpose."""
        if self.right is graph.flip(self.left):
            return "LL"
        return "L" * (self.left.op != "const") + "R" * (self.right.op != "const")


def sandwiched(
    graph: Graph, body: LoopBody, kept: Sequence[int], new: Mapping[Node, Node], way: Way
) -> list[Node] | None:
    """The last value of a loop that carries one; None if it is no such loop, or powers cost more.

    `new` are the nodes of the graph for those outside of the loop.
    """
    if len(kept) != 1 or 1 in body.phis[kept[0]].shape:
        return None
    phi, init = body.phis[kept[0]], new[body.inits[kept[0]]]
    mark = graph.mark()
    try:
        step = _Following(graph, phi, new).of(body.nexts[kept[0]])
        sides = step.sides(graph)
        trusted = way.any_matrix or (step.left.symmetric and step.right.symmetric)
        if trusted and len(sides) < 2:
            raise StaysALoop  # for `power`, which does that in more ways
        looks = way.looks and len(graph.scopes) == 1 and body.repeat >= FEWEST
        if not (trusted or (sides and looks)):
            raise StaysALoop
        loop = body.repeat * sum(way.price.of(work(node)) for node in body.nodes)
        costs = dict(_costs(step, sides, body.repeat, way, trusted))
        squarings = min(costs, key=lambda count: costs[count], default=0)
        if not costs or costs[squarings] >= loop:
            raise StaysALoop
        return [_last(graph, step, init, body.repeat, squarings, "" if trusted else sides)]
    except StaysALoop:
        graph.rollback(mark)
        return None


class _Following:
    """A step followed from what a loop carries: what multiplies it on each side and is added."""

    def __init__(self, graph: Graph, phi: Node, new: Mapping[Node, Node]) -> None:
        self.graph, self.phi, self.new = graph, phi, new

    def of(self, node: Node) -> _Step:
        """Not recursive: steps may be long."""
        path = list[tuple[Node, Node]]()
        while node is not self.phi:
            inside = [x for x in node.args if x.level >= self.phi.level]
            if len(inside) != 1:
                raise StaysALoop
            path.append((node, inside[0]))
            node = inside[0]
        step = _Step(*(self.graph.const(identity(size)) for size in self.phi.shape))
        for node, arg in reversed(path):
            step = self._one(step, node, arg)
        return step

    def _one(self, step: _Step, node: Node, arg: Node) -> _Step:
        graph, (left, right, added) = self.graph, step
        if node.op == "matmul":
            a, b = node.args
            if arg is b:
                by = self.new[a]
                return _Step(graph.matmul(by, left), right, added and graph.matmul(by, added))
            by = self.new[b]
            return _Step(left, graph.matmul(right, by), added and graph.matmul(added, by))
        if node.op == "sum" and node.data[2][node.args.index(arg)] == (1, 0, 0):
            if arg.shape != node.shape:
                raise StaysALoop
            parts = [
                (sign, self.new[x], row, col)
                for x, (sign, row, col) in zip(node.args, node.data[2], strict=True)
                if x is not arg
            ]
            more = [(1, added, 0, 0)] if added else []
            return _Step(left, right, graph.total(*node.shape, [*parts, *more]))
        raise StaysALoop


def _costs(
    step: _Step, sides: str, repeat: int, way: Way, trusted: bool
) -> Iterator[tuple[int, float]]:
    """By the number of squarings: each halves the products with the value."""
    rows, cols = step.left.rows, step.right.rows
    size = {"L": rows, "R": cols}
    square = sum(way.price.of(Work(1, 3 * n**2, n**3)) for n in map(size.get, set(sides)) if n)
    entries = [2 * rows * cols + size[side] ** 2 for side in sides]
    apply = sum(
        way.price.of(Work(1, count, rows * cols * size[side]))
        for side, count in zip(sides, entries, strict=True)
    )
    if step.added:
        apply += way.price.of(Work(1, 3 * rows * cols, 0))
        square += apply
    for squarings in range(1, repeat.bit_length()):
        products = (repeat >> squarings) + (repeat & ((1 << squarings) - 1)).bit_count()
        if repeat >> squarings <= MOST:
            look = Work(LOOK[True], 3 * (squarings + 1) * sum(entries), 0)
            cost = squarings * square + products * apply
            yield squarings, cost if trusted else cost + way.price.of(look)


def _last(
    graph: Graph, step: _Step, init: Node, repeat: int, squarings: int, looked_at: str
) -> Node:
    """The value after all steps; the powers of some sides are looked at."""
    mirrors = step.sides(graph) == "LL"
    steps, values = [step], [init]
    for j in range(squarings):
        if repeat >> j & 1:
            values.append(_applied(graph, steps[-1], values[-1]))
        left, right, added = steps[-1]
        square = graph.matmul(left, left)
        other = graph.flip(square) if mirrors else graph.matmul(right, right)
        more = None if added is None else _applied(graph, steps[-1], added)
        steps.append(_Step(square, other, more))
    for _ in range(repeat >> squarings):
        values.append(_applied(graph, steps[-1], values[-1]))
    last = values[-1]
    if not looked_at:
        return last
    powers = {"L": [x.left for x in steps], "R": [x.right for x in steps]}
    args = [x for side in dict.fromkeys(looked_at) for x in powers[side]]
    args += [x.added for x in steps if x.added is not None]
    args += values[is_nothing(init) :]
    made = Powers(last.rows, repeat, squarings, False, step.added is not None, sides=looked_at)
    graph.make("grown", tuple(args), made, 1, 1)
    return last


def _applied(graph: Graph, step: _Step, value: Node) -> Node:
    made = graph.matmul(graph.matmul(step.left, value), step.right)
    if step.added is None:
        return made
    return graph.total(*made.shape, [(1, made, 0, 0), (1, step.added, 0, 0)])
