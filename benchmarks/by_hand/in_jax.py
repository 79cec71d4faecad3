"""Ridge gradient descent in jax: `lax.fori_loop` for the steps, `vmap` for a batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def plain(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    """Nothing moved out of the loop."""
    if X.ndim > 2:
        one = jax.vmap(lambda X, y, u: plain(X, y, u, lam, eta, steps))
        return one(X, y, u)

    def step(_: Any, w: Any) -> Any:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u @ jax.lax.fori_loop(0, steps, step, jnp.zeros(X.shape[1], X.dtype))


def gram(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    """A = I − η(XᵀX + λI) and c = ηXᵀy before the loop."""
    if X.ndim > 2:
        one = jax.vmap(lambda X, y, u: gram(X, y, u, lam, eta, steps))
        return one(X, y, u)
    A = (1 - eta * lam) * jnp.eye(X.shape[1], dtype=X.dtype) - eta * (X.T @ X)
    c = X.T @ (eta * y)

    def step(_: Any, w: Any) -> Any:
        return A @ w + c

    return u @ jax.lax.fori_loop(0, steps, step, jnp.zeros(X.shape[1], X.dtype))
