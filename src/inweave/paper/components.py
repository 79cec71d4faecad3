"""The components of the paper's Appendix A.2: what its elimination is put together from.

A network component is one hidden layer that acts on each entry by itself; it is inweave's
`PointwiseLayer`, so the functions here build such layers and `apply` runs them by the dense
executor, in float64 or, for object arrays of Fractions, exactly. Components never multiply two
entries of their input. That takes a matrix product, which the paper gets from multiplication skips
(`multiply_skip`); moving an entry to another place takes a weighted sum (`WeightedSum`).

Leading batch axes are allowed. Indices are 0-based and half-open: the mask that the paper writes
with rows i:j and columns k:l has `rows=(i - 1, j)` and `cols=(k - 1, l)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inweave.errors import InputError, ShapeError
from inweave.exact.arithmetic import Floats, Rationals
from inweave.exact.constants import Array, fractions, real_array
from inweave.model import dense
from inweave.model.layers import PointwiseLayer
from inweave.model.relunet import relu
from inweave.paper.properties import Span, mask

Component = Callable[[Array], Array]


def as_matrix(x: Any, what: str) -> Array:
    """A float64 matrix, or one of Fractions if given objects; checked to be real and finite."""
    if np.ndim(x) < 2:
        raise ShapeError(f"{what} must be a matrix, got an array of shape {np.shape(x)}")
    return real_array(what, x)


# -- the network component (Appendix A.2.2) -------------------------------------------------------
def network_component(
    X: Array, V: Array, W: Array, B: Array, C: Array, activation: str = "relu"
) -> Array:
    """Equations (87) and (88): `Σ_k V_k ⊙ σ(W_k ⊙ X + B_k) + C_k`.

    The weights are (units, m, n); X is m x n. Every product is a Hadamard product, so entry (i, j)
    of the result depends on entry (i, j) of X and on nothing else.
    """
    return apply(PointwiseLayer(V, W, B, C, activation), X)


def apply(layer: PointwiseLayer, X: Array) -> Array:
    """A network component applied to a matrix; exact if the matrix holds Fractions."""
    X = as_matrix(X, "the input of a network component")
    if X.shape[-2:] != layer.V.shape[1:]:
        raise ShapeError(
            f"this network component is for {layer.V.shape[1]} x {layer.V.shape[2]} matrices, "
            f"got {X.shape[-2]} x {X.shape[-1]}"
        )
    output = dense.pointwise(layer, X, Rationals() if X.dtype == object else Floats())
    return X + output if layer.skip else output


def affine(gamma: Array, C: Array, units: int = 2) -> PointwiseLayer:
    """Equation (89): the component that computes `gamma ⊙ X + C`, gamma and C being m x n.

    x = (x)_+ - (-x)_+, so unit 0 with input weight 1 and unit 1 with input weight -1, weighted by
    gamma and -gamma, give gamma x; unit 0 also adds C. Two units are enough and the others are
    zero; the paper asks for more than two (docs/errata.md).
    """
    gamma, C = np.asarray(gamma), np.asarray(C)
    if gamma.ndim != 2 or gamma.shape != C.shape:
        raise ShapeError(f"gamma {gamma.shape} and C {C.shape} must be matrices of one shape")
    if units < 2:
        raise InputError(f"an affine map takes at least 2 ReLU units, got {units}")
    V = np.zeros((units, *C.shape), gamma.dtype if gamma.dtype == object else np.float64)
    D = np.zeros((units, *C.shape), C.dtype if C.dtype == object else np.float64)
    W = np.zeros((units, *C.shape))
    V[0], V[1], W[0], W[1], D[0] = gamma, -gamma, 1.0, -1.0, C
    return PointwiseLayer(V, W, np.zeros_like(W), D)


def identity(m: int, n: int) -> PointwiseLayer:
    """σ_id of A.2.1 on every entry: equation (89) with gamma = 1 and C = 0."""
    return affine(np.ones((m, n)), np.zeros((m, n)))


# -- masks (Appendix A.2.2) -----------------------------------------------------------------------
def anti_mask(m: int, n: int, rows: Span, cols: Span) -> Array:
    """The anti-mask: m x n, zero inside rows x cols and one outside."""
    return 1.0 - mask(m, n, rows, cols)


def masking(M: Array) -> PointwiseLayer:
    """The component that computes `M ⊙ X` for a mask or an anti-mask M.

    One unit with the identity for σ, input weights 1 and output weights M. It is a Hadamard
    product: the matrix product M X, which the print shows in Appendix A.4, does something else.
    """
    M = np.asarray(M)
    if M.ndim != 2:
        raise ShapeError(f"a mask must be a matrix, got an array of shape {M.shape}")
    V = M[np.newaxis]
    return PointwiseLayer(V, np.ones(V.shape), np.zeros(V.shape), np.zeros(V.shape), "identity")


# -- weighted sums (Appendix A.2.4) ---------------------------------------------------------------
def total(A: Array) -> Array:
    """SUM(A): the sum of all entries of a matrix."""
    return np.asarray(A).sum(axis=(-2, -1))


def weighted_sum(A: Array, W: Array, b: Array | float = 0) -> Array:
    """`P[s, t] = SUM(W[s, t] ⊙ A) + b[s, t]`: a p x q matrix from an m x n one, W is p x q x m x n.

    Any affine map of the entries of A; the paper shows that a W[s, t] with a single one picks one
    entry, and W[s, t] = 0 leaves the constant b[s, t].
    """
    A, W = as_matrix(A, "A"), np.asarray(W)
    _weights_fit(W, 4, A, "(p, q, m, n)")
    return total(_same_numbers(W, A) * A[..., np.newaxis, np.newaxis, :, :]) + _same_numbers(b, A)


def move(m: int, n: int, rows: Span, cols: Span, down: int = 0, right: int = 0) -> Array:
    """Equation (90): weights with which `weighted_sum` moves `A[rows, cols]` by (down, right).

    P[s, t] must be A[s - down, t - right] where that entry is one of the chosen, and 0 elsewhere:
    W[s, t] is the mask of the single entry (s - down, t - right), or zero. The print leaves i', k'
    of W_{s,t} unbound and a, b undefined: i' = s - a, k' = t - b, and (a, b) is (down, right).
    """
    chosen = mask(m, n, rows, cols)
    W = np.zeros((m, n, m, n))
    for i, k in np.argwhere(chosen):
        s, t = int(i) + down, int(k) + right
        if not (0 <= s < m and 0 <= t < n):
            raise ShapeError(
                f"rows {rows}, columns {cols} moved by ({down}, {right}) leave a {m} x {n} matrix"
            )
        W[s, t, i, k] = 1.0
    return W


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """Equation (92): `Z[i, j] = Σ_k V_k[i, j] σ(SUM(W_{k,i,j} ⊙ X) + B_k[i, j]) + C_k[i, j]`.

    V, B and C are (units, p, q), W is (units, p, q, m, n): each W_{k,i,j} has the size of X. (It is
    printed as n x m, which cannot be multiplied with the m x n matrix X entry by entry.)
    """

    V: Array
    W: Array
    B: Array
    C: Array
    activation: str = "relu"

    def __post_init__(self) -> None:
        shape = np.shape(self.V)
        sizes = {np.shape(self.B), np.shape(self.C), np.shape(self.W)[:3]}
        if len(shape) != 3 or sizes != {shape}:
            raise ShapeError(
                f"V, B, C must be (units, p, q) and W (units, p, q, m, n), got "
                f"{shape}, {np.shape(self.B)}, {np.shape(self.C)}, {np.shape(self.W)}"
            )
        if self.activation not in ("relu", "identity"):
            raise InputError(f"activation {self.activation!r} is not 'relu' or 'identity'")

    @classmethod
    def of(cls, layer: PointwiseLayer) -> WeightedSum:
        """A network component in this form: `W_{k,i,j} = W_k ⊙ M` with M the mask of (i, j)."""
        units, m, n = layer.W.shape
        single = np.eye(m * n).reshape(m, n, m, n)
        W = layer.W.reshape(units, m, n, 1, 1) * _same_numbers(single, layer.W)
        return cls(layer.V, W, layer.B, layer.C, layer.activation)

    def __call__(self, X: Array) -> Array:
        X = as_matrix(X, "X")
        _weights_fit(np.asarray(self.W), 5, X, "(units, p, q, m, n)")
        Z = _same_numbers(np.zeros(np.shape(self.V)[1:]), X)
        for V, W, B, C in zip(self.V, self.W, self.B, self.C, strict=True):
            V, W, B, C = (_same_numbers(w, X) for w in (V, W, B, C))
            inner = weighted_sum(X, W, B)
            Z = Z + V * (relu(inner) if self.activation == "relu" else inner) + C
        return Z


def _weights_fit(W: Array, ndim: int, X: Array, form: str) -> None:
    if W.ndim != ndim or W.shape[-2:] != X.shape[-2:]:
        raise ShapeError(
            f"weights of shape {W.shape} do not fit a {X.shape[-2]} x {X.shape[-1]} input: "
            f"expected {form} with the input's own m x n"
        )


def _same_numbers(constant: Array, like: Array) -> Array:
    """A constant in the arithmetic of another array: Fractions or float64."""
    constant = np.asarray(constant)
    return fractions(constant) if like.dtype == object else constant.astype(np.float64)


# -- skip connections (Appendix A.2.3) ------------------------------------------------------------
def add_skip(module: Component, A: Array, gamma: int = 1) -> Array:
    """`module(A) + gamma A` with gamma = ±1: the addition type of skip connection."""
    A = as_matrix(A, "A")
    output = np.asarray(module(A))
    if output.shape[-2:] != A.shape[-2:]:
        raise ShapeError(
            f"an addition skip needs module(A) of A's size {A.shape[-2:]}, got {output.shape[-2:]}"
        )
    return output + _sign(gamma) * A


def multiply_skip(
    module: Component, A: Array, gamma: int = 1, side: Literal["left", "right"] = "left"
) -> Array:
    """`gamma module(A) A` (module on the left) or `gamma A module(A)` (on the right), gamma = ±1.

    A is m x n, so module(A) has m columns on the left and n rows on the right. This is the only
    component that multiplies two values that both depend on the input.
    """
    if side not in ("left", "right"):
        raise InputError(f"side must be 'left' or 'right', got {side!r}")
    A = as_matrix(A, "A")
    output = np.asarray(module(A))
    inner = (output.shape[-1], A.shape[-2]) if side == "left" else (A.shape[-1], output.shape[-2])
    if inner[0] != inner[1]:
        raise ShapeError(
            f"module(A) of size {output.shape[-2:]} cannot stand on the {side} of A, which is "
            f"{A.shape[-2]} x {A.shape[-1]}"
        )
    return _sign(gamma) * (output @ A if side == "left" else A @ output)


def _sign(gamma: int) -> int:
    if gamma not in (-1, 1):
        raise InputError(f"gamma of a skip connection is +1 or -1, got {gamma!r}")
    return int(gamma)
