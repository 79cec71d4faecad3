# mypy: disable-error-code="attr-defined,name-defined,no-any-return,type-arg"
"""The programs behind the estimators.

They differ from the gallery's in one point: columns of the data are scaled (see `weft.estimators.
base`), so the penalty is no longer one number times the identity. Here it is a matrix, or a vector
of thresholds, and stands in the prompt beside the data. u is the query; its answer is uᵀw.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import weft
from weft import Matrix, Scalar, Vector
from weft.gallery.closed_forms import eliminated


@weft.program
def ridge_descent(
    X: Matrix["n", "d"],
    y: Vector["n"],
    R: Matrix["d", "d"],
    u: Vector["d"],
    eta: Scalar,
    *,
    steps: int,
) -> Scalar:
    """Gradient descent on ½‖Xw − y‖² + ½ wᵀRw, from zero."""

    def step(w: Any) -> Any:
        return w - eta * (X.T @ (X @ w - y) + R @ w)

    return u.T @ weft.iterate(step, weft.zeros(X.shape[1]), steps)


@weft.program
def ridge_tripling(
    X: Matrix["n", "d"],
    y: Vector["n"],
    R: Matrix["d", "d"],
    u: Vector["d"],
    eta: Scalar,
    *,
    levels: int,
) -> Scalar:
    """3^levels steps of the same gradient descent, in `levels` repetitions of one layer.

    A step is w ← Aw + z with A = I − η(XᵀX + R) and z = ηXᵀy. If (A, z) stands for T steps, then
    (A³, z + Az + A²z) stands for 3T. It is what `optimize="depth"` makes of `ridge_descent`, as a
    loop: so it is proved by induction, at a cost that does not grow with the number of steps.
    """

    def triple(A: Any, z: Any) -> Any:
        return A @ A @ A, z + A @ z + A @ A @ z

    start = (weft.eye(X.shape[1]) - eta * (X.T @ X + R), eta * (X.T @ y))
    return u.T @ weft.iterate(triple, start, levels)[1]


@weft.program
def ridge_elimination(
    X: Matrix["n", "d"],
    y: Vector["n"],
    R: Matrix["d", "d"],
    u: Vector["d"],
    *,
    low: float,
) -> Scalar:
    """(XᵀX + R) w = Xᵀy by Gauss–Jordan elimination, for a matrix with ones on its diagonal.

    The pivots are diagonal entries of Schur complements: between the smallest eigenvalue of the
    matrix, which is at least `low`, and 1.
    """
    system = weft.hstack([X.T @ X + R, X.T @ y])
    return u.T @ eliminated(system, X.shape[1], (low, 1.5))


@weft.program
def lasso_descent(
    X: Matrix["n", "d"],
    y: Vector["n"],
    t: Vector["d"],
    u: Vector["d"],
    eta: Scalar,
    beta: Scalar,
    *,
    steps: int,
) -> Scalar:
    """Proximal gradient with momentum (FISTA with a fixed β) on ½‖Xw − y‖² + Σ tᵢ/η |wᵢ|.

    z = v − ηXᵀ(Xv − y); w ← sign(z) max(|z| − t, 0); v ← w + β (w − w before).
    """
    G, b = X.T @ X, X.T @ y

    def step(w: Any, v: Any) -> Any:
        z = v - eta * (G @ v - b)
        after = weft.relu(z - t) - weft.relu(-z - t)
        return after, after + beta * (after - w)

    start = weft.zeros(X.shape[1])
    return u.T @ weft.iterate(step, (start, start), steps)[0]


@lru_cache(maxsize=16)
def sigmoid_table(error: float) -> Callable[[Any], Any]:
    """The sigmoid to an absolute error everywhere: flat where it is that close to 0 or 1."""
    reach = float(np.log(1 / error))
    return weft.pointwise(
        lambda x: 1.0 / (1.0 + np.exp(-x)), domain=(-reach, reach), error=error, name="sigmoid"
    )


@weft.program
def logistic_descent(
    X: Matrix["n", "d"],
    y: Vector["n"],
    R: Matrix["d", "d"],
    u: Vector["d"],
    eta: Scalar,
    beta: Scalar,
    *,
    steps: int,
    error: float,
) -> Scalar:
    """Gradient descent with momentum on Σ log(1 + exp(xᵢw)) − yᵢ xᵢw + ½ wᵀRw, y in {0, 1}."""
    sigmoid = sigmoid_table(error)

    def step(w: Any, v: Any) -> Any:
        after = v - eta * (X.T @ (sigmoid(X @ v) - y) + R @ v)
        return after, after + beta * (after - w)

    start = weft.zeros(X.shape[1])
    return u.T @ weft.iterate(step, (start, start), steps)[0]
