"""numpy's rules for shapes, over values that are all stored as matrices.

A vector is stored as a column, and `x.T` or `X[i, :]` as a row; both stand for one axis, as a 1-D
array of numpy does. Where numpy defines an operation, it means here what it means there, with one
exception, which is what one writes on paper: `x @ y.T` is an outer product. A vector beside a
matrix of one column makes a matrix of all pairs in numpy, and a column on paper: it is refused.

What is spread over other rows and columns is multiplied by ones, so it costs a network no entries
of its own, whatever the sizes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from inweave.errors import ShapeError
from inweave.exact.constants import Ones
from inweave.exact.whole import is_whole
from inweave.language.expressions import ConstantExpr, Expr, Product, Scaled, Sum, Transposed, Units
from inweave.language.refusals import refuse

ONE = Fraction(1)
MATRIX, VECTOR, ROW, SCALAR = (False, False), (False, True), (True, False), (True, True)


# -- one axis -------------------------------------------------------------------------------------
def labelled(x: Expr, units: Units) -> Expr:
    """The same entries, answered in the shape that `units` say."""
    return x if x.units == units else Sum([(ONE, x)], units)


def transposed(x: Expr) -> Expr:
    return x.x if isinstance(x, Transposed) else Transposed(x)


def upright(x: Expr) -> Expr:
    """A row as the vector that it is; everything else as it stands."""
    return transposed(x) if x.units == ROW else x


def ones(rows: int, cols: int, units: Units = MATRIX) -> Expr:
    return ConstantExpr(Ones(rows, cols), units)


# -- broadcasting ---------------------------------------------------------------------------------
def alike(a: Expr, b: Expr, symbol: str) -> tuple[Expr, Expr]:
    """Two values spread to the same shape, as numpy broadcasts them."""
    if {a.units, b.units} == {ROW, VECTOR}:
        a, b = upright(a), upright(b)
    a, b = lying(a, b)
    for name, x, y in (("a", a, b), ("b", b, a)):
        if x.units == VECTOR and x.rows > 1 and y.units == MATRIX and y.cols == 1 < y.rows:
            other = "b" if name == "a" else "a"
            raise refuse(
                f"cannot compute a {symbol} b: of a = {a!r} and b = {b!r} one is a vector, the "
                f"other a matrix of one column. Write {other}[:, 0] for that column as a vector "
                f"(and X[i] for a row), or {name}[None, :] for all pairs, as numpy would have it",
                ShapeError,
            )
    if a.shape == b.shape:
        return a, b
    if a.is_scalar:
        return filled(a, b), b
    if b.is_scalar:
        return a, filled(b, a)
    if any(x.units == VECTOR and y.cols != x.rows for x, y in ((a, b), (b, a))):
        raise _differ(a, b, symbol)
    rows = [transposed(x) if x.units == VECTOR else x for x in (a, b)]
    shape = tuple(max(sizes) for sizes in zip(*(x.shape for x in rows), strict=True))
    if any(size not in (1, full) for x in rows for size, full in zip(x.shape, shape, strict=True)):
        raise _differ(a, b, symbol)
    return spread(rows[0], *shape), spread(rows[1], *shape)


def lying(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Two values; a vector beside a constant matrix of one entry as the row that numpy makes of it.

    Beside one that is computed it is a vector still, as beside a number: on paper, it is one.
    """

    def lies(x: Expr, other: Expr) -> Expr:
        if other.units != MATRIX or other.number is None or x.units not in (VECTOR, ROW):
            return x
        return labelled(x if x.units == ROW else transposed(x), MATRIX)

    return lies(a, b), lies(b, a)


def filled(s: Expr, like: Expr) -> Expr:
    """A scalar in every entry of a value of the same shape."""
    every = ones(*like.shape, like.units)
    return Scaled(s, every) if s.number is None else Sum([(s.number, every)])


def spread(x: Expr, rows: int, cols: int) -> Expr:
    """A row repeated over rows, or a column over columns."""
    if x.rows != rows:
        x = Product(ones(rows, 1), x)
    return x if x.cols == cols else Product(x, ones(1, cols))


def _differ(a: Expr, b: Expr, symbol: str) -> Exception:
    hint = ""
    for name, x, y in (("a", a, b), ("b", b, a)):
        if x.units == VECTOR and y.units != VECTOR and x.rows == y.rows:
            hint = f"; a vector goes along the rows, write {name}[:, None] for every column"
    return refuse(
        f"cannot compute a {symbol} b: a = {a!r} and b = {b!r} differ in size{hint}", ShapeError
    )


# -- products -------------------------------------------------------------------------------------
def multiplied(a: Expr, b: Expr) -> Expr:
    """`a @ b`: what numpy makes of it, otherwise the product of the stored matrices."""
    if (a.units, b.units) != (VECTOR, ROW):
        if b.units == ROW and a.cols == b.cols and a.units != SCALAR:
            return Product(a, transposed(b))
        if a.units == VECTOR and a.rows == b.rows and b.units != SCALAR:
            return Product(transposed(b), a) if b.units == MATRIX else Product(transposed(a), b)
    if a.cols != b.rows:
        hint = ""
        if a.rows == b.rows:
            hint = "; did you mean a.T @ b?"
        elif a.cols == b.cols:
            hint = "; did you mean a @ b.T?"
        raise refuse(
            f"cannot compute a @ b: a = {a!r} has {a.cols} columns, b = {b!r} has {b.rows} rows"
            + hint,
            ShapeError,
        )
    return Product(a, b)


# -- sums -----------------------------------------------------------------------------------------
def total(x: Expr, axis: Any = None, keepdims: bool = False) -> tuple[Expr, int]:
    """The sum along axes, and how many entries went into each of it."""
    x = upright(x)
    axes, out, count = _axes(x, axis), x, 1
    if 0 in axes:
        out, count = Product(ones(1, x.rows, (not keepdims, False)), out), count * x.rows
    if 1 in axes:
        out, count = Product(out, ones(x.cols, 1, (False, not keepdims))), count * x.cols
    return upright(out), count


def _axes(x: Expr, axis: Any) -> set[int]:
    """The axes that are summed over, as numpy counts them."""
    known = range(2 - sum(x.units))
    axes = known if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all(is_whole(k) and -len(known) <= k < len(known) for k in axes):
        raise refuse(f"{x!r} has the axes {[*known]}, got axis={axis!r}", ShapeError)
    return {known[k] for k in axes}
