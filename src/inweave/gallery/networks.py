"""Networks inside the network: a model with a hidden layer, trained in context by descent."""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.sizes import d, m, n


@inweave.program
def two_layer_gd(
    X: Matrix[n, d],
    y: Vector[n],
    W: Matrix[d, m],
    a: Vector[m],
    u: Vector[d],
    eta: Scalar,
    *,
    steps: int,
    margin: float = 1e-5,
) -> Scalar:
    """Gradient descent on both layers of a ReLU network with m hidden units, and its prediction.

    f(x) = aᵀ relu(Wᵀx) and half the squared error. With r = f(X) − y and S the slopes of the units,
    a ← a − η relu(XW)ᵀr, W ← W − η Xᵀ(r aᵀ ∘ S). S is clip(XW/`margin`, 0, 1), so the step is exact
    where no unit is within `margin` above its kink. After Bai et al. (2023), who descend on
    two-layer networks in context.
    The network: one tied module; two ReLU layers give units and slopes, products by entries mask.
    """

    def step(W: Matrix[d, m], a: Vector[m]) -> tuple[Matrix[d, m], Vector[m]]:
        inside = inweave.hold(X @ W)
        units = inweave.relu(inside)
        slopes = inweave.hold((units - inweave.relu(inside - margin)) / margin)
        r = inweave.hold(units @ a - y)
        back = inweave.hold((r @ a.T) * slopes)
        return W - eta * X.T @ back, a - eta * units.T @ r

    W, a = inweave.iterate(step, (W, a), steps)
    return inweave.relu(inweave.hold(W.T @ u)).T @ a


# -- reference and example data ------------------------------------------------------------------
def _trained(X: Any, y: Any, W: Any, a: Any, u: Any, eta: Any, steps: int, **__: Any) -> Any:
    for _ in range(steps):
        units = np.maximum(X @ W, 0)
        r = units @ a - y
        back = np.outer(r, a) * (X @ W > 0)
        W, a = W - eta * X.T @ back, a - eta * r @ units
    return np.maximum(u @ W, 0) @ a


def _task(rng: np.random.Generator, n: int, d: int, m: int, **__: Any) -> dict[str, Any]:
    X, W, a = rng.normal(size=(n, d)), rng.normal(size=(d, m)) / np.sqrt(d), rng.normal(size=m)
    made = {"X": X, "y": np.abs(X[:, 0]), "W": W, "a": a / np.sqrt(m), "u": np.sum(W, axis=1)}
    return {**made, "eta": 0.2 / n}


ENTRIES = (
    Entry(two_layer_gd, "after Bai et al. 2023", {"n": 6, "d": 3, "m": 4, "steps": 8}, _task,
          _trained, tolerance=1e-8),
)  # fmt: skip
