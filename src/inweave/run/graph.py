"""The values of a plan: each computed once, as far outside the loops as it can be.

A plan is a graph of matrix values. Two rules, both applied while the graph is built, do the work of
several compiler passes. A value made twice from the same parts is one node, so nothing is computed
twice. And a node belongs to the innermost loop that any of its parts changes in, so whatever a loop
does not change is computed before it. A third rule makes the first one stronger: a value and its
transpose are one node and a view of it, and a node known to be symmetric is its own transpose, so
that `(X w)ᵀ` and `wᵀ Xᵀ` are recognised as one product. `mark` and `rollback` let a caller build
something two ways and keep the cheaper one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import count, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from inweave.exact.constants import Constant, Ones, Shift, identity, simplest, zeros
from inweave.run import newton
from inweave.run.mirror import is_palindrome, word
from inweave.run.node import ALONE, CALL, LoopBody, Node, Part, Price, cost, free_nodes, placed

ONE = Fraction(1)
NEAR = 20  # powers of two from one, within which a number multiplies later rather than sooner
SCALE = 64  # and within which it is multiplied with others first
ONCE = 100  # and within which it multiplies at once: float32 ends at 126
DOUBLE = 1020  # and beyond which no float is, so that it is refused where it is written down


class Graph:
    """Nodes under construction. `scopes[0]` is the straight line, the others are open loops.

    Of two orders of a product, the cheaper one is taken by `price`.
    """

    def __init__(self, price: Price = ALONE) -> None:
        self.price = price
        self.scopes = [LoopBody(1)]
        self._table: dict[Any, Node] = {}
        self._log: list[tuple[Any, Node, LoopBody]] = []
        self._order = count()
        self._read: set[Node] = set()  # by a product or a function, in part or as a whole
        self.trimmed: dict[Constant, tuple[int, int, Constant]] = {}

    # -- the rules --------------------------------------------------------------------------------
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
        if op in ("matmul", "mul", "apply") and not is_outer(node):
            self._read.update(arg.args[0] if arg.op == "view" else arg for arg in args)
        self._table[key] = node
        self.scopes[level].nodes.append(node)
        self._log.append((key, node, self.scopes[level]))
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

    def cost_since(self, mark: int, wanted: Iterable[Node]) -> float:
        """Estimated nanoseconds of what was made since the mark for these nodes, loops counted."""
        needed, total = set(wanted), 0.0
        for _, node, _ in reversed(self._log[mark:]):
            if node in needed:
                needed.update(node.args)
                total += cost(node, self.price) * self.weight(node.level)
        return total

    def weight(self, level: int) -> int:
        """How often a node of this level is computed."""
        times = 1
        for scope in self.scopes[1 : level + 1]:
            times *= scope.repeat
        return times

    # -- loops ------------------------------------------------------------------------------------
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

    # -- operations -------------------------------------------------------------------------------
    def source(self, name: Any, rows: int, cols: int, label: str) -> Node:
        node = self.make("source", (), name, rows, cols)
        node.label = label
        return node

    def const(self, constant: Constant) -> Node:
        node = self.make("const", (), constant, constant.rows, constant.cols)
        node.symmetric = isinstance(constant, (Shift, Ones)) and constant == constant.T
        return node

    def view(self, x: Node, row: int, col: int, rows: int, cols: int, flip: bool = False) -> Node:
        """`x[row : row + rows, col : col + cols]`, transposed if `flip`; views never nest."""
        whole = (row, col, rows, cols) == (0, 0, x.rows, x.cols)
        flip = flip and not rows == cols == 1
        if whole and not (flip and not x.symmetric):
            return x
        if x.op == "view":
            up, left, _, _, flipped = x.data
            if flipped:
                row, col, rows, cols = col, row, cols, rows
            return self.view(x.args[0], up + row, left + col, rows, cols, flip != flipped)
        if flip and x.symmetric:
            return self.view(x, col, row, cols, rows)
        parts = _parts(x, row, col, rows, cols)
        if parts == []:
            return self.const(zeros(cols, rows) if flip else zeros(rows, cols))
        if parts is not None and len(parts) == 1:
            sign, node, up, left = parts[0]
            inside = up <= row and left <= col
            inside &= row + rows <= up + node.rows and col + cols <= left + node.cols
            if sign > 0 and inside:
                return self.view(node, row - up, col - left, rows, cols, flip)
        if is_outer(x) and not whole:
            column, line = x.args
            some = self.matmul(self.view(column, row, 0, rows, 1), self.view(line, 0, col, 1, cols))
            return self.flip(some) if flip else some
        if flip and whole and x.turns:
            return self.const(x.data.T)
        if flip and whole and x.op == "scale" and x.args[0].turns:
            return self.scale(x.data, self.flip(x.args[0]))
        if x.op != "const" and is_even(x):
            ones = self.view(x.args[-1], row, col, rows, cols, flip)
            return self.mul(x.args[0], ones) if x.op == "mul" else self.scale(x.data, ones)
        if x.op == "const" and isinstance(x.data, Shift):
            part = _slice(x.data, row, col, rows, cols)
            return self.const(part.T if flip else part)
        shape = (cols, rows) if flip else (rows, cols)
        if _is_ones(x):
            return self.const(Ones(*shape) if rows * cols > 1 else identity(1))
        return self.make("view", (x,), (row, col, rows, cols, flip), *shape)

    def flip(self, x: Node) -> Node:
        """The transpose."""
        return self.view(x, 0, 0, x.rows, x.cols, flip=True)

    def matmul(self, a: Node, b: Node) -> Node:
        """`a @ b`; a column times a row is the same as their broadcast product."""
        selected = self._selected(a, b)
        if selected is not None:
            return selected
        for one, other in ((a, b), (b, a)):
            if one.op == "const" and one.data.is_identity():
                return other
        moved = self._moved(a, b)
        if moved is not None:
            return moved
        left, right = _on_diagonal(a), _on_diagonal(b)
        if left is not None and right is not None:
            return self.entrywise(self.entrywise(left, right), self.const(identity(a.rows)))
        if left is not None or right is not None:
            return self.entrywise(left or a, b if right is None else self.flip(right))
        if a.is_scalar or b.is_scalar:
            return self.mul(a, b) if a.is_scalar else self.mul(b, a)
        bands = self._diagonals(a)
        if bands:
            parts = [(sign, self.matmul(part, b), row, 0) for sign, part, row, _ in bands]
            return self.total(a.rows, b.cols, parts)
        if _is_filled(a):  # ones are a column times a row: the rows of b are summed once
            return self.matmul(
                self.const(Ones(a.rows, 1)), self.matmul(self.const(Ones(1, a.cols)), b)
            )
        if _is_filled(b):
            return self.matmul(
                self.matmul(a, self.const(Ones(b.rows, 1))), self.const(Ones(1, b.cols))
            )
        row, column = self.spread_from(a, 0), self.spread_from(b, 1)
        if row is not None or column is not None:  # all rows, or all columns, are one
            return self.spread(self.matmul(row or a, column or b), a.rows, b.cols)
        if _wants_flip(a, b):
            return self.flip(self.matmul(self.flip(b), self.flip(a)))
        trimmed = self._trimmed(a, b)
        if trimmed is not None:
            return trimmed
        within = self._within_zeros(a, b)
        if within is not None:
            return within
        op = "mul" if a.cols == 1 else "matmul"
        node = self.make(op, (a, b), None, a.rows, b.cols)
        node.symmetric = node.symmetric or is_palindrome(node)
        return node

    def _diagonals(self, x: Node) -> list[Part]:
        """The parts of a sum, if they are diagonal matrices below each other."""
        parts = _parts(x, 0, 0, *x.shape) or []
        whole = all(part.cols == x.cols and _on_diagonal(part) is not None for _, part, *_ in parts)
        return parts if len(parts) > 1 and whole else []

    def _moved(self, a: Node, b: Node) -> Node | None:
        """`a @ b` if one of them is a piece of an identity: rows or columns of the other, moved."""
        for one, other, axis in ((a, b, 0), (b, a, 1)):
            if one.op != "const" or not isinstance(one.data, Shift):
                continue
            to, start = one.data.row, one.data.col
            if axis == 0:
                part = self.view(other, start, 0, one.data.size, other.cols)
                return self.total(a.rows, b.cols, [(1, part, to, 0)] if one.data.size else [])
            part = self.view(other, 0, to, other.rows, one.data.size)
            return self.total(a.rows, b.cols, [(1, part, 0, start)] if one.data.size else [])
        return None

    def _without_zeros(self, x: Node) -> tuple[int, Node]:
        """A sum without the rows of zeros above and below it, and how many there are above."""
        if x.op != "sum":
            return 0, x
        parts = [(sign, y, row, col) for y, (sign, row, col) in zip(x.args, x.data[2], strict=True)]
        low, high = min(row for _, _, row, _ in parts), max(row + y.rows for _, y, row, _ in parts)
        if (low, high) == (0, x.rows):
            return 0, x
        moved = [(sign, y, row - low, col) for sign, y, row, col in parts]
        return low, self.total(high - low, x.cols, moved)

    def _trimmed(self, a: Node, b: Node) -> Node | None:
        """`a @ b` without the rows of b that are zero, or the columns of a."""
        low, inside = self._without_zeros(b)
        if inside is not b:
            return self.matmul(self.view(a, 0, low, a.rows, inside.rows), inside)
        upright = self.flip(a)
        low, inside = self._without_zeros(upright)
        if inside is not upright:
            return self.matmul(self.flip(inside), self.view(b, low, 0, inside.rows, b.cols))
        return None

    def _within_zeros(self, a: Node, b: Node) -> Node | None:
        """`a @ b` if columns of b are zero beside one part, or rows of a: the product is, too."""
        upright = self.flip(a) if a.flipped else a
        for last, x, axis in ((True, b, 1), (False, upright, 0 if a is upright else 1)):
            if x.op != "sum" or len(x.args) > 1 or x.args[0].shape[axis] == x.shape[axis]:
                continue
            sign, part, row, col = self._unpadded((1, x, 0, 0))
            if axis == 1:
                start, inside = col, self.total(x.rows, part.cols, [(sign, part, row, 0)])
            else:
                start, inside = row, self.total(part.rows, x.cols, [(sign, part, 0, col)])
            if last:
                return self.total(a.rows, b.cols, [(1, self.matmul(a, inside), 0, start)])
            inside = inside if a is upright else self.flip(inside)
            return self.total(a.rows, b.cols, [(1, self.matmul(inside, b), start, 0)])
        return None

    def _selected(self, a: Node, b: Node) -> Node | None:
        """`a @ b` if one of them is unit vectors E, or E times rows: only those rows take part."""
        left = self._from_left(a, b)
        if left is not None:
            return left
        turned = self._from_left(self.flip(b), self.flip(a))
        return None if turned is None else self.flip(turned)

    def _from_left(self, x: Node, y: Node) -> Node | None:
        upright = self.flip(x) if x.flipped else x
        if upright.op == "unit":
            return self.place(y, upright) if x is upright else self.pick(y, upright.args[0])
        if upright.op == "place":
            row, at = upright.args
            if x is upright:
                return self.place(self.matmul(row, y), upright)
            return self.matmul(self.flip(row), self.pick(y, at))
        if upright.op == "view" and upright.args[0].op == "unit":
            return self._from_some(upright, y, x is upright)
        return None

    def _from_some(self, some: Node, y: Node, places: bool) -> Node | None:
        """A product from the left with some of the unit vectors, or with their transpose."""
        unit, (_, first, rows, count, _) = some.args[0], some.data
        if rows < unit.rows:
            return None
        if places:
            return self.place(self.total(unit.cols, y.cols, [(1, y, first, 0)]), unit)
        return self.view(self.pick(y, unit.args[0]), first, 0, count, y.cols)

    def pick(self, x: Node, at: Node) -> Node:
        """The rows of a matrix where a loop is."""
        height = at.data[2]
        if x.op == "unit" and x.args[0] is at:
            return self.const(identity(height))
        if x.op == "place" and x.args[1] is at:
            return x.args[0]
        if x.op == "matmul" and x.level == at.level:  # not computed anyway, before the loop
            return self.matmul(self.pick(x.args[0], at), x.args[1])
        if x.op == "view" and not x.flipped and x.rows == x.args[0].rows:
            return self.view(self.pick(x.args[0], at), 0, x.data[1], height, x.cols)
        block = self._on_the_way(x, at)
        if block is not None:
            return block
        return self.make("pick", (x, at), None, height, x.cols)

    def _on_the_way(self, x: Node, at: Node) -> Node | None:
        """What of the columns of a product where a loop is stands in those rows as well.

        Of the factors no more is needed than the rows and the columns there, not the whole product.
        """
        if not x.flipped or x.args[0].op != "pick" or x.args[0].args[1] is not at:
            return None
        y = x.args[0].args[0]
        product = self.flip(y) if y.flipped else y
        if product.op != "matmul":
            return None
        a, b = product.args
        block = self.matmul(self.pick(a, at), self.flip(self.pick(self.flip(b), at)))
        return block if y.flipped else self.flip(block)

    def place(self, rows: Node, like: Node) -> Node:
        """Rows in a matrix that is zero elsewhere, as high as unit vectors or other such one."""
        return self.make("place", (rows, like.args[-1]), None, like.rows, rows.cols)

    def _inside_place(self, x: Node, scaled: Callable[[Node], Node]) -> Node | None:
        """A multiple of rows in their place: the multiple is in its place."""
        if x.op == "unit":
            return self.place(scaled(self.const(identity(x.cols))), x)
        if x.op == "place":
            return self.place(scaled(x.args[0]), x)
        return None

    def mul(self, scalar: Node, x: Node) -> Node:
        """A 1 x 1 node times a matrix."""
        assert scalar.is_scalar
        if x.flipped:
            return self.flip(self.mul(scalar, self.flip(x)))
        if x.op == "const" and x.is_scalar and x.data.is_identity():
            return scalar
        if (scalar.op == "const" and scalar.data.is_identity()) or _is_zero(x):
            return x
        if scalar.op == "scale" and scalar.args[0].op == "const":  # no value but a number
            return self.scale(scalar.data, self.mul(scalar.args[0], x))
        placed = self._inside_place(x, lambda part: self.mul(scalar, part))
        if placed is not None:
            return placed
        if x.op == "const" and isinstance(x.data, Shift) and x.data.size == 1:
            return self.total(*x.shape, [(1, scalar, x.data.row, x.data.col)])
        if x.op == "sum" and len(x.args) == 1:
            sign, inner, row, col = self._unpadded((1, x, 0, 0))
            return self.total(*x.shape, [(sign, self.mul(scalar, inner), row, col)])
        better = self._inside(x, lambda part: self.mul(scalar, part), scalar.level)
        if better is not None:
            return better
        node = self.make("mul", (scalar, x), None, x.rows, x.cols)
        node.symmetric = x.symmetric
        return node

    def entrywise(self, a: Node, b: Node) -> Node:
        """A product entry by entry; one row, or one column, stands for as many as are needed."""
        if a.is_scalar or b.is_scalar:
            return self.mul(a, b) if a.is_scalar else self.mul(b, a)
        for column, row in ((a, b), (b, a)):
            if column.cols == 1 == row.rows:
                return self.matmul(column, row)
        if _wants_turn((a, b)):
            return self.flip(self.entrywise(self.flip(a), self.flip(b)))
        a, b = sorted((a, b), key=lambda x: (x.op == "const", _age(x)))
        rows, cols = max(a.rows, b.rows), max(a.cols, b.cols)
        for x, other in ((a, b), (b, a)):
            if is_even(x):
                wide = self.spread(other, rows, cols)
                if x.op == "const":
                    return wide
                return self.mul(x.args[0], wide) if x.op == "mul" else self.scale(x.data, wide)
        for x, other, axis in ((x, y, axis) for x, y in ((a, b), (b, a)) for axis in (0, 1)):
            line = self.spread_from(x, axis)
            if line is not None:
                return self.spread(self.entrywise(line, other), rows, cols)
        if a.rows == 1 and b.op == "const" and b.data.is_identity():
            a = self.flip(a)  # a diagonal matrix is made of a column
        node = self.make("mul", (a, b), None, rows, cols)
        node.symmetric = (a.symmetric and b.symmetric) or _on_diagonal(node) is not None
        return node

    def spread(self, x: Node, rows: int, cols: int) -> Node:
        """A value whose one row, or one column, stands for many, as large as that."""
        if x.shape == (rows, cols):
            return x
        if x.op == "scale":
            return self.scale(x.data, self.spread(x.args[0], rows, cols))
        if x.is_scalar:
            return self.mul(x, self.const(Ones(rows, cols)))
        if x.rows < rows:
            x = self.matmul(self.const(Ones(rows, 1)), x)
        return x if x.cols == cols else self.matmul(x, self.const(Ones(1, cols)))

    def spread_from(self, x: Node, axis: int) -> Node | None:
        """The row (axis 0) or column (axis 1) that stands in all rows or columns of a value."""
        if x.flipped and x.args[0].shape == x.shape[::-1]:
            line = self.spread_from(x.args[0], 1 - axis)
            return None if line is None else self.flip(line)
        if not is_outer(x) or not _is_ones(x.args[axis]):
            return None
        return x.args[1 - axis]

    def diagonal(self, x: Node) -> Node:
        """The diagonal of a square, as a column."""
        return self.make("diagonal", (x,), None, x.rows, 1)

    def scale(self, number: Fraction, x: Node) -> Node:
        if number == 1 or _is_zero(x):
            return x
        if x.op == "scale" and is_near(number * x.data, SCALE):
            return self.scale(number * x.data, x.args[0])
        if x.flipped:
            return self.flip(self.scale(number, self.flip(x)))
        placed = self._inside_place(x, lambda part: self.scale(number, part))
        if placed is not None:
            return placed
        if not is_near(number, ONCE) and is_near(number, DOUBLE):
            step = Fraction(2) ** (ONCE if abs(number) > 1 else -ONCE)
            return self.scale(number / step, self.scale(step, x))
        if is_near(number):
            better = self._inside(x, lambda part: self.scale(number, part), 0)
            if better is not None:
                return better
        node = self.make("scale", (x,), number, x.rows, x.cols)
        node.symmetric = x.symmetric
        return node

    def apply(self, function: Any, x: Node) -> Node:
        """A function entry by entry."""
        if x.flipped:
            return self.flip(self.apply(function, self.flip(x)))
        node = self.make("apply", (x,), function, x.rows, x.cols)
        node.symmetric = x.symmetric
        return node

    def _inside(self, x: Node, scaled: Any, level: int) -> Node | None:
        """`s (a b)` as `(s a) b` where a is fixed during a loop that changes b, or the other way.

        Only for products so small that calling them costs more than computing them: there one call
        less per step counts, and were the unscaled product needed too, little would be lost. Of a
        column times a row, which is larger than either, always the row is multiplied.
        """
        if is_outer(x) and level <= x.level and not x.symmetric:
            column, line = x.args
            if _is_ones(line):
                return self.matmul(scaled(column), line)
            return self.matmul(column, scaled(line))
        if x.op != "matmul" or cost(x) > 2 * CALL:
            return None
        for i, part in enumerate(x.args):
            if max(part.level, level) < x.level and part.op != "matmul":
                a, b = x.args
                return self.matmul(scaled(a), b) if i == 0 else self.matmul(a, scaled(b))
        return None

    def total(self, rows: int, cols: int, parts: Sequence[Part]) -> Node:
        """The rows x cols sum of nodes standing at their places; fixed parts are summed first."""
        signs: dict[tuple[Node, int, int], int] = {}
        for sign, node, row, col in map(self._unpadded, parts):
            sign, node = _signed(sign, node)
            signs[node, row, col] = signs.get((node, row, col), 0) + sign
        parts = [
            (1 if sign > 0 else -1, self.scale(Fraction(abs(sign)), node), row, col)
            for (node, row, col), sign in signs.items()
            if sign and not _is_zero(node)
        ]
        parts = self._adjoined(self._in_one_place(parts))
        if not parts:
            return self.const(zeros(rows, cols))
        if len(parts) == 1 and (parts[0][1].rows, parts[0][1].cols) == (rows, cols):
            sign, node, _, _ = parts[0]
            return node if sign > 0 else self.scale(-ONE, node)
        mark = self.mark()
        refined = newton.step(rows, cols, parts, self.scale)
        if refined is None:
            self.rollback(mark)
        else:
            x, function = refined
            return self.apply(function, x)
        other = self._wider_mask(rows, cols, parts) or self._in_bands(rows, cols, parts)
        if other is not None:
            return other
        once = self._once(rows, cols, parts)
        if once is not None:
            return once
        if _wants_turn([node for _, node, _, _ in parts]):
            others = [(sign, self.flip(node), col, row) for sign, node, row, col in parts]
            return self.flip(self.total(cols, rows, others))
        parts = self._by_change(rows, cols, parts)
        args, data = _summed(rows, cols, [(-p[0], *p[1:]) for p in parts])
        negative = self._table.get(("sum", args, data))
        if negative is not None:  # which a product can be the negative of as well
            return self.scale(-ONE, negative)
        args, data = _summed(rows, cols, parts)
        node = self.make("sum", args, data, rows, cols)
        node.symmetric = rows == cols and self._mirrored(parts)
        return node

    def _once(self, rows: int, cols: int, parts: Sequence[Part]) -> Node | None:
        """A sum of values that are alike in all rows, or in all columns: added up once."""
        nodes = [node for _, node, _, _ in parts]
        if any(x.shape != (rows, cols) for x in nodes) or all(map(is_even, nodes)):
            return None
        for axis, shape in ((0, (1, cols)), (1, (rows, 1))):
            if all(is_even(x) or self.spread_from(x, axis) is not None for x in nodes):
                once = [(sign, self.view(x, 0, 0, *shape), 0, 0) for sign, x, _, _ in parts]
                return self.spread(self.total(*shape, once), rows, cols)
        return None

    def _mirrored(self, parts: Sequence[Part]) -> bool:
        """Whether every part is symmetric on the diagonal, or has its transpose across from it."""
        boxes = {(row, col, x.rows, x.cols) for _, x, row, col in parts}
        if boxes != {(col, row, x.cols, x.rows) for _, x, row, col in parts}:
            return False
        there = Counter((sign, word(x), row, col) for sign, x, row, col in parts)
        across = Counter((sign, word(x, turned=True), col, row) for sign, x, row, col in parts)
        return there == across

    def _unpadded(self, part: Part) -> Part:
        """A part that is nothing but another one with zeros around it, as that one."""
        sign, node, row, col = part
        x = node.args[0] if node.flipped and node.args[0].shape == node.shape[::-1] else node
        if x.op != "sum" or len(x.args) > 1:
            return part
        (inner, up, left), y = x.data[2][0], x.args[0]
        if x is not node:
            up, left, y = left, up, self.flip(y)
        return sign * inner, y, row + up, col + left

    def _in_bands(self, rows: int, cols: int, parts: Sequence[Part]) -> Node | None:
        """A sum in the straight line that leaves rows of one part as they are: band below band.

        So what reads some rows only, reads them where they stand, and the whole is perhaps never
        put together. A loop carries the whole anyway.
        """
        whole = [part for part in parts if part[1].shape == (rows, cols)]
        inner = [part for part in parts if part not in whole]
        low = min((row for _, _, row, _ in inner), default=0)
        high = max((row + x.rows for _, x, row, _ in inner), default=0)
        if len(whole) != 1 or whole[0][0] < 0 or low >= high or (low, high) == (0, rows):
            return None
        if any(node.level for _, node, _, _ in parts):
            return None
        x = whole[0][1]
        middle = [(1, self.view(x, low, 0, high - low, cols), 0, 0)]
        middle += [(sign, node, row - low, col) for sign, node, row, col in inner]
        bands = [*self._bands(x, 0, low), (1, self.total(high - low, cols, middle), low, 0)]
        return self.total(rows, cols, [*bands, *self._bands(x, high, rows)])

    def _bands(self, x: Node, top: int, bottom: int) -> list[Part]:
        """Some rows of a matrix, where they stand: of bands, those that are met.

        A sum that something else reads is there, so its rows need not be taken one by one.
        """
        if top >= bottom:
            return []
        low, inside = self._without_zeros(x)
        if x in self._read or inside in self._read:
            first, last = max(top, low), min(bottom, low + inside.rows)
            if first >= last:
                return []
            return [(1, self.view(inside, first - low, 0, last - first, x.cols), first, 0)]
        if x.op != "sum" or any(node.cols != x.cols for node in x.args) or _overlap(x):
            return [(1, self.view(x, top, 0, bottom - top, x.cols), top, 0)]
        found = []
        for sign, node, up, _ in _parts(x, top, 0, bottom - top, x.cols) or ():
            first, last = max(up, top), min(up + node.rows, bottom)
            found.append((sign, self.view(node, first - up, 0, last - first, x.cols), first, 0))
        return found

    def _by_change(self, rows: int, cols: int, parts: list[Part]) -> list[Part]:
        """The same parts, those that a loop changes and those that it does not summed apart.

        The fixed ones are then summed before the loop. The others are the same value wherever they
        meet other fixed ones, as in `relu(x - t) - relu(-x - t)`, and up to a sign.
        """
        top = max(node.level for _, node, _, _ in parts)
        fixed = [p for p in parts if p[1].level < top]
        if fixed:
            parts = [part for one in parts for part in self._opened(rows, cols, one, top)]
            fixed = [p for p in parts if p[1].level < top]
        if sum(p[1].size for p in fixed) < rows * cols or len(fixed) == len(parts):
            fixed = [p for p in fixed if p[1].size == rows * cols]
        varying = [p for p in parts if p not in fixed]
        if len(fixed) > 1:
            fixed = [(*_signed(1, self.total(rows, cols, fixed)), 0, 0)]
        if fixed and len(varying) > 1:
            sign = min(varying, key=lambda part: part[1].order)[0]
            inner = [(sign * p[0], *p[1:]) for p in varying]
            varying = [(*_signed(sign, self.total(rows, cols, inner)), 0, 0)]
        return [*varying, *fixed]

    def _opened(self, rows: int, cols: int, part: Part, top: int) -> list[Part]:
        """A sum of which a loop changes some, as its parts."""
        sign, node, *_ = part
        if node.op != "sum" or any(x.shape != (rows, cols) for x in (node, *node.args)):
            return [part]
        if all(x.level == top for x in node.args):
            return [part]
        own = zip(node.args, node.data[2], strict=True)
        return [(sign * inner, x, 0, 0) for x, (inner, _, _) in own]

    def _in_one_place(self, parts: list[Part]) -> list[Part]:
        """Rows that stand in the same place, summed before they are put there."""
        out, groups = list[Part](), dict[Any, list[tuple[int, Node]]]()
        for sign, node, row, col in parts:
            found = placed(node)
            if found is None:
                out.append((sign, node, row, col))
            else:
                place, flip = found
                key = (place.args[1], place.shape, flip, row, col)
                groups.setdefault(key, []).append((sign, place))
        if all(len(group) == 1 for group in groups.values()):
            return parts
        for (_, (_, cols), flip, row, col), group in groups.items():
            each = [(sign, place.args[0], 0, 0) for sign, place in group]
            summed = self.total(each[0][1].rows, cols, each)
            whole = self.place(summed, group[0][1])
            out.append((1, self.flip(whole) if flip else whole, row, col))
        return out

    def _adjoined(self, parts: list[Part]) -> list[Part]:
        """Neighbouring slices of a value that stand as they do there, as one slice."""
        for axis in (0, 1):
            groups: dict[Any, list[tuple[int, int, Part]]] = {}
            for part in parts:
                sign, node, row, col = part
                if node.op != "view":
                    continue
                *box, flip = node.data
                start, size = box[axis], box[2 + axis]
                moved = (col - box[0], row - box[1]) if flip else (row - box[0], col - box[1])
                key = (sign, node.args[0], flip, moved, box[1 - axis], box[3 - axis])
                groups.setdefault(key, []).append((start, start + size, part))
            for (sign, base, flip, *_), group in groups.items():
                if len(group) == 1:
                    continue
                group.sort(key=itemgetter(0))
                if any(end != start for (_, end, _), (start, _, _) in pairwise(group)):
                    continue
                (start, _, (_, first, row, col)), (_, end, _) = group[0], group[-1]
                box = [*first.data[:4]]
                box[2 + axis] = end - start
                parts = [part for part in parts if part not in [other for _, _, other in group]]
                top, left, rows, cols = box
                parts.append((sign, self.view(base, top, left, rows, cols, flip), row, col))
        return parts

    def _wider_mask(self, rows: int, cols: int, parts: Sequence[Part]) -> Node | None:
        """A mask with zeros around it, as a mask of as much more of what it masks."""
        if len(parts) > 1 or parts[0][1].op != "mul" or parts[0][1].args[1].op != "const":
            return None
        sign, node, down, right = parts[0]
        x, mask = node.args
        if x.op != "view" or x.data[4] or (x.rows, x.cols) != (node.rows, node.cols):
            return None
        base, (row, col, *_) = x.args[0], x.data
        row, col = row - down, col - right
        if min(row, col) < 0 or row + rows > base.rows or col + cols > base.cols:
            return None
        entries = mask.data.entries()
        wide = np.zeros((rows, cols), dtype=entries.dtype)
        wide[down : down + node.rows, right : right + node.cols] = sign * entries
        return self.entrywise(self.view(base, row, col, rows, cols), self.const(simplest(wide)))


def is_near(c: Fraction, near: int = NEAR) -> bool:
    """Whether a number is some powers of two from one."""
    return abs(c.numerator.bit_length() - c.denominator.bit_length()) <= near


def is_outer(x: Node) -> bool:
    """Whether a node is a column times a row."""
    return x.op == "mul" and x.args[0].cols == x.args[1].rows == 1 and min(x.shape) > 1


def is_even(x: Node) -> bool:
    """Whether one number stands in all entries."""
    if (x.op == "mul" and x.args[0].is_scalar) or x.op == "scale":
        x = x.args[-1]
    return _is_ones(x)


def _is_ones(x: Node) -> bool:
    return x.op == "const" and isinstance(x.data, Ones)


def _is_filled(x: Node) -> bool:
    """Whether a node is a matrix of ones, neither a row nor a column."""
    return _is_ones(x) and x.rows > 1 and x.cols > 1


def _wants_flip(a: Node, b: Node) -> bool:
    """Whether `bᵀ aᵀ` is computed for `a b`: one of the two, always the same one.

    Vectors are columns. Otherwise fewer transposed factors, then what loops change as it stands,
    then the older factor on the left.
    """
    if (a.rows == 1) != (b.cols == 1):
        return a.rows == 1
    turned = _turned((a, b))
    if turned or a.turns or b.turns:  # the transpose of a constant is another node
        return turned > 0
    if a.level != b.level and a.flipped != b.flipped:
        return (a.level > b.level) == a.flipped
    return _age(b) < _age(a)


def _parts(x: Node, row: int, col: int, rows: int, cols: int) -> list[Part] | None:
    """The parts of a sum that a slice meets; None of what is no sum."""
    if x.op != "sum":
        return None
    placed = zip(x.args, x.data[2], strict=True)
    return [
        (sign, node, up, left)
        for node, (sign, up, left) in placed
        if up < row + rows and row < up + node.rows and left < col + cols and col < left + node.cols
    ]


def _signed(sign: int, x: Node) -> tuple[int, Node]:
    """The negative of a value as that value, taken away."""
    return (-sign, x.args[0]) if x.op == "scale" and x.data == -1 else (sign, x)


def _summed(rows: int, cols: int, parts: Sequence[Part]) -> tuple[tuple[Node, ...], Any]:
    """What is summed and where, in an order of its own."""
    parts = sorted(parts, key=lambda part: (-part[0], part[1].order, *part[2:]))
    where = tuple((sign, row, col) for sign, _, row, col in parts)
    return tuple(node for _, node, _, _ in parts), (rows, cols, where)


def _overlap(x: Node) -> bool:
    """Whether bands of a sum lie over each other."""
    ends = sorted(
        (row, row + node.rows) for node, (_, row, _) in zip(x.args, x.data[2], strict=True)
    )
    return any(start < stop for (_, stop), (start, _) in pairwise(ends))


def _slice(x: Shift, row: int, col: int, rows: int, cols: int) -> Shift:
    """A slice of a piece of an identity, which is one too."""
    down, right = x.row - row, x.col - col
    start = max(0, -down, -right)
    size = min(x.size, rows - down, cols - right) - start
    if size <= 0:
        return Shift(rows, cols, 0, 0, 0)
    return Shift(rows, cols, down + start, right + start, size)


def _is_zero(x: Node) -> bool:
    return x.op == "const" and isinstance(x.data, Shift) and x.data.size == 0


def _on_diagonal(x: Node) -> Node | None:
    """The column on the diagonal of a diagonal matrix, which is that column times the identity."""
    is_made = x.op == "mul" and x.args[0].cols == 1 and x.rows == x.cols > 1
    return (
        x.args[0] if is_made and x.args[1].op == "const" and x.args[1].data.is_identity() else None
    )


def _turned(nodes: Sequence[Node]) -> int:
    """How many more of these nodes are transposed than not; what is either way does not count."""
    free = [x for x in nodes if not (x.symmetric or x.is_scalar or x.turns)]
    return sum(1 if x.flipped else -1 for x in free)


def _wants_turn(nodes: Sequence[Node]) -> bool:
    """Whether an operation entry by entry is computed transposed: where less is so, or the oldest.

    So a value is one node, whichever way round it is asked for.
    """
    turned = _turned(nodes)
    return turned > 0 or (turned == 0 and min((_age(x), x.flipped) for x in nodes)[1])


def _age(node: Node) -> int:
    return node.args[0].order if node.op == "view" else node.order
