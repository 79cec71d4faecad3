"""Ridge gradient descent in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    """Nothing moved out of the loop."""
    if X.ndim > 2:
        return _plain_batch(X, y, u, lam, eta, steps)
    w = np.zeros(X.shape[1], X.dtype)
    for _ in range(steps):
        w = w - eta * (X.T @ (X @ w - y) + lam * w)
    return u @ w


def gram(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    """A = I − η(XᵀX + λI) and c = ηXᵀy before the loop."""
    A = X.mT @ X
    A *= -eta
    np.einsum("...ii->...i", A)[...] += 1 - eta * lam
    c = X.mT @ (eta * y[..., None])
    product = np.matmul if X.ndim > 2 else np.dot
    w = np.zeros_like(c)
    for _ in range(steps):
        w = product(A, w)
        w += c
    return (u * w[..., 0]).sum(axis=-1)


def _plain_batch(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    Xt, y = X.mT, y[..., None]
    w = np.zeros((*u.shape, 1), X.dtype)
    for _ in range(steps):
        w = w - eta * (Xt @ (X @ w - y) + lam * w)
    return (u * w[..., 0]).sum(axis=-1)
