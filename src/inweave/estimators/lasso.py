"""The lasso by forward passes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import Array, InContextEstimator, extremes, norm, relative
from inweave.estimators.moments import ROUNDING, moments
from inweave.estimators.programs import lasso_descent

STEPS = 128  # of a pass
MOST_STEPS = 16384  # of all of them
FARTHEST = 1e100  # a threshold that nothing reaches


class InContextLasso(RegressorMixin, InContextEstimator):  # type: ignore[misc]
    """The lasso: argmin ‖y − Xw − b‖²/(2n) + α‖w‖₁, like `sklearn.linear_model.Lasso`.

    The network runs proximal gradient steps with momentum, a layer and a pointwise layer each;
    soft thresholding is exact in ReLUs.

    Parameters
    ----------
    alpha : the penalty; 0 is least squares, which needs linearly independent columns.
    steps : 'auto' runs passes of 128 steps, each from where the one before ended, until the
        distance to the solution, estimated from the fixed point residual and the spectrum of the
        columns in use, is within tol (16384 steps at most). A number is taken as it is, in one
        pass. A distance above tol is a ConvergenceWarning.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : centre rows and responses.

    Attributes
    ----------
    network_, prompt_ : what runs, and on what, in the last pass. steps_ : how many steps were run
    in all. coef_, intercept_ : read from the network by unit queries.
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
        """Gather moments, and run passes over them until the solution is near."""
        self._check()
        alpha = self._number("alpha")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)[:, None]
        found = moments(X, y, self.fit_intercept)
        squares = found.products.diagonal()
        scales = np.sqrt(np.where(squares == 0, 1.0, squares))
        G, b = found.products / np.outer(scales, scales), found.shares[:, 0] / scales
        used = squares > 0
        low, high = extremes(G[np.ix_(used, used)]) if used.any() else (1.0, 1.0)
        if alpha == 0 and low <= len(G) * ROUNDING * high:
            raise InputError(
                "alpha=0 leaves the solution open: columns are linearly dependent "
                f"({len(X)} rows, {len(G)} columns); take alpha > 0 or drop columns"
            )
        with np.errstate(over="ignore"):
            t = np.ldexp(len(X) * alpha / scales, -found.exponents - found.answers) / high
        w = self._passes(G / high, b / high, np.minimum(t, FARTHEST), low / high)
        coefficients, intercepts = found.coefficients(w[:, None], scales)
        self._found(coefficients[:, 0], float(intercepts[0]))
        return self

    def _passes(self, S: Array, b: Array, t: Array, ratio: float) -> Array:
        """w of the last pass; `ratio` is that of the least to the largest curvature, as known."""
        w = v = np.zeros(len(S))
        fixed = self.steps != "auto"
        steps, self.steps_, last = int(self.steps) if fixed else STEPS, 0, math.inf
        check = Distance(S, b, t)
        while True:
            self.steps_ += steps
            beta = _momentum(ratio, self.tol, self.steps_)
            prompt = {"S": S, "b": b, "t": t, "w": w, "v": v, "beta": beta}
            w, v = map(np.asarray, self._pass(lasso_descent, prompt, d=len(S), steps=steps))
            distance, ratio = check(w)
            distance = relative(distance, norm(w))
            if fixed or distance <= self.tol or self.steps_ >= MOST_STEPS:
                self._report(distance)
                return w
            if distance > last:  # it goes around the solution
                v = w
            last = distance

    def predict(self, X: Any) -> Array:
        """uᵀw for every row u, and the intercept."""
        return self._linear(X)


def _momentum(ratio: float, tol: float, steps: int) -> float:
    """β = (1 − q)/(1 + q): with q = √(μ/L) it shrinks the error by about 1 − q a step (Nesterov).

    The curvature μ is known at the solution only, and early on may be that of directions which the
    solution does not use: so q is no less than what suits the steps so far.
    """
    q = max(math.sqrt(max(ratio, 0.0)), min(1.0, math.log(1 / tol) / steps))
    return (1 - q) / (1 + q)


class Distance:
    """How far w is from the solution, and the least curvature in the columns that it uses.

    One more step shows which columns stay and with what sign. If it changes neither, the solution
    among those columns is that of a linear system, and its residual gives the distance; else
    2‖w − step‖/μ bounds it, for curvature between μ and 1.
    """

    def __init__(self, S: Array, b: Array, t: Array) -> None:
        self.S, self.b, self.t = S, b, t
        self._seen: tuple[bytes, float] = (b"", 1.0)  # columns in use, and their curvature

    def __call__(self, w: Array) -> tuple[float, float]:
        slope = self.S @ w - self.b
        z = w - slope
        after = np.sign(z) * np.maximum(np.abs(z) - self.t, 0.0)
        used = (w != 0) | (after != 0)
        if not used.any():
            return 0.0, 1.0
        inner = self.S[np.ix_(used, used)]
        floor = len(self.S) * ROUNDING
        if self._seen[0] != used.tobytes():
            self._seen = used.tobytes(), max(extremes(inner)[0], floor)
        curvature = self._seen[1]
        if curvature == floor or (np.sign(w) != np.sign(after)).any():
            return 2 * norm(w - after) / curvature, curvature
        residual = -slope[used] - self.t[used] * np.sign(w[used])
        return norm(np.linalg.solve(inner, residual)), curvature
