"""Ridge gradient descent in torch."""

from __future__ import annotations

from typing import Any

import torch


def plain(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    """Nothing moved out of the loop."""
    if X.ndim > 2:
        return _plain_batch(X, y, u, lam, eta, steps)
    w = X.new_zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * (X.T @ (X @ w - y) + lam * w)
    return u @ w


def gram(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    """XᵀX + λI and Xᵀy before the loop."""
    if X.ndim > 2:
        return _gram_batch(X, y, u, lam, eta, steps)
    A = X.T @ X + lam * torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
    b = X.T @ y
    w = X.new_zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * (A @ w - b)
    return u @ w


def _plain_batch(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    Xt, y = X.mT, y[..., None]
    w = X.new_zeros((*u.shape, 1))
    for _ in range(steps):
        w = w - eta * (Xt @ (X @ w - y) + lam * w)
    return (u * w[..., 0]).sum(dim=-1)


def _gram_batch(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    A = X.mT @ X + lam * torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)
    b = X.mT @ y[..., None]
    w = torch.zeros_like(b)
    for _ in range(steps):
        w = w - eta * (A @ w - b)
    return (u * w[..., 0]).sum(dim=-1)
