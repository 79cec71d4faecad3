"""What the estimators share: cached networks, the scaled prompt, and the queries.

Scaling. Gradient descent needs a number of steps in proportion to the condition number of the
system, and columns in different units make that number huge for no reason. So columns are divided
by the root of the diagonal of the Hessian: its diagonal becomes one, which is within a factor of
the number of columns of the best that any scaling can do (van der Sluis 1969). Queries are divided
the same way, which undoes it: uᵀw = (u/s)ᵀ(s w).

Intercept. Columns and responses are centred in `fit`, queries by the same means in `predict`.

Acceptance. Every fit ends with a check of what the network found: the distance to the solution is
estimated from the residual there, and a distance above `tol` is reported as a ConvergenceWarning.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from inweave.compiler.options import TARGETS
from inweave.errors import InputError
from inweave.exact.whole import is_whole
from inweave.language.program import Program
from inweave.network import Network, compile

Array = NDArray[np.float64]
Key = tuple[Program, str, str, tuple[tuple[str, Any], ...]]

FEWEST_STEPS, MOST_STEPS = 128, 16384  # of an accelerated method
ROUNDING = float(np.finfo(np.float64).eps)


@lru_cache(maxsize=128)
def compiled(key: Key) -> Network:
    """The certified network of a program at given sizes; the data do not matter to it."""
    program, target, optimize, sizes = key
    with np.errstate(all="ignore"):  # the float check may run an iteration that diverges
        return compile(program, target=target, optimize=optimize, **dict(sizes))


class InContextEstimator(BaseEstimator):  # type: ignore[misc]
    """A prompt and a network: subclasses say which, in `fit`."""

    network_: Network
    prompt_: dict[str, Any]
    coef_: Array
    n_features_in_: int

    # -- the network ------------------------------------------------------------------------------
    def _use(
        self,
        program: Program,
        prompt: Mapping[str, Any],
        optimize: str = "speed",
        **statics: Any,
    ) -> None:
        """Take the network of a program for the sizes of a prompt."""
        n, d = prompt["X"].shape
        sizes = {"n": n, "d": d, **statics}
        self._key: Key = (program, self.target, optimize, tuple(sorted(sizes.items())))
        self.network_ = compiled(self._key)
        self.prompt_ = dict(prompt)

    def _answers(self, queries: Array) -> Array:
        """uᵀw for every query u (rows, in scaled columns), in one forward pass."""
        return np.asarray(self.network_(**self.prompt_, u=queries))

    def _found(self) -> Array:
        """w, from unit queries."""
        return self._answers(np.eye(self.prompt_["X"].shape[1]))

    def _queries(self, X: Any) -> Array:
        """New rows, checked, centred and scaled as the training rows were."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((X - self._means) / self._scales)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("network_", None)  # its program is code: named, and compiled again
        if "_key" in state:
            state["_key"] = (state["_key"][0].name, *state["_key"][1:])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from inweave.estimators import programs

        super().__setstate__(state)
        if "_key" in state:
            name, *rest = state["_key"]
            self._key = (getattr(programs, name), *rest)
            self.network_ = compiled(self._key)

    # -- parameters -------------------------------------------------------------------------------
    def _check(self, **choices: tuple[str, ...]) -> None:
        """Refuse parameters that make no sense; `choices` lists what a parameter may be."""
        for name, allowed in {"target": TARGETS, **choices}.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(map(repr, allowed))}, "
                    f"got {getattr(self, name)!r}"
                )
        if not isinstance(self.tol, numbers.Real) or not 0 < float(self.tol) < 1:
            raise InputError(f"tol must be a number between 0 and 1, got {self.tol!r}")
        if not ((isinstance(self.steps, str) and self.steps == "auto") or is_whole(self.steps, 1)):
            raise InputError(f"steps must be 'auto' or a positive int, got {self.steps!r}")

    def _number(self, name: str, positive: bool = False) -> float:
        """A parameter that is a number, at least (or above) zero."""
        value = getattr(self, name)
        good = isinstance(value, numbers.Real) and math.isfinite(float(value))
        if not good or value < 0 or (positive and value == 0):
            bound = "above 0" if positive else "of at least 0"
            raise InputError(f"{name} must be a finite number {bound}, got {value!r}")
        return float(value)

    def _report(self, distance: float) -> None:
        """Say so if the solution is not known to be within tol, and steps were not prescribed."""
        if self.steps == "auto" and not distance <= self.tol:
            warnings.warn(
                f"{type(self).__name__}: after {self.steps_} steps the coefficients are within "
                f"about {distance:.1e} of the solution (relative), not within tol={self.tol:g}; "
                "give more steps, a stronger penalty, or fewer collinear columns",
                ConvergenceWarning,
                stacklevel=3,
            )


