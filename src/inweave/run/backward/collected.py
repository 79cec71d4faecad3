"""Rows of every step of a loop: how the values of a step are kept, and what steps ask is gathered.

A carried value that begins as zeros and takes a row in its place in every step is no more than a
matrix of rows when the loop is over; executors and kernels know it as such.
"""

from __future__ import annotations

from collections.abc import Sequence

from inweave.exact.constants import zeros
from inweave.run.backward.cotangents import Asked, ask, outer, product, total
from inweave.run.values.graph import Graph
from inweave.run.values.node import Node, Part, placed

ADDED = 64  # entries of a product of every step, up to which these are added up as they are made


def rows_of(graph: Graph, x: Node) -> list[Node]:
    """The rows of a value, or its columns as rows, whichever are fewer."""
    if x.rows <= x.cols:
        return [graph.view(x, i, 0, 1, x.cols) for i in range(x.rows)]
    return [graph.view(x, 0, j, x.rows, 1, flip=True) for j in range(x.cols)]


def state(graph: Graph, stacks: Sequence[Node], at: Node, phi: Node) -> Node:
    """A value of which every row, or column, was collected, as it was in one step."""
    picked = [graph.pick(stack, at) for stack in stacks]
    if phi.rows <= phi.cols:
        return graph.total(*phi.shape, [(1, row, i, 0) for i, row in enumerate(picked)])
    return graph.total(*phi.shape, [(1, graph.flip(row), 0, j) for j, row in enumerate(picked)])


class Collected:
    """A row of every step of the innermost open loop, as it is carried."""

    def __init__(self, graph: Graph, row: Node, at: Node) -> None:
        shape = (graph.scopes[-1].repeat, row.cols)
        phi = graph.phi(*shape)
        place = graph.make("place", (row, at), None, *shape)
        self.init = graph.const(zeros(*shape))
        self.next = graph.make("sum", (phi, place), (*shape, ((1, 0, 0), (1, 0, 0))), *shape)


class Outside:
    """What the steps of a loop ask of values from outside: added up, or collected."""

    def __init__(self, graph: Graph, at: Node) -> None:
        self.graph, self.at = graph, at
        self.inits: list[Node] = []
        self.nexts: list[Node] = []
        self._summed: list[tuple[Node, int]] = []  # what is asked, and the number of its sum
        self._products: list[tuple[Node, Part, Node | int, Node | int]] = []
        self._rows: dict[Node, Node | int] = {}  # where a row is collected

    def add(self, x: Node, parts: Sequence[Part]) -> None:
        """What one value is asked for."""
        rest = list[Part]()
        placed_rows = list[Part]()
        for part in parts:
            _, node, row, col = part
            pair = outer(self.graph, node)
            if pair is not None and node.size > ADDED:
                column, across = pair
                left = self._collected(self.graph.flip(column))
                self._products.append((x, part, left, self._collected(across)))
            elif placed(node) is not None and (row, col) == (0, 0) and node.shape == x.shape:
                placed_rows.append(part)
            else:
                rest.append(part)
        for group in (rest, placed_rows):
            if group:
                self._sum(x, group)

    def _sum(self, x: Node, parts: list[Part]) -> None:
        graph = self.graph
        few = x.size <= ADDED and not any(placed(part[1]) for part in parts)
        symmetric = x.symmetric and few  # otherwise once, when all are added up
        asked = total(graph, parts, x.shape, symmetric)
        phi = graph.phi(*x.shape)
        phi.symmetric = symmetric
        where = (*x.shape, ((1, 0, 0), (1, 0, 0)))
        whole = graph.make("sum", (phi, asked), where, *x.shape)
        whole.symmetric = symmetric
        self._summed.append((x, self._carry(graph.const(zeros(*x.shape)), whole)))

    def _carry(self, init: Node, after: Node) -> int:
        self.inits.append(init)
        self.nexts.append(after)
        return len(self.inits) - 1

    def _collected(self, row: Node) -> Node | int:
        """Where a row of every step is collected; what was picked so is there already."""
        repeat = self.graph.scopes[-1].repeat
        if row.op == "pick" and row.args[1] is self.at and row.args[0].rows == repeat:
            return row.args[0]
        if row not in self._rows:
            found = Collected(self.graph, row, self.at)
            self._rows[row] = self._carry(found.init, found.next)
        return self._rows[row]

    def ask(self, asked: Asked, results: Sequence[Node]) -> None:
        """Once the loop is closed."""
        for x, i in self._summed:
            ask(asked, x, results[i])
        for x, (sign, _, row, col), left, right in self._products:
            columns, rows = (results[i] if isinstance(i, int) else i for i in (left, right))
            found = product(self.graph, self.graph.flip(columns), rows)
            ask(asked, x, found, sign, row, col)
