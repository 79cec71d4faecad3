"""First-order methods on least squares, their constants folded: w ← A w + c is what is left."""

from __future__ import annotations

from typing import Any

from inweave.gallery.least_squares import chebyshev_weights
from inweave.gallery.sparse import momenta


def descent(kit: Any, X: Any, y: Any, lam: Any, eta: Any) -> tuple[Any, Any]:
    """A and c of w − η (Xᵀ(Xw − y) + λw) = A w + c."""
    A = kit.mm(X.mT, X)
    A *= -eta
    return kit.plus_diagonal(A, 1 - eta * lam), kit.mm(X.mT, eta * y)


def _repeated(kit: Any, A: Any, c: Any, w: Any, steps: int) -> Any:
    return kit.loop(steps, lambda w: (kit.affine(A, w, c),), w)[0]


def ridge_gd(
    kit: Any, X: Any, y: Any, u: Any, w0: Any, lam: Any, eta: Any, steps: int
) -> Any:  # fmt: skip
    A, c = descent(kit, X, y, lam, eta)
    return kit.mm(u.mT, _repeated(kit, A, c, w0, steps))


def ridge_gd_shared(
    kit: Any, X: Any, y: Any, u: Any, w0: Any, lam: Any, eta: Any, steps: int
) -> Any:
    """One X for all problems: their responses (problems, n, 1) are the columns of one matrix."""
    A, c = descent(kit, X, y[..., 0].mT, lam, eta)
    return kit.mm(u.mT, _repeated(kit, A, c, kit.zeros(X, *c.shape[-2:]) + w0, steps))


def ridge_multi_output(kit: Any, X: Any, Y: Any, lam: Any, eta: Any, steps: int) -> Any:
    A, c = descent(kit, X, Y, lam, eta)
    return _repeated(kit, A, c, kit.zeros(X, *c.shape[-2:]), steps)


def weighted_least_squares(kit: Any, X: Any, y: Any, D: Any, lam: Any, eta: Any, steps: int) -> Any:
    weighed = kit.mm(X.mT, D)
    A = kit.mm(weighed, X)
    A *= -eta
    A = kit.plus_diagonal(A, 1 - eta * lam)
    c = kit.mm(weighed, eta * y)
    return _repeated(kit, A, c, kit.zeros(X, X.shape[-1], 1), steps)


def heavy_ball(kit: Any, X: Any, y: Any, lam: Any, eta: Any, beta: Any, steps: int) -> Any:
    A, c = descent(kit, X, y, lam, eta)
    A = kit.plus_diagonal(A, beta)

    def step(w: Any, v: Any) -> Any:
        v = v * -beta
        v += c
        return kit.affine(A, w, v), w

    start = kit.zeros(X, X.shape[-1], 1)
    return kit.loop(steps, step, start, start)[0]


def nesterov(kit: Any, X: Any, y: Any, lam: Any, eta: Any, beta: Any, steps: int) -> Any:
    A, c = descent(kit, X, y, lam, eta)

    def step(w: Any, v: Any) -> Any:
        z = w * (1 + beta)
        z -= beta * v
        return kit.affine(A, z, c), w

    start = kit.zeros(X, X.shape[-1], 1)
    return kit.loop(steps, step, start, start)[0]


def chebyshev(kit: Any, X: Any, y: Any, lam: Any, steps: int, low: float, high: float) -> Any:
    A, c = descent(kit, X, y, lam, 2 / (low + high))
    w = v = kit.zeros(X, X.shape[-1], 1)
    for omega in chebyshev_weights(low, high, steps).tolist():
        after = kit.affine(A, w, c)
        after -= v
        after *= omega
        after += v
        w, v = after, w
    return w


def _soft(kit: Any, z: Any, t: Any) -> Any:
    z -= kit.clip(z, -t, t)
    return z


def lasso_ista(kit: Any, X: Any, y: Any, lam: Any, eta: Any, steps: int) -> Any:
    A, c = descent(kit, X, y, 0.0, eta)
    t = eta * lam
    start = kit.zeros(X, X.shape[-1], 1)
    return kit.loop(steps, lambda w: (_soft(kit, kit.affine(A, w, c), t),), start)[0]


def lasso_fista(kit: Any, X: Any, y: Any, lam: Any, eta: Any, steps: int) -> Any:
    A, c = descent(kit, X, y, 0.0, eta)
    t, w = eta * lam, kit.zeros(X, X.shape[-1], 1)
    z = w
    for momentum in momenta(steps).tolist():
        after = _soft(kit, kit.affine(A, z, c), t)
        z = after - w
        z *= momentum
        z += after
        w = after
    return w


def logistic_gd(kit: Any, X: Any, y: Any, lam: Any, eta: Any, steps: int, **_: Any) -> Any:
    T, keep = eta * X.mT, 1 - eta * lam
    c = kit.mm(T, y)

    def step(w: Any) -> Any:
        after = w * keep
        after += c
        after -= kit.mm(T, kit.sigmoid(kit.mm(X, w)))
        return (after,)

    return kit.loop(steps, step, kit.zeros(X, X.shape[-1], 1))[0]


def huber_gd(kit: Any, X: Any, y: Any, eta: Any, steps: int, delta: float = 1.0) -> Any:
    T, minus = -eta * X.mT, -y

    def step(w: Any) -> Any:
        return (kit.addmm(w, T, kit.clip(kit.affine(X, w, minus), -delta, delta)),)

    return kit.loop(steps, step, kit.zeros(X, X.shape[-1], 1))[0]


