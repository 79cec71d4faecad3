"""Soft extraction: a selection with weights, where the paper's matrices select all or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.sizes import d, k, n


@inweave.program
def soft_extraction(X: Matrix[n, d], Y: Matrix[n, k], u: Vector[d], tau: Scalar) -> Vector[k]:
    """The rows of a block, each weighted by how far its key goes beyond a threshold.

    relu(Xu − τ)ᵀ Y: rows whose key xᵢ does not reach τ against the query are left out, the others
    count by their excess. Hagiwara (2025) extracts blocks whole and leaves the weighted form open.
    The network: a layer for the scores, a ReLU layer, a layer for the weighted sum.
    """
    return Y.T @ inweave.relu(X @ u - tau * inweave.ones(X.shape[0]))


@inweave.program
def kernel_smoother(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], *, domain: tuple[float, float] | None = None
) -> Scalar:
    """A linear kernel smoother: the responses averaged with weights 1 + xᵢᵀu.

    Σ aᵢyᵢ/Σaᵢ with aᵢ = 1 + xᵢᵀu, which is positive for points in the unit ball. Soft extraction
    (Hagiwara 2025, remarks) with weights that sum to one. `domain` bounds Σaᵢ (n/100 to 2n).
    The network: one layer for both sums, 63 units and Newton layers for the division, one product.
    """
    n = X.shape[0]
    weights = X @ u + inweave.ones(n)
    total = inweave.hold(weights.T @ inweave.ones(n))
    return (weights.T @ y) * inweave.reciprocal(total, domain=domain or (n / 100, 2 * n))


# -- references and example data -----------------------------------------------------------------
def _extraction(X: Any, Y: Any, u: Any, tau: Any) -> Any:
    return sum(max(x @ u - tau, 0.0) * row for x, row in zip(X, Y, strict=True))


def _smoother(X: Any, y: Any, u: Any, **__: Any) -> Any:
    return np.average(y, weights=1 + X @ u)


def _keys(rng: np.random.Generator, n: int, d: int, k: int) -> dict[str, Any]:
    return {"X": rng.normal(size=(n, d)), "Y": rng.normal(size=(n, k)), "u": rng.normal(size=d),
            "tau": 0.5}  # fmt: skip


def _ball(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    points = rng.normal(size=(n + 1, d))
    points /= np.linalg.norm(points, axis=1)[:, None] / rng.uniform(0.2, 0.95, (n + 1, 1))
    return {"X": points[:n], "y": rng.normal(size=n), "u": points[n]}


ENTRIES = (
    Entry(soft_extraction, "after Hagiwara 2025", {"n": 20, "d": 4, "k": 3}, _keys, _extraction),
    Entry(kernel_smoother, "after Hagiwara 2025", {"n": 20, "d": 4}, _ball, _smoother),
)  # fmt: skip
