"""What the estimators share: cached networks, passes over a prompt, and parameters.

A pass. The network's answer to a query u is uᵀw, so its answers to the unit queries are w. `fit`
asks for those, and keeps them as coefficients: what a forward pass left in the prompt serves every
later query, as the cache of a language model does. Where the number of steps is not known before,
a pass ends with a look at what it found, and the next one starts where it ended: its start stands
in the prompt like everything else, and passes of one network make a run of any length.

Scaling. Gradient descent needs a number of steps in proportion to the condition number of the
system, and columns in different units make that number huge for no reason. So columns are divided
by the root of the diagonal of the Hessian: its diagonal becomes one, which is within a factor of
the number of columns of the best that any scaling can do (van der Sluis 1969).

Acceptance. Every fit ends with a check of what the network found: the distance to the solution is
bounded by the residual there, and a distance that may be above `tol` is reported as a
ConvergenceWarning, whoever chose the number of steps.
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
from scipy.linalg.blas import dnrm2
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from inweave.compiler.options import TARGETS
from inweave.errors import InputError
from inweave.estimators import programs
from inweave.estimators.programs import input_form
from inweave.exact.whole import is_whole
from inweave.language.program import Program
from inweave.network import Network, compile

Array = NDArray[np.float64]
Key = tuple[Program, str, tuple[tuple[str, Any], ...]]


@lru_cache(maxsize=128)
def compiled(key: Key) -> Network:
    """The certified network of a program at given sizes; the data do not matter to it."""
    program, target, given = key
    sizes = dict(given)
    layout = input_form(program, sizes) if target == "elsa" else None
    with np.errstate(all="ignore"):  # the float check may run an iteration that diverges
        return compile(program, target=target, layout=layout, **sizes)


class InContextEstimator(BaseEstimator):  # type: ignore[misc]
    """A prompt and a network: subclasses say which, in `fit`."""

    network_: Network
    prompt_: dict[str, Any]
    coef_: Array
    n_features_in_: int

    # -- the network ------------------------------------------------------------------------------
    def _pass(self, program: Program, prompt: Mapping[str, Any], **sizes: Any) -> Any:
        """The answers of a program's network to the unit queries of a prompt."""
        self._key: Key = (program, self.target, tuple(sorted(sizes.items())))
        self.network_ = compiled(self._key)
        self.prompt_ = dict(prompt)
        units = unit_queries(next(i.rows for i in self.network_.inputs if i.name == "u"))
        with np.errstate(all="ignore"):  # what diverges is seen by its distance
            return self.network_(**self.prompt_, u=units, check=False)

    def predict(self, X: Any) -> Array:
        """uᵀw for every row u, and the intercept."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("network_", None)  # its program is code: named, and compiled again
        if "_key" in state:
            state["_key"] = (state["_key"][0].name, *state["_key"][1:])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
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

    # -- what was found ---------------------------------------------------------------------------
    def _found(self, coefficients: Array, intercept: Any) -> None:
        """Keep coefficients, which floats may not be able to hold."""
        if not (np.isfinite(coefficients).all() and np.isfinite(intercept).all()):
            raise InputError(
                "the coefficients are beyond float64: the columns of X are too small beside y, or "
                "X and y too large; rescale them"
            )
        self.coef_, self.intercept_ = coefficients, intercept

    def _report(self, distance: float) -> None:
        """Say so if the solution is not known to be within tol."""
        if not distance <= self.tol:
            near = f"within about {distance:.1e} of" if distance < 1 else "not known to be near"
            warnings.warn(
                f"{type(self).__name__}: after {self.steps_} steps the coefficients are "
                f"{near} the solution, not within tol={self.tol:g} (relative); "
                "give more steps, a stronger penalty, or fewer collinear columns",
                ConvergenceWarning,
                stacklevel=3,
            )


def unit_queries(d: int) -> Array:
    """The unit matrix, as windows on 2d − 1 numbers."""
    line = np.zeros(2 * d - 1)
    line[d - 1] = 1.0
    return np.lib.stride_tricks.sliding_window_view(line, d)[::-1]


def relative(distance: float, size: float) -> float:
    """A distance beside the size of what it is a distance from."""
    return distance / size if size > 0 else distance


def extremes(S: Array) -> tuple[float, float]:
    """The smallest and largest eigenvalue of a symmetric matrix."""
    values = np.linalg.eigvalsh(S)
    return float(values[0]), float(values[-1])


def norm(x: Array) -> float:
    """The length of a vector, whose squares may be beyond floats."""
    return float(dnrm2(x))


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
