"""Systems, inverses, eigenvectors, filters and polynomials of matrices."""

from __future__ import annotations

from typing import Any


def newton_schulz(kit: Any, A: Any, alpha: Any, steps: int) -> Any:
    def step(M: Any) -> Any:
        return (kit.addmm(M, kit.mm(M, A), M, alpha=-1.0, beta=2.0),)

    return kit.loop(steps, step, alpha * A.mT)[0]


def newton_ridge(kit: Any, X: Any, y: Any, u: Any, lam: Any, alpha: Any, steps: int) -> Any:
    S = kit.plus_diagonal(kit.mm(X.mT, X), lam)
    M = newton_schulz(kit, S, alpha, steps)
    return kit.mm(kit.mm(u.mT, M), kit.mm(X.mT, y))


def hyperpower(kit: Any, A: Any, alpha: Any, steps: int) -> Any:
    def step(M: Any) -> Any:
        R = kit.mm(M, A)
        Q = kit.mm(R, M)
        M = M - Q
        return (kit.addmm(M, R, Q, beta=3.0),)

    return kit.loop(steps, step, alpha * A.mT)[0]


def gauss_jordan(kit: Any, F: Any, B: Any, **_: Any) -> Any:
    return kit.eliminate(kit.concat([F, B], -1))


def gaussian_elimination(kit: Any, F: Any, B: Any, **_: Any) -> Any:
    return kit.forward_and_back(kit.concat([F, B], -1))


def ridge_closed_form(kit: Any, X: Any, y: Any, u: Any, lam: Any, **_: Any) -> Any:
    S = kit.plus_diagonal(kit.mm(X.mT, X), lam)
    w = kit.eliminate(kit.concat([S, kit.mm(X.mT, y)], -1))
    return kit.mm(u.mT, w)


def recursive_least_squares(kit: Any, X: Any, y: Any, lam: Any, **_: Any) -> Any:
    d = X.shape[-1]

    def step(state: Any, x: Any, seen: Any) -> Any:
        P, w = state
        Px, T = kit.mm(P, x), x.mT
        gain = Px / (kit.mm(T, Px) + 1.0)
        w += gain * (seen - kit.mm(T, w))
        P -= gain * Px.mT
        return (P, w), None

    start = kit.plus_diagonal(kit.zeros(X, d, d), 1 / lam), kit.zeros(X, d, 1)
    return kit.scan(step, start, X, y)[0][1]


def conjugate_gradient(kit: Any, A: Any, b: Any, steps: int, **_: Any) -> Any:
    def step(x: Any, r: Any, p: Any, rr: Any) -> Any:
        q = kit.mm(A, p)
        alpha = rr / kit.mm(p.mT, q)
        x += alpha * p
        q *= alpha
        r -= q
        size = kit.mm(r.mT, r)
        p = p * (size / rr)
        p += r
        return x, r, p, size

    zero, start = kit.zeros(b, *b.shape[-2:]), kit.copy(b)
    return kit.loop(steps, step, zero, start, b, kit.mm(b.mT, b))[0]


def _leading(kit: Any, A: Any, v: Any, steps: int) -> Any:
    def step(v: Any) -> Any:
        image = kit.mm(A, v)
        image /= kit.sqrt(kit.mm(image.mT, image))
        return (image,)

    return kit.loop(steps, step, v)[0]


def power_iteration(kit: Any, A: Any, v0: Any, steps: int, **_: Any) -> Any:
    v = _leading(kit, A, v0, steps)
    return {"value": kit.mm(v.mT, kit.mm(A, v)), "vector": v}


def pca(kit: Any, X: Any, v0: Any, steps: int, **_: Any) -> Any:
    C = kit.mm(X.mT, X)
    C *= 1 / X.shape[-2]
    first = _leading(kit, C, v0, steps)
    most = kit.mm(first.mT, kit.mm(C, first))
    C -= most * first * first.mT
    second = _leading(kit, C, v0, steps)
    values = kit.concat([most, kit.mm(second.mT, kit.mm(C, second))], -2)
    return {"values": values, "vectors": kit.concat([first, second], -1)}


def matrix_polynomial(kit: Any, A: Any, coefficients: Any) -> Any:
    total = kit.plus_diagonal(coefficients[-1] * A, coefficients[-2])
    for c in coefficients[-3::-1]:
        total = kit.plus_diagonal(kit.mm(total, A), c)
    return total


def neumann_series(kit: Any, A: Any, b: Any, steps: int) -> Any:
    return kit.loop(steps, lambda x: (kit.affine(A, x, b),), b)[0]


def kalman_filter(kit: Any, y: Any, A: Any, c: Any, noise: Any, r: Any, **_: Any) -> Any:
    d, T, row = A.shape[-1], A.mT, c.mT

    def step(state: Any, seen: Any) -> Any:
        x, P = state
        x, P = kit.mm(A, x), kit.affine(kit.mm(A, P), T, noise)
        Pc = kit.mm(P, c)
        gain = Pc / (kit.mm(row, Pc) + r)
        x += gain * (seen - kit.mm(row, x))
        P -= gain * Pc.mT
        return (x, P), x

    start = kit.zeros(c, d, 1), kit.plus_diagonal(kit.zeros(c, d, d), 1.0)
    return kit.scan(step, start, y)[1]
