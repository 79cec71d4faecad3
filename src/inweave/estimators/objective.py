"""What logistic regression minimises, with the true sigmoid: slopes, curvature, distance.

Here is what `fit` works out beside the network: where to start, the inverse curvatures that stand
in the prompt, and how far from the solution the network ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dgeqrf, dorgqr

from inweave.estimators.base import Array, norm, relative
from inweave.estimators.moments import (
    PIECE,
    ROUNDING,
    SMALL,
    bordered,
    column_means,
    column_squares,
    does_not_vary,
    inverse_of,
    pieces,
    slices,
    units_for,
)
from inweave.estimators.programs import sigmoid

AHEAD = 3  # steps of a look at where the solution may be
COLUMNS = 32  # so many of them make their products with each other take as long as a step
ROWS = 8  # for each column, that tell enough about how columns go together
TINY = float(np.finfo(np.float64).tiny)
FAR = 1e3  # spreads from zero, beyond which columns are centred
SEEN = 1e-4  # a decrease, beside the objective, that is worth a look whether it is one


class Point(NamedTuple):
    """What a look at all rows says of some w."""

    logits: Array
    gradient: Array
    objective: float


class Inverse(NamedTuple):
    """The inverse of a curvature, in which w and the level c + means·w do not meet."""

    P: Array
    p: float
    means: Array

    def step(self, gradient: Array) -> Array:
        """Newton's, for w and c."""
        by_w = self.P @ (gradient[:-1] - gradient[-1] * self.means)
        return np.append(by_w, self.p * gradient[-1] - self.means @ by_w)

    def shorter(self, part: float) -> Inverse:
        """The inverse of a curvature that is larger."""
        return Inverse(part * self.P, part * self.p, self.means)


class Curvature(NamedTuple):
    """The curvature at some w, by its inverse."""

    at: Array
    inverse: Inverse
    largest: float
    """No eigenvalue of the inverse is larger, for columns that are centred and scaled."""


