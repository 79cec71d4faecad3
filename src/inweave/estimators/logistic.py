"""Logistic regression by forward passes.

Steps are multiplied by the inverse P of a curvature, which stands in the prompt: a step size for
every direction. The first pass starts where the solution would be, with what the curvature would be
there, if rows were spread alike in every direction; or, if that is no way down, at zero with the
largest curvature that there is, XᵀX/4 + R (Böhning and Lindsay 1988). Every other one starts where
the one before ended with the curvature there, as Newton's method does, and with a part of its step
where the whole of it does not go down. So the number of passes hardly depends on the data: one or
two as a rule, a dozen where the classes are separable and the penalty is small, or rows far out.

How near the solution is, is not read off how the steps shrink, which rows far out belie, but
bounded from the true gradient and the curvature where the passes ended.
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
    SMALL,
    bordered,
    column_means,
    does_not_vary,
    slices,
    units_for,
)
from inweave.estimators.programs import logistic_descent, sigmoid, tabulated

STEPS = 5  # of a pass
MOST_PASSES = 64
MOST_STEPS = 1024  # of a network whose number of steps is prescribed
SHORTER = 8  # times, a step after one that went up
SEEN = 1e-6  # a decrease, beside the objective, that rounding does not hide
STILL = 16 * ROUNDING  # a change that is none
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
        to the solution, bounded by the true gradient and the curvature there, is within tol (64
        passes at most). A number is taken as it is, from zero with the largest curvature; steps
        that no longer change anything are left out. A distance above tol is a ConvergenceWarning.
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

    def _passes(self, problem: Problem, w: Array, P: Array) -> Array:
        """w of the last pass that went down, and a report of how far it is from the solution."""
        self.steps_, self.sigmoid_error_ = 0, _allowed(self.tol)
        if self.steps != "auto":
            w = self._prescribed(problem, w, P)
            self._report(problem.distance(w, problem.inverse_at(w)))
            return w
        distance, here = math.inf, False  # whether P is the inverse of the curvature at w
        while distance > self.tol and self.steps_ < MOST_PASSES * STEPS:
            after = self._from(problem, P, w, STEPS)
            self.steps_ += STEPS
            was, left = (problem.size(P @ problem.gradient(at)) for at in (w, after))
            down = problem.goes_down(w, after, shrinks=left <= was)
            off = 0.0 if down and left <= was / 2 else self._by_table(problem, w, P)
            most = min(self.tol, relative(was, problem.size(w))) / 4
            if off > most and self.sigmoid_error_ > FINEST:
                self.sigmoid_error_ = _allowed(self.sigmoid_error_ * most / off)
            elif not down and here:
                if off > self.tol:
                    break
                P = P / SHORTER
                continue
            if down:
                w = after
            P = problem.inverse_at(w)
            distance, here = problem.distance(w, P), True
            P *= problem.share(w, P)
        self._report(distance)
        return w

    def _prescribed(self, problem: Problem, w: Array, P: Array) -> Array:
        """Where a number of steps leads: those beyond a network's, until they change nothing."""
        self.steps_ = int(self.steps)
        networks, first = divmod(self.steps_, MOST_STEPS)
        if first:
            w = self._from(problem, P, w, first)
        for _ in range(networks):
            before, w = w, self._from(problem, P, w, MOST_STEPS)
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
    still: NDArray[np.bool_]
    """Columns that do not vary."""

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

    # -- where it is -----------------------------------------------------------------------------
    def distance(self, w: Array, P: Array) -> float:
        """A bound of the distance from the solution, relative; P inverts the curvature H at w.

        Newton's step s = Pg is that distance where the curvature is H all the way. With the
        decrement λ = √gᵀPg, a point within 2λ of w (in the norm of H) has logits within
        δᵢ = 2λ√hᵢ of those at w, hᵢ = (xᵢ, 1)ᵀP(xᵢ, 1). So the curvature there is (1 ± ε)H, for ε
        the sum of hᵢ times what the weight of a row may change. If ε ≤ ½ then the solution is that
        near, and no farther from w − s than ελ/(1 − ε).
        """
        gradient = self.gradient(w)
        step = P @ gradient
        decrement, h = math.sqrt(max(float(gradient @ step), 0.0)), self.leverages(P)
        off, by = np.abs(self.logits(w)), 2 * decrement * np.sqrt(h)
        drift = float(h @ (_weight(np.maximum(off - by, 0.0)) - _weight(off + by)))
        if not drift <= 0.5:
            return math.inf
        scales = np.append(np.sqrt(self.squares / 4 + self.penalty), math.sqrt(len(self.y)) / 2)
        lift = np.eye(len(w))
        lift[-1, :-1] = self.means
        longest = math.sqrt(max(float(scales**2 @ ((lift @ P) * lift).sum(axis=1)), 0.0))
        found = self.size(step) + drift / (1 - drift) * decrement * longest
        return relative(found, self.size(w))

    def leverages(self, P: Array) -> Array:
        """(xᵢ, 1)ᵀP(xᵢ, 1) for every row."""
        found, d = np.empty(len(self.y)), len(self.means)
        for rows in slices(len(self.y), d):
            x = self.X[rows]
            found[rows] = ((x @ P[:d, :d] + 2 * P[d, :d]) * x).sum(axis=1) + P[d, d]
        return np.maximum(found, 0.0)

    def objective(self, w: Array) -> float:
        z = self.logits(w)
        losses = np.logaddexp(0.0, np.where(self.y > 0, -z, z))
        return float(losses.sum() + self.penalty / 2 * norm(w[:-1]) ** 2)

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
        """Where to start, and the inverse of a curvature.

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
        p = sigmoid(self.logits(w))
        weights = p * (1 - p)
        mean, squares = weights.mean(), np.einsum("ij,ij->j", Z, Z)
        more = (Z.T * weights) @ Z - np.diag(mean * squares)
        images = np.column_stack([products[:, :-1] @ w[:-1], products[:, -1]])
        images = images[:, : len(squares)] / np.maximum(squares, TINY)
        H = mean * products
        H += images @ more @ images.T
        return self._penalised(H)

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


def _allowed(error: float) -> float:
    """1 or 3 times the next power of ten below, so that data of the same size share a network."""
    error = min(max(error, FINEST), COARSEST)
    power = float(10.0 ** np.floor(np.log10(error)))
    return 3 * power if error >= 3 * power else power
