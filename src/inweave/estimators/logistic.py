"""Logistic regression as one forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from inweave.errors import InputError
from inweave.estimators.base import (
    Array,
    InContextEstimator,
    Search,
    centred,
    extremes,
    means,
    norm,
)
from inweave.estimators.programs import logistic_descent, sigmoid, sigmoid_table

FINEST = 1e-9  # error of the sigmoid below which its table gets too large


class InContextLogistic(ClassifierMixin, InContextEstimator):  # type: ignore[misc]
    """Two-class logistic regression: argmin C Σ log-loss + ½‖w‖², the intercept not penalised.

    Like `sklearn.linear_model.LogisticRegression`. The network runs gradient steps with momentum;
    its sigmoid is a ReLU net whose error is bounded, stated in the certificate, and made as small
    as tol asks for. More than two classes: wrap it in `sklearn.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    C : inverse of the penalty.
    steps : 'auto' doubles the number until the distance to the solution, estimated by a Newton step
        with the true sigmoid, is within tol (16384 at most, then a ConvergenceWarning). A number is
        taken as it is.
    target : 'elsa', heads with biases, or 'lsa', heads without.
    tol : the distance of the coefficients from the solution, relative, in scaled columns.
    fit_intercept : add a column of ones, and centre the others.

    Attributes
    ----------
    network_, prompt_, steps_ : what runs, on what, and for how long. coef_, intercept_ : read from
    the network by unit queries. sigmoid_error_ : the error bound of the sigmoid.
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
        """Make the prompt, find the number of steps and take the network for it."""
        self._check()
        penalty = 1 / self._number("C", positive=True)
        X, y = validate_data(self, X, y, dtype=np.float64)
        y = self._labels(y)
        self._means = means(X, self.fit_intercept)
        X = centred(X, self._means)
        self._scales = np.sqrt(np.einsum("ij,ij->j", X, X) / 4 + penalty)
        scaled, weights = X / self._scales, penalty / self._scales**2
        if self.fit_intercept:
            self._one = 2 / np.sqrt(len(X))  # the column whose Hessian entry at w = 0 is one
            scaled = np.column_stack([scaled, np.full(len(X), self._one)])
            weights = np.append(weights, 0.0)
        R = np.diag(weights)
        high = extremes(scaled.T @ scaled / 4 + R)[1]
        self.sigmoid_error_ = _half_decade(self.tol / 10)
        search = Search(0.0, self)
        while search.next():
            prompt = {"X": scaled, "y": y, "R": R, "eta": 1 / high, "beta": search.momentum}
            # Not "speed": it would store ηR and βηR in a wider prompt and save no work.
            self._use(logistic_descent, prompt, optimize="faithful", steps=search.steps,
                      error=self.sigmoid_error_)  # fmt: skip
            w = self._found()
            logits = scaled @ w
            p = sigmoid(logits)
            H = scaled.T @ (scaled * (p * (1 - p))[:, None]) + R
            gradient = scaled.T @ (p - y) + R @ w
            table = sigmoid_table(self.sigmoid_error_).net(logits)
            low = max(extremes(H)[0], 1e-12)
            distance, size = norm(np.linalg.solve(H, gradient)), norm(w)
            by_table = norm(np.linalg.solve(H, scaled.T @ (table - p)))
            limited = by_table > distance / 2 and self.sigmoid_error_ > FINEST
            search.heard(distance, size, low / high, stay=limited)
            if limited and not search.done:
                wanted = self.sigmoid_error_ * self.tol * size / (2 * by_table)
                self.sigmoid_error_ = max(_half_decade(wanted), FINEST)
        self.coef_ = (w[: self.n_features_in_] / self._scales)[None, :]
        origin = -self._means / self._scales
        self.intercept_ = self._answers(self._with_one(origin[None, :]))
        return self

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

    def _with_one(self, queries: Array) -> Array:
        """Queries with the entry that reads the intercept."""
        if not self.fit_intercept:
            return queries
        return np.column_stack([queries, np.full(len(queries), self._one)])

    def decision_function(self, X: Any) -> Array:
        """The logit of the second class: one forward pass for all rows."""
        return self._answers(self._with_one(self._queries(X)))

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        second = sigmoid(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> Any:
        """The likelier class."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]


def _half_decade(error: float) -> float:
    """1 or 3 times the next power of ten below, so that data of the same size share a network."""
    power = float(10.0 ** np.floor(np.log10(error)))
    return 3 * power if error >= 3 * power else power
