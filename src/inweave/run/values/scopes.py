"""The scopes of a graph: every value once, as far outside the loops as it can be.

A value made twice from the same parts is one node, so nothing is computed twice. And a node belongs
to the innermost loop that any of its parts changes in, so whatever a loop does not change is
computed before it. `mark` and `rollback` let a caller build something two ways and keep the cheaper
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from inweave.exact.constants import Constant, Ones, Shift
from inweave.run.values.kinds import is_outer
from inweave.run.values.node import ALONE, LOOPING, LoopBody, Node, Price, cost, free_nodes

KNOWN = 1 << 20  # entries of what is computed before any call, at most


class Scopes:
    """Nodes under construction. `scopes[0]` is the straight line, the others are open loops.

    Of two orders of a product, the cheaper one is taken by `price`.
    """

    def __init__(self, price: Price = ALONE) -> None:
        self.price = price
        self.scopes = [LoopBody(1)]
        self._table: dict[Any, Node] = {}
        self._log: list[tuple[Any, Node, LoopBody]] = []
        self._order = count()
        self.read: set[Node] = set()  # by a product or a function, in part or as a whole
        self.trimmed: dict[Constant, tuple[int, int, Constant]] = {}

    # -- nodes ----------------------------------------------------------------------------------
    def make(
        self, op: str, args: tuple[Node, ...], data: Any, rows: int, cols: int, level: int = 0
    ) -> Node:
        """The node for an operation: the one that exists, or a new one where it belongs."""
        key = (op, args, data)
        found = self._table.get(key)
        if found is not None:
            return found
        level = max((arg.level for arg in args), default=level)
        node = Node(op, args, data, rows, cols, level, next(self._order))
        made = bool(args) and op not in LOOPING and all(arg.known for arg in args)
        node.known = (op == "const" or made) and rows * cols <= KNOWN
        if op in ("matmul", "mul", "apply") and not is_outer(node):
            self.read.update(arg.args[0] if arg.op == "view" else arg for arg in args)
        self._table[key] = node
        self.scopes[level].nodes.append(node)
        self._log.append((key, node, self.scopes[level]))
        return node

    def source(self, name: Any, rows: int, cols: int, label: str) -> Node:
        node = self.make("source", (), name, rows, cols)
        node.label = label
        return node

    def const(self, constant: Constant) -> Node:
        node = self.make("const", (), constant, constant.rows, constant.cols)
        node.symmetric = isinstance(constant, (Shift, Ones)) and constant == constant.T
        return node

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Forget every node made since the mark."""
        while len(self._log) > mark:
            key, _, scope = self._log.pop()
            self._table.pop(key, None)
            scope.nodes.pop()

    def cost_since(self, mark: int, wanted: Iterable[Node], price: Price | None = None) -> float:
        """Estimated nanoseconds of what was made since the mark for these nodes, loops counted."""
        needed, total = set(wanted), 0.0
        for _, node, _ in reversed(self._log[mark:]):
            if node in needed:
                needed.update(node.args)
                total += cost(node, price or self.price) * self.weight(node.level)
        return total

    def weight(self, level: int) -> int:
        """How often a node of this level is computed."""
        times = 1
        for scope in self.scopes[1 : level + 1]:
            times *= scope.repeat
        return times

    # -- loops ----------------------------------------------------------------------------------
    def open(self, repeat: int) -> LoopBody:
        """Begin a loop; nodes that depend on its phis are collected in it."""
        self.scopes.append(LoopBody(repeat))
        return self.scopes[-1]

    def phi(self, rows: int, cols: int) -> Node:
        """A value that the innermost open loop carries from step to step."""
        body = self.scopes[-1]
        node = self.make("phi", (), (body, len(body.phis)), rows, cols, len(self.scopes) - 1)
        body.phis = (*body.phis, node)
        return node

    def unit(self, rows: int, backward: bool, height: int = 1) -> Node:
        """The unit vectors that the innermost open loop moves on by `height` rows in every step."""
        at = self.at(self.scopes[-1], backward, height, len(self.scopes) - 1)
        return self.make("unit", (at,), rows, rows, height)

    def at(self, body: LoopBody, backward: bool, height: int, level: int) -> Node:
        """Where a loop is that takes so many rows in every step."""
        return self.make("at", (), (body, backward, height), 1, 1, level)

    def abandon(self, mark: int) -> None:
        """Forget the innermost open loop and everything made since the mark."""
        self.rollback(mark)
        self.scopes.pop()

    def close(self, inits: Sequence[Node], nexts: Sequence[Node]) -> tuple[Node, ...]:
        """End the innermost loop and give the nodes that hold its phis after the last step."""
        body = self.scopes.pop()
        body.inits, body.nexts = tuple(inits), tuple(nexts)
        outer = tuple(dict.fromkeys([*inits, *free_nodes(body)]))
        loop = self.make("loop", outer, body, 0, 0)
        return tuple(
            self.make("result", (loop,), i, phi.rows, phi.cols) for i, phi in enumerate(body.phis)
        )
