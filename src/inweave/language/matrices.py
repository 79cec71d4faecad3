"""Constants, block matrices, functions of matrices: what a program builds that is no operator."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from inweave.errors import ShapeError
from inweave.exact.constants import Ones, identity, select
from inweave.exact.constants import zeros as zero
from inweave.exact.whole import is_whole
from inweave.language import products
from inweave.language.expressions import ConstantExpr, Expr, Product, Sum, Units
from inweave.language.refusals import refuse
from inweave.language.shapes import ONE
from inweave.language.values import Value, lift

if TYPE_CHECKING:
    from inweave.language.typed import Array, Expression, Matrix, Number, Row, Scalar, Vector

    Block = Expression | Number | Array

N = TypeVar("N")
K = TypeVar("K")


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
    """Blocks side by side."""
    return block([blocks])


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
