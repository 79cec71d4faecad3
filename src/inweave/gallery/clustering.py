"""Clusters, mixtures and transport: who belongs to whom, by exponentials and divisions.

Divisions of vectors are tables here, entry by entry; their errors and that of the exponential bound
how near the network is to its program.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import regression
from inweave.gallery.sizes import d, k, m, n

N = TypeVar("N")
ERROR = 1e-5  # of the tables


@inweave.program
def gaussian_mixture(
    X: Matrix[n, d], M: Matrix[k, d], *, steps: int, largest: float = 5.0
) -> Matrix[k, d]:
    """Expectation maximisation for a mixture of k Gaussians of unit variance: their means.

    rᵢⱼ = exp(−‖xᵢ − mⱼ‖²/2)/Σ over j, then mⱼ = Σᵢ rᵢⱼ xᵢ/Σᵢ rᵢⱼ; ‖xᵢ‖² cancels. After Dempster et
    al. (1977). `largest` bounds |xᵢᵀmⱼ − ‖mⱼ‖²/2|.
    The network: one tied module: scores, a table, sums, two divisions, the new means.
    """
    rows, count, most = X.shape[0], M.shape[0], float(np.exp(largest))
    exp = inweave.pointwise(np.exp, (-largest, largest), ERROR)

    def share(R: Any, low: float, high: float) -> Any:
        """R with every row divided by its sum, which lies between `low` and `high`."""
        sums = inweave.hold(R.sum(axis=1))
        return inweave.diag(inweave.reciprocal(sums, (low, high), ERROR)) @ R

    def step(M: Matrix[k, d]) -> Matrix[k, d]:
        scores = exp(inweave.hold(X @ M.T - (M * M).sum(axis=1) / 2))
        R = inweave.hold(share(scores, count / most / 2, 2 * count * most))
        means: Matrix[k, d] = share(R.T, 0.1, 2 * rows) @ X
        return means

    return inweave.iterate(step, M, steps)


@inweave.program
def regression_mixture(
    X: Matrix[n, d],
    y: Vector[n],
    w0: Vector[d],
    eta: Scalar,
    *,
    steps: int,
    noise: float = 1.0,
    largest: float = 60.0,
) -> Vector[d]:
    """Two linear regressions of opposite signs, mixed, by expectation and gradient steps.

    yᵢ is xᵢᵀw or −xᵢᵀw and noise of variance σ²: the expected sign is tanh(yᵢ xᵢᵀw/σ²), and
    w ← w + η Xᵀ(sign ∘ y − Xw). After Jin et al. (2024). `largest` bounds |yᵢ xᵢᵀw|/σ².
    The network: one tied module: a product by entries, a table, another product, the step.
    """
    tanh = inweave.pointwise(np.tanh, (-largest, largest), ERROR)

    def step(w: Vector[d]) -> Vector[d]:
        fitted = inweave.hold(X @ w)
        sign = tanh(inweave.hold(y * fitted / noise**2))
        return w + eta * X.T @ (sign * y - fitted)

    return inweave.iterate(step, w0, steps)


@inweave.program
def sinkhorn(
    C: Matrix[n, m],
    a: Vector[n],
    b: Vector[m],
    *,
    steps: int,
    epsilon: float = 0.5,
    largest: float = 1.0,
) -> Matrix[n, m]:
    """Optimal transport with entropy by Sinkhorn's scaling of rows and columns.

    K = exp(−C/ε), f ← a/(Kg), g ← b/(Kᵀf) from g = 1; the plan is diag(f) K diag(g). Cuturi (2013),
    for costs between 0 and `largest`.
    The network: a table for K, one tied module of two divisions, then two diagonal scalings.
    """
    rows, cols = C.shape
    least = float(np.exp(-largest / epsilon))
    K = inweave.hold(inweave.pointwise(np.exp, (-largest / epsilon, 0.0), ERROR)(-C / epsilon))

    def divided(top: Vector[N], bottom: Vector[N], size: int) -> Vector[N]:
        wide = (least * least / size / 10, 10 * size / least / least)
        return inweave.hold(top * inweave.reciprocal(inweave.hold(bottom), wide, ERROR))

    def step(f: Vector[n], g: Vector[m]) -> tuple[Vector[n], Vector[m]]:
        f = divided(a, K @ g, cols)
        return f, divided(b, K.T @ f, rows)

    f, g = inweave.iterate(step, (inweave.zeros(rows), inweave.ones(cols)), steps)
    plan: Matrix[n, m] = inweave.diag(f) @ K @ inweave.diag(g)
    return plan


# -- references and example data -----------------------------------------------------------------
def _mixture(X: Any, M: Any, steps: int, **__: Any) -> Any:
    for _ in range(steps):
        R = np.exp(-np.sum((X[:, None] - M) ** 2, axis=2) / 2)
        R /= R.sum(axis=1, keepdims=True)
        M = R.T @ X / R.sum(axis=0)[:, None]
    return M


def _signs(X: Any, y: Any, w0: Any, eta: Any, steps: int, noise: float = 1.0, **__: Any) -> Any:
    w = w0
    for _ in range(steps):
        plus, minus = (np.exp(-((y - s * X @ w) ** 2) / 2 / noise**2) for s in (1, -1))
        w = w + eta * X.T @ (y * (plus - minus) / (plus + minus) - X @ w)
    return w


def _transport(C: Any, a: Any, b: Any, steps: int, epsilon: float = 0.5, **__: Any) -> Any:
    P = np.exp(-C / epsilon)
    for _ in range(steps):
        P = P * (a / P.sum(axis=1))[:, None]
        P = P * (b / P.sum(axis=0))
    return P


def _clusters(rng: np.random.Generator, n: int, d: int, k: int, **__: Any) -> dict[str, Any]:
    centres = 1.2 * np.linalg.qr(rng.normal(size=(max(d, k), max(d, k))))[0][:k, :d]
    X = centres[np.arange(n) % k] + 0.4 * rng.normal(size=(n, d))
    return {"X": X, "M": centres + 0.2 * rng.normal(size=(k, d))}


def _opposite(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d, noise=0.0)
    X, clean = made["X"], made["y"]
    y = np.where(rng.uniform(size=n) < 0.5, clean, -clean) + rng.normal(size=n)
    w0 = np.linalg.lstsq(X, clean, rcond=None)[0] + 0.3 * rng.normal(size=d)
    return {"X": X, "y": y, "w0": w0, "eta": 1 / np.linalg.norm(X, 2) ** 2}


def _marginals(rng: np.random.Generator, n: int, m: int, **__: Any) -> dict[str, Any]:
    a, b = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, m)
    return {"C": rng.uniform(0, 1, (n, m)), "a": a / a.sum(), "b": b / b.sum()}


ENTRIES = (
    Entry(gaussian_mixture, "after Dempster et al. 1977", {"n": 12, "d": 2, "k": 3, "steps": 3},
          _clusters, _mixture, tolerance=1e-2),
    Entry(regression_mixture, "after Jin et al. 2024", {"n": 12, "d": 3, "steps": 10}, _opposite,
          _signs, tolerance=1e-3),
    Entry(sinkhorn, "Cuturi 2013", {"n": 5, "m": 4, "steps": 10}, _marginals, _transport,
          tolerance=1e-3),
)  # fmt: skip
