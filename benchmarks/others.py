"""Programs that are not in the gallery, as others would write them, beside numpy by hand.

The gallery is the road that was driven; these stand beside it, and most of them were found by
looking for programs that break the bar. What misses it is what is to be mended next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import inweave
from benchmarks import measure
from benchmarks.gallery import COUNTS, WORST
from benchmarks.row import Row
from inweave import Matrix, Program, Scalar, Vector

STEPS = 40


class Other(NamedTuple):
    """A program, its sizes, what it is given and the same by hand; arrays may have batch axes."""

    program: Program
    sizes: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    by_hand: Callable[..., Any]


@inweave.program
def mahalanobis(X: Matrix["n", "d"], mu: Vector["d"], S: Matrix["d", "d"]):
    D = X - mu
    return ((D @ S) * D).sum(axis=1)


@inweave.program
def distances(X: Matrix["n", "d"], Y: Matrix["m", "d"]):
    return (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1)[None, :] - 2 * X @ Y.T


@inweave.program
def layer_norm(X: Matrix["n", "d"]):
    D = X - X.mean(axis=1)[:, None]
    return D * inweave.rsqrt((D * D).mean(axis=1) + 1, domain=(1, 4))[:, None]


@inweave.program
def gated(X: Matrix["n", "d"], W: Matrix["d", "m"], V: Matrix["d", "m"], b: Vector["m"]):
    return (X @ W + b) * (X @ V)


@inweave.program
def loss(X: Matrix["n", "d"], W: Matrix["d", "m"], Y: Matrix["n", "m"]):
    R = X @ W - Y
    return (R * R).sum()


@inweave.program
def exponential(A: Matrix["n", "n"], v: Vector["n"]):
    term = total = v
    for j in range(1, 16):
        term = (A @ term) / j
        total = total + term
    return total


@inweave.program
def admm(M: Matrix["n", "n"], q: Vector["n"]):
    def step(z, u):
        x = M @ (q + z - u)
        new = inweave.soft_threshold(x + u, 0.1)
        return new, u + x - new

    zero = inweave.zeros(q.shape[0])
    return inweave.iterate(step, (zero, zero), STEPS)[0]


@inweave.program
def moving_average(X: Matrix["n", "d"], a: Scalar):
    return inweave.scan(lambda s, x: ((1 - a) * s + a * x,) * 2, X[0], X)[1]


@inweave.program
def nonnegative(X: Matrix["n", "d"], y: Vector["n"]):
    def step(w):
        return inweave.relu(w - 0.05 * (X.T @ (X @ w - y)))

    return inweave.iterate(step, inweave.zeros(X.shape[1]), STEPS)


@inweave.program
def wave(u: Vector["n"], v: Vector["n"]):
    zero = inweave.zeros(1)

    def step(u, v):
        beside = inweave.vstack([u[1:], zero]) + inweave.vstack([zero, u[:-1]])
        return 2 * u - v + 0.25 * (beside - 2 * u), u

    return inweave.iterate(step, (u, v), STEPS)[0]


@inweave.program
def adagrad(X: Matrix["n", "d"], y: Vector["n"]):
    def step(w, G):
        g = X.T @ (X @ w - y)
        G = G + g * g
        return w - 0.1 * g * inweave.rsqrt(G + 0.01, domain=(1e-3, 1e4)), G

    zero = inweave.zeros(X.shape[1])
    return inweave.iterate(step, (zero, zero), STEPS)[0]


@inweave.program
def normalised(X: Matrix["n", "d"], y: Vector["n"]):
    def step(w):
        g = X.T @ (X @ w - y)
        return w - 0.1 * g * inweave.rsqrt(g @ g + 0.01, domain=(1e-3, 1e4))

    return inweave.iterate(step, inweave.zeros(X.shape[1]), STEPS)


@inweave.program
def sinkhorn(C: Matrix["n", "n"]):
    K, n = C * C + 0.5, C.shape[0]

    def step(u):
        v = inweave.reciprocal(n * (K.T @ u), domain=(1e-4, 1e4))
        return inweave.reciprocal(n * (K @ v), domain=(1e-4, 1e4))

    return inweave.iterate(step, inweave.ones(n), STEPS)


@inweave.program
def krylov(A: Matrix["n", "n"], v: Vector["n"]):
    found = [v]
    for _ in range(9):
        found.append(A @ found[-1])
    return inweave.hstack(found)


@inweave.program
def smoothed(X: Matrix["n", "d"], a: Scalar):
    s = X[0]
    for i in range(1, len(X)):
        s = (1 - a) * s + a * X[i]
    return s


@inweave.program
def nlms(X: Matrix["n", "d"], y: Vector["n"]):
    def step(w, x, t):
        return w + (t - x @ w) * x / inweave.assume(0.1 + x @ x, 0.1, 1e4), None

    return inweave.scan(step, inweave.zeros(X.shape[1]), X, y)[0]


@inweave.program
def biquad(x: Vector["n"], b: Scalar, c: Scalar):
    def step(carried, t):
        y, z = carried
        new = t - b * y - c * z
        return (new, y), new

    return inweave.scan(step, (0 * b, 0 * b), x)[1]


@inweave.program
def trend(x: Vector["n"], a: Scalar, b: Scalar):
    def step(carried, t):
        level, slope = carried
        new = a * t + (1 - a) * (level + slope)
        return (new, b * (new - level) + (1 - b) * slope), new

    return inweave.scan(step, (x[0], 0 * a), x)[1]


CHAIN = np.random.default_rng(1).random((100, 100))
CHAIN /= CHAIN.sum(axis=1, keepdims=True)
RATES = [0.5 / (1 + 0.1 * t) for t in range(20)]
MOMENTA = [t / (t + 3) for t in range(40)]


@inweave.program
def ranks(x: Vector["n"]):
    return inweave.iterate(lambda v: 0.85 * (CHAIN.T @ v) + 0.15 * x, x, 30)


@inweave.program
def valued(r: Vector["n"], s: Vector["n"]):
    def step(v):
        one, other = r + 0.9 * (CHAIN @ v), s + 0.9 * (CHAIN.T @ v)
        return other + inweave.relu(one - other)

    return inweave.iterate(step, inweave.zeros(100), STEPS)


@inweave.program
def rated(X: Matrix["n", "d"], y: Vector["n"]):
    w = inweave.zeros(X.shape[1])
    for rate in RATES:
        w = w - rate * (X.T @ (X @ w - y))
    return w


@inweave.program
def accelerated(X: Matrix["n", "d"], y: Vector["n"]):
    w = v = inweave.zeros(X.shape[1])
    for momentum in MOMENTA:
        before, w = w, v - 0.3 * (X.T @ (X @ v - y))
        v = w + momentum * (w - before)
    return w


@inweave.program
def tracked(x: Vector["n"], q: Scalar, r: Scalar):
    def step(carried, t):
        m, p = carried
        p = p + q
        k = p / inweave.assume(p + r, 1e-3, 1e3)
        m = m + k * (t - m)
        return (m, p - k * p), m

    return inweave.scan(step, (0 * q, 0 * q + 1), x)[1]


@inweave.program
def factors(V: Matrix["n", "m"], W: Matrix["n", "k"], H: Matrix["k", "m"]):
    V = V * V + 0.5

    def step(W, H):
        H = H * (W.T @ (V / inweave.assume(W @ H, 1e-3, 1e3))) / V.shape[0]
        return W * ((V / inweave.assume(W @ H, 1e-3, 1e3)) @ H.T) / V.shape[1], H

    W, H = inweave.iterate(step, (W * W + 0.5, H * H + 0.5), STEPS // 10)
    return W @ H


STATES, NOISE = np.array([[1, 0.1], [0, 1]]), 0.01 * np.eye(2)
SOME = np.random.default_rng(1).normal(size=(60, 60)) / 8
KEPT = (np.random.default_rng(2).uniform(size=(60, 60)) < 0.3).astype(float)


@inweave.program
def states(x: Vector["n"]):
    def step(carried, seen):
        s, P = carried
        s, P = STATES @ s, STATES @ P @ STATES.T + NOISE
        k = P[:, 0] / inweave.assume(P[0, 0] + 0.5, 1e-2, 100)
        s = s + k * (seen - s[0])
        return (s, P - inweave.outer(k, P[0])), s

    return inweave.scan(step, (inweave.zeros(2), inweave.eye(2)), x)[1]


@inweave.program
def recursive(X: Matrix["n", "d"], y: Vector["n"]):
    def step(carried, x, t):
        w, P = carried
        Px = P @ x
        g = Px * inweave.reciprocal(1 + x @ Px, (1, 1e3))
        return (w + g * (t - x @ w), P - inweave.outer(g, Px)), None

    d = X.shape[1]
    return inweave.scan(step, (inweave.zeros(d), inweave.eye(d)), X, y)[0][0]


@inweave.program
def masked(X: Matrix["n", "n"]):
    return SOME.T @ (KEPT * (SOME @ X @ SOME.T)) @ SOME


@inweave.program
def transported(K: Matrix["n", "n"]):
    K = K * K + 0.5

    def step(u):
        v = 1 / inweave.assume(K.T @ u, 1e-3, 1e4)
        return 1 / inweave.assume(K @ v, 1e-3, 1e4)

    u = inweave.iterate(step, inweave.ones(K.shape[0]), STEPS)
    return u[:, None] * K / inweave.assume(K.T @ u, 1e-3, 1e4)


WINDOW = np.tri(64) - np.tri(64, 64, -9)
DECAY = np.tril(0.9 ** abs(np.subtract.outer(np.arange(64), np.arange(64))))


@inweave.program
def windowed(Q: Matrix["n", "d"], K: Matrix["n", "d"], V: Matrix["n", "d"]):
    S = Q @ K.T
    A = WINDOW * S * S
    return A @ V / inweave.assume(A.sum(axis=1)[:, None] + 1, 1, 1e4)


@inweave.program
def polynomial(Q: Matrix["n", "d"], K: Matrix["n", "d"], V: Matrix["n", "d"]):
    return (DECAY * (Q @ K.T + 1) ** 3) @ V


@inweave.program
def temporal(X: Matrix["n", "d"], r: Vector["n"]):
    w = e = inweave.zeros(X.shape[1])
    for t in range(X.shape[0] - 1):
        e = 0.72 * e + X[t]
        w = w + 0.1 * (r[t] + 0.9 * (X[t + 1] @ w) - X[t] @ w) * e
    return w


def _times(A: Any, x: Any) -> Any:
    return (A @ x[..., None])[..., 0]


def _mahalanobis(X: Any, mu: Any, S: Any) -> Any:
    D = X - mu[..., None, :]
    return np.einsum("...ij,...ij->...i", D @ S, D)


def _distances(X: Any, Y: Any) -> Any:
    squares = [np.einsum("...ij,...ij->...i", Z, Z) for Z in (X, Y)]
    return squares[0][..., :, None] + squares[1][..., None, :] - 2 * (X @ Y.mT)


def _layer_norm(X: Any) -> Any:
    D = X - X.mean(axis=-1, keepdims=True)
    return D / np.sqrt(np.einsum("...ij,...ij->...i", D, D) / X.shape[-1] + 1)[..., None]


def _gated(X: Any, W: Any, V: Any, b: Any) -> Any:
    out = X @ W
    out += b[..., None, :]
    out *= X @ V
    return out


def _loss(X: Any, W: Any, Y: Any) -> Any:
    R = X @ W
    R -= Y
    return np.einsum("...ij,...ij->...", R, R)


def _exponential(A: Any, v: Any) -> Any:
    term = total = v
    for j in range(1, 16):
        term = _times(A, term) / j
        total = total + term
    return total


def _admm(M: Any, q: Any) -> Any:
    z = u = np.zeros_like(q)
    for _ in range(STEPS):
        x = _times(M, q + z - u)
        t = x + u
        z = t - np.clip(t, -0.1, 0.1)
        u = t - z
    return z


def _moving_average(X: Any, a: float) -> Any:
    out, s, AX = np.empty_like(X), X[..., 0, :], a * X
    for i in range(X.shape[-2]):
        out[..., i, :] = s = (1 - a) * s + AX[..., i, :]
    return out


def _nonnegative(X: Any, y: Any) -> Any:
    B = np.eye(X.shape[-1]) - 0.05 * (X.mT @ X)
    c, w = 0.05 * _times(X.mT, y), np.zeros(X[..., 0, :].shape)
    for _ in range(STEPS):
        w = np.maximum(_times(B, w) + c, 0)
    return w


@cache
def _waves(n: int) -> tuple[Any, Any]:
    """What the steps of a wave do to its two times: a power of a constant matrix, made once."""
    one = np.eye(n)
    A = 1.5 * one + 0.25 * (np.eye(n, k=1) + np.eye(n, k=-1))
    power = np.linalg.matrix_power(np.block([[A, -one], [one, 0 * one]]), STEPS)
    return power[:n, :n], power[:n, n:]


def _wave(u: Any, v: Any) -> Any:
    now, before = _waves(u.shape[-1])
    return u @ now.T + v @ before.T


def _adagrad(X: Any, y: Any) -> Any:
    A, b, w = X.mT @ X, _times(X.mT, y), np.zeros(X[..., 0, :].shape)
    G = np.zeros_like(w)
    for _ in range(STEPS):
        g = _times(A, w) - b
        G = G + g * g
        w = w - 0.1 * g / np.sqrt(G + 0.01)
    return w


def _normalised(X: Any, y: Any) -> Any:
    A, b, w = X.mT @ X, _times(X.mT, y), np.zeros(X[..., 0, :].shape)
    for _ in range(STEPS):
        g = _times(A, w) - b
        w = w - 0.1 / np.sqrt(np.vecdot(g, g) + 0.01)[..., None] * g
    return w


def _sinkhorn(C: Any) -> Any:
    K = C.shape[-1] * (C * C + 0.5)
    KT, u = np.ascontiguousarray(K.mT), np.ones(C[..., 0].shape)
    for _ in range(STEPS):
        u = 1 / _times(K, 1 / _times(KT, u))
    return u


def _krylov(A: Any, v: Any) -> Any:
    found = [v]
    for _ in range(9):
        found.append(_times(A, found[-1]))
    return np.stack(found, axis=-1)


def _smoothed(X: Any, a: float) -> Any:
    s, AX, b = X[..., 0, :], a * X, 1 - a
    for i in range(1, X.shape[-2]):
        s = b * s + AX[..., i, :]
    return s


def _nlms(X: Any, y: Any) -> Any:
    w, S = np.zeros(X[..., 0, :].shape), X / (0.1 + np.vecdot(X, X))[..., None]
    for i in range(X.shape[-2]):
        w = w + (y[..., i] - np.vecdot(X[..., i, :], w))[..., None] * S[..., i, :]
    return w


def _numbers(x: Any) -> Any:
    """The entries of a vector as Python's floats; of a batch, of all vectors at a time."""
    return x.tolist() if x.ndim == 1 else np.moveaxis(x, -1, 0)


