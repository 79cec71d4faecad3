"""Logistic regression by forward passes.

Steps are multiplied by the inverse P of a curvature, which stands in the prompt: a step size for
every direction. The first pass starts at zero with what the curvature at the solution would be, if
rows were spread alike in every direction. Every other one starts where the one before ended with
the curvature there, as Newton's method does. If that was a step too far, the largest curvature that
there is takes its place, XᵀX/4 + R (Böhning and Lindsay 1988), with which every step goes down. So
the number of passes hardly depends on the data: two as a rule, a dozen where the classes are
separable and the penalty is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import Array, InContextEstimator, norm, relative
from inweave.estimators.moments import (
    ROUNDING,
    bordered,
    column_means,
    does_not_vary,
    units_for,
)
from inweave.estimators.programs import logistic_descent, sigmoid, tabulated

STEPS = 5  # of a pass
MOST_PASSES = 64
SLOW = 0.9  # of a step with the largest curvature: others may be slower still
AHEAD = 3  # steps of a look at where the solution may be
TINY = float(np.finfo(np.float64).tiny)
FAR = 1e3  # spreads from zero, beyond which columns are centred
FINEST, COARSEST = 1e-8, 1e-2  # errors of the sigmoid, with some 8400 units and a dozen


class InContextLogistic(ClassifierMixin, InContextEstimator):  # type: ignore[misc]
    """Two-class logistic regression: argmin C Σ log-loss + ½‖w‖², the intercept not penalised.

    Like `sklearn.linear_model.LogisticRegression`. The network runs descent steps multiplied by the
    inverse of the curvature where they start; its sigmoid is a ReLU net whose error is bounded,
    stated in the certificate, and made as small as tol asks for. More than two classes: wrap it in
    `sklearn.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    C : inverse of the penalty.
    steps : 'auto' runs passes of 5 steps, the first from where the solution is expected, each of
        the others from where the one before ended and with the curvature there, until the distance
        to the solution, estimated from the true gradient, is within tol (64 passes at most, then a
        ConvergenceWarning). A number is taken as it is, in one pass from zero with the largest
        curvature.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : whether there is an intercept.

    Attributes
    ----------
    network_, prompt_ : what runs, and on what, in the last pass; the prompt holds X itself, or a
    copy if columns are far from zero or too small or large to be squared. steps_ : how many steps
    were run in all. coef_, intercept_ : read from the network by unit queries. sigmoid_error_ :
    what the error of the sigmoid was to be.
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
        problem, products = Problem.of(X, y, penalty, self.fit_intercept)
        unit, far = problem.unit(), problem.far
        if unit or far.any():
            # One unit for all columns, because they have one penalty.
            moved = X * math.ldexp(1.0, -unit)
            far = np.where(far, column_means(moved), 0.0)
            moved -= far
            penalty = math.ldexp(penalty, -2 * unit)
            problem, products = Problem.of(moved, y, penalty, self.fit_intercept)
        with np.errstate(all="ignore"):  # what overflows is no step forward, and is seen as that
            first = problem.start(products, ahead=self.steps == "auto")
            del products  # of the size of P, and not needed again
            w = self._passes(problem, *first)
        self._found(np.ldexp(w[None, :-1], -unit), w[-1:] - far @ w[:-1])
        return self

    def _passes(self, problem: Problem, w: Array, P: Array, of: str) -> Array:
        """w of the last pass that went forward; P is the inverse `of` a curvature."""
        fixed = self.steps != "auto"
        steps, self.steps_ = int(self.steps) if fixed else STEPS, 0
        self.sigmoid_error_ = _allowed(self.tol)
        distance, gradient = math.inf, problem.gradient(w)
        while True:
            after = self._from(problem, P, w, steps)
            self.steps_ += steps
            if fixed:
                return after
            then = problem.gradient(after)
            was, left = problem.size(P @ gradient), problem.size(P @ then)
            forward = left < was or left == 0
            if forward:
                share = (left / was) ** (1 / steps) if left else 0.0
                more = left / (1 - share)  # what steps that shrink like these would add up to
                if of == "there" or share < SLOW:
                    found = min(more, was) if of == "there" else more
                    distance = relative(found, problem.size(after))
                w, gradient = after, then
            elif of == "there":
                distance = min(distance, relative(was, problem.size(w)))
            if distance <= self.tol or self.steps_ >= MOST_PASSES * steps:
                break
            if not left <= was / 2:
                off = self._by_table(problem, w, P)
                if off > self.tol / 4 and self.sigmoid_error_ > FINEST:
                    self.sigmoid_error_ = _allowed(self.sigmoid_error_ * self.tol / (4 * off))
                    continue
                if off > self.tol:
                    break
            if not forward and of == "largest":
                break
            of = "there" if forward or of == "expected" else "largest"
            P[:] = problem.inverse(problem.curvature(w if of == "there" else None))  # in its place
        self._report(distance)
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
                f"InContextLogistic needs two classes; y holds one class only: {self.classes_[0]!r}"
            )
        return found.astype(np.float64)

    def _from(self, problem: Problem, P: Array, w: Array, steps: int) -> Array:
        """Where the steps of a pass lead."""
        n, d = problem.X.shape
        prompt = {"X": problem.X, "y": problem.y, "penalty": problem.penalty,
                  "P": P[:d, :d], "q": P[:d, d], "p": float(P[d, d]),
                  "w": w[:d], "c": float(w[d])}  # fmt: skip
        found, c = self._pass(logistic_descent, prompt, n=n, d=d, steps=steps,
                              error=self.sigmoid_error_)  # fmt: skip
        return np.append(found, c.flat[0])

    def _by_table(self, problem: Problem, w: Array, P: Array) -> float:
        """How far the error of the sigmoid's table takes a step."""
        logits = problem.logits(w)
        off = problem.gathered(tabulated(logits, self.sigmoid_error_) - sigmoid(logits))
        return relative(problem.size(P @ off), problem.size(w))

    def decision_function(self, X: Any) -> Array:
        """The logit of the second class: uᵀw for every row u, and the intercept."""
        return self._linear(X)[:, 0]

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        second = sigmoid(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> Any:
        """The likelier class."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]


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

    @classmethod
    def of(cls, X: Array, y: Array, penalty: float, intercept: bool) -> tuple[Problem, Array]:
        """Beside it, the products of centred columns and a column of ones."""
        with np.errstate(all="ignore"):  # what overflows gets another unit
            means = column_means(X) if intercept else np.zeros(X.shape[1])
            products = bordered(X, means)
        return cls(X, y, penalty, intercept, means, products.diagonal()[:-1].copy()), products

    def unit(self) -> int:
        """The power of two that the columns are to be measured in."""
        return int(units_for(self.X, self.squares, math.sqrt(self.penalty)).max())

    @property
    def far(self) -> NDArray[np.bool_]:
        """Columns whose means, beside how they vary, would take digits from the logits."""
        spreads = np.sqrt(self.squares / len(self.y))
        return np.asarray(np.abs(self.means) > FAR * spreads) & ~self.still

    @property
    def still(self) -> NDArray[np.bool_]:
        """Columns that do not vary."""
        return does_not_vary(self.squares, self.means, len(self.y))

    def logits(self, w: Array) -> Array:
        return np.asarray(self.X @ w[:-1] + w[-1])

    def gradient(self, w: Array) -> Array:
        found = self.gathered(sigmoid(self.logits(w)) - self.y)
        found[:-1] += self.penalty * w[:-1]
        return found

    def gathered(self, r: Array) -> Array:
        """Σ rᵢ (xᵢ, 1)."""
        return np.append(self.X.T @ r, r.sum() if self.intercept else 0.0)

    def size(self, w: Array) -> float:
        """The length of coefficients, of columns that are centred and scaled."""
        level = w[-1] + self.means @ w[:-1]
        scales = np.sqrt(self.squares / 4 + self.penalty)
        return norm(np.append(scales * w[:-1], math.sqrt(len(self.y)) / 2 * level))

    def start(self, products: Array, ahead: bool) -> tuple[Array, Array, str]:
        """Where to start, the inverse of a curvature there, and of which.

        Zero and the largest curvature; or where the solution is expected ahead, and the curvature
        that is expected there. If steps would be longer there, it is not the way.
        """
        w, P = np.zeros(len(self.means) + 1), self.inverse(self._penalised(products / 4))
        if ahead:
            gradient = self.gradient(w)
            there, known = self._ahead(-P @ gradient)
            if self.size(P @ self.gradient(there)) < self.size(P @ gradient):
                del P
                return there, self.inverse(self._expected(there, known, products)), "expected"
        return w, P, "largest"

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
        p = sigmoid(self.logits(w))
        weights = p * (1 - p)
        mean, squares = weights.mean(), np.einsum("ij,ij->j", Z, Z)
        more = (Z.T * weights) @ Z - np.diag(mean * squares)
        images = np.column_stack([products[:, :-1] @ w[:-1], products[:, -1]])
        images = images[:, : len(squares)] / np.maximum(squares, TINY)
        H = mean * products
        H += images @ more @ images.T
        return self._penalised(H)

    def curvature(self, w: Array | None = None) -> Array:
        """The curvature Σ pᵢ(1 − pᵢ) (xᵢ, 1)(xᵢ, 1)ᵀ + R for centred rows, at w or the largest."""
        roots = np.full(len(self.y), 0.5)
        if w is not None:
            p = sigmoid(self.logits(w))
            roots = np.sqrt(p * (1 - p))
        return self._penalised(bordered(self.X, self.means, roots))

    def _penalised(self, H: Array) -> Array:
        columns = np.arange(len(self.means))
        H[columns, columns] += self.penalty
        return H

    def inverse(self, H: Array) -> Array:
        """The inverse of a curvature, which is overwritten.

        It is that of centred rows, for w and c + means·w, written out for w and c. Its diagonal is
        scaled to one, and raised by what rounding may have taken off: so it is regular. A step
        that is a little too short costs a step at most.
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
        P[d] -= self.means @ P[:d]
        P[:, d] -= P[:, :d] @ self.means
        return P


def _allowed(error: float) -> float:
    """1 or 3 times the next power of ten below, so that data of the same size share a network."""
    error = min(max(error, FINEST), COARSEST)
    power = float(10.0 ** np.floor(np.log10(error)))
    return 3 * power if error >= 3 * power else power
