"""Logistic regression by forward passes.

Steps are multiplied by the inverse P of a curvature, which stands in the prompt: a step size for
every direction. The first pass starts where the solution would be, with what the curvature would be
there, if rows were spread alike in every direction; or, if that is no way down, at zero with the
largest curvature that there is, XᵀX/4 + R (Böhning and Lindsay 1988). To gather the products of
many columns takes as long as many steps, so a part of the rows has to do for this pass. Every other
one starts where the one before ended, with the curvature there, as Newton's method does, or with
the one before where that is quick enough; and with a part of its step where the whole of it does
not go down. So the number of passes hardly depends on the data: one or two as a rule, a dozen where
the classes are separable and the penalty is small, or rows far out.

How near the solution is, is not read off how the steps shrink, which rows far out belie, but
bounded from the true gradient and the curvature at or near the point where the passes ended.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import Array, InContextEstimator, relative
from inweave.estimators.moments import ROUNDING, column_means
from inweave.estimators.objective import Curvature, Inverse, Problem
from inweave.estimators.programs import logistic_descent, sigmoid, tabulated

STEPS = 3  # of a pass
MOST_PASSES = 64
MOST_STEPS = 1024  # of a network whose number of steps is prescribed
QUICK = 100  # times, a step shrinks in a pass that is worth going on with the curvature it had
SHORTER = 8  # times, a step after one that went up
STILL = 16 * ROUNDING  # a change that is none
# Errors of the sigmoid, with some 8400, 2700 and 840 units. Fewer hardly run faster, and where they
# turn out to be too few, that takes another network: so there is but one to try after the first.
FINEST, FINE, COARSE = 1e-8, 1e-7, 1e-6


class InContextLogistic(ClassifierMixin, InContextEstimator):  # type: ignore[misc]
    """Two-class logistic regression: argmin C Σ log-loss + ½‖w‖², the intercept not penalised.

    Like `sklearn.linear_model.LogisticRegression`. The network runs descent steps multiplied by the
    inverse of the curvature where they start; its sigmoid is a ReLU net whose error is bounded,
    stated in the certificate, and made as small as tol asks for. More than two classes: wrap it in
    `sklearn.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    C : inverse of the penalty.
    steps : 'auto' runs passes of 3 steps, the first from where the solution is expected, each of
        the others from where the one before ended and with a curvature taken there or before, until
        the distance to the solution, bounded by the true gradient and the curvature, is within tol
        (64 passes at most). A number is taken as it is, from zero with the largest curvature; steps
        that no longer change anything are left out. A distance above tol is a ConvergenceWarning.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : whether there is an intercept.

    Attributes
    ----------
    network_, prompt_ : what runs, and on what, in the last pass; the prompt holds X itself, or a
    copy if columns are far from zero or too small or large to be squared, or rows fewer than
    columns, which are then written in as many orthogonal coordinates as there are rows. steps_ :
    how many steps were run in all. coef_, intercept_ : read from the network by unit queries.
    sigmoid_error_ : what the error of the sigmoid was to be.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        steps: int | str = "auto",
        target: str = "elsa",
        tol: float = 1e-4,
        fit_intercept: bool = True,
    ) -> None:
        self.C = C
        self.steps = steps
        self.target = target
        self.tol = tol
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> InContextLogistic:
        """Run passes over the rows until the solution is near."""
        self._check()
        penalty = 1 / self._number("C", positive=True)
        X, y = validate_data(self, X, y, dtype=np.float64)
        y = self._labels(y)
        problem = Problem.of(X, y, penalty, self.fit_intercept)
        unit, far = problem.unit(), problem.far
        if unit or far.any():
            # One unit for all columns, because they have one penalty.
            moved = X * math.ldexp(1.0, -unit)
            far = np.where(far, column_means(moved), 0.0)
            moved -= far
            penalty = math.ldexp(penalty, -2 * unit)
            problem = Problem.of(moved, y, penalty, self.fit_intercept)
        coordinates: Array | None = None
        if len(y) < X.shape[1]:
            problem, coordinates = problem.turned()
        with np.errstate(all="ignore"):  # what overflows is no step forward, and is seen as that
            w, distance = self._passes(problem)
            if distance > self.tol:  # as well as can be said
                curvature = problem.curvature(w)
                distance = min(problem.distance(w, curvature, tol) for tol in (self.tol, 1.0))
        self._report(distance)
        found = w[:-1] if coordinates is None else coordinates @ w[:-1]
        self._found(np.ldexp(found[None], -unit), w[-1:] - far @ found)
        return self

    def _passes(self, problem: Problem) -> tuple[Array, float]:
        """w of the last pass that went down, and a bound of its distance from the solution."""
        w, by = problem.start(ahead=self.steps == "auto")
        self.steps_, self.sigmoid_error_ = 0, COARSE if self.tol >= 100 * COARSE else FINE
        if self.steps != "auto":
            return self._prescribed(problem, w, by), math.inf
        distance = math.inf
        curvature: Curvature | None = None  # where the pass begins, if it is known
        while distance > self.tol and self.steps_ < MOST_PASSES * STEPS:
            after = self._from(problem, by, w, STEPS)
            self.steps_ += STEPS
            was, left = (problem.size(by.step(problem.gradient(to))) for to in (w, after))
            down = problem.goes_down(w, after, shrinks=left <= was)
            off = 0.0 if down and left <= was / 2 else self._by_table(problem, w, by)
            most = min(self.tol, relative(was, problem.size(w))) / 4
            finer = off > most and self.sigmoid_error_ > FINEST
            if finer:
                self.sigmoid_error_ = FINEST
            elif not down and curvature:
                if off > self.tol:
                    break
                by = by.shorter(1 / SHORTER)
                continue
            if down:
                w = after
            if curvature and by is curvature.inverse:
                distance = problem.distance(w, curvature, self.tol)
                quick = down and left <= was / QUICK and relative(left, problem.size(w)) > self.tol
                if quick or finer:
                    continue
            if distance > self.tol:
                curvature = problem.curvature(w)
                distance = problem.distance(w, curvature, self.tol)
                part = problem.share(curvature)
                by = curvature.inverse if part == 1 else curvature.inverse.shorter(part)
        return w, distance

    def _prescribed(self, problem: Problem, w: Array, by: Inverse) -> Array:
        """Where a number of steps leads: those beyond a network's, until they change nothing."""
        self.steps_ = int(self.steps)
        networks, first = divmod(self.steps_, MOST_STEPS)
        if first:
            w = self._from(problem, by, w, first)
        for _ in range(networks):
            before, w = w, self._from(problem, by, w, MOST_STEPS)
            if not problem.size(w - before) > STILL * problem.size(w):
                break
        return w

    def _labels(self, y: Any) -> Array:
        """0 and 1 for the two classes."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise InputError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        self.classes_, found = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"InContextLogistic needs two classes; y holds one class only: "
                f"{self.classes_.tolist()[0]!r}"
            )
        return found.astype(np.float64)

    def _from(self, problem: Problem, by: Inverse, w: Array, steps: int) -> Array:
        """Where the steps of a pass lead."""
        n, d = problem.X.shape
        prompt = {"X": problem.X, "y": problem.y, "penalty": problem.penalty,
                  "P": by.P, "p": by.p, "m": by.means, "q": -(by.P @ by.means),
                  "w": w[:d], "level": float(w[d] + by.means @ w[:d])}  # fmt: skip
        found, c = self._pass(logistic_descent, prompt, n=n, d=d, steps=steps,
                              error=self.sigmoid_error_)  # fmt: skip
        return np.append(found, c.flat[0])

    def _by_table(self, problem: Problem, w: Array, by: Inverse) -> float:
        """How far the error of the sigmoid's table takes a step."""
        logits = problem.logits(w)
        off = tabulated(logits, self.sigmoid_error_) - sigmoid(logits)
        step = by.step(problem.gathered(problem.X, off))
        return relative(problem.size(step), problem.size(w))

    def decision_function(self, X: Any) -> Array:
        """The logit of the second class: uᵀw for every row u, and the intercept."""
        return super().predict(X)[:, 0]

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        second = sigmoid(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> Any:
        """The likelier class."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]
