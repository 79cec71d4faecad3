"""Ridge regression by one forward pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import (
    Array,
    InContextEstimator,
    power_above,
    steps_for,
)
from inweave.estimators.moments import ROUNDING
from inweave.estimators.programs import ridge_descent, ridge_elimination, ridge_tripling
from inweave.estimators.systems import System, smaller

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
    network_, prompt_ : what runs, and on what: the system Sw = b of the scaled columns, or that of
    the rows (or combinations of them) where these are fewer. coef_, intercept_ : read from the
    network by unit queries (and multiplied by the rows). condition_ : the condition number of S.
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
        """Gather moments, take the network for their size, and run it once."""
        self._check(solver=SOLVERS)
        alpha = self._number("alpha")
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        kept, systems = smaller(X, Y, alpha, self.fit_intercept)
        several, best, distance = np.ndim(y) == 2, None, math.inf
        for system in systems:
            low, high = system.spectrum
            if not low > len(system.S) * ROUNDING * high:
                continue
            there, w = self._answer(system, several)
            if best is None or there < distance:
                best, distance = system, there
            if distance <= self.tol or self.steps != "auto":
                break
        if best is None:
            raise InputError(
                f"alpha={alpha:g} leaves the {len(system.S)} x {len(system.S)} system singular to "
                f"working precision ({len(X)} rows): {system.of} are linearly dependent; take a "
                f"larger alpha or drop {system.of}"
            )
        if best is not system:  # it is what attributes tell of
            system = best
            distance, w = self._answer(system, several)
        self._report(distance)
        coefficients = np.zeros((X.shape[1], Y.shape[1]))
        coefficients[kept], intercepts = system.frame.coefficients(w, system.scales)
        if several:
            self._found(coefficients.T, intercepts)
        else:
            self._found(coefficients[:, 0], float(intercepts[0]))
        return self

    def _answer(self, system: System, several: bool) -> tuple[float, Array]:
        """Coefficients of scaled columns, and their distance from the solution."""
        S, b = system.S, system.b
        low, high = system.spectrum
        self.condition_ = high / low
        needed = steps_for((high - low) / (high + low), self.tol * system.grade())
        distance = math.inf
        while True:
            v = self._solved(S, b.T[:, None, :] if several else b[:, 0], low, high, needed)
            v = np.atleast_2d(v).T
            with np.errstate(all="ignore"):  # what is beyond floats is far
                w = system.images(v)
                last, distance = distance, system.distance(v, w, self.tol)
            # What is near for the rows may not be for columns that have little part in them.
            exact = self.steps != "auto" or self.solver_ == "closed_form" or system.of == "columns"
            if exact or distance <= self.tol or not distance < last / 2:
                return distance, w
            needed = 2 * self.steps_

    def _solved(self, S: Array, b: Array, low: float, high: float, needed: int) -> Array:
        """What the network for the spectrum [low, high] makes of a system."""
        prompt, d = {"S": S, "b": b}, len(S)
        self.solver_ = self.solver
        if self.solver == "closed_form":
            if self.steps != "auto":
                raise InputError("solver='closed_form' takes no steps; leave steps='auto'")
            self.steps_ = d
            decade = float(10.0 ** np.floor(np.log10(low * 0.99)))
            return np.asarray(self._pass(ridge_elimination, prompt, d=d, low=min(decade, 0.1)))
        eta = 2 / (low + high)
        if self.steps == "auto" and needed > MOST_STEPS:
            self.solver_ = "depth"
        steps = needed if self.steps == "auto" else int(self.steps)
        if self.solver_ == "depth":
            levels = max(1, power_above(3, steps))
            self.steps_ = 3**levels
            return np.asarray(self._pass(ridge_tripling, prompt | {"eta": eta}, d=d, levels=levels))
        self.steps_ = 2 ** power_above(2, steps) if self.steps == "auto" else steps
        return np.asarray(self._pass(ridge_descent, prompt | {"eta": eta}, d=d, steps=self.steps_))
