"""What logistic regression minimises, with the true sigmoid: slopes, curvature, distance.

Here is what `fit` works out beside the network: where to start, the inverse curvatures that stand
in the prompt, and how far from the solution the network ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm

from inweave.estimators.base import Array, norm, relative
from inweave.estimators.moments import (
    ROUNDING,
    SMALL,
    bordered,
    column_means,
    does_not_vary,
    pieces,
    slices,
    units_for,
)
from inweave.estimators.programs import sigmoid

AHEAD = 3  # steps of a look at where the solution may be
TINY = float(np.finfo(np.float64).tiny)
FAR = 1e3  # spreads from zero, beyond which columns are centred
SEEN = 1e-6  # a decrease, beside the objective, that rounding does not hide


class Point(NamedTuple):
    """What a look at all rows says of some w."""

    gradient: Array
    objective: float


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
    def of(cls, X: Array, y: Array, penalty: float, intercept: bool) -> tuple[Problem, Array]:
        """Beside it, the products of centred columns and a column of ones."""
        with np.errstate(all="ignore"):  # what overflows gets another unit
            means = column_means(X) if intercept else np.zeros(X.shape[1])
            products = bordered(X, means)
        squares = products.diagonal()[:-1].copy()
        still = does_not_vary(squares, means, len(y))
        small = squares < SMALL  # what there is may be beyond floats when squared
        still[small] = np.ptp(X[:, small], axis=0) == 0
        return cls(X, y, penalty, intercept, means, squares, still), products

    def unit(self) -> int:
        """The power of two that the columns are to be measured in."""
        return int(units_for(self.X, self.squares, math.sqrt(self.penalty)).max())

    @property
    def far(self) -> NDArray[np.bool_]:
        """Columns whose means, beside how they vary, would take digits from the logits."""
        spreads = np.sqrt(self.squares / len(self.y))
        return np.asarray(np.abs(self.means) > FAR * spreads) & ~self.still

    def logits(self, w: Array) -> Array:
        found = self.X @ w[:-1]
        found += w[-1]
        return np.asarray(found)

    def gradient(self, w: Array) -> Array:
        return self._at(w).gradient

    def objective(self, w: Array) -> float:
        return self._at(w).objective

    def _at(self, w: Array) -> Point:
        """Two are kept, for they are asked for by turns: where a pass begins and where it ends."""
        key = w.tobytes()
        if key not in self.seen:
            z = self.logits(w)
            gradient = self.gathered(sigmoid(z) - self.y)
            gradient[:-1] += self.penalty * w[:-1]
            np.negative(z, out=z, where=self.y > 0)
            losses = float(np.logaddexp(0.0, z, out=z).sum())
            if len(self.seen) > 1:
                del self.seen[next(iter(self.seen))]
            self.seen[key] = Point(gradient, losses + self.penalty / 2 * norm(w[:-1]) ** 2)
        return self.seen[key]

    def gathered(self, r: Array) -> Array:
        """Σ rᵢ (xᵢ, 1)."""
        return np.append(self.X.T @ r, r.sum() if self.intercept else 0.0)

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
        by = np.maximum(self.scales[:-1], TINY)
        longest = 0.0
        for _, x in pieces(self.X, means=self.means):
            x /= by
            longest = max(longest, float(np.einsum("ij,ij->i", x, x).max()))
        return longest + 1 / float(self.scales[-1]) ** 2

    # -- where it is -----------------------------------------------------------------------------
    def distance(self, w: Array, P: Array) -> float:
        """A bound of the distance from the solution, relative; P inverts the curvature H at w.

        Newton's step s = Pg is that distance where the curvature is H all the way. With the
        decrement λ = √gᵀPg, a point within 2λ of w (in the norm of H) has logits within
        δᵢ = 2λ√hᵢ of those at w, hᵢ = (xᵢ, 1)ᵀP(xᵢ, 1). If the curvature there is (1 ± ε)H with
        ε ≤ ½, then the solution is that near, and no farther from w − s than ελ/(1 − ε).

        The weight of a row changes by a factor of exp δᵢ at most, so ε = exp δ − 1 for the largest
        δᵢ; and hᵢ is at most the square of the longest row times the largest eigenvalue of P, both
        for columns that are centred and scaled, and that at most the largest sum in a row of |P|.
        Only where this says too little, each row is looked at.
        """
        step = P @ self.gradient(w)
        decrement = math.sqrt(max(float(self.gradient(w) @ step), 0.0))
        farthest, scaled = self.farthest, self._scaled(P)
        longest = math.sqrt(max(float(scaled.trace()), 0.0))
        most = float(np.abs(scaled, out=scaled).sum(axis=1).max()) * farthest
        near, size = self.size(step), self.size(w)
        drift = math.expm1(min(2 * decrement * math.sqrt(most), 1.0))
        if not (drift <= 0.5 and drift / (1 - drift) * decrement * longest <= near):
            drift = min(drift, self._drift(w, P, decrement))
        if not drift <= 0.5:
            return math.inf
        return relative(near + drift / (1 - drift) * decrement * longest, size)

    def _scaled(self, P: Array) -> Array:
        """P for columns that are centred and scaled."""
        found = P.copy()
        found[-1] += self.means @ P[:-1]
        found[:, -1] += found[:, :-1] @ self.means
        found *= self.scales
        found *= self.scales[:, None]
        return found

    def _drift(self, w: Array, P: Array, decrement: float) -> float:
        """ε as the sum of hᵢ times what the weight of a row may change."""
        h = self.leverages(P)
        off, by = np.abs(self.logits(w)), 2 * decrement * np.sqrt(h)
        return float(h @ (_weight(np.maximum(off - by, 0.0)) - _weight(off + by)))

    def leverages(self, P: Array) -> Array:
        """(xᵢ, 1)ᵀP(xᵢ, 1) for every row."""
        found, d = np.empty(len(self.y)), len(self.means)
        for rows in slices(len(self.y), d):
            x = self.X[rows]
            found[rows] = ((x @ P[:d, :d] + 2 * P[d, :d]) * x).sum(axis=1) + P[d, d]
        return np.maximum(found, 0.0)

    def goes_down(self, w: Array, after: Array, shrinks: bool) -> bool:
        """Whether the objective is less; where rounding hides that, whether the step shrinks."""
        was, now = self.objective(w), self.objective(after)
        return now < was if abs(now - was) > 64 * ROUNDING * was else shrinks

    def share(self, w: Array, P: Array) -> float:
        """The part of a Newton step that goes down, a power of two."""
        gradient = self.gradient(w)
        step, was, part = P @ gradient, self.objective(w), 1.0
        slope = float(gradient @ step)
        if not slope > SEEN * was:
            return part
        while part > TINY and not self.objective(w - part * step) <= was - part * slope / 4:
            part /= 2
        return part

    def start(self, products: Array, ahead: bool) -> tuple[Array, Array]:
        """Where to start, and the inverse of a curvature, which takes the place of the products.

        Zero and the largest curvature; or where the solution is expected ahead, and the curvature
        that is expected there. If steps would be longer there, it is not the way.
        """
        w, P = (
            np.zeros(len(self.means) + 1),
            self.inverse(self._penalised(products / 4), self.means),
        )
        if ahead:
            gradient = self.gradient(w)
            there, known = self._ahead(-P @ gradient)
            if self.size(P @ self.gradient(there)) < self.size(P @ gradient):
                del P
                return there, self.inverse(self._expected(there, known, products), self.means)
        return w, P

    def _ahead(self, w: Array) -> tuple[Array, Array]:
        """The solution in the direction of w, with any intercept, and the columns of its logits.

        It is found by Newton's method, which sees these columns and no rows.
        """
        level, stiffness = w[-1] + self.means @ w[:-1], self.penalty * norm(w[:-1]) ** 2
        free = 2 if self.intercept else 1
        Z = np.column_stack([self.logits(w) - level, np.ones(len(self.y))])[:, :free]
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
        return self._penalised(
            dgemm(1.0, images @ more, images, 1.0, products, trans_b=True, overwrite_c=True)
        )

    def inverse_at(self, w: Array) -> Array:
        """The inverse of the curvature Σ pᵢ(1 − pᵢ) (xᵢ, 1)(xᵢ, 1)ᵀ + R at w.

        Rows count by their weights there, for their means too: a row that is far out and certain
        has none, and must not take digits from those that have.
        """
        weights = _weight(self.logits(w))
        means, total = self.means, weights.sum()
        if self.intercept and total > 0:
            means = self.X.T @ (weights / total)
        return self.inverse(self._penalised(bordered(self.X, means, np.sqrt(weights))), means)

    def _penalised(self, H: Array) -> Array:
        columns = np.arange(len(self.means))
        H[columns, columns] += self.penalty
        return H

    def inverse(self, H: Array, means: Array) -> Array:
        """The inverse of a curvature, which is overwritten.

        It is that of rows less the means, for w and c + means·w, written out for w and c. Its
        diagonal is scaled to one, and raised by what rounding may have taken off: so it is regular.
        A step that is a little too short costs a step at most.
        """
        d = len(self.means)
        still = np.append(self.still, not self.intercept)
        H[still] = H[:, still] = 0.0
        scales = np.sqrt(H.diagonal())
        scales[scales == 0] = 1.0
        H /= scales
        H /= scales[:, None]
        np.fill_diagonal(H, 1 + 4 * len(H) * ROUNDING)
        P: Array = np.asarray(np.linalg.inv(H), dtype=np.float64)
        P /= scales
        P /= scales[:, None]
        P[still] = P[:, still] = 0.0  # the penalty alone decides on them, or nothing does
        P[d] -= means @ P[:d]
        P[:, d] -= P[:, :d] @ means
        return P


def _weight(z: Array) -> Array:
    """p(1 − p) for a logit, of which nothing is lost where p is next to 1."""
    e = np.exp(-np.abs(z))
    return np.asarray(e / (1 + e) ** 2)