@dataclass(frozen=True)
class Problem:
    """What is to be minimised, with the true sigmoid; w holds coefficients and the intercept."""

    X: Array
    y: Array
    penalty: float
    intercept: bool
    means: Array
    squares: Array
    """Of the centred columns, added up."""
    still: NDArray[np.bool_]
    """Columns that do not vary."""
    seen: dict[bytes, Point] = field(default_factory=dict, compare=False)
    """What was found out last about some w."""

    @classmethod
    def of(cls, X: Array, y: Array, penalty: float, intercept: bool) -> Problem:
        with np.errstate(all="ignore"):  # what overflows gets another unit
            means = column_means(X) if intercept else np.zeros(X.shape[1])
            squares = column_squares(X, means)
        still = does_not_vary(squares, means, len(y))
        small = squares < SMALL  # what there is may be beyond floats when squared
        still[small] = np.ptp(X[:, small], axis=0) == 0
        return cls(X, y, penalty, intercept, means, squares, still)

    def unit(self) -> int:
        """The power of two that the columns are to be measured in."""
        return int(units_for(self.X, self.squares, math.sqrt(self.penalty)).max())

    def turned(self) -> tuple[Problem, Array]:
        """The same in as many coordinates as there are rows, and these, one in a column.

        The solution is made of rows, so orthogonal coordinates in which to write the rows are
        enough, and change neither logits nor the penalty.
        """
        rows, n = self.X.copy(), len(self.y)
        rows[:, self.still] = 0.0
        found, tau, _, _ = dgeqrf(rows.T, lwork=64 * n, overwrite_a=1)
        turned = np.ascontiguousarray(np.triu(found[:n]).T)
        coordinates, _, _ = dorgqr(found, tau, lwork=64 * n, overwrite_a=1)
        coordinates[self.still] = 0.0
        return Problem.of(turned, self.y, self.penalty, self.intercept), np.asarray(coordinates)

    @property
    def far(self) -> NDArray[np.bool_]:
        """Columns whose means, beside how they vary, would take digits from the logits."""
        spreads = np.sqrt(self.squares / len(self.y))
        return np.asarray(np.abs(self.means) > FAR * spreads) & ~self.still

    def logits(self, w: Array) -> Array:
        return self._at(w).logits

    def gradient(self, w: Array) -> Array:
        return self._at(w).gradient

    def objective(self, w: Array) -> float:
        return self._at(w).objective

    def _at(self, w: Array) -> Point:
        """Two are kept, for they are asked for by turns: where a pass begins and where it ends."""
        key = w.tobytes()
        if key not in self.seen:
            if len(self.seen) > 1:
                del self.seen[next(iter(self.seen))]
            self.seen[key] = self._look(w)
        return self.seen[key]

    def _look(self, w: Array) -> Point:
        """Rows are multiplied twice while they are in the cache."""
        n, d = self.X.shape
        logits, gradient = np.empty(n), np.append(self.penalty * w[:-1], 0.0)
        for rows in slices(n, d, 2 * PIECE):
            x, z = self.X[rows], logits[rows]
            np.add(x @ w[:-1], w[-1], out=z)
            gradient += self.gathered(x, sigmoid(z) - self.y[rows])
        wrong = np.negative(logits, out=logits.copy(), where=self.y > 0)
        losses = float(np.logaddexp(0.0, wrong, out=wrong).sum())
        return Point(logits, gradient, losses + self.penalty / 2 * norm(w[:-1]) ** 2)

    def gathered(self, x: Array, r: Array) -> Array:
        """Σ rᵢ (xᵢ, 1)."""
        return np.append(r @ x, r.sum() if self.intercept else 0.0)

    def size(self, w: Array) -> float:
        """The length of coefficients, of columns that are centred and scaled."""
        level = w[-1] + self.means @ w[:-1]
        return norm(self.scales * np.append(w[:-1], level))

    @cached_property
    def scales(self) -> Array:
        """Of columns that are centred, and of the level there."""
        columns = np.sqrt(self.squares / 4 + self.penalty)
        return np.append(columns, math.sqrt(len(self.y)) / 2)

    @cached_property
    def farthest(self) -> float:
        """The largest square of the length of a row, centred and scaled, with a one."""
        by, longest = 1 / np.maximum(self.scales[:-1] ** 2, TINY), 0.0
        for _, x in pieces(self.X, means=self.means):
            longest = max(longest, float((np.square(x, out=x) @ by).max()))
        return longest + 1 / float(self.scales[-1]) ** 2

    # -- where it is -----------------------------------------------------------------------------
    def distance(self, w: Array, curvature: Curvature, tol: float) -> float:
        """A bound of the distance from the solution, relative, by a curvature H at or near w.

        Newton's step s = Pg, P = H⁻¹, is that distance where the curvature is H all the way. If it
        is (1 ± ε)H, ε ≤ ½, at all points within 2λ of w (in the norm of H), with the decrement
        λ = √gᵀPg, then the solution is that near, and no farther from w − s than ελ/(1 − ε).
        """
        gradient = self.gradient(w)
        step = curvature.inverse.step(gradient)
        decrement = math.sqrt(max(float(gradient @ step), 0.0))
        near, size, found = self.size(step), self.size(w), math.inf
        for drift in self._drifts(w, curvature, 2 * decrement):
            if drift <= 0.5:
                more = drift / (1 - drift) * decrement * math.sqrt(curvature.largest)
                found = min(found, relative(near + more, size))
            if found <= tol or not relative(near, size) <= tol:  # which settles it
                break
        return found

    def _drifts(self, w: Array, curvature: Curvature, radius: float) -> Iterator[float]:
        """Bounds of ε within a radius of w, each of which takes more work than the one before.

        The logit of a row changes by δᵢ ≤ radius √hᵢ there, hᵢ = (xᵢ, 1)ᵀP(xᵢ, 1), after it has
        changed since H was taken, and its weight by a factor of exp δᵢ at most. First, hᵢ ≤ 1/ωᵢ
        for a row of weight ωᵢ, because it is a part of H itself. Second, hᵢ is at most the square
        of the longest row times the largest eigenvalue of P. Third, each row is looked at.
        """
        z, here = self.logits(curvature.at), curvature.at is w
        moved = np.zeros(1) if here else np.abs(self.logits(w) - z)
        yield _change((moved + 2 * radius * np.cosh(z / 2)).max())
        yield _change(moved.max() + radius * math.sqrt(curvature.largest * self.farthest))
        if here:
            h = self.leverages(curvature.inverse)
            off, by = np.abs(z), radius * np.sqrt(h)
            yield float(h @ (_weight(np.maximum(off - by, 0.0)) - _weight(off + by)))

    def leverages(self, inverse: Inverse) -> Array:
        """(xᵢ, 1)ᵀP(xᵢ, 1) for every row, P for coefficients and the intercept."""
        found = np.empty(len(self.y))
        for rows, x in pieces(self.X, means=inverse.means):
            found[rows] = ((x @ inverse.P) * x).sum(axis=1) + inverse.p
        return np.maximum(found, 0.0)

    def goes_down(self, w: Array, after: Array, shrinks: bool) -> bool:
        """Whether the objective is less; where rounding hides that, whether the step shrinks."""
        was, now = self.objective(w), self.objective(after)
        return now < was if abs(now - was) > 64 * ROUNDING * was else shrinks

    def share(self, curvature: Curvature) -> float:
        """The part of the Newton step from there that goes down, a power of two."""
        w, part = curvature.at, 1.0
        gradient, was = self.gradient(w), self.objective(w)
        step = curvature.inverse.step(gradient)
        slope = float(gradient @ step)
        if not slope > SEEN * was:
            return part
        while part > TINY and not self.objective(w - part * step) <= was - part * slope / 4:
            part /= 2
        return part

    def start(self, ahead: bool) -> tuple[Array, Inverse]:
        """Where to start, and the inverse of a curvature.

        Zero and the largest curvature; or where the solution is expected ahead, and the curvature
        that is expected there. If steps would be longer there, it is not the way.
        """
        products, held = self._products(ahead)
        inverse = self.inverse(products / (4 * held), self.means)
        if ahead:
            step = inverse.step(self.gathered(self.X, 0.5 - self.y))
            there, known = self._ahead(-step)
            if self.size(inverse.step(self.gradient(there))) < self.size(step):
                del inverse  # of the size of what follows
                expected = self._expected(there, known, products)
                expected /= held
                return there, self.inverse(expected, self.means)
        return np.zeros(len(self.means) + 1), inverse

    def _products(self, ahead: bool) -> tuple[Array, float]:
        """Products of centred columns and a column of ones; how much of a step they are good for.

        Where a step is only to lead near enough for the curvature there, and columns are many, m of
        the n rows say how columns go together. What chance alone makes of m rows, whose squared
        correlations it raises by 1/m − 1/n, is taken off by the share that it has in them (Ledoit
        and Wolf 2004, Schäfer and Strimmer 2005); the lengths of columns are known.

        The inverse of products of m normal rows, times those of all, has eigenvalues between
        1/(1 + √r)² and 1/(1 − √r)² with r = d (1/m − 1/n) (Marchenko and Pastur 1967); twice the
        inverse of their sum is the step that suits them all.
        """
        n, d = self.X.shape
        rows = self.X[:: max(1, min(d // COLUMNS, n // (ROWS * d))) if ahead else 1]
        products, chance = bordered(rows, self.means), 1 / len(rows) - 1 / n
        by = 1 / np.sqrt(np.maximum(products.diagonal(), TINY))
        products *= by
        products *= by[:, None]
        kept = 1 - min(1.0, chance * d**2 / max(norm(products.ravel("K")) ** 2 - d, 1.0))
        lengths = np.append(self.squares, n)
        by = np.sqrt(kept * lengths)
        products *= by
        products *= by[:, None]
        np.fill_diagonal(products, lengths)
        r = kept**2 * d * chance
        return products, (1 - r) ** 2 / (1 + r)

    def _ahead(self, w: Array) -> tuple[Array, Array]:
        """The solution in the direction of w, with any intercept, and the columns of its logits.

        It is found by Newton's method, which sees these columns and no rows.
        """
        level, stiffness = w[-1] + self.means @ w[:-1], self.penalty * norm(w[:-1]) ** 2
        free = 2 if self.intercept else 1
        along = self.X @ w[:-1] + (w[-1] - level)
        Z = np.column_stack([along, np.ones(len(self.y))])[:, :free]
        at = np.array([1.0, level])
        for _ in range(AHEAD):
            p = sigmoid(Z @ at[:free])
            slope, bend = Z.T @ (p - self.y), (Z.T * (p * (1 - p))) @ Z
            slope[0] += stiffness * at[0]
            bend[0, 0] += stiffness
            if not np.isfinite(bend).all():
                break
            at[:free] -= np.linalg.lstsq(bend, slope)[0]
        Z[:, 0] *= at[0]
        return np.append(at[0] * w[:-1], at[1] - at[0] * (self.means @ w[:-1])), Z

    def _expected(self, w: Array, Z: Array, products: Array) -> Array:
        """The curvature at w, as it is along w and the intercept and its mean elsewhere.

        So it is for rows spread alike in every direction, as those of a normal distribution are in
        some coordinates. Whatever the rows are, it is positive definite.
        """
        weights = _weight(self.logits(w))
        mean, squares = weights.mean(), np.einsum("ij,ij->j", Z, Z)
        more = (Z.T * weights) @ Z - np.diag(mean * squares)
        images = np.column_stack([products[:, :-1] @ w[:-1], products[:, -1]])
        images = images[:, : len(squares)] / np.maximum(squares, TINY)
        products *= mean
        found = dgemm(1.0, images @ more, images, 1.0, products, trans_b=True, overwrite_c=True)
        return np.asarray(found)

    def curvature(self, w: Array) -> Curvature:
        """The curvature at w."""
        inverse = self.inverse(*self._weighted(w))
        return Curvature(w, inverse, self._largest(inverse))

    def _weighted(self, w: Array) -> tuple[Array, Array]:
        """Σ pᵢ(1 − pᵢ) (xᵢ − means, 1)(xᵢ − means, 1)ᵀ at w, and the means.

        Rows count by their weights there, for their means too: a row that is far out and certain
        has none, and must not take digits from those that have.
        """
        weights = _weight(self.logits(w))
        means, total = self.means, weights.sum()
        if self.intercept and total > 0:
            means = self.X.T @ (weights / total)
        return bordered(self.X, means, np.sqrt(weights, out=weights)), means

    def inverse(self, H: Array, means: Array) -> Inverse:
        """The inverse of a curvature and the penalty; H, of rows less the means, is overwritten.

        The level is taken out first, then the rest has its diagonal scaled to one. A step that is a
        little too short costs a step at most.
        """
        A, by_level, total = H[:-1, :-1], H[:-1, -1].copy(), float(H[-1, -1])
        if not self.intercept:
            total = 0.0
        elif total > 0:
            A -= np.outer(by_level, by_level / total)
            means = means + by_level / total
        np.fill_diagonal(A, A.diagonal() + self.penalty)
        scales = np.sqrt(A.diagonal())
        scales[scales == 0] = 1.0
        A /= scales
        A /= scales[:, None]
        A[self.still] = A[:, self.still] = 0.0
        P = inverse_of(A)
        P /= scales
        P /= scales[:, None]
        P[self.still] = P[:, self.still] = 0.0  # the penalty alone decides on them
        return Inverse(P, 1 / total if total > 0 else 0.0, means)

    def _largest(self, inverse: Inverse) -> float:
        """A bound of its eigenvalues, for columns that are centred and scaled.

        It is the trace, or the largest sum of absolute numbers in a row.
        """
        by, of_level = self.scales[:-1], float(self.scales[-1])
        off = self.means - inverse.means
        shared = inverse.P @ off
        level = inverse.p + float(off @ shared)
        trace = float(inverse.P.diagonal() @ by**2) + level * of_level**2
        rows = by * (np.abs(inverse.P) @ by + of_level * np.abs(shared))
        last = of_level * (float(by @ np.abs(shared)) + of_level * level)
        return min(trace, max(float(rows.max()), last))


def _weight(z: Array) -> Array:
    """p(1 − p) for a logit, of which nothing is lost where p is next to 1."""
    e = np.exp(-np.abs(z))
    return np.asarray(e / (1 + e) ** 2)


def _change(logit: float) -> float:
    """By how much of itself the weight of a row changes at most, with its logit."""
    return math.expm1(min(float(logit), 1.0))
