"""Section 2 of the paper on plain arrays: mask and move, LSA, ELSA, and Properties 1 to 4.

Everything else in the paper, and in inweave, is made of these few moves. They are written here as
printed, with full matrices, so that a reader can print each weight and compare it with the page.
Weights take the dtype of the arrays they act on: an object array of Fractions gives exact results.
Where the print slips (see docs/errata.md), the docstring says so and the code has the right form.

Indices are 0-based and half-open: the paper's rows i:j are `rows=(i - 1, j)` here, while the moves
`down` (its a) and `right` (its b) are differences and stay what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from inweave.errors import DTypeError, InputError, ShapeError
from inweave.exact.constants import Array, identity
from inweave.model.layers import Head
from inweave.model.layout import Layout
from inweave.model.projection import DenseProjection, Piece, Projection, read

Pairs = Iterable[tuple[int, int]]
Span = tuple[int, int]


# -- mask and move (Section 2.2) ------------------------------------------------------------------
def W_K(m: int, pairs: Pairs, dtype: DTypeLike = np.float64) -> Array:
    """The m x m matrix of equation (2): `W_K @ A` has row j of A in row i for each (i, j) in K.

    Row i of a product is row i of the left factor times A. That row of W_K is the unit vector e_j
    if (i, j) is in K, which picks row j of A, and zero otherwise. Two pairs with the same i would
    add two rows of A, so the i must be pairwise distinct.
    """
    return _units("W_K", "rows", m, pairs, dtype)


def V_J(n: int, pairs: Pairs, dtype: DTypeLike = np.float64) -> Array:
    """The n x n matrix of equation (4): `A @ V_J` has column k of A in column l, (k, l) in J.

    Column l of a product is A times column l of the right factor; that column of V_J is e_k, which
    picks column k of A, or zero. It is `W_K` transposed: V_J = W_{(l, k)}ᵀ.
    """
    return _units("V_J", "columns", n, pairs, dtype)


def movers(
    m: int,
    n: int,
    rows: Span,
    cols: Span,
    down: int = 0,
    right: int = 0,
    dtype: DTypeLike = np.float64,
) -> tuple[Array, Array]:
    """The W (m x m) and V (n x n) of Property 1, equation (5): `W @ A @ V` masks and moves A.

    W = W_K with K = {(i + down, i)} moves the chosen rows down and drops all others, V = V_J with
    J = {(k, k + right)} does the same for columns; W acts from the left and V from the right, so
    neither disturbs the other.
    """
    _fits("rows", rows, down, m)
    _fits("columns", cols, right, n)
    K = [(i + down, i) for i in range(*rows)]
    J = [(k, k + right) for k in range(*cols)]
    return W_K(m, K, dtype), V_J(n, J, dtype)


def mask_and_move(A: Array, rows: Span, cols: Span, down: int = 0, right: int = 0) -> Array:
    """Property 1: `A[rows, cols]` moved by (down, right), zeros elsewhere, as `W @ A @ V`."""
    A = _matrix("A", A)
    m, n = A.shape[-2:]
    W, V = movers(m, n, rows, cols, down, right, A.dtype)
    return W @ A @ V


def upper_right(A: Array, rows: Span, cols: Span) -> Array:
    """Equations (6) and (7): `A[rows, cols]` moved into the upper right corner.

    The first chosen row goes to row 0 and the last chosen column to the last column, so
    down = -rows[0] and right = n - cols[1].
    """
    n = _matrix("A", A).shape[-1]
    return mask_and_move(A, rows, cols, down=-rows[0], right=n - cols[1])


def mask(m: int, n: int, rows: Span, cols: Span, dtype: DTypeLike = np.float64) -> Array:
    """The mask M of Section 2.2: m x n, one inside rows x cols and zero outside."""
    _fits("rows", rows, 0, m)
    _fits("columns", cols, 0, n)
    M = np.zeros((m, n), dtype)
    M[slice(*rows), slice(*cols)] = 1
    return M


def masked(A: Array, rows: Span, cols: Span) -> Array:
    """`M ⊙ A`: the Hadamard form of masking, which is mask-and-move that moves nothing.

    With down = right = 0, W and V of Property 1 are diagonal with the indicators of the chosen rows
    and columns, so entry (s, t) of W A V is A[s, t] times both indicators: that is M[s, t] A[s, t].
    """
    A = _matrix("A", A)
    m, n = A.shape[-2:]
    return mask(m, n, rows, cols, A.dtype) * A


# -- linear self-attention and its extension (Sections 2.3 and 2.4) -------------------------------
def lsa(H: Array, W1: Array, W2: Array, W3: Array) -> Array:
    """Equation (8): `(H W3)(H W1)ᵀ(H W2)`, that is query, key transposed, value.

    Grouped the other way it is (H W3)(W1ᵀ HᵀH W2): when W1 and W2 are those of Property 1, the head
    masks and moves a block of the Gram matrix HᵀH and multiplies it by a part of H.
    """
    _square(H, W1=W1, W2=W2, W3=W3)
    return (H @ W3) @ (H @ W1).mT @ (H @ W2)


def elsa(H: Array, W1: Array, W2: Array, W3: Array, B1: Array, B2: Array, B3: Array) -> Array:
    """Equation (16): `(H W3 + B3)(H W1 + B1)ᵀ(H W2 + B2)`; with zero biases it is `lsa`."""
    _square(H, W1=W1, W2=W2, W3=W3)
    _like(H, B1=B1, B2=B2, B3=B3)
    return (H @ W3 + B3) @ (H @ W1 + B1).mT @ (H @ W2 + B2)


def token_column_lsa(Z: Array, key: Array, query: Array, value: Array) -> Array:
    """The usual linear attention on tokens in columns, `(value Z)(key Z)ᵀ(query Z)`, equation (9).

    Transposing (8) reverses its three factors: lsa(H, W1, W2, W3)ᵀ = (W2ᵀHᵀ)(W1ᵀHᵀ)ᵀ(W3ᵀHᵀ), which
    is this function of Z = Hᵀ with key W1ᵀ, query W3ᵀ and value W2ᵀ.
    """
    _square(Z.mT, key=key, query=query, value=value)
    return (value @ Z) @ (key @ Z).mT @ (query @ Z)


def token_column_elsa(
    Z: Array,
    key: Array,
    query: Array,
    value: Array,
    key_bias: Array,
    query_bias: Array,
    value_bias: Array,
) -> Array:
    """Equation (16) on tokens in columns; the biases are B1ᵀ, B3ᵀ and B2ᵀ."""
    _square(Z.mT, key=key, query=query, value=value)
    _like(Z, key_bias=key_bias, query_bias=query_bias, value_bias=value_bias)
    return (value @ Z + value_bias) @ (key @ Z + key_bias).mT @ (query @ Z + query_bias)


class Theta(NamedTuple):
    """The parameters θ of one head, in the order that `elsa(H, *theta)` takes them."""

    W1: Array
    W2: Array
    W3: Array
    B1: Array
    B2: Array
    B3: Array

    def head(self) -> Head:
        """The same head as part of a network: query (W3, B3), key (W1, B1), value (W2, B2)."""
        W1, W2, W3, B1, B2, B3 = self
        return Head(DenseProjection(W3, B3), DenseProjection(W1, B1), DenseProjection(W2, B2))


def theta(m: int, n: int, dtype: DTypeLike = np.float64, **parts: Array) -> Theta:
    """All zero for an m x n input but for the named parts: W are n x n, B are m x n."""
    zero = {f"W{i}": np.zeros((n, n), dtype) for i in (1, 2, 3)}
    zero |= {f"B{i}": np.zeros((m, n), dtype) for i in (1, 2, 3)}
    return Theta(**(zero | parts))


class Product(NamedTuple):
    """A product by attention: the input form H, the head, and where its output holds `A @ B`."""

    H: Array
    theta: Theta
    rows: slice
    cols: slice

    def output(self) -> Array:
        """The whole output of the head, the size of H."""
        return elsa(self.H, *self.theta)

    def read(self) -> Array:
        """`A @ B`."""
        return self.output()[self.rows, self.cols]


def lsa_product(A: Array, B: Array) -> Product:
    """`A @ B` by LSA, from an input that carries an extra identity: equations (10) to (15).

    Three copies of H are multiplied, so a product of two needs a third factor that does nothing.
    H = [[A, O, O], [O, B, I_s]] has B = I_sᵀ B in its Gram matrix; Property 1 moves it up right, to
    rows 0:s, and W3 keeps A in columns 0:s, so the head writes A B into the last t columns.
    """
    A, B, (r, s, t) = _factors(A, B)
    H = _blocks([[A, None, None], [None, B, "I"]], (r, s), (s, t, s), A.dtype)
    W, V = movers(2 * s + t, 2 * s + t, (s + t, 2 * s + t), (s, s + t), -s - t, s, A.dtype)
    W3, _ = movers(2 * s + t, 2 * s + t, (0, s), (0, s), dtype=A.dtype)
    parts = theta(r + s, 2 * s + t, A.dtype, W1=W.T, W2=V, W3=W3)
    return Product(H, parts, slice(0, r), slice(2 * s, 2 * s + t))


def constant_output(C: Array) -> Theta:
    """Property 2: ELSA that outputs the m x n constant C for every input; equations (17), (18).

    With all W = O (n x n; the print says m x m) the output is B3 B1ᵀ B2. Two of the three can make
    an identity: B1ᵀB2 = I_n if m >= n, with B3 = C; or B3 B1ᵀ = I_m if m < n, with B2 = C.
    """
    C = _matrix("C", C)
    if C.ndim != 2:
        raise ShapeError(f"C must be one matrix, got an array of shape {C.shape}")
    m, n = C.shape
    E = np.eye(m, n, dtype=C.dtype)
    if m >= n:
        return theta(m, n, C.dtype, B1=E, B2=E, B3=C)
    return theta(m, n, C.dtype, B1=E, B3=E, B2=C)


def skip(m: int, n: int, dtype: DTypeLike = np.float64) -> Theta:
    """Property 3: ELSA whose output is its m x n input; equations (19), (20).

    As in Property 2, with H itself in the place of C: if m >= n, B1ᵀB2 = I_n and the query is H
    (W3 = I_n); if m < n, B3 B1ᵀ = I_m and the value is H (W2 = I_n).
    """
    E, I = np.eye(m, n, dtype=dtype), np.eye(n, dtype=dtype)
    if m >= n:
        return theta(m, n, dtype, B1=E, B2=E, W3=I)
    return theta(m, n, dtype, B1=E, B3=E, W2=I)


def skip_head(layout: Layout) -> Head:
    """Property 3 as a head of a network over a layout, held by its pieces instead of by arrays."""
    everything = Projection(tuple(read(layout, block.name, block.start) for block in layout))
    unit = Projection((Piece(identity(min(layout.tokens, layout.width)), 0),))
    if layout.tokens >= layout.width:
        return Head(query=everything, key=unit, value=unit)
    return Head(query=unit, key=unit, value=everything)


def product_beside(A: Array, B: Array) -> Product:
    """Property 4, first form: `A @ B` from Aᵀ beside B; equations (21) to (25).

    H = [[Aᵀ, B], [O, O]] has A B in its Gram matrix, at the upper right: W1 keeps the columns of Aᵀ
    and W2 those of B. The query is the constant B3 = [[I_r, O], [O, O]] (W3 is n x n zero; the
    print says m x m), so the head leaves A B in its r rows and last t columns.
    """
    A, B, (r, s, t) = _factors(A, B)
    H = _blocks([[A.T, B], [None, None]], (s, r), (r, t), A.dtype)
    W1, _ = movers(r + t, r + t, (0, r), (0, r), dtype=A.dtype)
    W2, _ = movers(r + t, r + t, (r, r + t), (r, r + t), dtype=A.dtype)
    B3 = _blocks([["I", None], [None, None]], (r, s), (r, t), A.dtype)
    parts = theta(s + r, r + t, A.dtype, W1=W1, W2=W2, B3=B3)
    return Product(H, parts, slice(0, r), slice(r, r + t))


def product_diagonal(A: Array, B: Array) -> Product:
    """Property 4, second form: `A @ B` from A and B on the block diagonal; equations (26) to (30).

    A stands in the upper rows and B in the lower ones, so the constant key has to carry one to the
    other: the query is [O, A] on top, the key is I_s at the lower right, and their product puts A
    over the last s rows, where the value holds B.
    """
    A, B, (r, s, t) = _factors(A, B)
    H = _blocks([[A, None], [None, B]], (r, s), (s, t), A.dtype)
    W3 = _blocks([[None, "I"], [None, None]], (s, t), (t, s), A.dtype)
    W2 = _blocks([[None, None], [None, "I"]], (s, t), (s, t), A.dtype)
    B1 = _blocks([[None, None], [None, "I"]], (r, s), (t, s), A.dtype)
    parts = theta(r + s, s + t, A.dtype, W3=W3, W2=W2, B1=B1)
    return Product(H, parts, slice(0, r), slice(s, s + t))


# -- helpers --------------------------------------------------------------------------------------
def _blocks(
    grid: list[list[Any]], heights: tuple[int, ...], widths: tuple[int, ...], dtype: DTypeLike
) -> Array:
    """A block matrix in one dtype: None is a zero block, "I" an identity."""

    def block(what: Any, rows: int, cols: int) -> Array:
        if what is None:
            return np.zeros((rows, cols), dtype)
        return np.eye(rows, cols, dtype=dtype) if isinstance(what, str) else what

    return np.block(
        [
            [block(what, rows, cols) for what, cols in zip(line, widths, strict=True)]
            for line, rows in zip(grid, heights, strict=True)
        ]
    )


def _units(name: str, written: str, size: int, pairs: Pairs, dtype: DTypeLike) -> Array:
    """Ones at some places, no two in one of the rows or columns that are written."""
    pairs = list(pairs)
    counts = Counter(pair[written == "columns"] for pair in pairs)
    if twice := sorted(i for i, times in counts.items() if times > 1):
        raise InputError(
            f"{name}: {written} {', '.join(map(str, twice))} would be written twice; "
            "each may be written once"
        )
    out = np.zeros((size, size), dtype)
    for i, j in pairs:
        if not (0 <= i < size and 0 <= j < size):
            raise ShapeError(f"{name}: the pair ({i}, {j}) is outside 0:{size} x 0:{size}")
        out[i, j] = 1
    return out


def _fits(what: str, span: Span, move: int, size: int) -> None:
    start, stop = span
    if not 0 <= start < stop <= size:
        raise ShapeError(f"{what} {start}:{stop} are not a part of 0:{size}")
    if not 0 <= start + move < stop + move <= size:
        raise ShapeError(f"{what} {start}:{stop} moved by {move} leave 0:{size}")


def _matrix(name: str, A: Any) -> Array:
    """A numpy array of at least two axes with finite real numbers (or exact ones) in it."""
    A = np.asarray(A)
    if A.ndim < 2:
        raise ShapeError(f"{name} must be a matrix, got an array of shape {A.shape}")
    if A.dtype == object:
        for entry in A.flat:
            if isinstance(entry, bool) or not isinstance(entry, (int, Fraction)):
                raise DTypeError(
                    f"{name} is an object array that holds {type(entry).__name__} {entry!r}; "
                    "expected int or Fraction"
                )
    elif A.dtype.kind not in "fiu":
        raise DTypeError(f"{name}: got dtype {A.dtype}, expected real numbers")
    elif not np.isfinite(A).all():
        raise InputError(f"{name} holds NaN or infinity, which zero weights cannot mask")
    return A


def _factors(A: Any, B: Any) -> tuple[Array, Array, tuple[int, int, int]]:
    A, B = _matrix("A", A), _matrix("B", B)
    if A.ndim != 2 or B.ndim != 2 or A.shape[1] != B.shape[0]:
        raise ShapeError(f"cannot multiply A of shape {A.shape} by B of shape {B.shape}")
    dtype = np.result_type(A, B)
    return A.astype(dtype), B.astype(dtype), (A.shape[0], A.shape[1], B.shape[1])


def _square(H: Array, **weights: Array) -> None:
    for name, W in weights.items():
        if len(H.shape) < 2 or tuple(W.shape[-2:]) != (H.shape[-1], H.shape[-1]):
            raise ShapeError(
                f"{name} has shape {tuple(W.shape)}, expected width x width of an input of shape "
                f"{tuple(H.shape)} (tokens x width)"
            )


def _like(H: Array, **biases: Array) -> None:
    for name, B in biases.items():
        if tuple(B.shape[-2:]) != tuple(H.shape[-2:]):
            raise ShapeError(
                f"{name} has shape {tuple(B.shape)}, expected that of the input, {tuple(H.shape)}"
            )
