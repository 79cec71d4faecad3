"""The program of `inweave demo`, as a user would write it."""

from __future__ import annotations

from typing import TypeVar

import inweave
from inweave import Matrix, Scalar, Vector

n = TypeVar("n")
d = TypeVar("d")


@inweave.program
def ridge(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    """Ridge regression by gradient descent, and its prediction for u."""

    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u.T @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)
