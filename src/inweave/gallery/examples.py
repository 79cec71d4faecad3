"""Example data for the gallery: small random problems on which the algorithms are well behaved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def regression(rng: np.random.Generator, n: int, d: int, noise: float = 0.1) -> dict[str, Array]:
    """Standardised columns X, responses y of a linear model, and a query u."""
    X = rng.normal(size=(n, d))
    X = (X - X.mean(axis=0)) / X.std(axis=0) if n > 1 else X
    w = rng.normal(size=d) / np.sqrt(d)
    return {"X": X, "y": X @ w + noise * rng.normal(size=n), "u": rng.normal(size=d)}


def spectrum(X: Array, lam: float = 0.0) -> tuple[float, float]:
    """The smallest and largest eigenvalue of XᵀX + λI."""
    values = np.linalg.eigvalsh(X.T @ X)
    return float(max(values[0], 0.0)) + lam, float(values[-1]) + lam


def step_size(X: Array, lam: float = 0.0) -> float:
    """The best constant step of gradient descent, 2/(smallest + largest eigenvalue)."""
    low, high = spectrum(X, lam)
    return 2 / (low + high)


def descended(w: Any, gradient: Callable[[Any], Any], eta: Any, steps: int) -> Any:
    """Where gradient descent leads from w, for references."""
    for _ in range(steps):
        w = w - eta * gradient(w)
    return w


def positive_definite(rng: np.random.Generator, m: int, condition: float = 30.0) -> Array:
    """A symmetric matrix with eigenvalues from 1 to `condition`."""
    basis = np.linalg.qr(rng.normal(size=(m, m)))[0]
    return np.asarray(basis * np.geomspace(1, condition, m) @ basis.T)


def pick(data: dict[str, Any], *names: str, **more: Any) -> dict[str, Any]:
    """Some of the data, and more."""
    return {**{name: data[name] for name in names}, **more}
