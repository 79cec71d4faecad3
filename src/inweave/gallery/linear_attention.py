"""Linear attention that looks back only: a state of keys and values, and one row of it per token.

`scan` is the recurrent form of these layers, and the references are the parallel one, a masked
matrix of scores. Queries, keys and values are inputs: projections that a layer learns are constants
of the network around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.gallery.entry import Entry
from inweave.gallery.sizes import d, k, n


@inweave.program
def causal_linear_attention(
    Q: Matrix[n, d], K: Matrix[n, d], V: Matrix[n, k], *, domain: tuple[float, float] = (1e-3, 1e4)
) -> Matrix[n, k]:
    """Causal linear attention, normalised: every token reads the average of the values so far.

    S ← S + k vᵀ, z ← z + k, the answer is Sᵀq/(zᵀq) for every token. Katharopoulos et al. (2020),
    with rows of Q and K the features φ(q), φ(k), which are positive. `domain` bounds zᵀq.
    The network: one tied module that goes through the rows: a table and Newton layers divide.
    """

    def step(
        carried: tuple[Matrix[d, k], Vector[d]], q: Vector[d], k: Vector[d], v: Vector[k]
    ) -> tuple[tuple[Matrix[d, k], Vector[d]], Vector[k]]:
        S, z = carried
        S, z = S + k @ v.T, z + k
        return (S, z), S.T @ q * inweave.reciprocal(z.T @ q, domain=domain)

    start = (inweave.zeros(Q.shape[1], V.shape[1]), inweave.zeros(Q.shape[1]))
    return inweave.scan(step, start, Q, K, V)[1]


@inweave.program
def retention(Q: Matrix[n, d], K: Matrix[n, d], V: Matrix[n, k], gamma: Scalar) -> Matrix[n, k]:
    """Retention: linear attention whose memory decays by the same factor at every token.

    S ← γS + k vᵀ, the answer is Sᵀq for every token: Σ γ^(t−s) (qₜᵀkₛ) vₛ over s ≤ t. After the
    recurrent form of Sun et al. (2023), without their rotation of queries and keys and group norm.
    The network: one tied module that goes through the rows.
    """

    def step(
        S: Matrix[d, k], q: Vector[d], k: Vector[d], v: Vector[k]
    ) -> tuple[Matrix[d, k], Vector[k]]:
        S = gamma * S + k @ v.T
        return S, S.T @ q

    return inweave.scan(step, inweave.zeros(Q.shape[1], V.shape[1]), Q, K, V)[1]


@inweave.program
def gated_linear_attention(
    Q: Matrix[n, d], K: Matrix[n, d], V: Matrix[n, k], A: Matrix[n, d]
) -> Matrix[n, k]:
    """Gated linear attention: every token says how much of each row of the memory is kept.

    S ← diag(a) S + k vᵀ, the answer is Sᵀq for every token. Yang et al. (2024a), with the gates a
    (rows of A, between 0 and 1) as inputs.
    The network: one tied module that goes through the rows; the gate takes a head per row of S.
    """

    def step(
        S: Matrix[d, k], q: Vector[d], k: Vector[d], v: Vector[k], a: Vector[d]
    ) -> tuple[Matrix[d, k], Vector[k]]:
        S = inweave.diag(a) @ S + k @ v.T
        return S, S.T @ q

    return inweave.scan(step, inweave.zeros(Q.shape[1], V.shape[1]), Q, K, V, A)[1]


# -- references and example data -----------------------------------------------------------------
def _causal(Q: Any, K: Any, V: Any, **__: Any) -> Any:
    scores = np.tril(Q @ K.T)
    return scores @ V / scores.sum(axis=1, keepdims=True)


def _retention(Q: Any, K: Any, V: Any, gamma: Any) -> Any:
    ago = np.subtract.outer(np.arange(len(Q)), np.arange(len(Q)))
    return np.where(ago >= 0, float(gamma) ** np.maximum(ago, 0), 0.0) * (Q @ K.T) @ V


def _gated(Q: Any, K: Any, V: Any, A: Any) -> Any:
    kept = np.cumprod(A, axis=0)
    return np.tril((Q * kept) @ (K / kept).T) @ V


def tokens(rng: np.random.Generator, n: int, d: int, k: int, **__: Any) -> dict[str, Any]:
    """Queries, keys of length one, and values."""
    K = rng.normal(size=(n, d))
    K /= np.linalg.norm(K, axis=1, keepdims=True)
    return {"Q": rng.normal(size=(n, d)), "K": K, "V": rng.normal(size=(n, k))}


def _features(rng: np.random.Generator, n: int, d: int, k: int, **__: Any) -> dict[str, Any]:
    made = tokens(rng, n, d, k)
    plus = {name: np.where(x > 0, x + 1, np.exp(x)) for name, x in made.items() if name != "V"}
    return {**made, **plus}  # elu(x) + 1, the paper's features


def _decaying(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    return {**tokens(rng, **sizes), "gamma": 0.9}


def _gates(rng: np.random.Generator, n: int, d: int, **sizes: Any) -> dict[str, Any]:
    return {**tokens(rng, n, d, **sizes), "A": rng.uniform(0.7, 1.0, (n, d))}


SMALL = {"n": 12, "d": 4, "k": 3}
ENTRIES = (
    Entry(causal_linear_attention, "Katharopoulos et al. 2020", SMALL, _features, _causal),
    Entry(retention, "after Sun et al. 2023", SMALL, _decaying, _retention),
    Entry(gated_linear_attention, "Yang et al. 2024a", SMALL, _gates, _gated),
)
