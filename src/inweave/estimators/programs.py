"""The programs behind the estimators.

They differ from the gallery's in one point: columns of the data are scaled (see
`inweave.estimators. base`), so the penalty is no longer one number times the identity. Here it is a
matrix, or a vector of thresholds, and stands in the prompt beside the data. u is the query; its
answer is uᵀw.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.closed_forms import eliminated
from inweave.gallery.sizes import d, n
from inweave.language.functions import apply
from inweave.language.tables import float_error, interpolant
from inweave.model.relunet import Function


@inweave.program
def ridge_descent(
    X: Matrix[n, d],
    y: Vector[n],
    R: Matrix[d, d],
    u: Vector[d],
    eta: Scalar,
    *,
    steps: int,
) -> Scalar:
    """Gradient descent on ½‖Xw − y‖² + ½ wᵀRw, from zero."""

    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (X.T @ (X @ w - y) + R @ w)

    return u.T @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@inweave.program
def ridge_tripling(
    X: Matrix[n, d],
    y: Vector[n],
    R: Matrix[d, d],
    u: Vector[d],
    eta: Scalar,
    *,
    levels: int,
) -> Scalar:
    """3^levels steps of the same gradient descent, in `levels` repetitions of one layer.

    A step is w ← Aw + z with A = I − η(XᵀX + R) and z = ηXᵀy. If (A, z) stands for T steps, then
    (A³, z + Az + A²z) stands for 3T; A is symmetric, so AAᵀA is one head. It is what
    `optimize="depth"` makes of `ridge_descent`, written as a loop: so it is proved by induction, at
    a cost that does not grow with the number of steps.
    """

    def triple(A: Matrix[d, d], z: Vector[d]) -> tuple[Matrix[d, d], Vector[d]]:
        return A @ A.T @ A, z + A @ z + A @ A.T @ z

    start = (inweave.eye(X.shape[1]) - eta * (X.T @ X + R), eta * (X.T @ y))
    return u.T @ inweave.iterate(triple, start, levels)[1]


@inweave.program
def ridge_elimination(
    X: Matrix[n, d],
    y: Vector[n],
    R: Matrix[d, d],
    u: Vector[d],
    *,
    low: float,
) -> Scalar:
    """(XᵀX + R) w = Xᵀy by Gauss–Jordan elimination, for a matrix with ones on its diagonal.

    The pivots are diagonal entries of Schur complements: between the smallest eigenvalue of the
    matrix, which is at least `low`, and 1.
    """
    system = inweave.hstack([X.T @ X + R, X.T @ y])
    return u.T @ eliminated(system, X.shape[1], (low, 1.5))[:, 0]


@inweave.program
def lasso_descent(
    X: Matrix[n, d],
    y: Vector[n],
    t: Vector[d],
    u: Vector[d],
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
        after = inweave.relu(z - t) - inweave.relu(-z - t)
        return after, after + beta * (after - w)

    start = inweave.zeros(X.shape[1])
    return u.T @ inweave.iterate(step, (start, start), steps)[0]


def sigmoid(x: Any) -> Any:
    """1/(1 + exp(−x)), without overflow."""
    return 0.5 + 0.5 * np.tanh(np.asarray(x) / 2)


FAR = 1e6  # a net that is flat has no error of its own far out, only rounding errors


@lru_cache(maxsize=16)
def sigmoid_table(error: float) -> Function:
    """The sigmoid as a ReLU net, to an absolute error everywhere, and to none on average.

    A sum over examples feels the mean of the error more than its size. Over a piece of length h the
    chord is off by h²f''/12 on average; with its ends moved by that much the mean is zero, and the
    largest error two thirds of the chord's. Knots stand closer where |f''| is large, in proportion
    to its root; beyond ±ln(1/error), where the sigmoid is that close to 0 or 1, the net is 0 or 1.
    """
    reach = float(np.log(1 / error))
    grid = np.linspace(0, reach, 20_001)
    density = np.sqrt(np.abs(_bend(grid))) + 1e-3
    weight = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    weight *= grid[1]
    pieces = max(2, int(weight[-1] / np.sqrt(12 * error)))
    while True:
        right = np.interp(np.linspace(0, weight[-1], pieces + 1), weight, grid)
        knots = np.concatenate([-right[:0:-1], right])
        widths = np.diff(knots)
        values = sigmoid(knots)
        values[1:-1] -= widths[1:] * widths[:-1] * _bend(knots[1:-1]) / 12
        values[0], values[-1] = 0.0, 1.0
        at = np.linspace(0, 1, 33)[:, None]
        inside = values[:-1] + at * np.diff(values) - sigmoid(knots[:-1] + at * widths)
        largest = float(np.abs(inside).max())
        if largest <= error:
            break
        pieces = int(pieces * max(1.05, np.sqrt(largest / error))) + 1
    net = interpolant(knots, values)
    bound = largest * (1 + 1e-3) + float_error(net, -FAR, FAR)
    return Function("sigmoid", net, (-FAR, FAR), bound, reference=lambda _, x: sigmoid(x))


def _bend(x: Any) -> Any:
    """The second derivative of the sigmoid."""
    p = sigmoid(x)
    return p * (1 - p) * (1 - 2 * p)


@inweave.program
def logistic_descent(
    X: Matrix[n, d],
    y: Vector[n],
    R: Matrix[d, d],
    u: Vector[d],
    eta: Scalar,
    beta: Scalar,
    *,
    steps: int,
    error: float,
) -> Scalar:
    """Gradient descent with momentum on Σ log(1 + exp(xᵢw)) − yᵢ xᵢw + ½ wᵀRw, y in {0, 1}."""
    table = sigmoid_table(error)

    def step(w: Any, v: Any) -> Any:
        after = v - eta * (X.T @ (apply(table, X @ v) - y) + R @ v)
        return after, after + beta * (after - w)

    start = inweave.zeros(X.shape[1])
    return u.T @ inweave.iterate(step, (start, start), steps)[0]
