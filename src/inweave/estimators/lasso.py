"""The lasso by forward passes.

Of many columns the solution uses few, no more than there are rows. So the network has those columns
in its prompt that go with the response most, and what the others have in common with the residual
is looked at after a pass: as long as that is more than the penalty allows, columns that are not in
use give way. Their number is a power of two, so that data of many sizes share a network. Columns
that do not settle within a share of the steps are looked at all the same, and then there are twice
as many: in the end all of them.

Where a step leaves the signs as they are, the solution among the columns in use is that of a linear
system. So after a pass of plain steps there is one with the inverse P of the curvature among these
columns in the prompt, which multiplies its steps, and it is taken if it goes down.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dpstrf
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import (
    Array,
    InContextEstimator,
    extremes,
    norm,
    power_above,
    relative,
)
from inweave.estimators.moments import (
    LARGE,
    ROUNDING,
    SMALL,
    Whole,
    column_means,
    column_squares,
    does_not_vary,
    mirrored,
    moments,
    pieces,
    units_of,
)
from inweave.estimators.programs import lasso_descent

STEPS = 64  # of a pass
MOST_STEPS = 16384  # of all of them
SHARE = 16 * STEPS  # after which columns that do not settle are looked at beside the others
EARLY = 2 * STEPS  # steps, at which columns are exchanged as soon as there is a reason
FARTHEST = 1e100  # a threshold that nothing reaches
FEW, MANY = 32, 128  # columns that are not worth a choice, and that are whatever the rows
SPARE = 16  # columns in the prompt, beside those that may be in use
GATHERED = 8  # roundings that a product of a column and a residual is off by


class InContextLasso(RegressorMixin, InContextEstimator):  # type: ignore[misc]
    """The lasso: argmin ‖y − Xw − b‖²/(2n) + α‖w‖₁, like `sklearn.linear_model.Lasso`.

    The network runs proximal gradient steps with momentum, a layer and a pointwise layer each;
    soft thresholding is exact in ReLUs.

    Parameters
    ----------
    alpha : the penalty; 0 is least squares, which needs linearly independent columns.
    steps : 'auto' runs passes of 64 steps, each from where the one before ended, until the
        distance to the solution, from the residual among the columns in use, is within tol (16384
        steps at most). A number is taken as it is, in one pass over all columns. A distance above
        tol is a ConvergenceWarning.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : centre rows and responses.

    Attributes
    ----------
    network_, prompt_ : what runs, and on what, in the last pass. columns_ : which columns that was
    about. steps_ : how many steps were run in all. coef_, intercept_ : read from the network by
    unit queries.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        steps: int | str = "auto",
        target: str = "elsa",
        tol: float = 1e-8,
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.steps = steps
        self.target = target
        self.tol = tol
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any) -> InContextLasso:
        """Gather moments of columns, and run passes over them until the solution is near."""
        self._check()
        alpha = self._number("alpha")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        w, self.steps_, others = np.zeros(X.shape[1]), 0, None
        if self.steps == "auto" and alpha > 0 and len(w) > max(FEW, min(len(X), MANY)):
            others = Others(X, y, len(X) * alpha, self.fit_intercept)
        columns = others.first() if others else np.arange(len(w))
        distance, done = math.inf, False
        while not done:
            part, begun, whole = (
                Part(X, y, alpha, self.fit_intercept, columns),
                self.steps_,
                columns,
            )
            found, v = self._first(part, w[columns] * part.scales)
            # A look after one pass is enough at first; later it might go around in circles.
            settle = self.steps_ > EARLY
            while columns is whole and not done:
                if settle:
                    found, v, distance = self._settled(part, found, v, begun)
                w[columns], level = part.coefficients(found)
                if others:
                    unsettled = settle and not distance <= self.tol
                    columns = others.instead(columns, w, settle, self._least(columns, unsettled))
                done = self.steps_ >= MOST_STEPS
                done |= settle and columns is whole and (not others or distance <= self.tol)
                settle = True
        self._report(distance if columns is whole else math.inf)
        self.columns_ = whole
        self._found(w, level)
        return self

    def _first(self, part: Part, w: Array) -> tuple[Array, Array]:
        """Where a pass from w leads, with its momentum."""
        steps = STEPS if self.steps == "auto" else int(self.steps)
        return self._run(part.steps, w, w, _momentum(part.ratio, self.tol, steps), steps)

    def _least(self, columns: Whole, unsettled: bool) -> int:
        """How many columns take the place of these, at least: in the end there are all of them."""
        if 2 * self.steps_ >= MOST_STEPS:
            return self.n_features_in_
        return 2 * len(columns) if unsettled else len(columns)

    def _settled(self, part: Part, w: Array, v: Array, begun: int) -> tuple[Array, Array, float]:
        """w of the last of the passes that follow, its momentum, and distance from the solution.

        Some of the columns get a share of the steps before the others are looked at.
        """
        again, last, face = 0, math.inf, Face(part, w)
        most = MOST_STEPS if len(w) == self.n_features_in_ else self.steps_ + SHARE
        most = min(most, MOST_STEPS)
        while self.steps == "auto" and face.distance > self.tol and self.steps_ < most:
            multiplied = face.multiplied() if self.steps_ >= again else None
            if multiplied is not None:
                there = Face(part, self._run(multiplied, face.w, face.w, 0.0, STEPS)[0])
                if there.distance <= self.tol or there.objective < face.objective:
                    face = there
                    v = face.w
                    continue
            again = max(again, 2 * self.steps_ - begun)  # what does not help is tried less and less
            if face.distance > last:  # it goes around the solution
                v = face.w
            last = face.distance
            beta = _momentum(face.curvature, self.tol, self.steps_ + STEPS - begun)
            w, v = self._run(part.steps, face.w, v, beta, STEPS)
            face = Face(part, w)
        return face.w, v, face.distance

    def _run(self, by: Steps, w: Array, v: Array, beta: float, steps: int) -> tuple[Array, Array]:
        """Where a pass leads."""
        self.steps_ += steps
        prompt = {"S": by.S, "b": by.b, "P": by.P, "t": by.t, "w": w, "v": v, "beta": beta}
        w, v = self._pass(lasso_descent, prompt, d=len(w), steps=steps)
        return np.asarray(w), np.asarray(v)


