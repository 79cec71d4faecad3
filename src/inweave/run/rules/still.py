"""Loops whose matrix goes round, computed where it stands.

A network has its pivot in the corner: after every step of an elimination the first row, and the
first column, move to the end. By hand the matrix stays, and step t takes row t and column t. Both
are the same up to a permutation of rows and columns, the t-th power of a cycle, and operations
entry by entry, products and sums do not care in which order rows are as long as all of their
operands have them in the same one. So the step is followed once with every axis either turned by
the cycle or not: the first row of what turns is the row where the loop is, a slice of an axis that
turns is no slice any more, and where turned and other axes would meet, the loop is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inweave.run.values.graph import Graph
from inweave.run.values.node import LoopBody, Node, Part

Turn = int | None
"""How many of the first rows, or columns, go round; None if they stay."""


class Still(NamedTuple):
    """A value where it stands, and which of its axes the network has turned."""

    node: Node
    rows: Turn = None
    cols: Turn = None

    def flipped(self, graph: Graph) -> Still:
        return Still(graph.flip(self.node), self.cols, self.rows)


class Moves(Exception):
    """A step does more with what goes round than can be done where it stands."""


def turning(body: LoopBody, alive: Sequence[int]) -> tuple[Node, Turn, Turn] | None:
    """The value of which a loop's only carried one is a turned copy, and how it is turned."""
    if len(alive) != 1:
        return None
    phi, (base, order) = body.phis[alive[0]], _order(body.nexts[alive[0]])
    if base is None or base is phi or base.shape != phi.shape or order.shape != phi.shape:
        return None
    rows, cols = phi.shape
    turns = _cycle(order[:, 0] // cols), _cycle(order[0] % cols)
    if any(turn == 0 or (turn and turn < body.repeat) for turn in turns) or turns == (None, None):
        return None
    entries = np.arange(base.size).reshape(base.shape)
    expected = entries[np.ix_(_turned(rows, turns[0], 1), _turned(cols, turns[1], 1))]
    return (base, *turns) if (expected == order).all() else None


def _order(node: Node) -> tuple[Node | None, Any]:
    """The one value whose entries a value puts in another order, and which of them stand where."""
    if node.op == "view":
        base, order = _order(node.args[0])
        top, left, rows, cols, flip = node.data
        order = order[top : top + rows, left : left + cols]
        return base, order.T if flip else order
    if node.op == "matmul":
        for axis, (by, x) in enumerate((node.args, node.args[::-1])):
            if by.op == "const" and (moved := _permutation(by, axis)) is not None:
                base, order = _order(x)
                return base, np.take(order, moved, axis)
    if node.op == "sum" and all(x.op == "view" for x in node.args):
        order, bases = np.full(node.shape, -1), set()
        for x, (sign, row, col) in zip(node.args, node.data[2], strict=True):
            base, own = _order(x)
            bases.add(base if sign > 0 else None)
            order[row : row + x.rows, col : col + x.cols] = own
        if len(bases) == 1:
            return bases.pop(), order
    return node, np.arange(node.size).reshape(node.shape)


def _permutation(by: Node, axis: int) -> Any:
    """The row that each row of a permutation takes, or the column; None if it is none."""
    if by.rows != by.cols:
        return None
    entries = by.data.entries().astype(float)
    moved = np.argmax(entries, axis=1 - axis)
    expected = np.eye(by.rows)[moved] if axis == 0 else np.eye(by.rows)[:, moved]
    return moved if (entries == expected).all() else None


def _cycle(order: Any) -> Turn:
    """How many of the first go round by one; None if all stay, 0 if it is anything else."""
    size = len(order)
    if (order == np.arange(size)).all():
        return None
    turn = int(np.argmin(order)) + 1
    return turn if (order == _turned(size, turn, 1)).all() else 0


def _turned(size: int, turn: Turn, times: int) -> Any:
    order = np.arange(size)
    if turn:
        order[:turn] = (order[:turn] + times) % turn
    return order


class Standing:
    """Follows one step of a loop; `outside` are the values that are not of the loop."""

    def __init__(self, graph: Graph, at: Node, outside: Mapping[Node, Node]) -> None:
        self.graph, self.at, self.outside = graph, at, outside
        self.known: dict[Node, Still] = {}

    def of(self, node: Node) -> Still:
        if node in self.outside:
            return Still(self.outside[node])
        if node not in self.known:
            raise Moves
        return self.known[node]

    def follow(self, nodes: Sequence[Node]) -> None:
        """Know all of these, in this order."""
        for node in nodes:
            if node not in self.known and node not in self.outside:
                self.known[node] = self._made(node)

    def _made(self, node: Node) -> Still:
        graph = self.graph
        if node.op == "view":
            found = self._view(self.of(node.args[0]), *node.data[:4])
            return found.flipped(graph) if node.data[4] else found
        if node.op == "sum":
            return self._sum(node)
        args = [self.of(arg) for arg in node.args]
        if node.op in ("scale", "apply"):
            applied = graph.scale if node.op == "scale" else graph.apply
            return args[0]._replace(node=applied(node.data, args[0].node))
        if node.op == "mul":
            rows = _agreed({x.rows for x in args if x.node.rows == node.rows})
            cols = _agreed({x.cols for x in args if x.node.cols == node.cols})
            return Still(self._product(args[0].node, args[1].node), rows, cols)
        if node.op == "matmul":
            a, b = args
            _agreed({a.cols, b.rows})
            return Still(graph.matmul(a.node, b.node), a.rows, b.cols)
        raise Moves

    def _product(self, a: Node, b: Node) -> Node:
        """A product entry by entry; of a column and a row, as what it is added to stands."""
        if a.is_scalar or b.is_scalar:
            return self.graph.entrywise(a, b)
        shape = max(a.rows, b.rows), max(a.cols, b.cols)
        return self.graph.make("mul", (a, b), None, *shape)

    def _view(self, x: Still, top: int, left: int, rows: int, cols: int) -> Still:
        x = self._slice(x, top, rows)
        return self._slice(x.flipped(self.graph), left, cols).flipped(self.graph)

    def _slice(self, x: Still, top: int, rows: int) -> Still:
        """Some rows: all, those that do not turn, or the first one, where the loop is."""
        graph, node = self.graph, x.node
        if (top, rows) == (0, node.rows):
            return x
        if x.rows is None or top >= x.rows:
            return Still(graph.view(node, top, 0, rows, node.cols), None, x.cols)
        if (top, rows) != (0, 1):
            raise Moves
        return Still(graph.pick(node, self.at), None, x.cols)

    def _sum(self, node: Node) -> Still:
        rows, cols, where = node.data
        parts = [
            (sign, self.of(x), (row, col))
            for x, (sign, row, col) in zip(node.args, where, strict=True)
        ]
        whole = [(sign, x) for sign, x, _ in parts if x.node.shape == (rows, cols)]
        first = [(sign, x) for sign, x, _ in parts if x.node.shape != (rows, cols)]
        if not whole or any(at != (0, 0) for _, _, at in parts):
            raise Moves
        down, across = _agreed({x.rows for _, x in whole}), _agreed({x.cols for _, x in whole})
        made = [(sign, x.node, 0, 0) for sign, x in whole]
        for sign, x in first:
            lies = x.node.shape == (1, cols)
            if not lies and x.node.shape != (rows, 1):
                raise Moves
            if (
                x[1:] != ((None, across) if lies else (down, None))
                or (down, across)[not lies] is None
            ):
                raise Moves
            made = self._with_first(made, sign, x.node, lies)
        return Still(self.graph.total(rows, cols, made), down, across)

    def _with_first(self, parts: list[Part], sign: int, one: Node, lies: bool) -> list[Part]:
        """The parts and a row, or column, where the loop is.

        A column times that row, or a row times that column, has one more entry there.
        """
        graph = self.graph
        for k, (s, x, _, _) in enumerate(parts):
            for factors in self._factors(x):
                if factors[lies] is not one:
                    continue
                other = factors[not lies]
                size = other.rows if lies else other.cols
                unit = graph.make("unit", (self.at,), size, size, 1)
                unit = unit if lies else graph.flip(unit)
                more = graph.total(*other.shape, [(1, other, 0, 0), (s * sign, unit, 0, 0)])
                product = self._product(more, one) if lies else self._product(one, more)
                return [*parts[:k], (s, product, 0, 0), *parts[k + 1 :]]
        raise Moves

    def _factors(self, x: Node) -> list[tuple[Node, Node]]:
        """A column and a row whose product a value is, a number with either of them."""
        if x.op != "mul" or not x.args[0].cols == x.args[1].rows == 1:
            return []
        a, b = x.args
        found = [(a, b)]
        if b.op == "scale":
            found.append((self.graph.scale(b.data, a), b.args[0]))
        if b.op == "mul" and b.args[0].is_scalar:
            found.append((self.graph.mul(b.args[0], a), b.args[1]))
        return found


def moved_on(graph: Graph, node: Node, turns: tuple[Turn, Turn], times: int) -> Node:
    """A value as the network holds it after so many steps."""
    for _ in range(2):
        turn = turns[0]
        start = times % turn if turn else 0
        if turn and start:
            rest = node.rows - turn
            pieces = [(start, turn - start, 0), (0, start, turn - start), (turn, rest, turn)]
            parts = [(1, graph.view(node, top, 0, rows, node.cols), to, 0)
                     for top, rows, to in pieces if rows]  # fmt: skip
            node = graph.total(*node.shape, parts)
        node, turns = graph.flip(node), turns[::-1]
    return node


def _agreed(turns: set[Turn]) -> Turn:
    if len(turns) > 1:
        raise Moves
    return turns.pop()
