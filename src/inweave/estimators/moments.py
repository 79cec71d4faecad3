"""Second moments of rows, gathered a piece at a time: nothing as large as the data is made.

Scales. Squares of numbers like 1e-165 or 1e160 are not floats. Where moments come out beyond what
can be computed with, columns are measured in powers of two, which changes no digit, and gathered
again.

Means. Rows are centred before they are multiplied, because a difference of large sums would keep
few digits; what rounding leaves of the mean afterwards is taken off the moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger, dsyrk
from scipy.linalg.lapack import dpotrf, dpotri

Array = NDArray[np.float64]
Whole = NDArray[np.intp]
Pieces = Iterator[tuple[slice, Array]]

PIECE = 1 << 15  # numbers of rows that are looked at together: they stay in the cache
LEAST_ROWS = 64  # that are multiplied with each other at once, however long they are
ROUNDING = float(np.finfo(np.float64).eps)
ORDINARY = 400  # the power of two up to which numbers have squares that can be computed with
SMALL, LARGE = 2.0 ** (-2 * ORDINARY), 2.0 ** (2 * ORDINARY)


@dataclass(frozen=True)
class Frame:
    """Where rows are centred, and the units 2^exponents that columns of X and Y are measured in."""

    means: Array
    exponents: Whole
    levels: Array  # the means of Y
    answers: Whole  # the exponents of Y

    def coefficients(self, w: Array, scales: Array) -> tuple[Array, Array]:
        """Coefficients (d, k) and intercepts (k,) outside units and scales, from those inside.

        Units may make up for scales that are beyond floats, so powers of two come last.
        """
        digits, powers = np.frexp(scales)
        with np.errstate(over="ignore"):  # what is beyond floats is refused
            found = np.ldexp(w / digits[:, None], self.answers - (self.exponents + powers)[:, None])
            levels = self.levels - self.means @ (w / scales[:, None])
            return found, np.ldexp(levels, self.answers)


@dataclass(frozen=True)
class Moments(Frame):
    """XᵀX and XᵀY of centred rows; columns that do not vary, to rounding, are zero."""

    products: Array
    shares: Array  # XᵀY
    sizes: Array  # the lengths of the columns of Y


def moments(X: Array, Y: Array, centre: bool) -> Moments:
    """The moments of rows, about their means if they are to be centred."""
    plain, answers = np.zeros(X.shape[1], dtype=np.intp), units_of(Y)
    with np.errstate(all="ignore"):
        found = _gathered(X, Y, centre, plain, answers)
        units = units_for(X, found.products.diagonal())
    return _gathered(X, Y, centre, units, answers) if units.any() else found


def units_for(X: Array, squares: Array, least: float = 0.0) -> Whole:
    """The powers of two that columns with such squares are to be measured in: all 0 if in none.

    `least` is what a column is measured in at least, where it has to be: something that is to be
    added to the squares is then no larger than they are.
    """
    doubtful = ~((squares > SMALL) & (squares < LARGE))
    columns = X[:, doubtful]
    if (columns.max(axis=0, initial=-np.inf) == columns.min(axis=0, initial=np.inf)).all():
        return np.zeros(X.shape[1], dtype=np.intp)
    return exponents(X, least)


def units_of(Y: Array) -> Whole:
    """The powers of two that responses are to be measured in."""
    found = exponents(Y)
    found[np.abs(found) < ORDINARY] = 0
    return found


def exponents(X: Array, least: float = 0.0) -> Whole:
    """For each column, the power of two next above its largest entry."""
    largest = np.maximum(np.maximum(X.max(axis=0), -X.min(axis=0)), least)
    return np.asarray(np.clip(np.frexp(largest)[1], -1000, 1000), dtype=np.intp)


def column_means(X: Array, units: Whole | None = None) -> Array:
    """The means of columns, in units of powers of two."""
    if units is None:  # as they are
        parts = (X[rows] for rows in slices(len(X), X.shape[1]))
    else:
        parts = (x for _, x in pieces(X, units))
    return np.asarray(sum((_sums(x) for x in parts), start=np.zeros(X.shape[1])) / len(X))


def column_squares(X: Array, means: Array) -> Array:
    """The squares of columns less their means, added up."""
    return np.asarray(sum(_sums(np.square(x, out=x)) for _, x in pieces(X, means=means)))


def pieces(X: Array, units: Whole | None = None, means: Array | float = 0.0) -> Pieces:
    """Which rows, and these rows in units and less the means; one piece takes another's place."""
    n, d = X.shape
    held = np.empty((min(step_of(d), n), d))
    by = None if units is None else np.ldexp(1.0, -units)
    for rows in slices(n, d):
        x = held[: rows.stop - rows.start]
        if by is None:
            np.subtract(X[rows], means, out=x)
        else:
            np.multiply(X[rows], by, out=x)
            x -= means
        yield rows, x


