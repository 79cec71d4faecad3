"""Sparse and generalised regression: gradient steps with a pointwise layer between them.

Soft threshold and clipping are piecewise linear, so their ReLU units compute them exactly; the
sigmoid is a table whose error bound stands in the certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import pick, regression
from inweave.gallery.sizes import d, n


@inweave.program
def lasso_ista(X: Matrix[n, d], y: Vector[n], lam: Scalar, eta: Scalar, *, steps: int) -> Vector[d]:
    """The Lasso by ISTA: gradient steps, each followed by a soft threshold.

    w ← soft(w − ηXᵀ(Xw − y), ηλ) minimises ‖Xw − y‖²/2 + λ‖w‖₁ for η ≤ 1/‖X‖². After Bai et
    al. (2023), who show that transformers can implement the Lasso in context.
    The network: one tied module of two attention layers and one ReLU layer.
    """

    def step(w: Vector[d]) -> Vector[d]:
        return inweave.soft_threshold(w - eta * (X.T @ (X @ w - y)), eta * lam)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


def momenta(steps: int) -> np.ndarray[Any, Any]:
    """(tₖ − 1)/tₖ₊₁ with t₁ = 1, tₖ₊₁ = (1 + √(1 + 4tₖ²))/2."""
    out, t = [], 1.0
    for _ in range(steps):
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        out.append((t - 1) / after)
        t = after
    return np.array(out)


@inweave.program
def lasso_fista(
    X: Matrix[n, d], y: Vector[n], lam: Scalar, eta: Scalar, *, steps: int
) -> Vector[d]:
    """The Lasso by FISTA, whose momenta are known beforehand.

    w' ← soft(z − ηXᵀ(Xz − y), ηλ), z ← w' + ((tₖ − 1)/tₖ₊₁)(w' − w). After Bai et al. (2023), who
    show that transformers can implement the Lasso in context; the momentum is Beck and Teboulle's.
    The network: one tied module; the momenta ride in a column of the prompt and move up a row per
    step.
    """

    def step(w: Any, z: Any, momentum: Any) -> Any:
        after = inweave.soft_threshold(z - eta * (X.T @ (X @ z - y)), eta * lam)
        moved = inweave.vstack([momentum[1:], momentum[:1]])
        return after, after + momentum[0] * (after - w), moved

    start = inweave.zeros(X.shape[1])
    return inweave.iterate(step, (start, start, inweave.constant(momenta(steps))), steps)[0]


@inweave.program
def logistic_gd(
    X: Matrix[n, d],
    y: Vector[n],
    lam: Scalar,
    eta: Scalar,
    *,
    steps: int,
    largest: float = 12.0,
    error: float = 1e-4,
) -> Vector[d]:
    """Logistic regression by gradient descent, with a sigmoid of bounded error.

    w ← w − η (Xᵀ(σ(Xw) − y) + λw) for labels 0 and 1. Bai et al. (2023) run generalised linear
    models this way. `largest` bounds |Xw|, `error` the table of σ.
    The network: one tied module of two attention layers and one layer of ReLU units per entry.
    """

    def step(w: Vector[d]) -> Vector[d]:
        probability = inweave.sigmoid(X @ w, domain=(-largest, largest), error=error)
        return w - eta * (X.T @ (probability - y) + lam * w)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@inweave.program
def huber_gd(
    X: Matrix[n, d], y: Vector[n], eta: Scalar, *, steps: int, delta: float = 1.0
) -> Vector[d]:
    """Robust regression with Huber's loss by gradient descent.

    w ← w − ηXᵀ clip(Xw − y, ±δ): an example counts no more than δ, however far off it is. Bai et
    al. (2023) approximate such losses by ReLUs; clipping is two ReLUs, exactly.
    The network: one tied module of two attention layers and one ReLU layer.
    """
    edge = delta * inweave.ones(X.shape[0])

    def step(w: Vector[d]) -> Vector[d]:
        missed = X @ w - y
        clipped = inweave.relu(missed + edge) - inweave.relu(missed - edge) - edge
        return w - eta * (X.T @ clipped)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


# -- references and example data -----------------------------------------------------------------
def _soft(x: Any, t: Any) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - t, 0)


def _ista(X: Any, y: Any, lam: Any, eta: Any, steps: int) -> Any:
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = _soft(w - eta * X.T @ (X @ w - y), eta * lam)
    return w


def _fista(X: Any, y: Any, lam: Any, eta: Any, steps: int) -> Any:
    w = z = np.zeros(X.shape[1])
    t = 1.0
    for _ in range(steps):
        after = _soft(z - eta * X.T @ (X @ z - y), eta * lam)
        t_after = (1 + (1 + 4 * t * t) ** 0.5) / 2
        z = after + (t - 1) / t_after * (after - w)
        w, t = after, t_after
    return w


def _logistic(X: Any, y: Any, lam: Any, eta: Any, steps: int, **__: Any) -> Any:
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * (X.T @ (1 / (1 + np.exp(-X @ w)) - y) + lam * w)
    return w


def _huber(X: Any, y: Any, eta: Any, steps: int, delta: float = 1.0) -> Any:
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * X.T @ np.clip(X @ w - y, -delta, delta)
    return w


def _data(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    lam = 0.2 * float(np.max(np.abs(made["X"].T @ made["y"])))
    return pick(made, "X", "y", lam=lam, eta=1 / np.linalg.norm(made["X"], 2) ** 2)


def _labels(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    eta = 4 / np.linalg.norm(made["X"], 2) ** 2
    return {"X": made["X"], "y": (made["y"] > 0).astype(float), "lam": 1.0, "eta": eta}


def _outliers(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = _data(rng, n, d)
    made["y"][::7] += 10 * rng.normal(size=len(made["y"][::7]))
    return pick(made, "X", "y", "eta")


SMALL = {"n": 40, "d": 8}
ENTRIES = (
    Entry(lasso_ista, "after Bai et al. 2023", {**SMALL, "steps": 100}, _data, _ista),
    Entry(lasso_fista, "after Bai et al. 2023", {**SMALL, "steps": 50}, _data, _fista),
    Entry(logistic_gd, "Bai et al. 2023", {**SMALL, "steps": 50}, _labels, _logistic,
          tolerance=1e-3),
    Entry(huber_gd, "after Bai et al. 2023", {**SMALL, "steps": 100}, _outliers, _huber),
)  # fmt: skip
