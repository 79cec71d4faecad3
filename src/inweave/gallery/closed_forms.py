"""Closed forms: linear systems solved to machine precision, divisions by table and Newton layers.

A reciprocal is a ReLU table of 63 units and a few layers of r ← 2r − r p r, whatever the domain:
ten decades more cost one layer more. So domains are wide, and derived from what is declared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import pick, positive_definite, regression
from inweave.gallery.sizes import d, k, m, n

PRECISE = 1e-15  # of a reciprocal: elimination multiplies its error by the condition number


def eliminated(P: Matrix[m, k], size: int, domain: tuple[float, float]) -> Matrix[m, Any]:
    """Gauss–Jordan on [F B]: the pivot always in the corner, rows and columns moving past it."""
    corner = inweave.constant(np.eye(size)[:, :1])
    up = np.roll(np.eye(size), 1, axis=1)
    left = np.eye(P.shape[1])
    left[:size, :size] = up.T

    def step(P: Matrix[m, k]) -> Matrix[m, k]:
        pivot = inweave.reciprocal(P[0, 0], domain=domain, error=PRECISE)
        P = inweave.hold(P - (P[:, 0:1] - corner) * pivot @ P[0:1, :])
        moved: Matrix[m, k] = up @ P @ left
        return moved

    return inweave.iterate(step, P, size)[:, size:]


@inweave.program
def gauss_jordan(
    F: Matrix[m, m], B: Matrix[m, k], *, domain: tuple[float, float] = (1e-6, 1e6)
) -> Matrix[m, k]:
    """Linear systems F X = B by Gauss–Jordan elimination, every pivot in the corner.

    P ← P − (P[:, 0] − e₀) P[0, :] / P[0, 0], then rows and columns move on by one; m times from
    P = [F B]. Hagiwara (2025) has elimination in loose components and thinks layers difficult.
    The network: one tied module repeated m times; a head eliminates, a head rotates, and between
    them stand the 63 units and the Newton layers of the pivot's reciprocal.
    """
    return eliminated(inweave.hstack([F, B]), F.shape[0], domain)


@inweave.program
def gaussian_elimination(
    F: Matrix[m, m], B: Matrix[m, k], *, domain: tuple[float, float] = (1e-6, 1e6)
) -> Matrix[m, k]:
    """Linear systems F X = B by forward elimination and back substitution.

    For k = 0, 1, ...: rows below k lose their multiple of row k; then rows are solved from the last
    to the first. The order of Hagiwara (2025), appendix.
    The network: untied layers, since every step acts on other rows; compare `gauss_jordan`.
    """
    m = F.shape[0]
    P, rows, inverses = inweave.hstack([F, B]), np.eye(m), []
    for i in range(m):
        inverses.append(inweave.reciprocal(P[i, i], domain=domain, error=PRECISE))
        if i + 1 < m:
            below = np.diag((np.arange(m) > i).astype(float))
            P = inweave.hold(P - below @ P[:, i : i + 1] * inverses[i] @ P[i : i + 1, :])
    X = inweave.zeros(m, B.shape[1])
    for i in reversed(range(m)):
        known = inweave.hold(P[i : i + 1, m:] - P[i : i + 1, :m] @ X)
        X = inweave.hold(X + rows[:, i : i + 1] * inverses[i] @ known)
    return X


@inweave.program
def ridge_closed_form(
    X: Matrix[n, d],
    y: Vector[n],
    u: Vector[d],
    lam: Scalar,
    *,
    lam_range: tuple[float, float] = (1e-4, 1e4),
    trace: float | None = None,
) -> Scalar:
    """Ridge regression solved exactly, from data to prediction in one network.

    uᵀ (XᵀX + λI)⁻¹ Xᵀy by Gauss–Jordan. Pivots lie between λ and trace(XᵀX) + λ; `lam_range` and
    `trace` declare both (default: standardised columns, whose trace is n d). Akyürek et al. (2023)
    and Hagiwara (2025) ask for closed forms in attention.
    The network: one layer forms [XᵀX + λI, Xᵀy], then `gauss_jordan`'s module d times, then uᵀw.
    """
    n, d = X.shape
    low, high = lam_range
    system = X.T @ inweave.hstack([X, y]) + lam * np.eye(d, d + 1)
    largest = high + (n * d if trace is None else trace)
    return u.T @ eliminated(system, d, (low, largest))[:, 0]


@inweave.program
def recursive_least_squares(
    X: Matrix[n, d],
    y: Vector[n],
    lam: Scalar,
    *,
    lam_range: tuple[float, float] = (1e-4, 1e4),
    length: float | None = None,
) -> Vector[d]:
    """Ridge regression one example at a time, by the Sherman–Morrison formula.

    P ← P − P x xᵀ P / (1 + xᵀPx), w ← w + P x (y − xᵀw)/(1 + xᵀPx) from P = I/λ, w = 0: after the
    last example w is the ridge solution. Akyürek et al. (2023). `length` bounds xᵀx (default: 25 d,
    five deviations everywhere).
    The network: one tied module per example; the examples move up one row per step.
    """
    n, d = X.shape
    low, high = lam_range
    most = 1 + (25 * d if length is None else length) / low

    def step(P: Any, w: Any, data: Any) -> Any:
        x = data[0][:d]
        Px = inweave.hold(P @ x)
        gain = inweave.hold(Px * inweave.reciprocal(1 + x.T @ Px, domain=(1, most), error=PRECISE))
        missed = data[0, d] - x.T @ w
        return P - gain @ Px.T, w + gain * missed, inweave.vstack([data[1:, :], data[:1, :]])

    start = inweave.reciprocal(lam, domain=(low, high), error=PRECISE) * inweave.eye(d)
    return inweave.iterate(step, (start, inweave.zeros(d), inweave.hstack([X, y])), n)[1]


@inweave.program
def conjugate_gradient(
    A: Matrix[m, m], b: Vector[m], *, steps: int, domain: tuple[float, float] = (1e-18, 1e6)
) -> Vector[m]:
    """A symmetric positive definite system A x = b by conjugate gradients.

    α = rᵀr/pᵀAp, x ← x + αp, r ← r − αAp, β = r'ᵀr'/rᵀr, p ← r + βp. The domain holds rᵀr and pᵀAp
    until the last step; from 1e-18 on, float32 holds the table of 1/x. Dutta and Sra (2024) train
    transformers with a memory towards it.
    The network: one tied module with two reciprocals, side by side where the formulas allow.
    """

    def step(
        x: Vector[m], r: Vector[m], p: Vector[m], rr: Scalar
    ) -> tuple[Vector[m], Vector[m], Vector[m], Scalar]:
        q = inweave.hold(A @ p)
        slope = inweave.reciprocal(p.T @ q, domain=domain, error=PRECISE)
        alpha = inweave.hold(rr * slope)
        after = inweave.hold(r - alpha * q)
        size = inweave.hold(after.T @ after)
        beta = inweave.hold(size * inweave.reciprocal(rr, domain=domain, error=PRECISE))
        return x + alpha * p, after, after + beta * p, size

    return inweave.iterate(step, (inweave.zeros(A.shape[0]), b, b, b.T @ b), steps)[0]


# -- references and example data -----------------------------------------------------------------
def _solve(F: Any, B: Any, **__: Any) -> Any:
    return np.linalg.solve(F, B)


def _weights(X: Any, y: Any, lam: Any, **__: Any) -> Any:
    return np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T @ y)


def _prediction(X: Any, y: Any, u: Any, lam: Any, **__: Any) -> Any:
    return u @ _weights(X, y, lam)


def _conjugate_gradient(A: Any, b: Any, steps: int, **__: Any) -> Any:
    x, r = np.zeros_like(b), b
    p = r
    for _ in range(steps):
        alpha = (r @ r) / (p @ A @ p)
        x, after = x + alpha * p, r - alpha * A @ p
        p = after + (after @ after) / (r @ r) * p
        r = after
    return x


def _system(rng: np.random.Generator, m: int, k: int, **__: Any) -> dict[str, Any]:
    return {"F": positive_definite(rng, m), "B": rng.normal(size=(m, k))}


def _definite(rng: np.random.Generator, m: int, **__: Any) -> dict[str, Any]:
    return {"A": positive_definite(rng, m), "b": rng.normal(size=m)}


def _data(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    return {**regression(rng, n, d), "lam": 0.5}


def _stream(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    return pick(_data(rng, **sizes), "X", "y", "lam")


ENTRIES = (
    Entry(gauss_jordan, "after Hagiwara 2025", {"m": 6, "k": 2}, _system, _solve),
    Entry(gaussian_elimination, "Hagiwara 2025", {"m": 4, "k": 1}, _system, _solve),
    Entry(ridge_closed_form, "after Akyürek et al. 2023; Hagiwara 2025", {"n": 60, "d": 12}, _data,
          _prediction),
    Entry(recursive_least_squares, "Akyürek et al. 2023", {"n": 30, "d": 5}, _stream, _weights),
    Entry(conjugate_gradient, "after Dutta and Sra 2024", {"m": 8, "steps": 6}, _definite,
          _conjugate_gradient),
)  # fmt: skip
