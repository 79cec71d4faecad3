"""Linear attention that looks back, and fast weights: recurrent forms, the state in place."""

from __future__ import annotations

from typing import Any


def _state(kit: Any, Q: Any, V: Any) -> Any:
    return kit.zeros(Q, Q.shape[-1], V.shape[-1])


def causal_linear_attention(kit: Any, Q: Any, K: Any, V: Any, **_: Any) -> Any:
    def step(state: Any, q: Any, k: Any, v: Any) -> Any:
        S, z = state
        S += k * v.mT
        z += k
        out = kit.mm(S.mT, q)
        out /= kit.mm(z.mT, q)
        return (S, z), out

    return kit.scan(step, (_state(kit, Q, V), kit.zeros(Q, Q.shape[-1], 1)), Q, K, V)[1]


def retention(kit: Any, Q: Any, K: Any, V: Any, gamma: Any) -> Any:
    def step(state: Any, q: Any, k: Any, v: Any) -> Any:
        (S,) = state
        S *= gamma
        S += k * v.mT
        return (S,), kit.mm(S.mT, q)

    return kit.scan(step, (_state(kit, Q, V),), Q, K, V)[1]


def gated_linear_attention(kit: Any, Q: Any, K: Any, V: Any, A: Any) -> Any:
    def step(state: Any, q: Any, k: Any, v: Any, a: Any) -> Any:
        (S,) = state
        S *= a
        S += k * v.mT
        return (S,), kit.mm(S.mT, q)

    return kit.scan(step, (_state(kit, Q, V),), Q, K, V, A)[1]


def delta_net(kit: Any, Q: Any, K: Any, V: Any, beta: Any) -> Any:
    def step(state: Any, q: Any, k: Any, v: Any, b: Any) -> Any:
        (W,) = state
        W += (b * k) * (v.mT - kit.mm(k.mT, W))
        return (W,), kit.mm(W.mT, q)

    return kit.scan(step, (_state(kit, Q, V),), Q, K, V, beta)[1]


def gated_delta_net(kit: Any, Q: Any, K: Any, V: Any, alpha: Any, beta: Any) -> Any:
    def step(state: Any, q: Any, k: Any, v: Any, a: Any, b: Any) -> Any:
        (W,) = state
        W *= a
        W += (b * k) * (v.mT - kit.mm(k.mT, W))
        return (W,), kit.mm(W.mT, q)

    return kit.scan(step, (_state(kit, Q, V),), Q, K, V, alpha, beta)[1]


def ttt_linear(kit: Any, Q: Any, K: Any, V: Any, eta: Any, batch: int) -> Any:
    W, answers = _state(kit, Q, V), []
    for i in range(0, Q.shape[-2], batch):
        q, k, v = (x[..., i : i + batch, :] for x in (Q, K, V))
        missed = kit.mm(k, W)
        missed -= v
        missed *= -eta
        answers.append(kit.affine(q, W, kit.mm(kit.tril(kit.mm(q, k.mT)), missed)))
        W += kit.mm(k.mT, missed)
    return kit.concat(answers, -2)


def mesa_layer(kit: Any, Q: Any, K: Any, V: Any, lam: Any, **_: Any) -> Any:
    d = Q.shape[-1]

    def step(state: Any, q: Any, k: Any, v: Any) -> Any:
        P, S = state
        Pk = kit.mm(P, k)
        P -= (Pk / (kit.mm(k.mT, Pk) + 1.0)) * Pk.mT
        S += k * v.mT
        return (P, S), kit.mm(S.mT, kit.mm(P, q))

    start = kit.plus_diagonal(kit.zeros(Q, d, d), 1 / lam), _state(kit, Q, V)
    return kit.scan(step, start, Q, K, V)[1]
