"""Fast weights: a memory that every token corrects where it was wrong, as by a step of descent.

The memory W maps keys to values. What a token finds under its own key is compared with its value,
and the difference is written back: gradient steps on ‖Wᵀk − v‖²/2, taken one example after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.closed_forms import PRECISE
from inweave.gallery.entry import Entry
from inweave.gallery.linear_attention import tokens
from inweave.gallery.sizes import d, k, n


@inweave.program
def delta_net(Q: Matrix[n, d], K: Matrix[n, d], V: Matrix[n, k], beta: Vector[n]) -> Matrix[n, k]:
    """DeltaNet: a token replaces part of what the memory holds under its key by its own value.

    W ← W + β k (v − Wᵀk)ᵀ, the answer is Wᵀq for every token. The delta rule in attention of Schlag
    et al. (2021), which Yang et al. (2024b) train in parallel over the tokens.
    The network: one tied module that goes through the rows: what was missed, then the correction.
    """

    def step(
        W: Matrix[d, k], q: Vector[d], k: Vector[d], v: Vector[k], b: Scalar
    ) -> tuple[Matrix[d, k], Vector[k]]:
        W = W + b * k @ (v - W.T @ k).T
        return W, W.T @ q

    return inweave.scan(step, inweave.zeros(Q.shape[1], V.shape[1]), Q, K, V, beta)[1]


@inweave.program
def gated_delta_net(
    Q: Matrix[n, d], K: Matrix[n, d], V: Matrix[n, k], alpha: Vector[n], beta: Vector[n]
) -> Matrix[n, k]:
    """Gated DeltaNet: the memory also forgets, as much as the token says, before it is corrected.

    W ← αW, then W ← W + β k (v − Wᵀk)ᵀ; the answer is Wᵀq for every token. Yang et al. (2025).
    The network: one tied module that goes through the rows, as long as `delta_net`'s.
    """

    def step(
        W: Matrix[d, k], q: Vector[d], k: Vector[d], v: Vector[k], a: Scalar, b: Scalar
    ) -> tuple[Matrix[d, k], Vector[k]]:
        W = a * W + b * k @ (v - a * W.T @ k).T
        return W, W.T @ q

    return inweave.scan(step, inweave.zeros(Q.shape[1], V.shape[1]), Q, K, V, alpha, beta)[1]


@inweave.program
def ttt_linear(
    Q: Matrix[n, d], K: Matrix[n, d], V: Matrix[n, k], eta: Scalar, *, batch: int
) -> Matrix[n, k]:
    """Test-time training of a linear model: gradient steps in batches while the tokens are read.

    Tokens of a batch take their gradients at the W with which it began, and token t sees those up
    to its own: Q W − η tril(Q Kᵀ)(K W − V), then W ← W − η Kᵀ(K W − V). The dual form of Sun et al.
    (2024), without the layer norm and the residual around their inner model.
    The network: layers for every batch; the causal mask takes a head per row of a batch.
    """
    W: Matrix[d, k] = inweave.zeros(Q.shape[1], V.shape[1])
    answers = []
    for i in range(0, Q.shape[0], batch):
        q, k, v = Q[i : i + batch], K[i : i + batch], V[i : i + batch]
        missed = inweave.hold(k @ W - v)
        answers.append(q @ W - eta * inweave.tril(q @ k.T) @ missed)
        W = inweave.hold(W - eta * k.T @ missed)
    return inweave.vstack(answers)


@inweave.program
def mesa_layer(
    Q: Matrix[n, d],
    K: Matrix[n, d],
    V: Matrix[n, k],
    lam: Scalar,
    *,
    lam_range: tuple[float, float] = (1e-4, 1e4),
    length: float = 1.0,
) -> Matrix[n, k]:
    """The mesa layer: every token reads from the ridge regression on all tokens up to its own.

    P ← P − P k kᵀ P/(1 + kᵀPk) from I/λ, S ← S + k vᵀ; the answer is SᵀPq for every token. Von
    Oswald et al. (2023b). `length` bounds kᵀk, `lam_range` λ.
    The network: one tied module that goes through the rows, with a division by table and Newton
    layers; the inverse of λ before it.
    """
    low, high = lam_range

    def step(
        carried: tuple[Matrix[d, d], Matrix[d, k]], q: Vector[d], k: Vector[d], v: Vector[k]
    ) -> tuple[tuple[Matrix[d, d], Matrix[d, k]], Vector[k]]:
        P, S = carried
        Pk = inweave.hold(P @ k)
        r = inweave.reciprocal(1 + k.T @ Pk, domain=(1, 1 + 2 * length / low), error=PRECISE)
        P, S = inweave.hold(P - r * Pk @ Pk.T), S + k @ v.T
        return (P, S), S.T @ P @ q

    one = inweave.eye(Q.shape[1])
    P = inweave.hold(inweave.reciprocal(lam, domain=(low, high), error=PRECISE) * one)
    return inweave.scan(step, (P, inweave.zeros(Q.shape[1], V.shape[1])), Q, K, V)[1]


# -- references and example data -----------------------------------------------------------------
def _delta(Q: Any, K: Any, V: Any, beta: Any, alpha: Any = None) -> Any:
    """W ← (I − β k kᵀ) αW + β k vᵀ."""
    W, answers, one = np.zeros((Q.shape[1], V.shape[1])), [], np.eye(Q.shape[1])
    for t in range(len(Q)):
        kept = 1.0 if alpha is None else alpha[t]
        W = (one - beta[t] * np.outer(K[t], K[t])) @ W * kept + beta[t] * np.outer(K[t], V[t])
        answers.append(Q[t] @ W)
    return np.array(answers)


def _ttt(Q: Any, K: Any, V: Any, eta: Any, batch: int) -> Any:
    W, answers = np.zeros((Q.shape[1], V.shape[1])), []
    for t in range(len(Q)):
        if t % batch == 0:
            began = W
        W = W - eta * np.outer(K[t], K[t] @ began - V[t])
        answers.append(Q[t] @ W)
    return np.array(answers)


def _mesa(Q: Any, K: Any, V: Any, lam: Any, **__: Any) -> Any:
    one = lam * np.eye(Q.shape[1])
    pairs = ((K[: t + 1], V[: t + 1]) for t in range(len(Q)))
    ridges = (np.linalg.solve(k.T @ k + one, k.T @ v) for k, v in pairs)
    return np.array([q @ W for q, W in zip(Q, ridges, strict=True)])


def _strengths(rng: np.random.Generator, n: int, **sizes: Any) -> dict[str, Any]:
    return {**tokens(rng, n, **sizes), "beta": rng.uniform(0.2, 1.0, n)}


def _forgetting(rng: np.random.Generator, n: int, **sizes: Any) -> dict[str, Any]:
    return {**_strengths(rng, n, **sizes), "alpha": rng.uniform(0.8, 1.0, n)}


def _online(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    return {**tokens(rng, **sizes), "eta": 0.5}


def _ridge(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    return {**tokens(rng, **sizes), "lam": 0.1}


SMALL = {"n": 12, "d": 4, "k": 3}
ENTRIES = (
    Entry(delta_net, "Schlag et al. 2021; Yang et al. 2024b", SMALL, _strengths, _delta),
    Entry(gated_delta_net, "Yang et al. 2025", SMALL, _forgetting, _delta),
    Entry(ttt_linear, "after Sun et al. 2024", {**SMALL, "batch": 4}, _online, _ttt),
    Entry(mesa_layer, "von Oswald et al. 2023b", SMALL, _ridge, _mesa),
)