def slices(n: int, d: int, piece: int = PIECE) -> Iterator[slice]:
    """Rows of d numbers, as many as are looked at together."""
    step = step_of(d, piece)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def step_of(d: int, piece: int = PIECE) -> int:
    return max(LEAST_ROWS, piece // d)


def bordered(X: Array, means: Array, roots: Array | None = None) -> Array:
    """Σ rᵢ² (xᵢ − means, 1)(xᵢ − means, 1)ᵀ; where no roots r are given they are one."""
    n, d = X.shape
    found, means = np.zeros((d + 1, d + 1), order="F"), np.append(means, 0.0)
    piece = min(PIECE, n * (d + 1) // 4)
    held = np.empty((min(step_of(d + 1, piece), n), d + 1))
    for rows in slices(n, d + 1, piece):
        x = held[: rows.stop - rows.start]
        x[:, :d], x[:, d] = X[rows], 1.0
        x -= means
        if roots is not None:
            x *= roots[rows, None]
        found = added(found, x.T)
    return mirrored(found)


def added(A: Array, x: Array, across: bool = False) -> Array:
    """A + xxᵀ (across: xᵀx) in the place of A, of which the upper triangle is known."""
    return np.asarray(dsyrk(1.0, x, 1.0, A, trans=across, overwrite_c=1))


def mirrored(A: Array) -> Array:
    """A symmetric matrix of which the upper triangle was known."""
    for i in range(len(A) - 1):
        A[i + 1 :, i] = A[i, i + 1 :]
    return A


def inverse_of(H: Array) -> Array:
    """The inverse of a matrix with ones on its diagonal, which is raised until it is positive."""
    raised = 4 * len(H) * ROUNDING
    while raised < len(H):  # where the diagonal is certain to outweigh the rest
        np.fill_diagonal(H, 1 + raised)
        factor, failed = dpotrf(H)
        if not failed:
            return mirrored(dpotri(factor, overwrite_c=True)[0])
        raised *= 16
    return np.full_like(H, np.nan)


def _gathered(X: Array, Y: Array, centre: bool, units: Whole, answers: Whole) -> Moments:
    n, d = X.shape
    means, levels = np.zeros(d), np.zeros(Y.shape[1])
    Y = Y * np.ldexp(1.0, -answers)
    if centre:
        means, levels = column_means(X, units), Y.mean(axis=0)
        Y -= levels
    products, shares = np.zeros((d, d), order="F"), np.zeros((d, Y.shape[1]))
    rest = np.zeros(d)
    for rows, x in pieces(X, units, means):
        products = added(products, x.T)
        shares += x.T @ Y[rows]
        rest += _sums(x)
    mirrored(products)
    if centre:  # what rounding left of the means
        dger(-1 / n, rest, rest, a=products, overwrite_a=1)
        shares -= np.outer(rest, Y.sum(axis=0)) / n
        means += rest / n
    still = does_not_vary(products.diagonal(), means, n)
    products[still] = products[:, still] = shares[still] = 0.0
    lengths = np.einsum("ij,ij->j", Y, Y)
    shares[:, does_not_vary(lengths, levels, n)] = 0.0
    return Moments(means, units, levels, answers, products, shares, np.sqrt(lengths))


def does_not_vary(squares: Array, means: Array, n: int) -> NDArray[np.bool_]:
    """Whether only rounding errors are left of centred columns."""
    return np.asarray(np.sqrt(squares / n) <= 16 * ROUNDING * np.abs(means))


def _sums(x: Array) -> Array:
    """The sums of columns; a product, because a sum over the first axis is slow."""
    return np.asarray(np.ones(len(x)) @ x)
