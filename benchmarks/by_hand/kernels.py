"""Kernels, mixtures, transport and networks in context, with the functions that a kit has."""

from __future__ import annotations

from typing import Any


def soft_extraction(kit: Any, X: Any, Y: Any, u: Any, tau: Any) -> Any:
    scores = kit.mm(X, u)
    scores -= tau
    return kit.mm(Y.mT, kit.relu(scores))


def kernel_smoother(kit: Any, X: Any, y: Any, u: Any, **_: Any) -> Any:
    weights = kit.mm(X, u)
    weights += 1.0
    return kit.mm(weights.mT, y) / weights.sum(-2)[..., None]


def softmax_regression(kit: Any, X: Any, y: Any, u: Any, **_: Any) -> Any:
    weights = kit.exp(kit.mm(X, u))
    return kit.mm(weights.mT, y) * kit.inverse(weights.sum(-2)[..., None])


def functional_gd(kit: Any, X: Any, y: Any, u: Any, eta: Any, steps: int, **_: Any) -> Any:
    K = kit.exp(kit.mm(X, X.mT))
    K *= -eta
    K = kit.plus_diagonal(K, 1.0)

    def step(missed: Any, total: Any) -> Any:
        total += missed
        return kit.mm(K, missed), total

    total = kit.loop(steps, step, y, kit.zeros(y, *y.shape[-2:]))[1]
    return eta * kit.mm(kit.exp(kit.mm(X, u)).mT, total)


def gaussian_mixture(kit: Any, X: Any, M: Any, steps: int, **_: Any) -> Any:
    def step(M: Any) -> Any:
        R = kit.mm(X, M.mT)
        R -= 0.5 * (M * M).sum(-1)[..., None, :]
        R = kit.exp(R)
        R *= kit.inverse(R.sum(-1)[..., None])
        M = kit.mm(R.mT, X)
        M *= kit.inverse(R.sum(-2)[..., None], 1)
        return (M,)

    return kit.loop(steps, step, M)[0]


def regression_mixture(kit: Any, X: Any, y: Any, w0: Any, eta: Any, steps: int, **_: Any) -> Any:
    T = eta * X.mT

    def step(w: Any) -> Any:
        fitted = kit.mm(X, w)
        wrong = kit.tanh(y * fitted)
        wrong *= y
        wrong -= fitted
        return (kit.affine(T, wrong, w),)

    return kit.loop(steps, step, w0)[0]


def sinkhorn(kit: Any, C: Any, a: Any, b: Any, steps: int, epsilon: float = 0.5, **_: Any) -> Any:
    K = kit.exp(C * (-1 / epsilon))
    T = K.mT

    def step(f: Any, g: Any) -> Any:
        f = a * kit.inverse(kit.mm(K, g))
        return f, b * kit.inverse(kit.mm(T, f), 1)

    f, g = kit.loop(steps, step, kit.zeros(a, a.shape[-2], 1), kit.ones(b, b.shape[-2], 1))
    K *= f
    K *= g.mT
    return K


def two_layer_gd(
    kit: Any,
    X: Any,
    y: Any,
    W: Any,
    a: Any,
    u: Any,
    eta: Any,
    steps: int,
    margin: float = 1e-5,
) -> Any:
    T = -eta * X.mT

    def step(W: Any, a: Any) -> Any:
        inside = kit.mm(X, W)
        units = kit.relu(inside)
        r = kit.mm(units, a)
        r -= y
        inside *= 1 / margin
        back = kit.clip(inside, 0.0, 1.0)
        back *= a.mT
        back *= r
        return kit.affine(T, back, W), a - eta * kit.mm(units.mT, r)

    W, a = kit.loop(steps, step, W, a)
    return kit.mm(kit.relu(kit.mm(u.mT, W)), a)
