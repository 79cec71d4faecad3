"""The lasso as one forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import (
    ROUNDING,
    Array,
    InContextEstimator,
    Search,
    centred,
    extremes,
    means,
    norm,
)
from inweave.estimators.programs import lasso_descent


class InContextLasso(RegressorMixin, InContextEstimator):  # type: ignore[misc]
    """The lasso: argmin ‖y − Xw − b‖²/(2n) + α‖w‖₁, like `sklearn.linear_model.Lasso`.

    The network runs proximal gradient steps with momentum, a layer and a pointwise layer each;
    soft thresholding is exact in ReLUs.

    Parameters
    ----------
    alpha : the penalty; 0 is least squares, which needs linearly independent columns.
    steps : 'auto' doubles the number until the distance to the solution, estimated from the fixed
        point residual and the spectrum of the columns in use, is within tol (16384 at most, then a
        ConvergenceWarning). A number is taken as it is.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : centre rows and responses.

    Attributes
    ----------
    network_, prompt_, steps_ : what runs, on what, and for how long. coef_, intercept_ : read from
    the network by unit queries.
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
        """Make the prompt, find the number of steps and take the network for it."""
        self._check()
        alpha = self._number("alpha")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        self._means, self._level = means(X, self.fit_intercept), means(y, self.fit_intercept)
        X, y = centred(X, self._means), centred(y, self._level)
        squares = np.einsum("ij,ij->j", X, X)
        self._scales = np.sqrt(np.where(squares == 0, 1.0, squares))
        scaled = X / self._scales
        G, b = scaled.T @ scaled, scaled.T @ y
        used = squares > 0
        low, high = extremes(G[np.ix_(used, used)]) if used.any() else (1.0, 1.0)
        if alpha == 0 and low <= len(G) * ROUNDING * high:
            raise InputError(
                "alpha=0 leaves the solution open: columns are linearly dependent "
                f"({len(X)} rows, {len(G)} columns); take alpha > 0 or drop columns"
            )
        eta = 1 / high
        t = eta * len(X) * alpha / self._scales
        search = Search(low / high, self)
        while search.next():
            prompt = {"X": scaled, "y": y, "t": t, "eta": eta, "beta": search.momentum}
            self._use(lasso_descent, prompt, steps=search.steps)
            w = self._found()
            distance, curvature = _distance(G, b, t, eta, w)
            search.heard(distance, norm(w), curvature / high)
        self.coef_ = w / self._scales
        self.intercept_ = float(self._level + self._answers(-self._means / self._scales))
        return self

    def predict(self, X: Any) -> Array:
        """One forward pass for all rows."""
        return self._answers(self._queries(X)) + self._level


def _distance(G: Array, b: Array, t: Array, eta: float, w: Array) -> tuple[float, float]:
    """How far w is from the solution, and the least curvature in the columns that it uses.

    One more step shows which columns stay and with what sign. If it changes neither, the solution
    among those columns is that of a linear system, and its residual gives the distance; else
    2‖w − step‖/(ημ) bounds it, for curvature μ and η = 1/L.
    """
    z = w - eta * (G @ w - b)
    after = np.sign(z) * np.maximum(np.abs(z) - t, 0.0)
    used = (w != 0) | (after != 0)
    if not used.any():
        return 0.0, 1 / eta
    inner = G[np.ix_(used, used)]
    floor = len(G) * ROUNDING / eta
    curvature = max(extremes(inner)[0], floor)
    if curvature == floor or (np.sign(w) != np.sign(after)).any():
        return 2 * norm(w - after) / (eta * curvature), curvature
    residual = (b - G @ w)[used] - t[used] / eta * np.sign(w[used])
    return norm(np.linalg.solve(inner, residual)), curvature
