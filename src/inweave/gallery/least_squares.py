"""Least squares and ridge regression by first-order methods.

Each is an affine recurrence in what it carries, so `optimize="depth"` folds T steps into about
log₃ T layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import descended, pick, regression, spectrum, step_size
from inweave.gallery.sizes import d, k, n


@inweave.program
def ridge_gd(
    X: Matrix[n, d],
    y: Vector[n],
    u: Vector[d],
    w0: Vector[d],
    lam: Scalar,
    eta: Scalar,
    *,
    steps: int,
) -> Scalar:
    """Ridge regression by gradient descent from a given start, and its prediction for u.

    w ← w − η (Xᵀ(Xw − y) + λw), `steps` times; the answer is uᵀw. Von Oswald et al. (2023) and Bai
    et al. (2023) put such steps into attention, Hagiwara (2025) with the bias matrices of ELSA.
    The network: one tied module of two layers per step, and one layer that reads out.
    """

    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u.T @ inweave.iterate(step, w0, steps)


@inweave.program
def ridge_multi_output(
    X: Matrix[n, d], Y: Matrix[n, k], lam: Scalar, eta: Scalar, *, steps: int
) -> Matrix[d, k]:
    """Ridge regression with several responses at once, by gradient descent.

    W ← W − η (Xᵀ(XW − Y) + λW) from zero. Hagiwara (2025) treats one response; a head multiplies
    matrices, so k responses cost k columns and not one head more.
    The network: one tied module of two layers per step.
    """

    def step(W: Matrix[d, k]) -> Matrix[d, k]:
        return W - eta * (X.T @ (X @ W - Y) + lam * W)

    return inweave.iterate(step, inweave.zeros(X.shape[1], Y.shape[1]), steps)


@inweave.program
def weighted_least_squares(
    X: Matrix[n, d], y: Vector[n], D: Matrix[n, n], lam: Scalar, eta: Scalar, *, steps: int
) -> Vector[d]:
    """Least squares with a weight for every example, by gradient descent.

    w ← w − η (Xᵀ D (Xw − y) + λw); D is diagonal (or any precision matrix: generalised least
    squares). A weighted form of the construction of Bai et al. (2023).
    The network: one tied module; D stands in the prompt as a block, because attention multiplies
    matrices and not entries.
    """

    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (X.T @ (D @ (X @ w - y)) + lam * w)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@inweave.program
def heavy_ball(
    X: Matrix[n, d], y: Vector[n], lam: Scalar, eta: Scalar, beta: Scalar, *, steps: int
) -> Vector[d]:
    """Ridge regression by gradient descent with Polyak's momentum.

    w' ← w − η (Xᵀ(Xw − y) + λw) + β (w − v), v ← w. Dutta and Sra (2024) let linear
    transformers with a memory run such methods.
    The network: one tied module that carries w and the w before it.
    """

    def step(w: Vector[d], v: Vector[d]) -> tuple[Vector[d], Vector[d]]:
        return w - eta * (X.T @ (X @ w - y) + lam * w) + beta * (w - v), w

    start = inweave.zeros(X.shape[1])
    return inweave.iterate(step, (start, start), steps)[0]


@inweave.program
def nesterov(
    X: Matrix[n, d], y: Vector[n], lam: Scalar, eta: Scalar, beta: Scalar, *, steps: int
) -> Vector[d]:
    """Ridge regression by Nesterov's accelerated gradient with a fixed momentum.

    z ← w + β (w − v), v ← w, w ← z − η (Xᵀ(Xz − y) + λz). With a memory: Dutta and
    Sra (2024).
    The network: one tied module; z is affine in what is carried, so it costs no layer.
    """

    def step(w: Vector[d], v: Vector[d]) -> tuple[Vector[d], Vector[d]]:
        z = w + beta * (w - v)
        return z - eta * (X.T @ (X @ z - y) + lam * z), w

    start = inweave.zeros(X.shape[1])
    return inweave.iterate(step, (start, start), steps)[0]


def chebyshev_weights(low: float, high: float, steps: int) -> np.ndarray[Any, Any]:
    """ω₁ = 1, ω₂ = 2/(2 − ρ²), ωₖ₊₁ = 1/(1 − ρ² ωₖ/4) with ρ = (high − low)/(high + low)."""
    rho2 = ((high - low) / (high + low)) ** 2
    omega = [1.0, 2 / (2 - rho2)]
    while len(omega) < steps:
        omega.append(1 / (1 - rho2 * omega[-1] / 4))
    return np.array(omega[:steps])


@inweave.program
def chebyshev(
    X: Matrix[n, d], y: Vector[n], lam: Scalar, *, steps: int, low: float = 1.0, high: float = 100.0
) -> Vector[d]:
    """Ridge regression by Chebyshev semi-iteration on declared eigenvalue bounds.

    w' ← v + ωₖ (w − v + η (Xᵀy − (XᵀX + λ)w)), v ← w, with η = 2/(low + high) and ωₖ from the
    bounds on the eigenvalues of XᵀX + λI: the best polynomial of its degree. After the first-order
    methods of Dutta and Sra (2024).
    The network: one tied module; the ωₖ ride in a column of the prompt and move up a row per step.
    """
    eta = 2 / (low + high)

    def step(w: Any, v: Any, omega: Any) -> Any:
        descent = w - v - eta * (X.T @ (X @ w - y) + lam * w)
        moved = inweave.vstack([omega[1:], omega[:1]]) if steps > 1 else omega
        return v + omega[0] * descent, w, moved

    start = inweave.zeros(X.shape[1])
    omega = inweave.constant(chebyshev_weights(low, high, steps))
    return inweave.iterate(step, (start, start, omega), steps)[0]


# -- references and example data -----------------------------------------------------------------
def _gradient(X: Any, y: Any, lam: Any) -> Any:
    return lambda w: X.T @ (X @ w - y) + lam * w


def _ridge_gd(X: Any, y: Any, u: Any, w0: Any, lam: Any, eta: Any, steps: int) -> Any:
    return u @ descended(w0, _gradient(X, y, lam), eta, steps)


def _multi_output(X: Any, Y: Any, lam: Any, eta: Any, steps: int) -> Any:
    return descended(np.zeros((X.shape[1], Y.shape[1])), _gradient(X, Y, lam), eta, steps)


def _weighted(X: Any, y: Any, D: Any, lam: Any, eta: Any, steps: int) -> Any:
    root = np.sqrt(np.diag(D))
    gradient = _gradient(X * root[:, None], y * root, lam)
    return descended(np.zeros(X.shape[1]), gradient, eta, steps)


def _heavy_ball(X: Any, y: Any, lam: Any, eta: Any, beta: Any, steps: int) -> Any:
    gradient = _gradient(X, y, lam)
    w = velocity = np.zeros(X.shape[1])
    for _ in range(steps):
        velocity = beta * velocity - eta * gradient(w)
        w = w + velocity
    return w


def _nesterov(X: Any, y: Any, lam: Any, eta: Any, beta: Any, steps: int) -> Any:
    gradient = _gradient(X, y, lam)
    w = velocity = np.zeros(X.shape[1])
    for _ in range(steps):
        velocity = beta * velocity - eta * gradient(w + beta * velocity)
        w = w + velocity
    return w


def _chebyshev(X: Any, y: Any, lam: Any, steps: int, low: float, high: float) -> Any:
    """Saad, Iterative Methods for Sparse Linear Systems, algorithm 12.1."""
    A, b = X.T @ X + lam * np.eye(X.shape[1]), X.T @ y
    theta, delta = (high + low) / 2, (high - low) / 2
    sigma = theta / delta
    rho, w = 1 / sigma, np.zeros(X.shape[1])
    residual = b.copy()
    move = residual / theta
    for _ in range(steps):
        w = w + move
        residual = residual - A @ move
        after = 1 / (2 * sigma - rho)
        move = after * rho * move + 2 * after / delta * residual
        rho = after
    return w


def _data(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    return {**made, "lam": 0.5, "eta": step_size(made["X"], 0.5)}


def _from_w0(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    return {**_data(rng, **sizes), "w0": rng.normal(size=sizes["d"])}


def _several(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    made = _data(rng, **sizes)
    Y = made["y"][:, None] + rng.normal(size=(sizes["n"], sizes["k"]))
    return pick(made, "X", "lam", "eta", Y=Y)


def _weights(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    made = _data(rng, **sizes)
    return pick(made, "X", "y", "lam", "eta", D=np.diag(rng.uniform(0.1, 1.0, sizes["n"])))


def _momentum(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    made = _data(rng, **sizes)
    low, high = spectrum(made["X"], 0.5)
    eta = 4 / (np.sqrt(low) + np.sqrt(high)) ** 2
    beta = ((np.sqrt(high) - np.sqrt(low)) / (np.sqrt(high) + np.sqrt(low))) ** 2
    return pick(made, "X", "y", "lam", eta=eta, beta=beta)


def _accelerated(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    made = _data(rng, **sizes)
    low, high = np.sqrt(spectrum(made["X"], 0.5))
    return pick(made, "X", "y", "lam", eta=1 / high**2, beta=(high - low) / (high + low))


def _bounded(rng: np.random.Generator, low: float, high: float, **sizes: Any) -> dict[str, Any]:
    """Data whose XᵀX + λI has eigenvalues inside the declared bounds."""
    made = _data(rng, **sizes)
    basis, _, turn = np.linalg.svd(made["X"], full_matrices=False)
    values = np.sqrt(np.linspace(low - 0.5 * low, high - 0.5 * low, len(turn)))
    return {"X": basis * values @ turn, "y": made["y"], "lam": 0.5 * low}


SMALL = {"n": 40, "d": 8}
ENTRIES = (
    Entry(ridge_gd, "Hagiwara 2025; Bai et al. 2023; von Oswald et al. 2023",
          {**SMALL, "steps": 81}, _from_w0, _ridge_gd),
    Entry(ridge_multi_output, "Hagiwara 2025", {**SMALL, "k": 3, "steps": 81}, _several,
          _multi_output),
    Entry(weighted_least_squares, "after Bai et al. 2023", {**SMALL, "steps": 81}, _weights,
          _weighted),
    Entry(heavy_ball, "Dutta and Sra 2024", {**SMALL, "steps": 30}, _momentum, _heavy_ball),
    Entry(nesterov, "Dutta and Sra 2024", {**SMALL, "steps": 30}, _accelerated, _nesterov),
    Entry(chebyshev, "after Dutta and Sra 2024", {**SMALL, "steps": 20, "low": 1.0, "high": 100.0},
          _bounded, _chebyshev),
)  # fmt: skip
