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
    """A = I − η(XᵀX + λI) and c = ηXᵀy before the loop."""
    A = X.mT @ X
    A *= -eta
    A.diagonal(dim1=-2, dim2=-1).add_(1 - eta * lam)
    if X.ndim > 2:
        c = X.mT @ (eta * y[..., None])
        w = torch.zeros_like(c)
        for _ in range(steps):
            w = torch.baddbmm(c, A, w)
        return (u * w[..., 0]).sum(dim=-1)
    c = X.T @ (eta * y)
    w = torch.zeros_like(c)
    for _ in range(steps):
        w = torch.addmv(c, A, w)
    return u @ w


def _plain_batch(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    Xt, y = X.mT, y[..., None]
    w = X.new_zeros((*u.shape, 1))
    for _ in range(steps):
        w = w - eta * (Xt @ (X @ w - y) + lam * w)
    return (u * w[..., 0]).sum(dim=-1)