def _momentum(ratio: float, tol: float, steps: int) -> float:
    """β = (1 − q)/(1 + q): with q = √(μ/L) it shrinks the error by about 1 − q a step (Nesterov).

    The curvature μ is known at the solution only, and early on may be that of directions which the
    solution does not use: so q is no less than what suits the steps so far.
    """
    q = max(math.sqrt(max(ratio, 0.0)), min(1.0, math.log(1 / tol) / steps))
    return (1 - q) / (1 + q)


class Others:
    """All columns, in the prompt or not, by what they have in common with a residual."""

    def __init__(self, X: Array, y: Array, allowed: float, centre: bool) -> None:
        self.X, self.allowed = X, allowed
        self.y = y - y.mean() if centre else y
        with np.errstate(all="ignore"):
            self.means = column_means(X) if centre else np.zeros(X.shape[1])
            squares = column_squares(X, self.means)
            squares[does_not_vary(squares, self.means, len(X))] = 0.0
        self.lengths = np.sqrt(squares)
        ordinary = (squares == 0) | ((squares > SMALL) & (squares < LARGE))
        self.ordinary = bool(ordinary.all()) and not units_of(y[:, None]).any()
        """Whether all of this could be squared."""

    def first(self) -> Whole:
        """Those with the most, as many as may be in use."""
        if not self.ordinary:
            return np.arange(len(self.lengths))
        shares = self._shares(self.y)
        return self._most(shares, min(len(self.y), int(np.count_nonzero(shares > self.allowed))))

    def instead(self, columns: Whole, w: Array, grow: bool, least: int) -> Whole:
        """The same columns, or those in use and others that have more than the penalty allows."""
        used = columns[w[columns] != 0]
        if len(columns) == len(w) or not (grow or len(used) + SPARE <= len(columns)):
            return columns
        shares = self._shares(self.y - (self.X[:, used] - self.means[used]) @ w[used])
        off = GATHERED * ROUNDING * self.lengths * norm(self.y)
        over = shares > self.allowed + off
        over[columns] = False
        if not over.any():
            return columns
        shares[used] = np.inf
        return self._most(shares, len(used), least)

    def _most(self, shares: Array, least: int, before: int = 0) -> Whole:
        """The columns most above what is allowed, for their length: 2^k of them, or all."""
        size = max(FEW, before, 2 ** power_above(2, least + SPARE))
        if 4 * size > 3 * len(shares):
            return np.arange(len(shares))
        above = np.full(len(shares), -np.inf)
        np.divide(shares - self.allowed, self.lengths, out=above, where=self.lengths > 0)
        return np.sort(np.argpartition(above, len(above) - size)[-size:])

    def _shares(self, r: Array) -> Array:
        found = np.zeros(len(self.means))
        for rows, x in pieces(self.X, means=self.means):
            found += r[rows] @ x
        found[self.lengths == 0] = 0.0
        return np.abs(found)


class Steps(NamedTuple):
    """What stands in the prompt beside the start."""

    S: Array
    b: Array
    P: Array
    t: Array


