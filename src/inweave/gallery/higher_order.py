"""Higher order: iterations that square or cube their error, as deep as they are quick.

`layers_needed` puts them beside gradient descent collapsed to its least depth: the plainest of
algorithms is then shallower than Newton's method.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import positive_definite, regression
from inweave.gallery.sizes import d, m, n
from inweave.proof.degree import lower_bound


@inweave.program
def newton_schulz(A: Matrix[m, m], alpha: Scalar, *, steps: int) -> Matrix[m, m]:
    """The inverse of a matrix by the Newton–Schulz iteration.

    M ← 2M − M A M from M = α Aᵀ, which converges for 0 < α < 2/‖A‖²; the error is squared at every
    step. Fu et al. (2024) find that trained transformers do as well, and build it in.
    The network: one tied module of one layer, one head for M A M.
    """
    return inweave.iterate(lambda M: 2 * M - M @ A @ M, alpha * A.T, steps)


@inweave.program
def newton_ridge(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], lam: Scalar, alpha: Scalar, *, steps: int
) -> Scalar:
    """Ridge regression by the Newton–Schulz inverse of S = XᵀX + λI.

    M ← 2M − M S M from M = α S, then uᵀ M Xᵀ y (Fu et al. 2024; α = 1/‖S²‖ is safe in any norm).
    The network: one layer for S, one for M, one tied layer per step, and the read-out.
    """
    S = inweave.hold(X.T @ X + lam * inweave.eye(X.shape[1]))
    M = inweave.iterate(lambda M: 2 * M - M @ S @ M, alpha * S, steps)
    return u.T @ M @ (X.T @ y)


@inweave.program
def hyperpower(A: Matrix[m, m], alpha: Scalar, *, steps: int) -> Matrix[m, m]:
    """The inverse of a matrix by the cubic hyperpower iteration.

    M ← M (3I − AM (3I − AM)) from M = α Aᵀ: the error is cubed at every step. After Fu et al.
    (2024), who use the quadratic one.
    The network: one tied module of two layers; R = M A is computed once for both of its uses.
    """

    def step(M: Any) -> Any:
        R = inweave.hold(M @ A)
        return 3 * M - 3 * (R @ M) + R @ R @ M

    return inweave.iterate(step, alpha * A.T, steps)


# -- how deep ------------------------------------------------------------------------------------
def layers_needed(condition: float, error: float) -> dict[str, int]:
    """Layers that each method needs for a relative error, worst case over matrices of a condition.

    All invert S with eigenvalues in [1, condition]; the error is ‖I − M S‖, which for each method
    is a known power of the first one.
    """
    first = 1 - 2 / (1 + condition**2)  # ‖I − αS²‖ at the best α of M = αS
    powers = math.log(error) / math.log(first)
    rate = (condition - 1) / (condition + 1)  # of gradient descent with its best constant step
    steps = math.ceil(math.log(error) / math.log(rate))
    return {
        "gradient descent": steps,
        "Newton-Schulz": 1 + math.ceil(math.log2(powers)),
        "hyperpower": 1 + 2 * math.ceil(math.log(powers, 3)),
        "gradient descent, collapsed": 1 + lower_bound(steps),
    }


# -- references and example data -----------------------------------------------------------------
def _newton_schulz(A: Any, alpha: Any, steps: int) -> Any:
    """I − M A is squared at every step, so M = (I − (I − αAᵀA)^(2^steps)) A⁻¹."""
    error = np.linalg.matrix_power(np.eye(len(A)) - alpha * A.T @ A, 2**steps)
    return np.linalg.solve(A.T, (np.eye(len(A)) - error).T).T


def _hyperpower(A: Any, alpha: Any, steps: int) -> Any:
    error = np.linalg.matrix_power(np.eye(len(A)) - alpha * A.T @ A, 3**steps)
    return np.linalg.solve(A.T, (np.eye(len(A)) - error).T).T


def _newton_ridge(X: Any, y: Any, u: Any, lam: Any, alpha: Any, steps: int) -> Any:
    return u @ _newton_schulz(X.T @ X + lam * np.eye(X.shape[1]), alpha, steps) @ (X.T @ y)


def _matrix(rng: np.random.Generator, m: int, **__: Any) -> dict[str, Any]:
    A = positive_definite(rng, m, 10.0)
    return {"A": A, "alpha": 1 / np.linalg.norm(A) ** 2}


def _data(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    S = made["X"].T @ made["X"] + 0.5 * np.eye(d)
    return {**made, "lam": 0.5, "alpha": 1 / np.linalg.norm(S @ S)}


ENTRIES = (
    Entry(newton_schulz, "Fu et al. 2024", {"m": 8, "steps": 14}, _matrix, _newton_schulz),
    Entry(newton_ridge, "Fu et al. 2024", {"n": 40, "d": 8, "steps": 14}, _data, _newton_ridge),
    Entry(hyperpower, "after Fu et al. 2024", {"m": 8, "steps": 9}, _matrix, _hyperpower),
)  # fmt: skip