def ridge_selection(
    kit: Any, X: Any, y: Any, V: Any, z: Any, u: Any, eta: Any, steps: int, lams: Any, **_: Any
) -> Any:
    A, c = descent(kit, X, y, 0.0, eta)
    weights = kit.concat([kit.ones(X, 1, 1) * (eta * lam) for lam in lams], -1)

    def step(W: Any) -> Any:
        after = kit.affine(A, W, c)
        after -= W * weights
        return (after,)

    W = kit.loop(steps, step, kit.zeros(X, X.shape[-1], len(lams)))[0]
    missed = kit.mm(V, W)
    missed -= z
    missed *= missed
    errors = missed.sum(-2)[..., None, :]
    least = errors.min(-1) if kit.name != "torch" else errors.min(-1).values
    choice = (errors == least[..., None]).mT * kit.ones(X, 1, 1)
    return {"prediction": kit.mm(kit.mm(u.mT, W), choice), "choice": choice}


def td0(kit: Any, Phi: Any, After: Any, r: Any, u: Any, gamma: Any, eta: Any, steps: int) -> Any:
    T = eta * Phi.mT
    ahead = gamma * After
    ahead -= Phi
    A = kit.plus_diagonal(kit.mm(T, ahead), 1.0)
    w = _repeated(kit, A, kit.mm(T, r), kit.zeros(u, u.shape[-2], 1), steps)
    return kit.mm(u.mT, w)


def covariate_shift(
    kit: Any, X: Any, y: Any, Z: Any, lam: Any, mu: Any, eta: Any, rho: Any, steps: int
) -> Any:
    n = X.shape[-2]
    F = kit.concat([kit.ones(X, n, 1), X], -1)
    target = kit.concat([kit.ones(X, 1, 1), Z.mean(-2)[..., :, None]], -2)
    A = kit.mm(F.mT, F)
    A *= -rho / n
    A = kit.plus_diagonal(A, 1 - rho * mu)
    start = kit.zeros(X, F.shape[-1], 1)
    alpha = _repeated(kit, A, rho * target, start, steps)
    weighed = (F * kit.relu(kit.mm(F, alpha))).mT
    A = kit.mm(weighed, F)
    A *= -eta
    A = kit.plus_diagonal(A, 1 - eta * lam)
    return _repeated(kit, A, kit.mm(weighed, eta * y), start, steps)


def kernel_regression(kit: Any, X: Any, y: Any, u: Any, lam: Any, eta: Any, steps: int) -> Any:
    A = kit.mm(X, X.mT)
    A *= -eta
    A = kit.plus_diagonal(A, 1 - eta * lam)
    a = _repeated(kit, A, eta * y, kit.zeros(X, X.shape[-2], 1), steps)
    return kit.mm(kit.mm(X, u).mT, a)


def dual_gd(kit: Any, X: Any, y: Any, u: Any, eta: Any, steps: int) -> Any:
    T = eta * X.mT

    def step(r: Any, total: Any) -> Any:
        change = kit.mm(T, r)
        total += change
        return kit.addmm(r, X, change, alpha=-1.0), total

    total = kit.loop(steps, step, y, kit.zeros(X, X.shape[-1], 1))[1]
    return kit.mm(u.mT, total)


def gd_plus_plus(kit: Any, X: Any, y: Any, u: Any, eta: Any, gamma: Any, steps: int) -> Any:
    def step(X: Any, r: Any, u: Any, q: Any) -> Any:
        change = eta * kit.mm(X.mT, r)
        G = kit.mm(X.mT, X)
        q += kit.mm(u.mT, change)
        r = kit.addmm(r, X, change, alpha=-1.0)
        G *= -gamma
        G = kit.plus_diagonal(G, 1.0)
        return kit.mm(X, G), r, kit.mm(G, u), q

    return kit.loop(steps, step, X, y, u, kit.zeros(X, 1, 1))[3]


def preconditioned_gd(kit: Any, X: Any, y: Any, u: Any, steps: int = 1) -> Any:
    n, d = X.shape[-2:]
    rate, T = 1 / (n + d + 1), X.mT
    w = rate * kit.mm(T, y)
    for _ in range(steps - 1):
        w = w + rate * kit.mm(T, y - kit.mm(X, w))
    return kit.mm(u.mT, w)


def diagonal_transformer(kit: Any, X: Any, y: Any, u: Any, weights: Any) -> Any:
    guess = kit.zeros(X, 1, 1)
    for i, (p, q, r, s) in enumerate(weights):
        T = X.mT
        c, by_y = kit.mm(T, y), kit.mm(y.mT, y)
        after = guess - r * kit.mm(u.mT, c) + s * guess * by_y
        if i + 1 < len(weights):
            G = p * kit.mm(T, X)
            u, y, X = (
                u + kit.mm(G, u) - q * c * guess,
                y + r * kit.mm(X, c) + s * by_y * y,
                X + kit.mm(X, G) + q * y * c.mT,
            )
        guess = after
    return guess


def chain_of_thought_gd(kit: Any, X: Any, y: Any, eta: Any) -> Any:
    G, b = kit.mm(X.mT, X), kit.mm(X.mT, -y)

    def step(state: Any, eta: Any) -> Any:
        g = kit.affine(G, state[0], b)
        g *= eta
        w = state[0] - g
        return (w,), w

    return kit.scan(step, (kit.zeros(X, X.shape[-1], 1),), eta)[1]
