"""Filtering: the state of a system, followed through noisy observations."""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.closed_forms import PRECISE
from inweave.gallery.entry import Entry
from inweave.gallery.sizes import d, n


@inweave.program
def kalman_filter(
    y: Vector[n],
    A: Matrix[d, d],
    c: Vector[d],
    noise: Matrix[d, d],
    r: Scalar,
    *,
    domain: tuple[float, float] = (1e-6, 1e6),
) -> Matrix[n, d]:
    """The Kalman filter of a linear system with one observation at a time.

    Predicted: x ← Ax, P ← APAᵀ + `noise`. Corrected: g = Pc/(cᵀPc + r), x ← x + g (y − cᵀx),
    P ← P − g cᵀP, from x = 0, P = I. Kalman (1960). `domain` bounds cᵀPc + r.
    The network: one tied module that goes through the observations, a division in each step.
    """

    def step(
        carried: tuple[Vector[d], Matrix[d, d]], y: Scalar
    ) -> tuple[tuple[Vector[d], Matrix[d, d]], Vector[d]]:
        x, P = carried
        x, P = A @ x, inweave.hold(A @ P @ A.T + noise)
        Pc = inweave.hold(P @ c)
        gain = inweave.hold(Pc * inweave.reciprocal(c.T @ Pc + r, domain=domain, error=PRECISE))
        x = x + gain * (y - c.T @ x)
        return (x, P - gain @ Pc.T), x

    size = A.shape[0]
    return inweave.scan(step, (inweave.zeros(size), inweave.eye(size)), y)[1]


# -- reference and example data ------------------------------------------------------------------
def _kalman(y: Any, A: Any, c: Any, noise: Any, r: Any, **__: Any) -> Any:
    """In information form: inverse covariances add up."""
    x, P, states = np.zeros(len(c)), np.eye(len(c)), []
    for seen in y:
        x, P = A @ x, A @ P @ A.T + noise
        known = np.linalg.inv(P)
        P = np.linalg.inv(known + np.outer(c, c) / r)
        x = P @ (known @ x + c * seen / r)
        states.append(x)
    return np.array(states)


def _system(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    """A rotation that loses a little, its first coordinates observed with noise."""
    A = 0.95 * np.linalg.qr(rng.normal(size=(d, d)))[0]
    c, x, seen = rng.normal(size=d), rng.normal(size=d), []
    for _ in range(n):
        x = A @ x + 0.1 * rng.normal(size=d)
        seen.append(c @ x + 0.3 * rng.normal())
    return {"y": np.array(seen), "A": A, "c": c, "noise": 0.01 * np.eye(d), "r": 0.09}


ENTRIES = (Entry(kalman_filter, "Kalman 1960", {"n": 20, "d": 3}, _system, _kalman),)
