"""Beyond regression: eigenvectors, policy evaluation, covariate shift, kernels, matrix series."""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.examples import descended, pick, positive_definite, regression, step_size
from inweave.gallery.sizes import d, e, m, n, t


def leading(A: Any, start: Any, steps: int, domain: tuple[float, float]) -> Any:
    """The leading eigenvector of a symmetric matrix, normalised at every step."""

    def step(v: Any) -> Any:
        image = inweave.hold(A @ v)
        return image * inweave.rsqrt(image.T @ image, domain=domain)

    return inweave.iterate(step, start, steps)


@inweave.program
def power_iteration(
    A: Matrix[m, m], v0: Vector[m], *, steps: int, domain: tuple[float, float] = (1e-6, 1e6)
) -> Any:
    """The leading eigenvalue and eigenvector of a symmetric matrix by power iteration.

    v ← Av/‖Av‖; the value is vᵀAv. `domain` bounds ‖Av‖². After the eigenvector constructions for
    attention of the PCA literature (He et al. 2025); normalising is rsqrt.
    The network: one tied module: Av, its square, a table and Newton layers, the scaled vector.
    """
    v = leading(A, v0, steps, domain)
    return {"value": v.T @ A @ v, "vector": v}


@inweave.program
def pca(
    X: Matrix[n, d], v0: Vector[d], *, steps: int, domain: tuple[float, float] = (1e-6, 1e6)
) -> Any:
    """Two principal components by power iteration and deflation.

    C = XᵀX/n of centred columns; v as in `power_iteration`, then again on C − (vᵀCv) v vᵀ.
    After He et al. (2025), who put power iteration into transformers for PCA.
    The network: one layer for C, a tied module, the deflation, a second tied module.
    """
    C = inweave.hold(X.T @ X / X.shape[0])
    first = inweave.hold(leading(C, v0, steps, domain))
    most = inweave.hold(first.T @ C @ first)
    rest = inweave.hold(C - most * first @ first.T)
    second = inweave.hold(leading(rest, v0, steps, domain))
    values = inweave.vstack([most, second.T @ rest @ second])
    return {"values": values, "vectors": inweave.hstack([first, second])}


@inweave.program
def td0(
    Phi: Matrix[n, d],
    After: Matrix[n, d],
    r: Vector[n],
    u: Vector[d],
    gamma: Scalar,
    eta: Scalar,
    *,
    steps: int,
) -> Scalar:
    """Policy evaluation by TD(0) over a batch of transitions, and the value of a state u.

    w ← w + η Σ (r + γ φ'ᵀw − φᵀw) φ over transitions φ → φ' with reward r. Wang et al. (2025),
    whose linear transformers also find it in training.
    The network: one tied module of two layers; an affine recurrence, so it collapses.
    """

    def step(w: Any) -> Any:
        return w + eta * (Phi.T @ (r + gamma * (After @ w) - Phi @ w))

    return u.T @ inweave.iterate(step, inweave.zeros(Phi.shape[1]), steps)


@inweave.program
def covariate_shift(
    X: Matrix[n, d],
    y: Vector[n],
    Z: Matrix[t, d],
    lam: Scalar,
    mu: Scalar,
    eta: Scalar,
    rho: Scalar,
    *,
    steps: int,
) -> Vector[e]:
    """Regression for a shifted population: examples weighted by an estimated density ratio.

    uLSIF: α ← α − ρ ((FᵀF/n + μ)α − Gᵀ1/t) with features F = [1 X], G = [1 Z] of examples and
    target inputs; weights ω = relu(Fα); then weighted ridge regression on F by gradient descent.
    After Hataya et al. (2024), who estimate such weights in context.
    The network: two tied modules; between them diag(ω) takes one head per example.
    """
    n, t, d = X.shape[0], Z.shape[0], X.shape[1]
    F = inweave.hstack([inweave.ones(n), X])
    target = inweave.hstack([inweave.ones(t), Z]).T @ inweave.ones(t) / t
    alpha = inweave.iterate(
        lambda a: a - rho * (F.T @ (F @ a) / n + mu * a - target), inweave.zeros(d + 1), steps
    )
    omega = inweave.relu(F @ alpha)
    units = np.eye(n)
    D: Any = inweave.zeros(n, n)
    for i in range(n):
        D = D + np.diag(units[i]) @ omega @ units[i : i + 1, :]
    D = inweave.hold(D)
    return inweave.iterate(
        lambda w: w - eta * (F.T @ (D @ (F @ w - y)) + lam * w), inweave.zeros(d + 1), steps
    )


