"""The programs behind the estimators.

Least squares knows its rows by their moments only, so the programs of ridge and lasso begin with a
system Sw = b, S = XᵀX + R and b = Xᵀy: what a network whose prompt holds the rows (those of the
gallery) computes in its first layer, at every call, is gathered once here. With few rows, ridge has
S = XXᵀ + R and b = y. Logistic regression needs the rows, and has them in its prompt as they are. u
is the query; its answer is uᵀw.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.closed_forms import eliminated
from inweave.gallery.sizes import d, n
from inweave.language.functions import apply
from inweave.language.program import Program
from inweave.language.tables import ROUNDING, float_error, interpolant, sigmoid_errors
from inweave.model.layout import Layout
from inweave.model.relunet import Function


@inweave.program
def ridge_descent(
    S: Matrix[d, d], b: Vector[d], u: Vector[d], eta: Scalar, *, steps: int
) -> Scalar:
    """Gradient descent on ½ wᵀSw − bᵀw, from zero."""

    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (S @ w - b)

    return u.T @ inweave.iterate(step, inweave.zeros(S.shape[0]), steps)


@inweave.program
def ridge_tripling(
    S: Matrix[d, d], b: Vector[d], u: Vector[d], eta: Scalar, *, levels: int
) -> Scalar:
    """3^levels steps of the same gradient descent, in `levels` repetitions of one layer.

    A step is w ← Aw + z with A = I − ηS and z = ηb. If (A, z) stands for T steps, then
    (A³, z + Az + A²z) stands for 3T; A is symmetric, so AAᵀA is one head. It is `ridge_descent`
    collapsed between its steps, written as a loop: so it is proved by induction, at a cost that
    does not grow with the number of steps.
    """

    def triple(A: Matrix[d, d], z: Vector[d]) -> tuple[Matrix[d, d], Vector[d]]:
        return A @ A.T @ A, z + A @ z + A @ A.T @ z

    start = (inweave.eye(S.shape[0]) - eta * S, eta * b)
    return u.T @ inweave.iterate(triple, start, levels)[1]


@inweave.program
def ridge_elimination(S: Matrix[d, d], b: Vector[d], u: Vector[d], *, low: float) -> Scalar:
    """Sw = b by Gauss–Jordan elimination, for a matrix with ones on its diagonal.

    The pivots are diagonal entries of Schur complements: between the smallest eigenvalue of the
    matrix, which is at least `low`, and 1.
    """
    return u.T @ eliminated(inweave.hstack([S, b]), S.shape[0], (low, 1.5))[:, 0]


@inweave.program
def lasso_descent(
    S: Matrix[d, d],
    b: Vector[d],
    P: Matrix[d, d],
    t: Vector[d],
    w: Vector[d],
    v: Vector[d],
    u: Vector[d],
    beta: Scalar,
    *,
    steps: int,
) -> tuple[Scalar, Scalar]:
    """Proximal gradient with momentum (FISTA with a fixed β) on ½ wᵀSw − bᵀw + Σ tᵢ|wᵢ|, ‖S‖ = 1.

    z = v − P(Sv − b); w ← sign(z) max(|z| − t, 0); v ← w + β (w − w before). P is the unit matrix,
    or, where thresholds decide nothing, the inverse of a curvature. It starts from w and v, and
    answers with both, so that runs follow each other.
    """

    def step(w: Any, v: Any) -> Any:
        z = v - P @ (S @ v - b)
        after = inweave.relu(z - t) - inweave.relu(-z - t)
        return after, after + beta * (after - w)

    w, v = inweave.iterate(step, (w, v), steps)
    return u.T @ w, u.T @ v


@inweave.program
def logistic_descent(
    X: Matrix[n, d],
    y: Vector[n],
    P: Matrix[d, d],
    m: Vector[d],
    q: Vector[d],
    p: Scalar,
    w: Vector[d],
    level: Scalar,
    u: Vector[d],
    penalty: Scalar,
    *,
    steps: int,
    error: float,
) -> tuple[Scalar, Scalar]:
    """Descent on Σ log(1 + exp zᵢ) − yᵢzᵢ + ½ penalty ‖w‖², z = Xw + level − mᵀw, y in {0, 1}.

    With q = −Pm, a step is P times the gradient for w, and p times that for the level. With the
    inverse of the curvature at the start, for an m at which w and the level do not meet in it,
    these are Newton's steps with the curvature kept, each of which takes off as many digits as the
    first. The logit of the query is the sum of both answers.
    """
    table, one = sigmoid_table(error), inweave.ones(X.shape[0])

    def step(w: Any, level: Any) -> Any:
        r = apply(table, X @ w + (level - m.T @ w) * one) - y
        by_level = one.T @ r
        return w - P @ (X.T @ r + penalty * w) - by_level * q, level - p * by_level

    w, level = inweave.iterate(step, (w, level), steps)
    return u.T @ w, level - m.T @ w


# -- input forms ----------------------------------------------------------------------------------
def input_form(program: Program, sizes: Mapping[str, Any]) -> Layout | None:
    """Where the inputs of a program stand in an ELSA prompt, if that is said here.

    To search for it takes the compiler longer than all the rest. Where vectors or matrices are
    single numbers it does search: there is less to choose from, and other scratch space is needed.
    """
    d, n = sizes["d"], sizes.get("n", 0)
    if 1 in (d, n):
        return None
    column, row, value = (d, 1), (1, d), (1, 1)
    if program is lasso_descent:
        inputs = {"Sᵀ": (d, d), "P": (d, d), "beta": value, **dict.fromkeys("btwvu", column)}
        return Layout.of(inputs | dict.fromkeys(("scratch1", "scratch2", "scratch3"), column))
    if program is logistic_descent:
        inputs = {"Xᵀ": (d, n), "yᵀ": (1, n), "Pᵀ": (d, d), "penalty·I": (d, d)}
        inputs |= dict.fromkeys(("mᵀ", "qᵀ", "wᵀ", "uᵀ"), row) | {"p": value, "level": value}
        scratch = dict.fromkeys(("scratch2", "scratch3", "scratch4"), value)
        return Layout.of(inputs | {"scratch1": (d, n)} | scratch)
    return None


# -- the sigmoid ----------------------------------------------------------------------------------
def sigmoid(x: Any) -> Any:
    """1/(1 + exp(−x)), without overflow."""
    return 0.5 + 0.5 * np.tanh(np.asarray(x) / 2)


FAR = 1e6  # a net that is flat has no error of its own far out, only rounding errors


@lru_cache(maxsize=16)
def sigmoid_table(error: float) -> Function:
    """The sigmoid as a ReLU net, to an absolute error everywhere, and to none on average.

    Its domain is as wide as rounding allows, for it is flat beyond its knots.
    """
    knots, values = _knots(error)
    net, reach = interpolant(knots, values), float(knots[-1])
    off = max(np.abs(values - sigmoid(knots)).max(), sigmoid_errors(knots, values).max())
    far = min(FAR, max(reach, reach * error / (8 * float_error(net, -reach, reach))))
    bound = float(off) + 4 * ROUNDING + float_error(net, -far, far)
    return Function("sigmoid", net, (-far, far), bound, False, False, _reference, "proved")


def tabulated(x: Any, error: float) -> Any:
    """What that net makes of numbers."""
    return np.interp(x, *_knots(error))


@lru_cache(maxsize=16)
def _knots(error: float) -> tuple[Any, Any]:
    """Knots and values of a piecewise linear sigmoid: how many follows from the error.

    A sum over examples feels the mean of the error more than its size. Over a piece of length h the
    chord is off by h²f''/12 on average; with its ends moved by that much the mean is zero, and the
    largest error, h²|f''|/12, two thirds of the chord's. Knots stand closer where |f''| is large,
    in proportion to its root, so that all pieces have the same error if there are
    ∫ √|f''|/√(12 error) of them on each side; a fifth more make up for pieces on which f'' changes.
    Beyond ±ln(2/error), where the sigmoid is that close to 0 or 1, the values are 0 or 1.
    """
    grid = np.linspace(0, np.log(2 / error), 20_001)
    density = np.sqrt(np.abs(_bend(grid))) + 1e-3
    weight = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    weight *= grid[1]
    pieces = 2 + int(1.2 * weight[-1] / np.sqrt(12 * error))
    right = np.interp(np.linspace(0, weight[-1], pieces + 1), weight, grid)
    knots = np.concatenate([-right[:0:-1], right])
    widths = np.diff(knots)
    values = sigmoid(knots)
    values[1:-1] -= widths[1:] * widths[:-1] * _bend(knots[1:-1]) / 12
    values[0], values[-1] = 0.0, 1.0
    return knots, values


def _reference(_: Any, x: Any) -> Any:
    return sigmoid(x)


def _bend(x: Any) -> Any:
    """The second derivative of the sigmoid."""
    p = sigmoid(x)
    return p * (1 - p) * (1 - 2 * p)
