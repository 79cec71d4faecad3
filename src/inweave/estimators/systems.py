"""Ridge regression as a system Sv = b with ones on the diagonal of S: of columns, or of rows.

The solution is (XᵀX + α)⁻¹Xᵀy, and Xᵀ(XXᵀ + α)⁻¹y as well: a system of as many unknowns as there
are columns, or rows. The network solves the smaller one. The unknowns of the first are coefficients
of scaled columns; those of the second are shares of the rows in them, and a query x is met as
the products of x with the rows.

Rows that are centred add up to zero, so that XXᵀ does nothing in the direction of ones. Nor do
responses, so whatever is added in that direction changes no answer; the mean of the other
eigenvalues is, because it makes the system no worse.

Columns are scaled one by one, rows are not, and columns in large units, or many that go together,
make the system of the rows bad. Then the rows are turned, into orthogonal combinations of them, so
that no row but the first has a part in the largest column, none but two in the largest that is then
left, and so on: a triangle, by QR with columns exchanged. What is large stands in few rows, and
scaled one by one they make a good system.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from inweave.errors import InputError
from inweave.estimators.base import extremes, norm, relative
from inweave.estimators.moments import (
    ROUNDING,
    Array,
    Frame,
    Whole,
    added,
    does_not_vary,
    inverse_of,
    mirrored,
    moments,
    slices,
    step_of,
    units_for,
    units_of,
)

BAD = 1e4  # a condition number, beyond which rows are turned
PROBES = 4  # of what rounding may have done
GATHERED = 2  # roundings that a sum of products is off by, as a rule


class System(ABC):
    """What the network solves, and how its answers become coefficients of scaled columns."""

    S: Array
    b: Array
    frame: Frame
    scales: Array  # of columns
    of: str

    @abstractmethod
    def images(self, v: Array) -> Array:
        """What unknowns are for the scaled columns, (d, k)."""

    @abstractmethod
    def grade(self) -> float:
        """About the least that unknowns of one size are for the columns, beside the most."""

    @abstractmethod
    def _reach(self) -> float:
        """How much longer than v the images of S⁻¹v may be."""

    @abstractmethod
    def _doubt(self, v: Array) -> Array:
        """What Sv − b is known to, in roundings."""

    @cached_property
    def spectrum(self) -> tuple[float, float]:
        """The smallest and largest eigenvalue of S."""
        return extremes(self.S)

    def distance(self, v: Array, w: Array, tol: float) -> float:
        """‖w − solution‖/‖w‖ for w = images(v), the worst of all responses.

        It follows from the residual, and from what rounding left of S and b when they were
        gathered, by the images of S⁻¹; mostly a bound of these settles it.
        """
        residual, doubt = self.b - self.S @ v, GATHERED * ROUNDING * self._doubt(v)
        most = self._reach()
        near = [
            relative(most * (norm(r) + math.sqrt(len(r)) * norm(e)), norm(x))
            for r, e, x in zip(residual.T, doubt.T, w.T, strict=True)
        ]
        if max(near) <= tol:
            return max(near)
        inverse = self.images(inverse_of(self.S.copy(order="F")))
        off = np.abs(inverse @ residual) + np.abs(inverse) @ doubt
        return max(relative(norm(o), norm(x)) for o, x in zip(off.T, w.T, strict=True))


class Columns(System):
    """XᵀX + α and XᵀY."""

    of = "columns"

    def __init__(self, X: Array, Y: Array, alpha: float, centre: bool) -> None:
        self.frame = found = moments(X, Y, centre)
        lengths = np.sqrt(found.products.diagonal())
        # A column of zeros has the coefficient 0 under any penalty; with one the system is regular.
        self.scales = _scales(lengths, alpha, found.exponents)
        self.S, self.b = _scaled(found.products, self.scales), found.shares / self.scales[:, None]
        self._lengths, self._sizes = (lengths / self.scales)[:, None], found.sizes

    def images(self, v: Array) -> Array:
        return v

    def grade(self) -> float:
        return 1.0

    def _reach(self) -> float:
        return 1 / self.spectrum[0]

    def _doubt(self, v: Array) -> Array:
        by = self._lengths
        return np.asarray(np.abs(v) + by * ((by * np.abs(v)).sum(axis=0) + self._sizes))


class Rows(System):
    """XXᵀ + α and Y. There is one unit for all columns, because they have one penalty."""

    of = "rows"

    def __init__(self, X: Array, Y: Array, alpha: float, centre: bool) -> None:
        n, d = X.shape
        self._X, self._centre, self._alpha = X, centre, alpha
        self._turn: Array | None = None
        answers = units_of(Y)
        Y = Y * np.ldexp(1.0, -answers)
        levels = Y.mean(axis=0) if centre else np.zeros(Y.shape[1])
        self._Y = Y - levels
        with np.errstate(all="ignore"):  # what overflows gets another unit
            K, means, squares = self._gathered(np.zeros(d, dtype=np.intp), 0)
            units, unit = units_for(X, squares), 0
        if units.any():
            unit = max(int(units.max()), math.frexp(math.sqrt(alpha))[1])
            K, means, squares = self._gathered(units, unit)
        self.frame, self._unit = Frame(means, units, levels, answers), unit
        self.scales = _scales(np.sqrt(squares), alpha, units)
        self._sizes = np.ldexp(np.sqrt(squares), units - unit)
        self._lengths = np.sqrt(K.diagonal())[:, None]
        if centre and n > 1:
            K += K.trace() / (n * (n - 1))
        self._scale(K)

    def turn(self) -> None:
        """Take combinations of the rows that make a better system."""
        units = self.frame.exponents
        x = np.empty(self._X.shape, order="F")
        for columns, piece, _ in self._columns(units):
            np.multiply(piece, np.ldexp(1.0, units[columns] - self._unit), out=x[:, columns])
        Q, _, order = qr(x, mode="economic", pivoting=True, overwrite_a=True, check_finite=False)
        del x, self.spectrum
        self._turn, self._place = Q.T, np.argsort(order)
        self._Y = Q.T @ self._Y
        if self._centre:
            self._Y[-1] = 0.0
        self._scale(self._gathered(units, self._unit)[0])

    def _scale(self, K: Array) -> None:
        np.fill_diagonal(K, K.diagonal() + math.ldexp(self._alpha, -2 * self._unit))
        self._by = np.sqrt(K.diagonal())
        self._by[self._by == 0] = 1.0
        self.S, self.b = _scaled(K, self._by), self._Y / self._by[:, None]

    def _gathered(self, units: Whole, unit: int) -> tuple[Array, Array, Array]:
        """XXᵀ, and the means and squares of columns."""
        n, d = self._X.shape
        K, means, squares = np.zeros((n, n), order="F"), np.empty(d), np.empty(d)
        for columns, x, m in self._columns(units):
            means[columns], squares[columns] = m, np.einsum("ij,ij->j", x, x)
            if unit:
                x *= np.ldexp(1.0, units[columns] - unit)
            K = added(K, x.T, across=True)
        return mirrored(K), means, squares

    def _columns(self, units: Whole) -> Iterator[tuple[slice, Array, Array]]:
        """Which columns, these columns in units and centred, zero if they do not vary, and means.

        They are centred twice, for what rounding left of the means.
        """
        n, d = self._X.shape
        held = np.empty(n * min(step_of(n), d))
        for columns in slices(d, n):
            size = columns.stop - columns.start
            x, means = held[: n * size].reshape(n, size), np.zeros(size)
            np.multiply(self._X[:, columns], np.ldexp(1.0, -units[columns]), out=x)
            for _ in range(2 if self._centre else 0):
                more = np.ones(n) @ x / n
                x -= more
                means += more
            still = does_not_vary(np.einsum("ij,ij->j", x, x), means, n)
            if still.any():
                x[:, still] = 0.0
            if self._turn is not None:
                x = self._turn @ x
                x[np.arange(n)[:, None] > self._place[columns]] = 0.0
                if self._centre:  # centred rows have one dimension less
                    x[-1] = 0.0
            yield columns, x, means

    def images(self, v: Array) -> Array:
        found, units = np.empty((self._X.shape[1], v.shape[1])), self.frame.exponents
        shares = v / self._by[:, None]
        for columns, x, _ in self._columns(units):
            found[columns] = x.T @ shares
        digits, powers = np.frexp(self.scales)
        found *= digits[:, None]
        return np.ldexp(found, (powers + 2 * (units - self._unit))[:, None])

    def grade(self) -> float:
        return float(self._by.min() / self._by.max())

    def distance(self, v: Array, w: Array, tol: float) -> float:
        found = super().distance(v, w, tol)
        strayed = 0.0 if self._turn is None else self._strayed(v, w)
        return max(found, strayed) if found + strayed < math.inf else math.inf

    def _strayed(self, v: Array, w: Array) -> float:
        """What roundings in the turned rows make of w, by a few that might have been.

        Columns that are off by E make products with the shares that are off by Eᵀv, of which
        I − Xᵀ(XXᵀ + α)⁻¹X is left in the solution: what tells apart columns that are alike.
        """
        units, by = self.frame.exponents, self._by[:, None]
        off = np.random.default_rng(0).normal(size=(len(w), PROBES, 1))
        off *= GATHERED * ROUNDING * self._sizes[:, None, None]
        off = (off * np.linalg.norm(v / by, axis=0)).reshape(len(w), -1)
        inner = np.zeros((len(v), off.shape[1]))
        for columns, x, _ in self._columns(units):
            inner += (x * np.ldexp(1.0, units[columns] - self._unit)) @ off[columns]
        inner = inverse_of(self.S.copy(order="F")) @ (inner / by)
        off *= np.ldexp(self.scales, units - self._unit)[:, None]
        lengths = np.linalg.norm(off - self.images(inner), axis=0).reshape(PROBES, -1).max(axis=0)
        return max(relative(o, norm(x)) for o, x in zip(lengths, w.T, strict=True))

    def _reach(self) -> float:
        # S is no less than the products of the rows in it.
        return math.inf if self._unit else float(self.scales.max()) / math.sqrt(self.spectrum[0])

    def _doubt(self, v: Array) -> Array:
        by, units = self._by[:, None], self.frame.exponents
        if self._turn is None:
            lengths = self._lengths / by
            return np.asarray(
                np.abs(v) + lengths * (lengths * np.abs(v)).sum(axis=0) + np.abs(self.b)
            )
        found = np.abs(v) + np.linalg.norm(self._Y, axis=0) / by
        for columns, x, _ in self._columns(units):
            x = np.abs(x) * np.ldexp(1.0, units[columns] - self._unit)
            found += x @ (x.T @ np.abs(v / by)) / by
        return np.asarray(found)


def smaller(
    X: Array, Y: Array, alpha: float, centre: bool
) -> tuple[NDArray[np.bool_], Iterator[System]]:
    """Which columns count, and the system of them, or of the rows where these are fewer.

    Where rounding leaves too little of that of the rows, that of the columns follows.
    """
    n, d = X.shape
    kept: NDArray[np.bool_] = np.ones(d, dtype=bool)
    if n < d:
        np.any(X[0] != X if centre else X, axis=0, out=kept)
        kept[0] |= not kept.any()
        X = X if kept.all() else X[:, kept]
        d = X.shape[1]
    if n >= d:
        return kept, iter([Columns(X, Y, alpha, centre)])
    if alpha == 0:
        raise InputError(
            f"alpha=0 and {n} rows: {d} columns are linearly dependent; take a larger alpha, or "
            "drop columns"
        )
    return kept, _both(X, Y, alpha, centre)


def _both(X: Array, Y: Array, alpha: float, centre: bool) -> Iterator[System]:
    system = Rows(X, Y, alpha, centre)
    if BAD * system.spectrum[0] > system.spectrum[1]:
        yield system
        return
    with np.errstate(all="ignore"):
        system.turn()
    yield system
    # Where more columns than rows outweigh the penalty, their system is singular.
    n, d = X.shape
    with np.errstate(all="ignore"):
        shares = np.ldexp(math.sqrt(alpha), -system.frame.exponents) / system.scales
    if np.partition(shares, n)[n] ** 2 > d * ROUNDING:
        yield Columns(X, Y, alpha, centre)


def _scales(lengths: Array, alpha: float, units: Whole) -> Array:
    """The lengths of columns with the penalty added; 1 where both are 0."""
    with np.errstate(over="ignore"):  # a column that small has the coefficient 0
        found = np.hypot(lengths, np.ldexp(math.sqrt(alpha), -units))
    found[found == 0] = 1.0
    return np.asarray(found)


def _scaled(S: Array, scales: Array) -> Array:
    """S with ones on its diagonal, in its place."""
    S /= scales
    S /= scales[:, None]
    np.fill_diagonal(S, 1.0)
    return S