@inweave.program
def kernel_regression(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    """Linear kernel ridge regression: a coefficient per example instead of one per feature.

    a ← a − η (Ka + λa − y) with K = XXᵀ; the prediction is Σ aᵢ xᵢᵀu. After Dai et al. (2023), who
    read linear attention as the dual form of gradient descent; the regularised regression is ours.
    The network: one tied module, X twice per step and K never formed.
    """

    def step(a: Vector[n]) -> Vector[n]:
        return a - eta * (X @ (X.T @ a) + lam * a - y)

    return u.T @ (X.T @ inweave.iterate(step, inweave.zeros(X.shape[0]), steps))


@inweave.program
def matrix_polynomial(
    A: Matrix[m, m], *, coefficients: tuple[float, ...] = (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24)
) -> Matrix[m, m]:
    """A polynomial of a matrix, here the first terms of its exponential.

    Σ cₖ Aᵏ, powers by threes. Polynomials of matrices are what linear attention computes at all:
    Giannou et al. (2023) use them for matrix functions.
    The network: ⌈log₃ degree⌉ layers.
    """
    power = inweave.eye(A.shape[0])
    total = coefficients[0] * power
    for c in coefficients[1:]:
        power = power @ A
        total = total + c * power
    return total


@inweave.program
def neumann_series(A: Matrix[m, m], b: Vector[m], *, steps: int) -> Vector[m]:
    """The solution of (I − A) x = b by its Neumann series.

    x ← Ax + b, `steps` times from b: Σ Aᵏ b up to k = `steps`. The recurrence behind value
    iteration and message passing; after Giannou et al. (2023).
    The network: one tied layer per step, or about log₃ `steps` layers at least depth.
    """
    return inweave.iterate(lambda x: A @ x + b, b, steps)


# -- references and example data -----------------------------------------------------------------
def _eigen(A: Any, v0: Any, **__: Any) -> Any:
    values, vectors = np.linalg.eigh(A)
    last = vectors[:, -1]
    return {"value": values[-1], "vector": last * np.sign(last @ v0)}


def _pca(X: Any, v0: Any, **__: Any) -> Any:
    values, turn = np.linalg.svd(X, full_matrices=False)[1:]
    vectors = turn[:2].T
    return {"values": values[:2] ** 2 / len(X), "vectors": vectors * np.sign(v0 @ vectors)}


def _td0(Phi: Any, After: Any, r: Any, u: Any, gamma: Any, eta: Any, steps: int) -> Any:
    zero = np.zeros(Phi.shape[1])
    return u @ descended(zero, lambda w: (Phi @ w - gamma * After @ w - r) @ Phi, eta, steps)


def _shift(X: Any, y: Any, Z: Any, lam: Any, mu: Any, eta: Any, rho: Any, steps: int) -> Any:
    F, G = (np.column_stack([np.ones(len(M)), M]) for M in (X, Z))
    zero, target = np.zeros(F.shape[1]), G.mean(axis=0)
    alpha = descended(zero, lambda a: F.T @ F @ a / len(F) + mu * a - target, rho, steps)
    weights = np.maximum(F @ alpha, 0)
    return descended(zero, lambda w: F.T @ (weights * (F @ w - y)) + lam * w, eta, steps)


def _kernel(X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    K = X @ X.T + lam * np.eye(len(X))
    return descended(np.zeros(len(X)), lambda a: K @ a - y, eta, steps) @ (X @ u)


def _polynomial(A: Any, coefficients: Any) -> Any:
    return sum(c * np.linalg.matrix_power(A, k) for k, c in enumerate(coefficients))


def _neumann(A: Any, b: Any, steps: int) -> Any:
    gone = np.linalg.matrix_power(A, steps + 1)
    return np.linalg.solve(np.eye(len(A)) - A, b - gone @ b)


def _symmetric(rng: np.random.Generator, m: int, **__: Any) -> dict[str, Any]:
    basis = np.linalg.qr(rng.normal(size=(m, m)))[0]
    values = np.concatenate([[3.0], np.linspace(1.5, 0.5, m - 1)])
    return {"A": basis * values @ basis.T, "v0": np.ones(m) / np.sqrt(m)}


def _cloud(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    spread = np.concatenate([[4.0, 2.0], np.linspace(1, 0.5, d - 2)])
    X = rng.normal(size=(n, d)) * spread
    X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    return {"X": X - X.mean(axis=0), "v0": np.ones(d) / np.sqrt(d)}


def _transitions(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    Phi, After = (rng.uniform(-1, 1, size=(n, d)) for _ in range(2))
    made = {"Phi": Phi, "After": After, "r": rng.uniform(-1, 1, n), "u": rng.uniform(-1, 1, d)}
    return {**made, "gamma": 0.9, "eta": 1 / n}


def _shifted(rng: np.random.Generator, n: int, t: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d, noise=0.3)
    Z = made["X"][rng.integers(n, size=t)] * 0.5 + 0.7
    size = np.linalg.norm(made["X"], 2) ** 2 + n
    made["y"] = made["y"] + 0.5 * made["X"][:, 0] ** 2
    return pick(made, "X", "y", Z=Z, lam=0.1, mu=0.1, eta=0.3 / size, rho=n / size)


def _kernel_data(rng: np.random.Generator, n: int, d: int, **__: Any) -> dict[str, Any]:
    made = regression(rng, n, d)
    return {**made, "lam": 5.0, "eta": step_size(made["X"].T, 5.0)}


def _square(rng: np.random.Generator, m: int, **__: Any) -> dict[str, Any]:
    return {"A": positive_definite(rng, m, 9.0) / 10}


def _contraction(rng: np.random.Generator, m: int, **__: Any) -> dict[str, Any]:
    return {"A": positive_definite(rng, m, 9.0) / 10, "b": rng.normal(size=m)}


ENTRIES = (
    Entry(power_iteration, "after He et al. 2025", {"m": 8, "steps": 60}, _symmetric, _eigen),
    Entry(pca, "after He et al. 2025", {"n": 40, "d": 6, "steps": 60}, _cloud, _pca),
    Entry(td0, "Wang et al. 2025", {"n": 30, "d": 5, "steps": 40}, _transitions, _td0),
    Entry(covariate_shift, "after Hataya et al. 2024", {"n": 16, "t": 12, "d": 3, "steps": 60},
          _shifted, _shift),
    Entry(kernel_regression, "after Dai et al. 2023", {"n": 20, "d": 5, "steps": 81},
          _kernel_data, _kernel),
    Entry(matrix_polynomial, "after Giannou et al. 2023",
          {"m": 6, "coefficients": (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24)}, _square, _polynomial),
    Entry(neumann_series, "after Giannou et al. 2023", {"m": 6, "steps": 80}, _contraction,
          _neumann),
)  # fmt: skip
