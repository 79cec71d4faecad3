"""Constants and block matrices: what a program builds that is no operator."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from inweave.errors import ShapeError
from inweave.exact.constants import Ones, identity, select
from inweave.exact.constants import zeros as zero
from inweave.exact.whole import is_whole
from inweave.language.expressions import ConstantExpr, Expr, Product, Sum, Units
from inweave.language.refusals import refuse
from inweave.language.values import ONE, Value, lift


def zeros(*sizes: Any) -> Value:
    """A vector (one size) or matrix (two sizes) of zeros."""
    rows, cols, units = _shape(sizes, "zeros")
    return Value(ConstantExpr(zero(rows, cols), units))


def ones(*sizes: Any) -> Value:
    """A vector (one size) or matrix (two sizes) of ones."""
    rows, cols, units = _shape(sizes, "ones")
    return Value(ConstantExpr(Ones(rows, cols), units))


def _shape(sizes: tuple[Any, ...], what: str) -> tuple[int, int, Units]:
    if len(sizes) == 1 and isinstance(sizes[0], tuple):
        sizes = sizes[0]
    if len(sizes) not in (1, 2) or not all(is_whole(s, 1) for s in sizes):
        raise refuse(f"inweave.{what} takes one or two positive sizes, got {sizes!r}", ShapeError)
    rows, cols = int(sizes[0]), int(sizes[1]) if len(sizes) == 2 else 1
    return rows, cols, (False, len(sizes) == 1)


def eye(size: int) -> Value:
    """The identity matrix."""
    if not is_whole(size, 1):
        raise refuse(f"inweave.eye takes one positive size, got {size!r}", ShapeError)
    return Value(ConstantExpr(identity(int(size))))


def constant(array: Any) -> Value:
    """A constant number, vector or matrix."""
    return Value(lift(array))


def hstack(blocks: Any) -> Value:
    """Blocks side by side."""
    return block([blocks])


def vstack(blocks: Any) -> Value:
    """Blocks on top of each other."""
    return block([x] for x in blocks)


def block(rows: Any) -> Value:
    """A block matrix from a list of rows of blocks."""
    blocks = [[lift(x) for x in row] for row in rows]
    if not blocks or not all(blocks):
        raise refuse("nothing to stack", ShapeError)
    heights = [row[0].rows for row in blocks]
    widths = [x.cols for x in blocks[0]]
    for row, height in zip(blocks, heights, strict=True):
        if len(row) != len(widths):
            raise refuse(f"block rows have {len(widths)} and {len(row)} blocks", ShapeError)
        for x, width in zip(row, widths, strict=True):
            if x.shape != (height, width):
                raise refuse(f"block {x!r} does not fit: expected {height} x {width}", ShapeError)
    tops, lefts = [0, *accumulate(heights)], [0, *accumulate(widths)]
    placed = [
        _placed(x, top, tops[-1], left, lefts[-1])
        for row, top in zip(blocks, tops, strict=False)
        for x, left in zip(row, lefts, strict=False)
    ]
    is_vector = len(widths) == 1 and all(row[0].units[1] for row in blocks)
    return Value(Sum([(ONE, x) for x in placed], (False, is_vector)))


def _placed(x: Expr, top: int, rows: int, left: int, cols: int) -> Expr:
    """A block in a larger matrix of zeros, by pieces of an identity."""
    out = x
    if x.rows != rows:
        out = Product(ConstantExpr(select(rows, top, top + x.rows)), out)
    if x.cols != cols:
        out = Product(out, ConstantExpr(select(cols, left, left + x.cols).T))
    return out