class Part:
    """What is to be minimised for some of the columns: ½ wᵀSw − bᵀw + Σ tᵢ|wᵢ|, ‖S‖ = 1."""

    def __init__(self, X: Array, y: Array, alpha: float, centre: bool, columns: Whole) -> None:
        n, whole = len(X), len(columns) == X.shape[1]
        found = self._frame = moments(X if whole else X[:, columns], y[:, None], centre)
        squares = found.products.diagonal()
        self.scales = np.sqrt(np.where(squares == 0, 1.0, squares))
        self.S, self.b = found.products, found.shares[:, 0] / self.scales
        self.S /= self.scales
        self.S /= self.scales[:, None]
        used = squares > 0
        low, high = extremes(self.S[np.ix_(used, used)]) if used.any() else (1.0, 1.0)
        if alpha == 0 and low <= len(self.S) * ROUNDING * high:
            raise InputError(
                "alpha=0 leaves the solution open: columns are linearly dependent "
                f"({n} rows, {len(self.S)} columns); take alpha > 0 or drop columns"
            )
        with np.errstate(over="ignore"):
            t = np.ldexp(n * alpha / self.scales, -found.exponents - found.answers) / high
        self.t = np.minimum(t, FARTHEST)
        self.S /= high
        self.b /= high
        self.steps = Steps(self.S, self.b, np.eye(len(self.S)), self.t)
        self.size = float(found.sizes[0]) / high
        """Of the responses: no share is larger."""
        self.ratio = low / high
        """Of the least curvature to the largest."""

    def coefficients(self, w: Array) -> tuple[Array, float]:
        """Coefficients and the intercept outside scales."""
        coefficients, intercepts = self._frame.coefficients(w[:, None], self.scales)
        return coefficients[:, 0], float(intercepts[0])


class Face:
    """What one more step shows at w: which columns are in use, with what sign, and how far it is.

    If the step changes neither, the solution among those columns is that of a linear system, and
    its residual gives the distance; else 2‖w − step‖/μ bounds it, for curvature between μ and 1.
    """

    def __init__(self, part: Part, w: Array) -> None:
        self.part, self.w = part, w
        slope = part.S @ w - part.b
        z = w - slope
        # A column that stands beside one like it in use comes to the penalty, to rounding.
        off = GATHERED * ROUNDING * (part.size + np.abs(part.S) @ np.abs(w))
        after = np.sign(z) * np.maximum(np.abs(z) - part.t - np.where(w == 0, off, 0.0), 0.0)
        self.objective = float(w @ (slope - part.b) / 2 + part.t @ np.abs(w))
        self._used, self._sign = after != 0, np.sign(after)
        self._stays = np.array_equal(np.sign(w), self._sign)
        self._slope, self._step = slope, norm(w - after)

    @cached_property
    def _factor(self) -> Array | None:
        """Of the curvature among the columns in use, if it is regular."""
        return self._regular(np.flatnonzero(self._used))

    def _regular(self, used: Whole) -> Array | None:
        if not len(used):
            return None
        factor, failed = dpotrf(self.part.S[np.ix_(used, used)])
        least = factor.diagonal().min()
        return None if failed or not least**2 > self._floor else factor

    def _independent(self, used: Whole) -> Whole:
        """Which of these columns make up for all of them."""
        if self._regular(used) is not None:
            return np.arange(len(used))
        _, order, rank, _ = dpstrf(self.part.S[np.ix_(used, used)], tol=4 * self._floor)
        return np.asarray(np.sort(order[:rank] - 1))

    @property
    def _floor(self) -> float:
        return len(self.w) * ROUNDING

    @cached_property
    def curvature(self) -> float:
        """The least, among columns that were or are in use."""
        used = self._used | (self.w != 0)
        inner = self.part.S[np.ix_(used, used)]
        return max(extremes(inner)[0], self._floor) if used.any() else 1.0

    @cached_property
    def distance(self) -> float:
        if not np.isfinite(self._step):
            return math.inf
        if not self._stays or self._factor is None:
            return relative(2 * self._step / self.curvature, norm(self.w))
        used = self._used
        residual = self._slope[used] + self.part.t[used] * self._sign[used]
        return relative(norm(dpotrs(self._factor, residual)[0]), norm(self.w))

    def multiplied(self) -> Steps | None:
        """Steps multiplied by the inverse of the curvature among the columns in use.

        The others stay at zero, and what is at rest is the solution among these, if it has their
        signs. So columns that come to zero on the way to it are left out before, one after the
        other; there is such a way down also where the curvature is singular. Where none does, as
        among columns that are alike, those that the others make up for are left out.
        """
        S, b, t = self.part.S, self.part.b, self.part.t
        used, raised = np.flatnonzero(self._used), self._floor
        x = np.where(np.sign(self.w) == self._sign, self.w, 0.0)[used]
        while len(used) and raised < 1:
            inner, sign = S[np.ix_(used, used)], self._sign[used]
            np.fill_diagonal(inner, inner.diagonal() + raised)
            factor, failed = dpotrf(inner)
            if failed:
                raised *= 16
                continue
            to = dpotrs(factor, b[used] - t[used] * sign)[0]
            wrong = to * sign <= 0
            if not wrong.any():
                free = self._independent(used)
                if len(free) == len(used):
                    break
                x, used = x[free], used[free]
                continue
            part = np.full(len(used), np.inf)
            part[wrong] = x[wrong] / (x[wrong] - to[wrong])
            x = (x + part.min() * (to - x))[part > part.min()]
            used = used[part > part.min()]
        factor = self._regular(used)
        if factor is None:
            return None
        P, thresholds = np.zeros_like(S), np.full(len(t), FARTHEST)
        P[np.ix_(used, used)] = mirrored(dpotri(factor, overwrite_c=True)[0])
        thresholds[used] = 0.0
        return Steps(S, b - t * self._sign, P, thresholds)
