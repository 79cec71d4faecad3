"""Ridge regression as one forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import (
    ROUNDING,
    Array,
    InContextEstimator,
    centred,
    extremes,
    means,
    power_above,
    steps_for,
)
from inweave.estimators.programs import ridge_descent, ridge_elimination, ridge_tripling

SOLVERS = ("gradient", "depth", "closed_form")
MOST_STEPS = 1024  # of a gradient network chosen by itself; beyond, the depth network is used


class InContextRidge(MultiOutputMixin, RegressorMixin, InContextEstimator):  # type: ignore[misc]
    """Ridge regression: argmin ‖y − Xw − b‖² + α‖w‖², like `sklearn.linear_model.Ridge`.

    Parameters
    ----------
    alpha : the penalty; 0 is least squares, which needs linearly independent columns.
    solver : 'gradient' runs gradient descent, one layer per step. 'depth' runs the same descent in
        log₃(steps) layers, so a condition number of 10⁸ costs about twenty layers. 'closed_form'
        eliminates. If 'gradient' with automatic steps would need more than 1024 of them, the depth
        network is used; `solver_` says which.
    steps : how many steps of gradient descent; 'auto' takes what the condition number κ needs for
        ((κ − 1)/(κ + 1))^steps ≤ tol, rounded up to a power of two ('depth': of three) so that data
        of the same size share a network. `steps_` holds the number.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : centre rows and responses.

    Attributes
    ----------
    network_, prompt_ : what runs, and on what. coef_, intercept_ : read from the network by unit
    queries. condition_ : the condition number of the scaled system.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        solver: str = "gradient",
        steps: int | str = "auto",
        target: str = "elsa",
        tol: float = 1e-8,
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.solver = solver
        self.steps = steps
        self.target = target
        self.tol = tol
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any) -> InContextRidge:
        """Make the prompt and take the network for its size."""
        self._check(solver=SOLVERS)
        alpha = self._number("alpha")
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        self._means, self._level = means(X, self.fit_intercept), means(Y, self.fit_intercept)
        X, Y = centred(X, self._means), centred(Y, self._level)
        squares = np.einsum("ij,ij->j", X, X)
        # A column of zeros has the coefficient 0 under any penalty; with one the system is regular.
        penalty = np.where(squares == 0, 1.0, alpha)
        self._scales = np.sqrt(squares + penalty)
        scaled, R = X / self._scales, np.diag(penalty / self._scales**2)
        S = scaled.T @ scaled + R
        low, high = extremes(S)
        if low <= len(S) * ROUNDING * high:
            raise InputError(
                f"alpha={alpha:g} leaves the {len(S)} x {len(S)} system singular to working "
                f"precision ({len(X)} rows): columns are linearly dependent; take a larger alpha "
                "or drop columns"
            )
        self.condition_ = high / low
        self._multiple = np.ndim(y) == 2
        prompt = {"X": scaled, "y": Y.T[:, None, :] if self._multiple else Y[:, 0], "R": R}
        self._choose(prompt, low, high)
        w = self._found()
        self._report(_distance(S, scaled.T @ Y, np.atleast_2d(w).T))
        self.coef_ = w / self._scales
        at_zero = self._answers((-self._means / self._scales)[None, :])[..., 0]
        level = self._level + at_zero
        self.intercept_ = level if self._multiple else float(level[0])
        return self

    def _choose(self, prompt: dict[str, Any], low: float, high: float) -> None:
        """The network for the spectrum [low, high]."""
        needed = steps_for((high - low) / (high + low), self.tol)
        self.solver_ = self.solver
        if self.solver == "closed_form":
            if self.steps != "auto":
                raise InputError("solver='closed_form' takes no steps; leave steps='auto'")
            self.steps_ = len(prompt["R"])
            decade = float(10.0 ** np.floor(np.log10(low * 0.99)))
            self._use(ridge_elimination, prompt, low=min(decade, 0.1))
            return
        prompt["eta"] = 2 / (low + high)
        if self.steps == "auto" and needed > MOST_STEPS:
            self.solver_ = "depth"
        steps = needed if self.steps == "auto" else int(self.steps)
        if self.solver_ == "depth":
            levels = max(1, power_above(3, steps))
            self.steps_ = 3**levels
            self._use(ridge_tripling, prompt, levels=levels)
            return
        self.steps_ = 2 ** power_above(2, steps) if self.steps == "auto" else steps
        self._use(ridge_descent, prompt, steps=self.steps_)

    def predict(self, X: Any) -> Array:
        """One forward pass for all rows."""
        answers = self._answers(self._queries(X))
        return answers.T + self._level if self._multiple else answers + self._level[0]


def _distance(S: Array, b: Array, w: Array) -> float:
    """‖w − S⁻¹b‖/‖w‖, the worst of all responses, from the residual of what the network found."""
    size = np.linalg.norm(w, axis=0)
    distance = np.linalg.norm(np.linalg.solve(S, b - S @ w), axis=0)
    return float(np.max(np.divide(distance, size, out=distance, where=size > 0)))
