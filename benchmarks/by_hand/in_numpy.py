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
    """XᵀX + λI and Xᵀy before the loop."""
    if X.ndim > 2:
        return _gram_batch(X, y, u, lam, eta, steps)
    A = X.T @ X + lam * np.eye(X.shape[1], dtype=X.dtype)
    b = X.T @ y
    w = np.zeros(X.shape[1], X.dtype)
    for _ in range(steps):
        w = w - eta * (A @ w - b)
    return u @ w


def _plain_batch(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    Xt, y = X.mT, y[..., None]
    w = np.zeros((*u.shape, 1), X.dtype)
    for _ in range(steps):
        w = w - eta * (Xt @ (X @ w - y) + lam * w)
    return (u * w[..., 0]).sum(axis=-1)


def _gram_batch(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    A = X.mT @ X + lam * np.eye(X.shape[-1], dtype=X.dtype)
    b = X.mT @ y[..., None]
    w = np.zeros_like(b)
    for _ in range(steps):
        w = w - eta * (A @ w - b)
    return (u * w[..., 0]).sum(axis=-1)