def _biquad(x: Any, b: float, c: float) -> Any:
    y, z, out = 0.0, 0.0, []
    for t in _numbers(x):
        y, z = t - b * y - c * z, y
        out.append(y)
    return np.array(out).T


def _trend(x: Any, a: float, b: float) -> Any:
    level, slope, out = _numbers(x)[0], 0.0, []
    for t in _numbers(x):
        new = a * t + (1 - a) * (level + slope)
        level, slope = new, b * (new - level) + (1 - b) * slope
        out.append(level)
    return np.array(out).T


def _tracked(x: Any, q: float, r: float) -> Any:
    m, p, out = 0.0, 1.0, []
    for t in _numbers(x):
        p = p + q
        k = p / (p + r)
        m, p = m + k * (t - m), p - k * p
        out.append(m)
    return np.array(out).T


def _factors(V: Any, W: Any, H: Any) -> Any:
    V, W, H = (X * X + 0.5 for X in (V, W, H))
    for _ in range(STEPS // 10):
        H = H * (W.mT @ (V / (W @ H))) / V.shape[-2]
        W = W * ((V / (W @ H)) @ H.mT) / V.shape[-1]
    return W @ H


FOLDED = np.linalg.matrix_power(0.85 * CHAIN, 30) + 0.15 * sum(
    np.linalg.matrix_power(0.85 * CHAIN, k) for k in range(30)
)
DISCOUNTED = np.ascontiguousarray(0.9 * CHAIN.T), 0.9 * CHAIN


def _ranks(x: Any) -> Any:
    return x @ FOLDED


def _valued(r: Any, s: Any) -> Any:
    v = np.zeros_like(r)
    for _ in range(STEPS):
        one, other = v @ DISCOUNTED[0], v @ DISCOUNTED[1]
        one += r
        other += s
        v = np.maximum(one, other)
    return v


def _rated(X: Any, y: Any) -> Any:
    A, b = X.mT @ X, X.mT @ y[..., None]
    w = np.zeros_like(b)
    for rate in RATES:
        w = w - rate * (A @ w - b)
    return w[..., 0]


def _accelerated(X: Any, y: Any) -> Any:
    A, b = -0.3 * (X.mT @ X), 0.3 * (X.mT @ y[..., None])
    w = v = np.zeros_like(b)
    for momentum in MOMENTA:
        before, w = w, v + (A @ v + b)
        v = w + momentum * (w - before)
    return w[..., 0]


def _states(x: Any) -> Any:
    s, P, found = np.zeros((*x.shape[:-1], 2)), np.eye(2), np.empty((*x.shape, 2))
    for t in range(x.shape[-1]):
        s, P = s @ STATES.T, STATES @ P @ STATES.T + NOISE
        k = P[:, 0] / (P[0, 0] + 0.5)
        s = s + (x[..., t] - s[..., 0])[..., None] * k
        P = P - k[:, None] * P[0]
        found[..., t, :] = s
    return found


def _recursive(X: Any, y: Any) -> Any:
    w = np.zeros((*X.shape[:-2], X.shape[-1], 1))
    P = np.broadcast_to(np.eye(X.shape[-1]), (*X.shape[:-2], X.shape[-1], X.shape[-1]))
    for t in range(X.shape[-2]):
        x = X[..., t, :, None]
        Px = P @ x
        g = Px / (1 + x.mT @ Px)
        w = w + g * (y[..., t, None, None] - x.mT @ w)
        P = P - g @ Px.mT
    return w[..., 0]


def _masked(X: Any) -> Any:
    Y = SOME @ X @ SOME.T
    Y *= KEPT
    return SOME.T @ Y @ SOME


def _transported(K: Any) -> Any:
    K = K * K
    K += 0.5
    v = np.ones((*K.shape[:-1], 1))
    u = np.ones_like(v)
    for _ in range(STEPS):
        v = 1 / (K.mT @ u)
        u = 1 / (K @ v)
    return u * K / (K.mT @ u).mT


def _windowed(Q: Any, K: Any, V: Any) -> Any:
    S = Q @ K.mT
    S *= S
    S *= WINDOW
    return S @ V / (S.sum(axis=-1) + 1)[..., None]


def _polynomial(Q: Any, K: Any, V: Any) -> Any:
    S = Q @ K.mT
    S += 1
    A = S * S
    A *= S
    A *= DECAY
    return A @ V


def _temporal(X: Any, r: Any) -> Any:
    w = e = np.zeros(X[..., 0, :].shape)
    D = 0.9 * X[..., 1:, :] - X[..., :-1, :]
    for t in range(X.shape[-2] - 1):
        e = 0.72 * e + X[..., t, :]
        w = w + (0.1 * (r[..., t] + np.vecdot(D[..., t, :], w)))[..., None] * e
    return w


OTHERS = (
    Other(mahalanobis, {"n": 100, "d": 10}, {"X": (100, 10), "mu": (10,), "S": (10, 10)},
          _mahalanobis),
    Other(distances, {"n": 50, "m": 40, "d": 5}, {"X": (50, 5), "Y": (40, 5)}, _distances),
    Other(layer_norm, {"n": 100, "d": 20}, {"X": (100, 20)}, _layer_norm),
    Other(gated, {"n": 100, "d": 20, "m": 20},
          {"X": (100, 20), "W": (20, 20), "V": (20, 20), "b": (20,)}, _gated),
    Other(loss, {"n": 100, "d": 20, "m": 20}, {"X": (100, 20), "W": (20, 20), "Y": (100, 20)},
          _loss),
    Other(exponential, {"n": 50}, {"A": (50, 50), "v": (50,)}, _exponential),
    Other(admm, {"n": 40}, {"M": (40, 40), "q": (40,)}, _admm),
    Other(moving_average, {"n": 100, "d": 5}, {"X": (100, 5), "a": ()}, _moving_average),
    Other(nonnegative, {"n": 60, "d": 10}, {"X": (60, 10), "y": (60,)}, _nonnegative),
    Other(wave, {"n": 64}, {"u": (64,), "v": (64,)}, _wave),
    Other(adagrad, {"n": 60, "d": 10}, {"X": (60, 10), "y": (60,)}, _adagrad),
    Other(normalised, {"n": 60, "d": 10}, {"X": (60, 10), "y": (60,)}, _normalised),
    Other(sinkhorn, {"n": 20}, {"C": (20, 20)}, _sinkhorn),
    Other(krylov, {"n": 50}, {"A": (50, 50), "v": (50,)}, _krylov),
    Other(smoothed, {"n": 100, "d": 5}, {"X": (100, 5), "a": ()}, _smoothed),
    Other(factors, {"n": 20, "m": 16, "k": 4}, {"V": (20, 16), "W": (20, 4), "H": (4, 16)},
          _factors),
    Other(nlms, {"n": 100, "d": 10}, {"X": (100, 10), "y": (100,)}, _nlms),
    Other(biquad, {"n": 1000}, {"x": (1000,), "b": (), "c": ()}, _biquad),
    Other(trend, {"n": 1000}, {"x": (1000,), "a": (), "b": ()}, _trend),
    Other(ranks, {"n": 100}, {"x": (100,)}, _ranks),
    Other(valued, {"n": 100}, {"r": (100,), "s": (100,)}, _valued),
    Other(rated, {"n": 200, "d": 32}, {"X": (200, 32), "y": (200,)}, _rated),
    Other(accelerated, {"n": 200, "d": 32}, {"X": (200, 32), "y": (200,)}, _accelerated),
    Other(tracked, {"n": 1000}, {"x": (1000,), "q": (), "r": ()}, _tracked),
    Other(states, {"n": 300}, {"x": (300,)}, _states),
    Other(recursive, {"n": 100, "d": 4}, {"X": (100, 4), "y": (100,)}, _recursive),
    Other(masked, {"n": 60}, {"X": (60, 60)}, _masked),
    Other(transported, {"n": 60}, {"K": (60, 60)}, _transported),
    Other(windowed, {"n": 64, "d": 16}, {"Q": (64, 16), "K": (64, 16), "V": (64, 16)}, _windowed),
    Other(polynomial, {"n": 64, "d": 16}, {"Q": (64, 16), "K": (64, 16), "V": (64, 16)},
          _polynomial),
    Other(temporal, {"n": 300, "d": 20}, {"X": (300, 20), "r": (300,)}, _temporal),
)  # fmt: skip


def data(other: Other, batch: int) -> dict[str, Any]:
    """Random inputs, of which products do not grow; a scalar is a half."""
    rng, lead = np.random.default_rng(0), () if batch == 1 else (batch,)
    return {
        name: rng.normal(size=(*lead, *shape)) / shape[0] if shape else 0.5
        for name, shape in other.shapes.items()
    }


def rows(threads: int, seconds: float = 0.5, batches: tuple[int, ...] = (1, 100)) -> Iterator[Row]:
    """Every program, alone and in a batch."""
    for other in OTHERS:
        net = inweave.compile(other.program, optimize="speed", verify=False, **other.sizes)
        for batch in batches:
            given = data(other, batch)
            calls = {
                "inweave": lambda net=net, given=given: net(**given),
                "by hand": lambda other=other, given=given: other.by_hand(**given),
            }
            if not np.allclose(calls["inweave"](), calls["by hand"](), rtol=1e-9, atol=1e-12):
                raise ArithmeticError(f"{other.program.name}: network and code by hand differ")
            timing = measure.interleaved(calls, seconds, threads=threads, called=True)
            took = timing.seconds()
            sizes = " ".join(f"{name}={size}" for name, size in other.sizes.items())
            yield Row.of("others", f"{other.program.name} {sizes} batch={batch}",
                         timing.ratio("inweave", "by hand"), against="numpy, by hand",
                         threads=threads, bar=WORST if took["by hand"] >= COUNTS else None,
                         seconds=took)  # fmt: skip
