# mypy: disable-error-code="attr-defined,name-defined,no-any-return,type-arg"
"""The program of `inweave demo`, as a user would write it (sizes as strings are not for mypy)."""

from __future__ import annotations

from typing import Any

import inweave
from inweave import Matrix, Scalar, Vector


@inweave.program
def ridge(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    """Ridge regression by gradient descent, and its prediction for u."""

    def step(w: Any) -> Any:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u.T @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)
