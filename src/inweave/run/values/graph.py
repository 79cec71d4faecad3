"""The values of a plan, as a graph: slices, products and multiples, each in one form.

What `scopes` does for nodes made from the same parts, the rules here do for one value made in
several ways. A value and its transpose are one node and a view of it, and a node known to be
symmetric is its own transpose, so that `(X w)ᵀ` and `wᵀ Xᵀ` are recognised as one product. Pieces
of identities move rows, unit vectors pick them, ones spread them, and zeros are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from inweave.exact.constants import Ones, Shift, identity, zeros
from inweave.run.values.kinds import (
    ONE,
    age,
    is_even,
    is_near,
    is_ones,
    is_outer,
    is_zero,
    more_turned,
    on_diagonal,
    parts_of,
    wants_turn,
)
from inweave.run.values.mirror import is_palindrome
from inweave.run.values.node import CALL, Node, Part, cost
from inweave.run.values.sums import Sums

SCALE = 64  # powers of two from one, within which a number is multiplied with others first
ONCE = 100  # and within which it multiplies at once: float32 ends at 126
DOUBLE = 1020  # and beyond which no float is, so that it is refused where it is written down


class Graph(Sums):
    """What a plan is built in: scopes and sums, with slices and products."""

    def view(self, x: Node, row: int, col: int, rows: int, cols: int, flip: bool = False) -> Node:
        """`x[row : row + rows, col : col + cols]`, transposed if `flip`; views never nest."""
        whole = (row, col, rows, cols) == (0, 0, x.rows, x.cols)
        flip = flip and not rows == cols == 1
        if whole and not (flip and (x.flipped or not x.symmetric)):
            return x
        if x.op == "view":
            up, left, _, _, flipped = x.data
            if flipped:
                row, col, rows, cols = col, row, cols, rows
            return self.view(x.args[0], up + row, left + col, rows, cols, flip != flipped)
        if flip and x.symmetric:
            return self.view(x, col, row, cols, rows)
        parts = parts_of(x, row, col, rows, cols)
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
        if is_ones(x):
            return self.const(Ones(*shape) if rows * cols > 1 else identity(1))
        assert 0 <= row <= x.rows - rows
        assert 0 <= col <= x.cols - cols
        return self.make("view", (x,), (row, col, rows, cols, flip), *shape)

    def apart(self, x: Node, others: Sequence[Node]) -> Node:
        """An answer as a value of its own: no view of what the caller handed in, or of another."""
        taken = {_viewed(other) for other in others}
        while (base := _viewed(x)).op in ("source", "const") or base in taken:
            x = self.make("scale", (x,), ONE, x.rows, x.cols)
        return x

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
        left, right = on_diagonal(a), on_diagonal(b)
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
        parts = parts_of(x, 0, 0, *x.shape) or []
        whole = all(part.cols == x.cols and on_diagonal(part) is not None for _, part, *_ in parts)
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
        if (scalar.op == "const" and scalar.data.is_identity()) or is_zero(x):
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
        if wants_turn((a, b)):
            return self.flip(self.entrywise(self.flip(a), self.flip(b)))
        a, b = sorted((a, b), key=lambda x: (x.op == "const", age(x)))
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
        node.symmetric = (a.symmetric and b.symmetric) or on_diagonal(node) is not None
        return node

    def spread(self, x: Node, rows: int, cols: int) -> Node:
        """A value whose one row, or one column, stands for many, as large as that."""
        if x.shape == (rows, cols):
            return x
        if x.op == "scale":
            return self.scale(x.data, self.spread(x.args[0], rows, cols))
        if x.is_scalar:
            return self.mul(x, self.const(Ones(rows, cols)))
        if is_ones(x):
            return self.const(Ones(rows, cols))
        if x.rows < rows:
            x = self.matmul(self.const(Ones(rows, 1)), x)
        return x if x.cols == cols else self.matmul(x, self.const(Ones(1, cols)))

    def spread_from(self, x: Node, axis: int) -> Node | None:
        """The row (axis 0) or column (axis 1) that stands in all rows or columns of a value."""
        if x.flipped and x.args[0].shape == x.shape[::-1]:
            line = self.spread_from(x.args[0], 1 - axis)
            return None if line is None else self.flip(line)
        if not is_outer(x) or not is_ones(x.args[axis]):
            return None
        return x.args[1 - axis]

    def diagonal(self, x: Node) -> Node:
        """The diagonal of a square, as a column."""
        return self.make("diagonal", (x,), None, x.rows, 1)

    def scale(self, number: Fraction, x: Node) -> Node:
        if number == 1 or is_zero(x):
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
            if is_ones(line):
                return self.matmul(scaled(column), line)
            return self.matmul(column, scaled(line))
        if x.op != "matmul" or cost(x) > 2 * CALL:
            return None
        for i, part in enumerate(x.args):
            if max(part.level, level) < x.level and part.op != "matmul":
                a, b = x.args
                return self.matmul(scaled(a), b) if i == 0 else self.matmul(a, scaled(b))
        return None


def _wants_flip(a: Node, b: Node) -> bool:
    """Whether `bᵀ aᵀ` is computed for `a b`: one of the two, always the same one.

    Vectors are columns. Otherwise fewer transposed factors, then what loops change as it stands,
    then the older factor on the left.
    """
    if (a.rows == 1) != (b.cols == 1):
        return a.rows == 1
    turned = more_turned((a, b))
    if turned or a.turns or b.turns:  # the transpose of a constant is another node
        return turned > 0
    if a.level != b.level and a.flipped != b.flipped:
        return (a.level > b.level) == a.flipped
    return age(b) < age(a)


def _slice(x: Shift, row: int, col: int, rows: int, cols: int) -> Shift:
    """A slice of a piece of an identity, which is one too."""
    down, right = x.row - row, x.col - col
    start = max(0, -down, -right)
    size = min(x.size, rows - down, cols - right) - start
    if size <= 0:
        return Shift(rows, cols, 0, 0, 0)
    return Shift(rows, cols, down + start, right + start, size)


def _is_filled(x: Node) -> bool:
    """Whether a node is a matrix of ones, neither a row nor a column."""
    return is_ones(x) and x.rows > 1 and x.cols > 1


def _viewed(node: Node) -> Node:
    """What a node is a view of."""
    while node.op in ("view", "diagonal"):
        node = node.args[0]
    return node
