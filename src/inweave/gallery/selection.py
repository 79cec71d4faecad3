"""Algorithm selection: several regressions in one network, the best of them chosen in context."""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import regression
from inweave.gallery.sizes import d, n, v


def chosen(errors: Any, margin: float) -> Any:
    """A vector that is 1 at the smallest entry and 0 elsewhere, by ReLU comparisons.

    clip((eⱼ − eᵢ)/margin, 0, 1) is 1 if i beats j by the margin; i wins if it beats all the others.
    """
    k = errors.shape[0]
    gap = (errors @ np.ones((1, k))).T - errors @ np.ones((1, k))
    beats = inweave.relu(gap / margin) - inweave.relu(gap / margin - np.ones((k, k)))
    return inweave.relu(beats @ np.ones(k) - (k - 2) * inweave.ones(k))


@inweave.program
def ridge_selection(
    X: Matrix[n, d],
    y: Vector[n],
    V: Matrix[v, d],
    z: Vector[v],
    u: Vector[d],
    eta: Scalar,
    *,
    steps: int,
    lams: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0),
    margin: float = 1e-6,
) -> Any:
    """Ridge regression at several λ, and the one with the smallest validation error selected.

    W ← W − η (Xᵀ(XW − y1ᵀ) + WΛ), a column per λ; errors ‖Vwₖ − z‖²/v on validation rows; the
    smallest (by more than `margin`) is chosen by ReLU comparisons. Bai et al. (2023).
    The network: one tied module for all λ, then validation, comparison and prediction.
    """
    k, d = len(lams), X.shape[1]
    ones, units = np.ones((1, k)), np.eye(k)

    def step(W: Any) -> Any:
        return W - eta * (X.T @ (X @ W - y @ ones) + W @ np.diag(lams))

    W = inweave.hold(inweave.iterate(step, inweave.zeros(d, k), steps))
    missed = inweave.hold(V @ W - z @ ones)
    errors: Any = inweave.zeros(k)
    for i in range(k):
        column = missed[:, i]
        errors = errors + units[i] * (column @ column) / V.shape[0]
    choice = chosen(inweave.hold(errors), margin)
    return {"prediction": u.T @ W @ choice, "choice": choice}


# -- reference and example data ------------------------------------------------------------------
def _selection(
    X: Any, y: Any, V: Any, z: Any, u: Any, eta: Any, steps: int, lams: Any, **__: Any
) -> Any:
    found = []
    for lam in lams:
        w = np.zeros(X.shape[1])
        for _ in range(steps):
            w = w - eta * (X.T @ (X @ w - y) + lam * w)
        found.append(w)
    best = int(np.argmin([np.mean((V @ w - z) ** 2) for w in found]))
    return {"prediction": u @ found[best], "choice": np.eye(len(lams))[best]}


def _split(
    rng: np.random.Generator, n: int, v: int, d: int, lams: tuple[float, ...], **__: Any
) -> dict[str, Any]:
    made = regression(rng, n + v, d, noise=2.0)
    X, y = made["X"], made["y"]
    eta = 1 / (np.linalg.norm(X[:n], 2) ** 2 + max(lams))
    return {"X": X[:n], "y": y[:n], "V": X[n:], "z": y[n:], "u": made["u"], "eta": eta}


ENTRIES = (
    Entry(ridge_selection, "Bai et al. 2023",
          {"n": 30, "v": 20, "d": 8, "steps": 200, "lams": (0.1, 1.0, 10.0, 100.0)}, _split,
          _selection),
)  # fmt: skip
