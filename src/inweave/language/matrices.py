"""Constants, blocks, masks, functions of matrices: what a program builds that is no operator.

A mask that is known at compile time is linear, so attention applies it without multiplying two
values: rows of the mask that are alike are one head. Diagonals are masks too. With the mask I,
`I * (a onesᵀ)` is the matrix with a on its diagonal, and `(I * A) ones` the vector that stands on
the diagonal of A; the compiler puts the vector of ones into the heads of the mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np

from inweave.errors import ShapeError
from inweave.exact.constants import Constant, Ones, Shift, identity, select, simplest
from inweave.exact.constants import zeros as zero
from inweave.exact.whole import is_whole
from inweave.language import products
from inweave.language.expressions import ConstantExpr, Entrywise, Expr, Product, Sum, Units
from inweave.language.refusals import refuse
from inweave.language.shapes import MATRIX, ONE, labelled
from inweave.language.values import Value, lift

if TYPE_CHECKING:
    from inweave.language.typed import Array, Expression, Matrix, Number, Row, Scalar, Vector

    Block = Expression | Number | Array

N = TypeVar("N")
K = TypeVar("K")
V = TypeVar("V", bound="Expression")


def _matrix(node: Expr) -> Matrix[Any, Any]:
    """A value, to type checkers a matrix."""
    return cast("Matrix[Any, Any]", Value(node))


def _scalar(node: Expr) -> Scalar:
    return cast("Scalar", Value(node))


@overload
def zeros(size: int, /) -> Vector[Any]: ...
@overload
def zeros(rows: int, cols: int, /) -> Matrix[Any, Any]: ...
@overload
def zeros(shape: tuple[int], /) -> Vector[Any]: ...
@overload
def zeros(shape: tuple[int, int], /) -> Matrix[Any, Any]: ...


def zeros(*sizes: Any) -> Any:
    """A vector (one size) or matrix (two sizes) of zeros."""
    shape, units = _shape(sizes, "zeros")
    return Value(ConstantExpr(zero(*shape), units))


@overload
def ones(size: int, /) -> Vector[Any]: ...
@overload
def ones(rows: int, cols: int, /) -> Matrix[Any, Any]: ...
@overload
def ones(shape: tuple[int], /) -> Vector[Any]: ...
@overload
def ones(shape: tuple[int, int], /) -> Matrix[Any, Any]: ...


def ones(*sizes: Any) -> Any:
    """A vector (one size) or matrix (two sizes) of ones."""
    shape, units = _shape(sizes, "ones")
    return Value(ConstantExpr(Ones(*shape), units))


def _shape(sizes: tuple[Any, ...], what: str) -> tuple[tuple[int, int], Units]:
    if len(sizes) == 1 and isinstance(sizes[0], tuple):
        sizes = sizes[0]
    if len(sizes) not in (1, 2) or not all(is_whole(s, 1) for s in sizes):
        raise refuse(f"inweave.{what} takes one or two positive sizes, got {sizes!r}", ShapeError)
    rows, cols = map(int, (*sizes, 1)[:2])
    return (rows, cols), (False, len(sizes) == 1)


def eye(size: int) -> Matrix[Any, Any]:
    """The identity matrix."""
    if not is_whole(size, 1):
        raise refuse(f"inweave.eye takes one positive size, got {size!r}", ShapeError)
    return _matrix(ConstantExpr(identity(int(size))))


def constant(array: Any) -> Any:
    """A constant number, vector or matrix."""
    return Value(lift(array))


def hstack(blocks: Iterable[Block]) -> Matrix[Any, Any]:
    """Blocks side by side; of vectors, one too, the matrix with these columns."""
    return _matrix(labelled(lift(block([blocks])), MATRIX))


@overload
def vstack(  # type: ignore[overload-overlap]
    blocks: Iterable[Vector[Any] | Scalar],
) -> Vector[Any]: ...
@overload
def vstack(blocks: Iterable[Block]) -> Matrix[Any, Any]: ...


def vstack(blocks: Iterable[Any]) -> Any:
    """Blocks on top of each other."""
    return block([x] for x in blocks)


def block(rows: Iterable[Iterable[Block]]) -> Matrix[Any, Any]:
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
    return _matrix(Sum([(ONE, x) for x in placed], (False, is_vector)))


def _placed(x: Expr, top: int, rows: int, left: int, cols: int) -> Expr:
    """A block in a larger matrix of zeros, by pieces of an identity."""
    out = x
    if x.rows != rows:
        out = Product(ConstantExpr(select(rows, top, top + x.rows)), out)
    if x.cols != cols:
        out = Product(out, ConstantExpr(select(cols, left, left + x.cols).T))
    return out


# -- masks and diagonals -------------------------------------------------------------------------
def tril(x: V, k: int = 0) -> V:
    """A matrix with zeros above its diagonal, or above the k-th one to the right of it."""
    return _triangle(np.tril, x, k)


def triu(x: V, k: int = 0) -> V:
    """A matrix with zeros below its diagonal, or below the k-th one to the right of it."""
    return _triangle(np.triu, x, k)


def _triangle(kept: Any, x: V, k: int) -> V:
    node = lift(x)
    if not is_whole(k):
        raise refuse(f"inweave.{kept.__name__} needs a whole number k, got {k!r}")
    return cast("V", Value(_masked(simplest(kept(np.ones(node.shape), int(k))), node)))


def where(mask: Any, a: Any, b: Any) -> Value:
    """Entries of a where a constant mask is true, entries of b where it is not.

    Either may be a scalar, which then stands at every entry that it is chosen for.
    """
    chosen = lift(mask)
    if not isinstance(chosen, ConstantExpr):
        raise refuse(
            f"the mask {chosen!r} of inweave.where is not known at compile time; a choice by value "
            "cannot become a fixed network: use inweave.relu or another pointwise function"
        )
    is_true = chosen.constant.entries() != 0
    parts: list[Value] = []
    for kept, x in ((is_true, lift(a)), (~is_true, lift(b))):
        weight = Value(ConstantExpr(simplest(kept.astype(np.float64)), chosen.units))
        if x.shape not in (chosen.shape, (1, 1)):
            raise refuse(
                f"cannot choose {x!r} by a mask of {chosen.rows} x {chosen.cols}; expected that "
                "size, or a scalar",
                ShapeError,
            )
        parts.append(weight * Value(x))
    return parts[0] + parts[1]


@overload
def diag(x: Vector[N] | Row[N]) -> Matrix[N, N]: ...
@overload
def diag(x: Matrix[Any, Any]) -> Vector[Any]: ...
@overload
def diag(x: Any) -> Any: ...


def diag(x: Any) -> Any:
    """The matrix with a vector on its diagonal, or the vector on the diagonal of a matrix."""
    node = lift(x)
    if any(node.units):
        column = node if node.units[1] else Value(node).T._node
        spread = Product(column, ConstantExpr(Ones(1, column.rows)))
        return Value(_masked(identity(column.rows), spread))
    if node.rows > node.cols:
        return diag(Value(node).T)
    kept = _masked(Shift(node.rows, node.cols, 0, 0, node.rows), node)
    return Value(Product(kept, ConstantExpr(Ones(node.cols, 1), (False, True))))


def _masked(mask: Constant, x: Expr) -> Expr:
    return Entrywise(ConstantExpr(mask, x.units), x)


# -- functions of matrices -------------------------------------------------------------------------
def trace(A: Matrix[N, N]) -> Scalar:
    """The sum of the diagonal, a head for each entry."""
    return _scalar(products.trace(lift(A)))


def outer(x: Vector[N] | Row[N], y: Vector[K] | Row[K]) -> Matrix[N, K]:
    """The matrix of all products of two vectors' entries, x yᵀ."""
    return _matrix(products.outer(lift(x), lift(y)))


def squared_norm(x: Expression) -> Scalar:
    """The sum of all squared entries: xᵀx of a vector, tr(XᵀX) of a matrix."""
    return _scalar(products.squared_norm(lift(x)))


def matrix_power(A: Matrix[N, N], power: int) -> Matrix[N, N]:
    """A @ A @ ... @ A, `power` times; the identity for power 0."""
    return _matrix(products.power(lift(A), power))


def kron(A: Expression | Array, B: Expression | Array) -> Matrix[Any, Any]:
    """The Kronecker product; with a constant, a head for each of its columns that differ."""
    return _matrix(products.kron(lift(A), lift(B)))
