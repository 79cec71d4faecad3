"""Kernels: attention whose scores are exponentials, as in softmax, and what it computes in context.

The exponential is a table of ReLU units on a bounded domain, and its error is all the error there
is: points in a ball keep the scores bounded.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.sizes import d, n

S = TypeVar("S", Matrix[Any, Any], Vector[Any])
ERROR = 1e-5  # of the exponential, whose values are about one


def exponential(scores: S, largest: float) -> S:
    """exp of every entry, for entries up to `largest` in size."""
    return inweave.pointwise(np.exp, (-largest, largest), ERROR)(scores)


@inweave.program
def softmax_regression(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], *, largest: float = 2.0
) -> Scalar:
    """Softmax-kernel regression: the responses averaged with the weights of softmax attention.

    Σ exp(xᵢᵀu) yᵢ / Σ exp(xᵢᵀu): the estimator of Nadaraya (1964) and Watson (1964) with an
    exponential kernel, which for keys of one length is the Gaussian one. `largest` bounds |xᵢᵀu|.
    The network: a layer for the scores, a table, a layer for both sums, a division, a product.
    """
    n, most = X.shape[0], float(np.exp(largest))
    weights = exponential(X @ u, largest)
    total = inweave.hold(weights.T @ inweave.ones(n))
    return (weights.T @ y) * inweave.reciprocal(total, domain=(0.9 * n / most, 1.1 * n * most))


@inweave.program
def functional_gd(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], eta: Scalar, *, steps: int, largest: float = 1.0
) -> Scalar:
    """Gradient descent in a space of functions: every step adds a kernel around every example.

    f ← f + η Σ (yᵢ − f(xᵢ)) k(xᵢ, ·) from zero with k(x, z) = exp(xᵀz), and f(u). After Cheng et
    al. (2024), who show that attention does this where its non-linearity is the kernel. `largest`
    bounds |xᵢᵀxⱼ| and |xᵢᵀu|.
    The network: a layer for the scores, a table, then one tied module that carries residuals.
    """
    K = inweave.hold(exponential(X @ X.T, largest))
    at = inweave.hold(exponential(X @ u, largest))

    def step(missed: Vector[n], f: Scalar) -> tuple[Vector[n], Scalar]:
        return missed - eta * K @ missed, f + eta * at.T @ missed

    return inweave.iterate(step, (y, 0.0), steps)[1]


# -- references and example data -----------------------------------------------------------------
def _softmax(X: Any, y: Any, u: Any, **__: Any) -> Any:
    weights = np.exp(X @ u - np.max(X @ u))
    return y @ (weights / weights.sum())


def _functional(X: Any, y: Any, u: Any, eta: Any, steps: int, **__: Any) -> Any:
    points = np.vstack([X, u])
    kernel, f = np.exp(points @ X.T), np.zeros(len(points))
    for _ in range(steps):
        f = f + eta * kernel @ (y - f[:-1])
    return f[-1]


def _ball(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    """Points of the unit ball, with responses that are not linear in them."""
    points = rng.normal(size=(n + 1, d))
    points /= np.linalg.norm(points, axis=1)[:, None] / rng.uniform(0.5, 1.0, (n + 1, 1))
    X = points[:n]
    return {"X": X, "y": np.sin(3 * X[:, 0]) + X[:, -1] ** 2, "u": points[n]}


def _steps(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    made = _ball(rng, **sizes)
    X = made["X"]
    return {**made, "eta": 1 / np.linalg.norm(np.exp(X @ X.T), 2)}


ENTRIES = (
    Entry(softmax_regression, "after Nadaraya 1964; after Watson 1964", {"n": 20, "d": 4}, _ball,
          _softmax, tolerance=1e-3),
    Entry(functional_gd, "after Cheng et al. 2024", {"n": 20, "d": 4, "steps": 30}, _steps,
          _functional, tolerance=1e-3),
)  # fmt: skip
