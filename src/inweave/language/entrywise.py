"""Masks and diagonals: products entry by entry with a constant.

A mask that is known at compile time is linear, so attention applies it without multiplying two
values: rows of the mask that are alike are one head. Diagonals are masks too. With the mask I,
`I * (a onesᵀ)` is the matrix with a on its diagonal, and `(I * A) ones` the vector that stands on
the diagonal of A; the compiler puts the vector of ones into the heads of the mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np

from inweave.errors import ShapeError
from inweave.exact.constants import Constant, Ones, Shift, identity, simplest
from inweave.exact.whole import is_whole
from inweave.language.expressions import ConstantExpr, Entrywise, Expr, Product
from inweave.language.refusals import refuse
from inweave.language.values import Value, lift

if TYPE_CHECKING:
    from inweave.language.typed import Expression, Matrix, Row, Vector

N = TypeVar("N")
V = TypeVar("V", bound="Expression")


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
