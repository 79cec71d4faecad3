"""Examples as tokens: descent seen on residuals, one token per example and one for the query.

What a step w ← w − ηXᵀ(Xw − y) does to the residuals r = y − Xw and to the query's own
prediction q = uᵀw needs no w: r ← r − ηX(Xᵀr), q ← q + ηuᵀ(Xᵀr). The query reads the examples'
keys and is nobody's key, which is the mask of the papers; the weights do not know n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import pick, regression, step_size
from inweave.gallery.sizes import d, n


@inweave.program
def dual_gd(X: Matrix[n, d], y: Vector[n], u: Vector[d], eta: Scalar, *, steps: int) -> Scalar:
    """Gradient descent in dual form: residuals of the examples and prediction of the query.

    r ← r − ηX(Xᵀr), q ← q + ηuᵀ(Xᵀr) from r = y, q = 0. Von Oswald et al. (2023) built it into
    linear attention, Dai et al. (2023) read attention as this dual form.
    The network: one tied module; its weights are the same for every number of examples.
    """

    def step(r: Vector[n], q: Scalar) -> tuple[Vector[n], Scalar]:
        change = eta * (X.T @ r)
        return r - X @ change, q + u.T @ change

    return inweave.iterate(step, (y, 0.0), steps)[1]


@inweave.program
def gd_plus_plus(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], eta: Scalar, gamma: Scalar, *, steps: int
) -> Scalar:
    """GD++: gradient descent that also improves the conditioning of its data at every step.

    As `dual_gd`, and every token's features change too: x ← x − γXᵀX x, for the query as well. Von
    Oswald et al. (2023) found it in trained linear transformers.
    The network: one tied module that carries features, residuals and the query.
    """

    def step(
        X: Matrix[n, d], r: Vector[n], u: Vector[d], q: Scalar
    ) -> tuple[Matrix[n, d], Vector[n], Vector[d], Scalar]:
        change = eta * (X.T @ r)
        G = X.T @ X
        return X - gamma * (X @ G), r - X @ change, u - gamma * (G @ u), q + u.T @ change

    return inweave.iterate(step, (X, y, u, 0.0), steps)[3]


@inweave.program
def preconditioned_gd(
    X: Matrix[n, d],
    y: Vector[n],
    u: Vector[d],
    *,
    steps: int = 1,
    spectrum: tuple[float, ...] | None = None,
    noise: float = 0.0,
) -> Scalar:
    """Preconditioned gradient descent with the step that is optimal for Gaussian examples.

    w ← w + A Xᵀ(y − Xw), A diagonal with entries 1/((n + 1)λᵢ + Σλ + σ²) for features with
    variances λᵢ (isotropic: 1/(n + d + 1 + σ²)): the global optimum of one trained layer of linear
    attention (Ahn et al. 2023; isotropic with noise: Mahankali et al. 2023).
    The network for one step: one layer of one head, with A a constant of its projections.
    """
    rows, cols = X.shape
    variances = np.ones(cols) if spectrum is None else np.asarray(spectrum)
    A = np.diag(1 / ((rows + 1) * variances + variances.sum() + noise**2))

    w: Vector[d] = inweave.zeros(cols)
    for _ in range(steps):
        w = w + A @ (X.T @ (y - X @ w))
    return u.T @ w


# -- references and example data -----------------------------------------------------------------
def _dual_gd(X: Any, y: Any, u: Any, eta: Any, steps: int) -> Any:
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * X.T @ (X @ w - y)
    return u @ w


def _gd_plus_plus(X: Any, y: Any, u: Any, eta: Any, gamma: Any, steps: int) -> Any:
    r, q = y, 0.0
    for _ in range(steps):
        w = eta * r @ X
        curvature = np.eye(X.shape[1]) - gamma * X.T @ X
        r, q = r - X @ w, q + u @ w
        X, u = X @ curvature, curvature @ u
    return q


def _preconditioned(
    X: Any, y: Any, u: Any, steps: int = 1, spectrum: Any = None, noise: float = 0.0
) -> Any:
    n, d = X.shape
    variances = np.ones(d) if spectrum is None else np.array(spectrum)
    w = np.zeros(d)
    for _ in range(steps):
        w = w - X.T @ (X @ w - y) / (n * variances + variances + variances.sum() + noise**2)
    return u @ w


def _tokens(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    return {**made, "eta": step_size(made["X"])}


def _plus_plus(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    eta = 1 / np.linalg.norm(made["X"], 2) ** 2
    return {**made, "eta": eta, "gamma": 0.4 * eta}


def _gaussian(
    rng: np.random.Generator, n: int, d: int, spectrum: Any = None, noise: float = 0.0, **__: Any
) -> dict[str, Any]:
    """Features with the given variances and responses of a random linear model."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    scale = np.sqrt(np.ones(d) if spectrum is None else np.asarray(spectrum))
    made = {"X": X * scale, "u": rng.normal(size=d) * scale}
    return pick(made, "X", "u", y=made["X"] @ (w / scale) + noise * rng.normal(size=n))


ROWS = {"tokens": "n"}  # one token per example
ENTRIES = (
    Entry(dual_gd, "von Oswald et al. 2023; Dai et al. 2023", {"n": 40, "d": 8, "steps": 100},
          _tokens, _dual_gd, options=ROWS),
    Entry(gd_plus_plus, "von Oswald et al. 2023", {"n": 40, "d": 8, "steps": 20}, _plus_plus,
          _gd_plus_plus, options=ROWS),
    Entry(preconditioned_gd, "Ahn et al. 2023; Mahankali et al. 2023",
          {"n": 20, "d": 5, "steps": 1}, _gaussian, _preconditioned, options=ROWS),
)  # fmt: skip
