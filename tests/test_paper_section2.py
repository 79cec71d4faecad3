"""Section 2 of the paper, equation by equation, in exact rationals: equality, not closeness.

Every printed matrix is written out again here with `np.block`, so the construction and the page are
compared entry by entry. Sizes are drawn by hypothesis; floats are checked beside it where rounding
could matter.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import paper
from inweave.exact.arithmetic import Rationals
from inweave.model import dense

SIZE = st.integers(1, 5)
SEED = st.integers(0, 2**32 - 1)


def rationals(seed, *shape):
    """Random Fractions, some of them zero."""
    rng = np.random.default_rng(seed)
    top, bottom = rng.integers(-9, 10, shape), rng.integers(1, 6, shape)
    return np.vectorize(Fraction, otypes=[object])(top.astype(object), bottom.astype(object))


def floats(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def Z(rows, cols):
    return np.zeros((rows, cols), dtype=object)


def Id(size):
    return np.eye(size, dtype=object)


def same(left, right):
    """Equal as matrices of exact numbers: in shape and in every entry."""
    assert left.shape == right.shape
    assert all(not isinstance(x, float) for x in left.flat), "a float slipped in"
    assert (left == right).all()


@st.composite
def moves(draw):
    """m, n, a sub-matrix of them, and a move that keeps it inside."""
    m, n = draw(SIZE), draw(SIZE)
    i = draw(st.integers(0, m - 1))
    j = draw(st.integers(i + 1, m))
    k = draw(st.integers(0, n - 1))
    l = draw(st.integers(k + 1, n))
    return m, n, (i, j), (k, l), draw(st.integers(-i, m - j)), draw(st.integers(-k, n - l))


# -- 2.2 mask and move ----------------------------------------------------------------------------
@given(SIZE, SIZE, SEED)
def test_eq_1_one_unit_entry_copies_one_row(m, n, seed):
    A = rationals(seed, m, n)
    i, j = np.random.default_rng(seed).integers(0, m, 2)
    P = paper.W_K(m, [(i, j)], object) @ A
    same(P[i], A[j])
    same(np.delete(P, i, axis=0), Z(m - 1, n))


@given(SIZE, SIZE, SEED)
def test_eq_2_W_K_copies_rows_and_clears_the_others(m, n, seed):
    A, rng = rationals(seed, m, n), np.random.default_rng(seed)
    targets = rng.permutation(m)[: rng.integers(1, m + 1)]
    K = [(int(i), int(rng.integers(m))) for i in targets]
    P = paper.W_K(m, K, object) @ A
    expected = Z(m, n)
    for i, j in K:
        expected[i] = A[j]
    same(P, expected)


@given(SIZE, SIZE, SEED)
def test_eq_3_one_unit_entry_copies_one_column(m, n, seed):
    A = rationals(seed, m, n)
    k, l = np.random.default_rng(seed).integers(0, n, 2)
    P = A @ paper.V_J(n, [(k, l)], object)
    same(P[:, l], A[:, k])
    same(np.delete(P, l, axis=1), Z(m, n - 1))


@given(SIZE, SIZE, SEED)
def test_eq_4_V_J_copies_columns_and_clears_the_others(m, n, seed):
    A, rng = rationals(seed, m, n), np.random.default_rng(seed)
    targets = rng.permutation(n)[: rng.integers(1, n + 1)]
    J = [(int(rng.integers(n)), int(l)) for l in targets]
    P = A @ paper.V_J(n, J, object)
    expected = Z(m, n)
    for k, l in J:
        expected[:, l] = A[:, k]
    same(P, expected)


@given(moves(), SEED)
def test_property_1_eq_5_mask_and_move_is_W_A_V(move, seed):
    m, n, (i, j), (k, l), a, b = move
    A = rationals(seed, m, n)
    expected = Z(m, n)
    expected[i + a : j + a, k + b : l + b] = A[i:j, k:l]
    W, V = paper.movers(m, n, (i, j), (k, l), a, b, object)
    assert W.shape == (m, m)
    assert V.shape == (n, n)
    same(W @ A @ V, expected)
    same(paper.mask_and_move(A, (i, j), (k, l), a, b), expected)


@given(moves(), SEED)
def test_property_1_holds_exactly_in_floats_and_for_batches(move, seed):
    m, n, rows, cols, a, b = move
    A = floats(seed, 2, m, n).astype(np.float32)
    P = paper.mask_and_move(A, rows, cols, a, b)
    expected = np.zeros_like(A)
    expected[:, rows[0] + a : rows[1] + a, cols[0] + b : cols[1] + b] = A[
        :, slice(*rows), slice(*cols)
    ]
    assert P.dtype == np.float32
    assert np.array_equal(P, expected)


@given(moves(), SEED)
def test_the_hadamard_mask_agrees_with_mask_and_move(move, seed):
    m, n, rows, cols, a, b = move
    A = rationals(seed, m, n)
    same(paper.masked(A, rows, cols), paper.mask_and_move(A, rows, cols))
    W, V = paper.movers(m, n, rows, cols, a, b, object)
    same(W @ paper.masked(A, rows, cols) @ V, paper.mask_and_move(A, rows, cols, a, b))


@given(moves())
def test_the_mask_M_is_one_inside_and_zero_outside(move):
    m, n, (i, j), (k, l), _, _ = move
    M = paper.mask(m, n, (i, j), (k, l))
    for s in range(m):
        for t in range(n):
            assert M[s, t] == (i <= s < j and k <= t < l)


@given(moves(), SEED)
def test_eq_6_7_a_submatrix_moves_to_the_upper_right(move, seed):
    m, n, (i, j), (k, l), _, _ = move
    A = rationals(seed, m, n)
    # The sets as printed, 1-based: K = {(1, i), ..., (k̄, j)}, J = {(k, n - j̄ + 1), ..., (l, n)}.
    rows, cols = j - i, l - k
    K = [(1 + x, i + 1 + x) for x in range(rows)]
    J = [(k + 1 + x, n - cols + 1 + x) for x in range(cols)]
    W = paper.W_K(m, [(x - 1, z - 1) for x, z in K], object)
    V = paper.V_J(n, [(x - 1, z - 1) for x, z in J], object)
    expected = Z(m, n)
    expected[:rows, n - cols :] = A[i:j, k:l]
    same(W @ A @ V, expected)
    same(paper.upper_right(A, (i, j), (k, l)), expected)


# -- 2.3 linear self-attention --------------------------------------------------------------------
@given(SIZE, SIZE, SEED)
def test_eq_8_lsa_is_query_key_transposed_value(m, n, seed):
    H, (W1, W2, W3) = rationals(seed, m, n), rationals(seed + 1, 3, n, n)
    same(paper.lsa(H, W1, W2, W3), (H @ W3) @ (H @ W1).T @ (H @ W2))
    same(paper.lsa(H, W1, W2, W3), (H @ W3) @ (W1.T @ (H.T @ H) @ W2))


@given(SIZE, SIZE, SEED)
def test_eq_9_lsa_transposed_is_attention_on_token_columns(m, n, seed):
    H, (W1, W2, W3) = rationals(seed, m, n), rationals(seed + 1, 3, n, n)
    usual = paper.token_column_lsa(H.T, key=W1.T, query=W3.T, value=W2.T)
    same(paper.lsa(H, W1, W2, W3).T, usual)


@given(SIZE, SIZE, SIZE, SEED)
def test_eq_10_to_15_lsa_product_with_an_extra_identity(r, s, t, seed):
    A, B = rationals(seed, r, s), rationals(seed + 1, s, t)
    product = paper.lsa_product(A, B)
    H, theta = product.H, product.theta
    same(H, np.block([[A, Z(r, t), Z(r, s)], [Z(s, s), B, Id(s)]]))  # (10)
    gram = [[A.T @ A, Z(s, t), Z(s, s)], [Z(t, s), B.T @ B, B.T], [Z(s, s), B, Id(s)]]
    same(H.T @ H, np.block(gram))  # (11)
    moved = np.block([[Z(s, 2 * s), B], [Z(t + s, 2 * s), Z(t + s, t)]])
    same(theta.W1.T @ H.T @ H @ theta.W2, moved)  # (12)
    W3 = np.block([[Id(s), Z(s, s + t)], [Z(s + t, s), Z(s + t, s + t)]])
    same(theta.W3, W3)  # (13)
    same(H @ theta.W3, np.block([[A, Z(r, s + t)], [Z(s, s), Z(s, s + t)]]))  # (14)
    output = np.block([[Z(r, 2 * s), A @ B], [Z(s, 2 * s), Z(s, t)]])
    same(paper.lsa(H, theta.W1, theta.W2, theta.W3), output)  # (15)
    same(product.output(), output)
    same(product.read(), A @ B)
    for B in theta[3:]:
        same(B, Z(r + s, 2 * s + t))


# -- 2.4 extended linear self-attention -----------------------------------------------------------
@given(SIZE, SIZE, SEED)
def test_eq_16_elsa_adds_a_bias_to_each_projection(m, n, seed):
    H, W, B = rationals(seed, m, n), rationals(seed + 1, 3, n, n), rationals(seed + 2, 3, m, n)
    expected = (H @ W[2] + B[2]) @ (H @ W[0] + B[0]).T @ (H @ W[1] + B[1])
    same(paper.elsa(H, *W, *B), expected)


@given(SIZE, SIZE, SEED)
def test_elsa_with_zero_biases_is_lsa(m, n, seed):
    H, W = rationals(seed, m, n), rationals(seed + 1, 3, n, n)
    same(paper.elsa(H, *W, Z(m, n), Z(m, n), Z(m, n)), paper.lsa(H, *W))


@given(SIZE, SIZE, SEED)
def test_elsa_transposed_is_attention_on_token_columns_with_biases(m, n, seed):
    H, W, B = rationals(seed, m, n), rationals(seed + 1, 3, n, n), rationals(seed + 2, 3, m, n)
    usual = paper.token_column_elsa(
        H.T,
        key=W[0].T,
        query=W[2].T,
        value=W[1].T,
        key_bias=B[0].T,
        query_bias=B[2].T,
        value_bias=B[1].T,
    )
    same(paper.elsa(H, *W, *B).T, usual)


SHAPES = pytest.mark.parametrize(
    ("m", "n"), [(5, 2), (2, 5), (3, 3), (4, 1), (1, 4), (1, 1)], ids=lambda x: str(x)
)


@SHAPES
def test_property_2_eq_17_18_any_constant_is_an_output(m, n):
    C, H = rationals(1, m, n), rationals(2, m, n)
    theta = paper.constant_output(C)
    same(paper.elsa(H, *theta), C)
    for W in theta[:3]:
        same(W, Z(n, n))
    if m > n:
        same(theta.B1, np.block([[Id(n)], [Z(m - n, n)]]))  # (17)
        same(theta.B2, theta.B1)
        same(theta.B3, C)
    elif m < n:
        same(theta.B1, np.block([Id(m), Z(m, n - m)]))  # (18)
        same(theta.B3, theta.B1)
        same(theta.B2, C)
    else:
        same(theta.B1, Id(m))
        same(theta.B2, Id(m))
        same(theta.B3, C)


@given(SIZE, SIZE, SEED)
def test_property_2_at_any_size(m, n, seed):
    C, H = rationals(seed, m, n), rationals(seed + 1, m, n)
    same(paper.elsa(H, *paper.constant_output(C)), C)


@SHAPES
def test_property_3_eq_19_20_the_input_is_an_output(m, n):
    H = rationals(3, m, n)
    theta = paper.skip(m, n, object)
    same(paper.elsa(H, *theta), H)
    same(theta.W1, Z(n, n))
    if m > n:
        same(theta.B1, np.block([[Id(n)], [Z(m - n, n)]]))  # (19)
        same(theta.B2, theta.B1)
    elif m < n:
        same(theta.B1, np.block([Id(m), Z(m, n - m)]))  # (20)
        same(theta.B3, theta.B1)
    else:
        same(theta.B1, Id(m))
        same(theta.B2, Id(m))
    reads_query = m >= n
    same(theta.W3, Id(n) if reads_query else Z(n, n))
    same(theta.W2, Z(n, n) if reads_query else Id(n))
    same(theta.B3 if reads_query else theta.B2, Z(m, n))


@given(SIZE, SIZE, SEED)
def test_property_3_at_any_size_keeps_floats_bit_for_bit(m, n, seed):
    H = floats(seed, 3, m, n)
    assert np.array_equal(paper.elsa(H, *paper.skip(m, n)), H)


@SHAPES
def test_property_3_as_a_head_of_a_network_has_the_same_weights(m, n):
    blocks = {"a": (1, 1)} | ({"b": (m, n - 1)} if n > 1 else {})
    layout = inweave.Layout.of(blocks, tokens=m)
    head, theta = paper.skip_head(layout), paper.skip(m, n)
    for projection, W, B in (
        (head.query, theta.W3, theta.B3),
        (head.key, theta.W1, theta.B1),
        (head.value, theta.W2, theta.B2),
    ):
        assert np.array_equal(projection.weight(layout), W)
        assert np.array_equal(projection.bias(layout), B)


@given(SIZE, SIZE, SIZE, SEED)
def test_property_4_eq_21_to_25_product_of_A_transposed_beside_B(r, s, t, seed):
    A, B = rationals(seed, r, s), rationals(seed + 1, s, t)
    product = paper.product_beside(A, B)
    H, theta = product.H, product.theta
    same(H, np.block([[A.T, B], [Z(r, r), Z(r, t)]]))  # (21)
    same(H.T @ H, np.block([[A @ A.T, A @ B], [B.T @ A.T, B.T @ B]]))  # (22)
    moved = np.block([[Z(r, r), A @ B], [Z(t, r), Z(t, t)]])
    same(theta.W1.T @ H.T @ H @ theta.W2, moved)  # (23)
    same(theta.B3, np.block([[Id(r), Z(r, t)], [Z(s, r), Z(s, t)]]))  # (24)
    same(theta.W3, Z(r + t, r + t))
    same(product.output(), np.block([[Z(r, r), A @ B], [Z(s, r), Z(s, t)]]))  # (25)
    same(product.read(), A @ B)


@given(SIZE, SIZE, SIZE, SEED)
def test_property_4_eq_26_to_30_product_of_A_and_B_on_the_diagonal(r, s, t, seed):
    A, B = rationals(seed, r, s), rationals(seed + 1, s, t)
    product = paper.product_diagonal(A, B)
    H, theta = product.H, product.theta
    same(H, np.block([[A, Z(r, t)], [Z(s, s), B]]))  # (26)
    same(theta.W3, np.block([[Z(s, t), Id(s)], [Z(t, t), Z(t, s)]]))  # (27)
    same(theta.W2, np.block([[Z(s, s), Z(s, t)], [Z(t, s), Id(t)]]))
    same(H @ theta.W3, np.block([[Z(r, t), A], [Z(s, t), Z(s, s)]]))  # (28)
    same(H @ theta.W2, np.block([[Z(r, s), Z(r, t)], [Z(s, s), B]]))
    same(theta.B1, np.block([[Z(r, t), Z(r, s)], [Z(s, t), Id(s)]]))  # (29)
    same(theta.W1, Z(s + t, s + t))
    same(product.output(), np.block([[Z(r, s), A @ B], [Z(s, s), Z(s, t)]]))  # (30)
    same(product.read(), A @ B)


@pytest.mark.parametrize(
    "form",
    [paper.lsa_product, paper.product_beside, paper.product_diagonal],
    ids=lambda f: f.__name__,
)
@settings(max_examples=30)
@given(r=SIZE, s=SIZE, t=SIZE, seed=SEED)
def test_products_in_floats_are_those_of_numpy(form, r, s, t, seed):
    A, B = floats(seed, r, s), floats(seed + 1, s, t)
    np.testing.assert_allclose(form(A, B).read(), A @ B, rtol=1e-12, atol=1e-12)
    assert form(A.astype(np.float32), B.astype(np.float32)).output().dtype == np.float32


@pytest.mark.parametrize(
    "form",
    [paper.lsa_product, paper.product_beside, paper.product_diagonal],
    ids=lambda f: f.__name__,
)
def test_a_theta_is_a_head_of_a_network(form):
    A, B = rationals(5, 2, 3), rationals(6, 3, 4)
    product = form(A, B)
    layout = inweave.Layout.of({"H": product.H.shape})
    layer = inweave.AttentionLayer((product.theta.head(),), skip=False)
    net = inweave.Network(layout, (inweave.Module((layer,)),))
    same(dense.forward(net, product.H, Rationals()), product.output())


# -- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda A: paper.mask_and_move(A, (0, 4), (0, 1)), inweave.ShapeError, "rows 0:4"),
        (lambda A: paper.mask_and_move(A, (1, 1), (0, 1)), inweave.ShapeError, "rows 1:1"),
        (lambda A: paper.mask_and_move(A, (0, 1), (0, 3)), inweave.ShapeError, "columns 0:3"),
        (
            lambda A: paper.mask_and_move(A, (0, 2), (0, 1), down=2),
            inweave.ShapeError,
            "moved by 2",
        ),
        (lambda A: paper.mask_and_move(A, (0, 2), (0, 1), right=-1), inweave.ShapeError, "by -1"),
        (lambda _: paper.W_K(3, [(0, 3)]), inweave.ShapeError, r"\(0, 3\)"),
        (lambda _: paper.W_K(3, [(-1, 0)]), inweave.ShapeError, r"\(-1, 0\)"),
        (
            lambda _: paper.V_J(3, [(0, 1), (2, 1)]),
            inweave.InputError,
            "columns 1 would be written",
        ),
        (lambda A: paper.masked(A[0], (0, 1), (0, 1)), inweave.ShapeError, "must be a matrix"),
        (lambda A: paper.masked(A * np.nan, (0, 1), (0, 1)), inweave.InputError, "NaN"),
        (lambda A: paper.masked(A * 1j, (0, 1), (0, 1)), inweave.DTypeError, "complex128"),
        (lambda A: paper.masked(A.astype(object), (0, 1), (0, 1)), inweave.DTypeError, "float"),
        (lambda A: paper.lsa_product(A, A), inweave.ShapeError, r"\(3, 2\) by B of shape \(3, 2\)"),
        (lambda A: paper.product_beside(A, A), inweave.ShapeError, "cannot multiply"),
        (lambda A: paper.product_diagonal(A, A.T * np.inf), inweave.InputError, "B holds"),
        (lambda A: paper.constant_output(A[None]), inweave.ShapeError, "one matrix"),
        (lambda A: paper.lsa(A, A, A, A), inweave.ShapeError, "W1 has shape"),
        (lambda A: paper.elsa(A, *[np.eye(2)] * 3, A, A, A.T), inweave.ShapeError, "B3 has shape"),
    ],
)
def test_bad_input_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((3, 2)))


# -- where the print slips (docs/errata.md) -------------------------------------------------------
def test_erratum_zero_rows_of_W_have_m_entries_and_zero_columns_of_V_have_n():
    m, n = 2, 3
    W, V = paper.movers(m, n, (0, 1), (0, 1))
    assert W[1].shape == (m,) != (n,)
    assert V[:, 1].shape == (n,) != (m,)
    assert not W[1].any()
    assert not V[:, 1].any()


def test_erratum_columns_are_moved_by_V_J_not_by_W_or_V_K():
    A = floats(0, 2, 3)
    with pytest.raises(ValueError, match="matmul"):
        A @ paper.W_K(2, [(0, 1)])  # W is m x m and does not even fit on the right
    with pytest.raises(inweave.ShapeError):
        paper.V_J(2, [(2, 0)])  # nor are indices of rows those of columns
    assert (A @ paper.V_J(3, [(2, 0)]))[:, 0].tolist() == A[:, 2].tolist()


def test_erratum_the_rows_of_K_must_be_pairwise_distinct():
    A, K = rationals(0, 3, 2), [(0, 0), (1, 1), (0, 2)]
    assert all(K[x][0] != K[x + 1][0] for x in range(2)), "the printed chain of ≠ holds"
    W = Z(3, 3)
    for i, j in K:
        W[i, j] = 1
    same((W @ A)[0], A[0] + A[2])  # a sum, not a copy
    with pytest.raises(inweave.InputError, match="rows 0 would be written twice"):
        paper.W_K(3, K)


@pytest.mark.parametrize(("m", "n"), [(5, 2), (2, 5)])
def test_erratum_property_2_needs_zero_W_of_n_by_n(m, n):
    C = floats(1, m, n)
    theta = paper.constant_output(C)
    wrong = theta._replace(W1=np.zeros((m, m)))
    with pytest.raises(inweave.ShapeError, match="W1"):
        paper.elsa(floats(2, m, n), *wrong)
    assert np.array_equal(paper.elsa(floats(2, m, n), *theta), C)


def test_erratum_property_4_needs_a_zero_W3_of_n_by_n():
    product = paper.product_beside(floats(1, 2, 3), floats(2, 3, 4))
    m, n = product.H.shape
    assert m != n
    with pytest.raises(inweave.ShapeError, match="W3"):
        paper.elsa(product.H, *product.theta._replace(W3=np.zeros((m, m))))
    assert product.theta.W3.shape == (n, n)
