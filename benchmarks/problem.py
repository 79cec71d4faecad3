"""The problem that most rows solve: ridge regression by gradient descent, on random data."""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Network, Scalar, Vector

STEPS = 100
LAM = 0.1
DRAWN = 16  # problems of a batch whose X is drawn afresh


@inweave.program
def ridge_gd(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    """`steps` steps of w ← w − η (Xᵀ(Xw − y) + λw) from zero, and the prediction uᵀw."""

    def step(w: Any) -> Any:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u.T @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


def network(n: int, d: int, steps: int = STEPS, optimize: str = "speed") -> Network:
    """The compiled program; not verified here, which another row measures."""
    return inweave.compile(ridge_gd, n=n, d=d, steps=steps, optimize=optimize, verify=False)


def data(n: int, d: int, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    """Random problems, with a step size that is stable for all of them.

    In a large batch the columns of X repeat with other signs, which are drawn sooner than numbers.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((min(batch, DRAWN), n, d))
    if batch > DRAWN:
        X = np.resize(X, (batch, n, d))
        X *= rng.choice((-1.0, 1.0), size=(batch, 1, d))
    y = (X @ rng.standard_normal((batch, d, 1)))[..., 0] + 0.1 * rng.standard_normal((batch, n))
    u = rng.standard_normal((batch, d))
    if batch == 1:
        X, y, u = X[0], y[0], u[0]
    # The largest eigenvalue of XᵀX is close to (√n + √d)² for such X, here with room to spare.
    eta = 1 / (1.2 * (np.sqrt(n) + np.sqrt(d)) ** 2 + LAM)
    return {"X": X, "y": y, "u": u, "lam": LAM, "eta": float(eta)}
