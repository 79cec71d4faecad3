"""Products beyond `@`: traces, outer and Kronecker products, powers.

Each is a sum of products of what there is, so a network needs nothing new for it. A head multiplies
a whole matrix from both sides; where its entries go to many places (a trace, a Kronecker product),
each place takes a head.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inweave.errors import ShapeError
from inweave.exact.constants import identity, select, simplest
from inweave.exact.constants import zeros as zero
from inweave.exact.whole import is_whole
from inweave.language.expressions import ConstantExpr, Expr, Product, Scaled, Sum
from inweave.language.refusals import refuse
from inweave.language.shapes import (
    MATRIX,
    ONE,
    SCALAR,
    VECTOR,
    labelled,
    multiplied,
    transposed,
    upright,
)


def trace(x: Expr) -> Expr:
    """tr(A) = Σᵢ eᵢᵀ A eᵢ."""
    if x.rows != x.cols:
        raise refuse(f"the trace needs a square matrix, got {x!r}", ShapeError)
    if isinstance(x, Product) and x.a.cols < x.rows:  # tr(AB) = tr(BA)
        x = Product(x.b, x.a)
    units = [ConstantExpr(select(x.rows, i, i + 1), VECTOR) for i in range(x.rows)]
    return Sum([(ONE, Product(transposed(e), Product(x, e))) for e in units], SCALAR)


def outer(x: Expr, y: Expr) -> Expr:
    x, y = upright(x), upright(y)
    if not (x.units == y.units == VECTOR):
        raise refuse(f"outer takes two vectors, got {x!r} and {y!r}", ShapeError)
    return Product(x, transposed(y))


def squared_norm(x: Expr) -> Expr:
    x = upright(x)
    gram = Product(transposed(x), x)
    return gram if x.units[1] else trace(gram)


def power(x: Expr, exponent: Any) -> Expr:
    if x.rows != x.cols or x.units != MATRIX:
        raise refuse(f"matrix_power needs a square matrix, got {x!r}", ShapeError)
    if not is_whole(exponent, 0):
        raise refuse(
            f"matrix_power of {x!r} needs a whole power known at compile time, got {exponent!r}; "
            "for an inverse iterate towards it, as inweave.gallery.get('newton_schulz') does"
        )
    out: Expr | None = None
    for bit in format(int(exponent), "b"):  # by squaring
        out = None if out is None else Product(out, out)
        if bit == "1":
            out = x if out is None else Product(out, x)
    return ConstantExpr(identity(x.rows)) if out is None else out


# -- Kronecker products ---------------------------------------------------------------------------
def kron(a: Expr, b: Expr) -> Expr:
    """With the columns cⱼ of a constant, C ⊗ X = Σⱼ (cⱼ ⊗ I) X (eⱼᵀ ⊗ I), and X ⊗ C likewise.

    A head for each column that differs, or for each row if there are fewer. Of two variables,
    A ⊗ B = (A ⊗ I)(I ⊗ B).
    """
    a, b = upright(a), upright(b)
    if a.units == SCALAR or b.units == SCALAR:
        return Scaled(a, b) if a.units == SCALAR else Scaled(b, a)
    if a.units != b.units:  # numpy takes a vector beside a matrix for a row
        a, b = (_row(x) if x.units == VECTOR else x for x in (a, b))
    if isinstance(a, ConstantExpr):
        return _with_constant(a, b, constant_first=True)
    if isinstance(b, ConstantExpr):
        return _with_constant(b, a, constant_first=False)
    left, right = (labelled(x, MATRIX) for x in (a, b))
    units = (ConstantExpr(identity(size)) for size in (b.rows, a.cols))
    return labelled(multiplied(kron(left, next(units)), kron(next(units), right)), a.units)


def _with_constant(c: ConstantExpr, x: Expr, constant_first: bool) -> Expr:
    entries = c.constant.entries()
    by_rows = entries.shape[0] < entries.shape[1]
    terms = []
    for line, places in _distinct(entries if by_rows else entries.T).items():
        where = [int(i in places) for i in range(min(entries.shape))]
        pair = (where, line) if by_rows else (line, where)
        rows = (np.array([each], dtype=entries.dtype) for each in pair)
        both = (_beside_identity(*of, constant_first) for of in zip(rows, x.shape, strict=True))
        L, R = (ConstantExpr(simplest(row)) for row in both)
        terms.append((ONE, Product(Product(transposed(L), x), R)))
    if not terms:
        return ConstantExpr(zero(c.rows * x.rows, c.cols * x.cols), x.units)
    return Sum(terms, x.units)


def _row(x: Expr) -> Expr:
    """A vector as a matrix of one row."""
    if isinstance(x, ConstantExpr):
        return ConstantExpr(x.constant.T)
    return labelled(transposed(x), MATRIX)


def _distinct(lines: Any) -> dict[tuple[Any, ...], list[int]]:
    """The lines that differ and are not zero, each with where it stands."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for i, line in enumerate(lines):
        if any(line):
            found.setdefault(tuple(line), []).append(i)
    return found


def _beside_identity(row: Any, size: int, first: bool) -> Any:
    """The Kronecker product of a row and an identity, exactly."""
    unit = np.eye(size, dtype=int).astype(row.dtype)
    return np.kron(row, unit) if first else np.kron(unit, row)