class Search:
    """The number of steps and the momentum of an accelerated method, found by trying.

    With curvature between μ and L, momentum β = (1 − q)/(1 + q) with q = √(μ/L) shrinks the error
    by about 1 − q a step (Nesterov). μ is known only at the solution, so the first, short run has a
    momentum that suits its length, and every further one what the run before has seen.
    """

    def __init__(self, ratio: float, estimator: InContextEstimator) -> None:
        self.estimator, self.tol = estimator, float(estimator.tol)
        self.fixed = estimator.steps != "auto"
        self.ratio, self.steps, self.done, self.stay = ratio, 0, False, False
        self.distance = math.inf

    @property
    def momentum(self) -> float:
        q = max(math.sqrt(max(self.ratio, 0.0)), min(1.0, math.log(1 / self.tol) / self.steps))
        return (1 - q) / (1 + q)

    def next(self) -> bool:
        """Choose the next run; False when the last one was good, or there is none left."""
        if self.fixed:
            self.done, self.steps = self.steps > 0, int(self.estimator.steps)
            return not self.done
        if self.done:
            return False
        if self.steps >= MOST_STEPS and not self.stay:
            self.estimator._report(self.distance)
            return False
        needed = 1.5 * math.log(1 / self.tol) / math.sqrt(max(self.ratio, 1e-30))
        # Early on, the ratio may be that of directions that the solution does not use.
        needed = min(needed, 4 * self.steps if self.steps else FEWEST_STEPS)
        wanted = max(needed, self.steps if self.stay else 2 * self.steps)
        self.steps = MOST_STEPS if wanted > MOST_STEPS else 2 ** power_above(2, math.ceil(wanted))
        return True

    def heard(self, distance: float, size: float, ratio: float, stay: bool = False) -> None:
        """What a run has found: its distance from the solution, and the curvature ratio there.

        `stay`: the distance has another cause than too few steps.
        """
        self.stay = stay
        self.estimator.steps_ = self.steps
        self.distance = distance / size if size > 0 else distance
        self.done, self.ratio = self.distance <= self.tol, ratio


def means(X: Array, intercept: bool) -> Array:
    """What is subtracted from the rows: their mean, or nothing without an intercept."""
    return X.mean(axis=0) if intercept else np.zeros(X.shape[1:])


def centred(X: Array, mean: Array) -> Array:
    """X less its mean, and zero where only rounding errors are left."""
    rest = X - mean
    noise = 16 * ROUNDING * np.abs(X).max(axis=0)
    return np.where(np.abs(rest).max(axis=0) <= noise, 0.0, rest)


def extremes(S: Array) -> tuple[float, float]:
    """The smallest and largest eigenvalue of a symmetric matrix."""
    values = np.linalg.eigvalsh(S)
    return float(values[0]), float(values[-1])


def norm(x: Array) -> float:
    return float(np.linalg.norm(x))


def steps_for(rate: float, tol: float) -> int:
    """The least T with rate^T ≤ tol."""
    if rate <= tol:
        return 1
    return math.ceil(math.log(tol) / math.log(rate)) if rate < 1 else 2**62


def power_above(base: int, steps: int) -> int:
    """The least k with base^k ≥ steps."""
    k = 0
    while base**k < steps:
        k += 1
    return k
