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
from inweave.gallery.examples import descended, pick, regression, step_size
from inweave.gallery.sizes import d, n, t


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


@inweave.program
def diagonal_transformer(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], *, weights: tuple[tuple[float, ...], ...]
) -> Scalar:
    """Linear attention with diagonal weights, layer by layer: GD++ that adapts to the noise.

    With (p, q, r, s) of a layer, a token (x, y) gains (p XᵀX x + q Xᵀy y, r yᵀX x + s yᵀy y), the
    query too, whose y begins at zero and ends as minus the prediction; yᵀy tells how noisy this
    prompt is. After Vladymyrov et al. (2024), who find that diagonal weights serve as well as full
    ones where the noise differs from prompt to prompt. GD++ has q = s = 0.
    The network: these layers, one for one.
    """
    guess: Scalar = inweave.constant(0.0)
    for p, q, r, s in weights:
        G, c = X.T @ X, X.T @ y
        X, y, u, guess = (
            inweave.hold(X + p * X @ G + q * y @ c.T),
            inweave.hold(y + r * X @ c + s * (y.T @ y) * y),
            inweave.hold(u + p * G @ u - q * c * guess),
            inweave.hold(guess - r * u.T @ c + s * (guess * y.T) @ y),
        )
    return guess


@inweave.program
def chain_of_thought_gd(X: Matrix[n, d], y: Vector[n], eta: Vector[t]) -> Matrix[t, d]:
    """Gradient descent as a chain of thought: every step is a token of its own, and stays.

    wₜ = wₜ₋₁ − ηₜ Xᵀ(Xwₜ₋₁ − y) from zero, written into row t. After Huang et al. (2025), whose one
    layer appends such a token per step.
    The network: one tied module that goes through the rows, one step of descent in each.
    """

    def step(w: Vector[d], eta: Scalar) -> tuple[Vector[d], Vector[d]]:
        w = w - eta * X.T @ (X @ w - y)
        return w, w

    return inweave.scan(step, inweave.zeros(X.shape[1]), eta)[1]


# -- references and example data -----------------------------------------------------------------
def _dual_gd(X: Any, y: Any, u: Any, eta: Any, steps: int) -> Any:
    return u @ descended(np.zeros(X.shape[1]), lambda w: X.T @ (X @ w - y), eta, steps)


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
    rates = 1 / (n * variances + variances + variances.sum() + noise**2)
    return u @ descended(np.zeros(d), lambda w: X.T @ (X @ w - y), rates, steps)


def _diagonal(X: Any, y: Any, u: Any, weights: Any) -> Any:
    """Every token attends to the examples, as the layer does it."""
    tokens = np.vstack([np.column_stack([X, y]), [*u, 0.0]])
    d = X.shape[1]
    for p, q, r, s in weights:
        examples = tokens[:-1]
        scores = (tokens[:, :d] @ examples[:, :d].T, tokens[:, d:] @ examples[:, d:].T)
        by_x, by_y = (score @ examples for score in scores)
        gains = np.repeat([[p, r], [q, s]], [d, 1], axis=1)
        tokens = tokens + by_x * gains[0] + by_y * gains[1]
    return -tokens[-1, -1]


def _thoughts(X: Any, y: Any, eta: Any) -> Any:
    w, chain = np.zeros(X.shape[1]), []
    for rate in eta:
        w = w + rate * (y - X @ w) @ X
        chain.append(w)
    return np.array(chain)


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


def _noisy(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    """Responses of any noise: its level is drawn with the prompt."""
    made = regression(rng, n, d, noise=rng.uniform(0, 2))
    return {**made, "X": made["X"] / np.sqrt(n), "y": made["y"] / np.sqrt(n)}


def _schedule(rng: np.random.Generator, n: int, d: int, t: int) -> dict[str, Any]:
    made = regression(rng, n, d)
    return pick(made, "X", "y", eta=step_size(made["X"]) / np.sqrt(1 + np.arange(t) / 10))


ROWS = {"tokens": "n"}  # one token per example
LAYERS = ((-0.1, 0.0, -0.6, 0.05), (-0.2, 0.02, -0.5, 0.1), (0.0, 0.0, -0.5, 0.0))
ENTRIES = (
    Entry(dual_gd, "von Oswald et al. 2023; Dai et al. 2023", {"n": 40, "d": 8, "steps": 100},
          _tokens, _dual_gd, options=ROWS),
    Entry(gd_plus_plus, "von Oswald et al. 2023", {"n": 40, "d": 8, "steps": 20}, _plus_plus,
          _gd_plus_plus, options=ROWS),
    Entry(preconditioned_gd, "Ahn et al. 2023; Mahankali et al. 2023",
          {"n": 20, "d": 5, "steps": 1}, _gaussian, _preconditioned, options=ROWS),
    Entry(diagonal_transformer, "after Vladymyrov et al. 2024",
          {"n": 20, "d": 4, "weights": LAYERS}, _noisy, _diagonal),
    Entry(chain_of_thought_gd, "after Huang et al. 2025", {"n": 20, "d": 4, "t": 16}, _schedule,
          _thoughts),
)  # fmt: skip
