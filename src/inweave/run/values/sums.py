"""Sums of values that stand at places: what is added first, and what need not be put together.

What a loop does not change is summed before it, rows that stand in one place before they are put
there, and what is alike in all rows once. Neighbouring slices are one slice again, and rows that a
sum leaves as they are stay where they stand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from inweave.exact.constants import simplest, zeros
from inweave.run.values import newton
from inweave.run.values.kinds import ONE, is_even, is_zero, parts_of, wants_turn
from inweave.run.values.mirror import word
from inweave.run.values.node import Node, Part, placed
from inweave.run.values.scopes import Scopes


class Sums(Scopes, ABC):
    """Scopes that add; slices and multiples, which a sum is made of, are the graph's."""

    @abstractmethod
    def view(self, x: Node, row: int, col: int, rows: int, cols: int, flip: bool = False) -> Node:
        """A slice, transposed if `flip`."""

    @abstractmethod
    def flip(self, x: Node) -> Node:
        """The transpose."""

    @abstractmethod
    def scale(self, number: Fraction, x: Node) -> Node:
        """A number times a value."""

    @abstractmethod
    def entrywise(self, a: Node, b: Node) -> Node:
        """A product entry by entry."""

    @abstractmethod
    def apply(self, function: Any, x: Node) -> Node:
        """A function entry by entry."""

    @abstractmethod
    def place(self, rows: Node, like: Node) -> Node:
        """Rows where a loop is, zeros elsewhere."""

    @abstractmethod
    def spread(self, x: Node, rows: int, cols: int) -> Node:
        """A row or a column as many times as are needed."""

    @abstractmethod
    def spread_from(self, x: Node, axis: int) -> Node | None:
        """What stands in all rows or columns of a value."""

    def total(self, rows: int, cols: int, parts: Sequence[Part]) -> Node:
        """The rows x cols sum of nodes standing at their places; fixed parts are summed first."""
        signs: dict[tuple[Node, int, int], int] = {}
        for sign, node, row, col in map(self._unpadded, parts):
            sign, node = _signed(sign, node)
            signs[node, row, col] = signs.get((node, row, col), 0) + sign
        parts = [
            (1 if sign > 0 else -1, self.scale(Fraction(abs(sign)), node), row, col)
            for (node, row, col), sign in signs.items()
            if sign and not is_zero(node)
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
        if wants_turn([node for _, node, _, _ in parts]):
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
        if x in self.read or inside in self.read:
            first, last = max(top, low), min(bottom, low + inside.rows)
            if first >= last:
                return []
            return [(1, self.view(inside, first - low, 0, last - first, x.cols), first, 0)]
        if x.op != "sum" or any(node.cols != x.cols for node in x.args) or _overlap(x):
            return [(1, self.view(x, top, 0, bottom - top, x.cols), top, 0)]
        found = []
        for sign, node, up, _ in parts_of(x, top, 0, bottom - top, x.cols) or ():
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
        """Rows that stand in one place, or side by side, summed before they are put there."""
        out, groups = list[Part](), dict[Any, list[tuple[int, Node, int, Part]]]()
        for part in parts:
            sign, node, row, col = part
            found = placed(node)
            if found is None:
                out.append(part)
                continue
            place, flip = found
            where, start = (col, row) if flip else (row, col)
            key = (place.args[1], place.rows, flip, where)
            groups.setdefault(key, []).append((sign, place, start, part))
        for (_, _, flip, where), group in groups.items():
            if len(group) == 1:
                out.append(group[0][-1])
                continue
            left = min(start for _, _, start, _ in group)
            right = max(start + place.cols for _, place, start, _ in group)
            each = [(sign, place.args[0], 0, start - left) for sign, place, start, _ in group]
            summed = self.total(each[0][1].rows, right - left, each)
            whole = self.place(summed, group[0][1])
            out.append((1, self.flip(whole), left, where) if flip else (1, whole, where, left))
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
