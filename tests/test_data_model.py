"""The data model: layouts, projections, layers, modules, networks, and the dense executor.

Everything else in inweave trusts these, so each promise is a test: packing loses nothing, shapes
are checked when built, values are immutable, equal things are equal in every process, errors name
what they are about, and the dense executor does what the definition says.
"""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import (
    AttentionLayer,
    Block,
    DenseProjection,
    Fill,
    Head,
    Input,
    Layout,
    Module,
    Network,
    Output,
    Piece,
    Place,
    PointwiseLayer,
    Projection,
    paper,
)
from inweave.exact.arithmetic import Floats, Rationals
from inweave.exact.constants import (
    Dense,
    Ones,
    Shift,
    added,
    exact,
    geometric,
    identity,
    product,
    select,
    simplest,
    zeros,
)
from inweave.exact.constants import power as raised
from inweave.exact.rational import whole
from inweave.model import dense

HALF = Fraction(1, 2)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture
def layout():
    return Layout.of({"A": (2, 3), "b": (4, 1), "c": (1, 2)})


def small_network():
    """w ← w + A w, twice, then u = w: every kind of part in a few columns."""
    layout = Layout.of({"A": (2, 2), "w": (2, 1), "u": (2, 1)})
    step = AttentionLayer(
        (
            Head(
                Projection((Piece(identity(2), 0, block="A"),)),
                Projection((Piece(identity(2), 0),)),
                Projection((Piece(identity(1), 2, block="w"),)),
            ),
        )
    )
    copy = AttentionLayer(
        (
            Head(
                Projection((Piece(identity(2), 0),)),
                Projection((Piece(identity(2), 0),)),
                Projection((Piece(identity(1), 3, block="w"),)),
            ),
        )
    )
    return Network(
        layout,
        (Module((step,), repeat=2, carries=((Place("w", 2, 1),),)), Module((copy,))),
        inputs=(Input("A", 2, 2), Input("w", 2, 1, "vector")),
        fills=(Fill(Place("A", 2, 2), source="A"), Fill(Place("w", 2, 1), source="w")),
        outputs=(Output("", Place("u", 2, 1), "vector"),),
    )


# -- blocks and layouts ---------------------------------------------------------------------------
def test_blocks_lie_side_by_side_and_the_tallest_gives_the_tokens(layout):
    assert [(b.start, b.stop) for b in layout] == [(0, 3), (3, 4), (4, 6)]
    assert (layout.tokens, layout.width, len(layout)) == (4, 6, 3)
    assert layout["b"].columns == slice(3, 4)
    assert layout.at(3).name == "b"
    assert "c" in layout
    assert "d" not in layout


def test_pack_puts_blocks_in_their_columns_and_zeros_below(layout):
    A, b, c = normal(2, 3), normal(4, 1), normal(1, 2)
    H = layout.pack({"c": c, "A": A, "b": b})
    expected = np.zeros((4, 6))
    expected[:2, :3], expected[:, 3:4], expected[:1, 4:] = A, b, c
    assert np.array_equal(H, expected)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5),
    batch=st.lists(st.integers(1, 3), max_size=2),
    more=st.integers(0, 2),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_unpack_gives_back_what_was_packed(shapes, batch, more, dtype):
    blocks = {f"b{i}": shape for i, shape in enumerate(shapes)}
    layout = Layout.of(blocks, tokens=max(rows for rows, _ in shapes) + more)
    arrays = {
        name: normal(*batch, *s, seed=i).astype(dtype) for i, (name, s) in enumerate(blocks.items())
    }
    H = layout.pack(arrays)
    assert H.dtype == dtype
    assert H.shape == (*batch, layout.tokens, layout.width)
    found = layout.unpack(H)
    assert list(found) == list(blocks)
    for name, array in arrays.items():
        assert found[name].dtype == dtype
        assert np.array_equal(found[name], array)
    kept = sum(int(np.count_nonzero(a)) for a in arrays.values())
    assert np.count_nonzero(H) == kept


def test_batch_axes_of_blocks_broadcast(layout):
    H = layout.pack({"A": normal(5, 1, 2, 3), "b": normal(4, 1), "c": normal(7, 1, 2)})
    assert H.shape == (5, 7, 4, 6)
    assert np.array_equal(H[4, 2], H[4, 6]) is False
    assert np.array_equal(H[4, 2, :, :4], H[4, 6, :, :4])


def test_pack_computes_integers_as_floats(layout):
    H = layout.pack(
        {"A": np.ones((2, 3), int), "b": np.ones((4, 1), int), "c": np.ones((1, 2), int)}
    )
    assert H.dtype == np.float64


def test_pack_keeps_exact_numbers_in_exact_arithmetic():
    layout = Layout.of({"a": (2, 1), "b": (1, 1)})
    third = np.array([[Fraction(1, 3)], [Fraction(2, 3)]], dtype=object)
    H = layout.pack({"a": third, "b": third[:1]}, Rationals())
    assert H.tolist() == [[Fraction(1, 3)] * 2, [Fraction(2, 3), Fraction(0)]]


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Layout.of({}), inweave.BlockError, "at least one block"),
        (
            lambda: Layout.of([Block("a", 1, 1), Block("a", 1, 1)]),
            inweave.BlockError,
            "'a' stands twice",
        ),
        (lambda: Layout.of({"": (1, 1)}), inweave.BlockError, "needs a name"),
        (lambda: Layout.of({"a": (0, 1)}), inweave.ShapeError, "'a' needs at least one row"),
        (lambda: Layout.of({"a": (1, -1)}), inweave.ShapeError, "'a' needs at least one row"),
        (lambda: Layout.of({"a": (1.0, 1)}), inweave.ShapeError, "rows must be an int, got 1.0"),
        (lambda: Layout.of({"a": (1, 1, 1)}), inweave.ShapeError, "expected .rows, cols."),
        (lambda: Layout.of({"a": (3, 1)}, tokens=2), inweave.ShapeError, "'a' has 3 rows"),
        (lambda: Layout.of({"a": (1, 1)}, tokens=2.0), inweave.ShapeError, "tokens must be an int"),
        (
            lambda: Layout((Block("a", 1, 1, 4),), 1),
            inweave.ShapeError,
            "starts at column 4, expected 0",
        ),
    ],
)
def test_a_bad_layout_is_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"A": np.ones((3, 2))},
            inweave.ShapeError,
            r"'A': got an array of shape \(3, 2\), expected",
        ),
        ({"A": np.ones(3)}, inweave.ShapeError, "'A'"),
        ({"z": np.ones((1, 1))}, inweave.BlockError, "unknown: z; the blocks are A, b, c"),
        (
            {"A": np.ones((2, 2, 3)), "b": np.ones((3, 4, 1))},
            inweave.ShapeError,
            "'b' has batch axes",
        ),
        ({"A": [[1, 2, 3], [4, 5, 6]]}, inweave.DTypeError, "'A': expected an array, got list"),
        ({"b": np.ones((4, 1)) * 1j}, inweave.DTypeError, "'b': .* complex128"),
        ({"b": np.ones((4, 1), object)}, inweave.DTypeError, "'b': .* object"),
        ({"b": np.ones((4, 1), bool)}, inweave.DTypeError, "'b': .* bool"),
    ],
)
def test_packing_refuses_by_name(layout, change, error, message):
    arrays = {"A": np.ones((2, 3)), "b": np.ones((4, 1)), "c": np.ones((1, 2))}
    with pytest.raises(error, match=message):
        layout.pack(arrays | change)


def test_packing_refuses_a_missing_block(layout):
    with pytest.raises(inweave.BlockError, match="missing: b, c"):
        layout.pack({"A": np.ones((2, 3))})


def test_unpacking_refuses_what_is_no_prompt(layout):
    for wrong in (np.ones((4, 7)), np.ones((3, 6)), np.ones(6)):
        with pytest.raises(inweave.ShapeError, match="4 tokens, 6 columns"):
            layout.unpack(wrong)
    with pytest.raises(inweave.DTypeError, match="must be an array, got list"):
        layout.unpack([[0.0]])
    with pytest.raises(inweave.BlockError, match=r"no block 'x'.*A, b, c"):
        layout["x"]
    with pytest.raises(inweave.ShapeError, match="column 6 is outside"):
        layout.at(6)


# -- constants ------------------------------------------------------------------------------------
@st.composite
def constants(draw, rows=None, cols=None):
    rows = rows or draw(st.integers(1, 4))
    cols = cols or draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["shift", "ones", "dense"]))
    if kind == "ones":
        return Ones(rows, cols)
    if kind == "dense":
        return Dense(np.random.default_rng(draw(st.integers(0, 99))).normal(size=(rows, cols)))
    row, col = draw(st.integers(0, rows)), draw(st.integers(0, cols))
    return Shift(rows, cols, row, col, draw(st.integers(0, min(rows - row, cols - col))))


def fractions_of(constant):
    return np.vectorize(exact, otypes=[object])(constant.entries())


@given(st.data(), st.integers(1, 4))
def test_a_product_of_constants_is_exact(data, inner):
    left, right = data.draw(constants(cols=inner)), data.draw(constants(rows=inner))
    coefficient, constant = product(left, right)
    expected = fractions_of(left) @ fractions_of(right)
    assert constant.shape == expected.shape
    assert (coefficient * fractions_of(constant) == expected).all()


@given(st.data(), st.integers(1, 4), st.integers(1, 9))
def test_powers_and_sums_of_powers_are_exact(data, size, e):
    A = data.draw(constants(size, size))
    power, total = fractions_of(identity(size)), fractions_of(zeros(size, size))
    for _ in range(e):
        total, power = total + power, power @ fractions_of(A)
    for made, expected in ((raised(A, e), power), (geometric(A, e), total)):
        coefficient, constant = made
        assert (coefficient * fractions_of(constant) == expected).all()


@given(st.data(), st.lists(st.fractions(max_denominator=99), min_size=1, max_size=4))
def test_sums_of_constants_are_exact(data, coefficients):
    parts = [(c, data.draw(constants(2, 3))) for c in coefficients]
    expected = sum((c * fractions_of(k) for c, k in parts), fractions_of(zeros(2, 3)))
    assert (fractions_of(added(parts)) == expected).all()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4))
def test_floats_are_whole_numbers_over_the_least_denominator(numbers):
    top, bottom = whole(np.array(numbers))
    fractions = [Fraction(x) for x in numbers]
    assert [Fraction(int(x), bottom) for x in top] == fractions
    assert bottom == math.lcm(*(x.denominator for x in fractions))
    assert top.dtype == object or all(abs(x) < 2**53 for x in top)


def test_equal_constants_are_one_key_however_long_their_numbers_are():
    long = Fraction(3**20_000, 2**30_000)
    one, other = (Dense(np.array([[long, Fraction(1, 3)]], dtype=object)) for _ in range(2))
    assert one == other
    assert len({one, other, Dense(np.array([[long, Fraction(2, 3)]], dtype=object))}) == 2


@given(constants())
def test_transposing_and_simplifying_keep_the_entries(constant):
    assert np.array_equal(constant.T.entries(), constant.entries().T)
    assert np.array_equal(simplest(constant.entries()).entries(), constant.entries())
    assert constant == constant.T.T


def test_constants_take_their_simplest_form():
    assert simplest(np.eye(3)) == identity(3)
    assert simplest(np.ones((2, 3))) == Ones(2, 3)
    assert simplest(np.zeros((2, 3))) == zeros(2, 3)
    assert simplest(np.eye(4)[:, 1:3]) == select(4, 1, 3)
    assert isinstance(simplest(2 * np.eye(3)), Dense)


def test_large_integers_and_rationals_are_not_rounded():
    odd = 2**60 + 1
    assert Dense(np.array([[odd]])).entries()[0, 0] == odd
    assert Dense(np.array([[Fraction(1, 3)]], dtype=object)).entries()[0, 0] == Fraction(1, 3)
    assert exact(2**70) == 2**70
    assert exact(0.1) == Fraction(0.1) != Fraction(1, 10)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (1j, inweave.DTypeError),
        (np.complex64(1), inweave.DTypeError),
        ("1", inweave.DTypeError),
        (True, inweave.DTypeError),
        (None, inweave.DTypeError),
        (np.nan, inweave.InputError),
        (np.float32(np.inf), inweave.InputError),
    ],
)
def test_a_coefficient_must_be_a_finite_real_number(value, error):
    with pytest.raises(error):
        exact(value)
    with pytest.raises(error):
        Piece(identity(1), 0, value)


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.ones(2), inweave.ShapeError, "must be a matrix"),
        (np.ones((1, 1)) * 1j, inweave.DTypeError, "complex128"),
        (np.array([["x"]]), inweave.DTypeError, "real numbers"),
        (np.array([[np.nan]]), inweave.InputError, "finite"),
        (np.array([[None]]), inweave.DTypeError, "NoneType"),
    ],
)
def test_a_constant_must_hold_finite_real_numbers(array, error, message):
    with pytest.raises(error, match=message):
        Dense(array)


def test_a_diagonal_must_fit():
    with pytest.raises(inweave.ShapeError, match="does not fit into 2 x 3"):
        Shift(2, 3, 1, 1, 2)


# -- projections ----------------------------------------------------------------------------------
def test_a_projection_writes_out_the_W_and_B_its_pieces_say(layout):
    F = normal(3, 2)
    projection = Projection(
        (
            Piece(Dense(F), 1, -2, "A"),
            Piece(identity(1), 5, HALF, "b"),
            Piece(select(2, 1, 2), 5, block="c"),
            Piece(Ones(2, 3), 3, 4),
        )
    )
    W, B = np.zeros((6, 6)), np.zeros((4, 6))
    W[0:3, 1:3] = -2 * F
    W[3, 5] = 0.5
    W[5, 5] = 1
    B[:2, 3:6] = 4
    assert np.array_equal(projection.weight(layout), W)
    assert np.array_equal(projection.bias(layout), B)
    exact_W = projection.weight(layout, Rationals())
    assert (exact_W == np.vectorize(exact, otypes=[object])(W)).all()
    assert projection.has_bias
    assert not Projection().has_bias


@pytest.mark.parametrize("coefficient", [Fraction(3), Fraction(1, 3), Fraction(2**60 + 1), -HALF])
@pytest.mark.parametrize("matrix", [Dense([[0.1]]), identity(1), Ones(1, 1)], ids=repr)
def test_a_piece_is_not_rounded_in_exact_arithmetic(layout, coefficient, matrix):
    projection = Projection((Piece(matrix, 0, coefficient, "b"),))
    expected = coefficient * exact(matrix.entries()[0, 0])
    assert projection.weight(layout, Rationals())[3, 0] == expected
    bias = Projection((Piece(matrix, 0, coefficient),))
    assert bias.bias(layout, Rationals())[0, 0] == expected


def test_overlapping_pieces_add_up(layout):
    projection = Projection((Piece(identity(3), 0, 2, "A"), Piece(identity(3), 0, 3, "A")))
    assert np.array_equal(projection.weight(layout)[:3, :3], 5 * np.eye(3))


def test_a_dense_projection_gives_its_arrays_back(layout):
    W, B = normal(6, 6), normal(4, 6, seed=1)
    projection = DenseProjection(W, B)
    assert np.array_equal(projection.weight(layout), W)
    assert np.array_equal(projection.bias(layout), B)
    assert np.array_equal(DenseProjection(W).bias(layout), np.zeros((4, 6)))
    assert not DenseProjection(W).has_bias
    W[0, 0] = 99
    assert projection.W[0, 0] != 99


@pytest.mark.parametrize(
    ("projection", "message"),
    [
        (Projection((Piece(identity(3), 4, block="A"),)), "needs columns 4:7, the prompt has 6"),
        (Projection((Piece(identity(3), -1, block="A"),)), "columns -1:2"),
        (Projection((Piece(identity(2), 0, block="A"),)), "block 'A' of 3 columns .* 2 rows"),
        (Projection((Piece(identity(5), 0),)), "5 rows, the prompt has 4 tokens"),
        (DenseProjection(np.eye(5)), "width is 6"),
        (DenseProjection(np.eye(6), np.ones((3, 6))), "4 tokens"),
    ],
)
def test_a_projection_that_does_not_fit_is_refused_where_it_stands(layout, projection, message):
    head = Head(Projection(), projection, Projection())
    module = Module((AttentionLayer((head,)),))
    with pytest.raises(inweave.ShapeError, match=rf"module 0\.0, head 0, key.*{message}"):
        Network(layout, (module,))


def test_a_projection_of_an_unknown_block_is_refused(layout):
    head = Head(Projection((Piece(identity(1), 0, block="x"),)), Projection(), Projection())
    with pytest.raises(inweave.BlockError, match="no block 'x'"):
        Network(layout, (Module((AttentionLayer((head,)),)),))


@pytest.mark.parametrize(
    ("W", "B", "error", "message"),
    [
        (np.ones((2, 3)), None, inweave.ShapeError, "W must be width x width"),
        (np.eye(2), np.ones((2, 3)), inweave.ShapeError, "B must be tokens x 2"),
        (np.eye(2) * 1j, None, inweave.DTypeError, "W .*complex128"),
        (np.eye(2), np.full((1, 2), np.nan), inweave.InputError, "B must be finite"),
        (np.array([["a"]]), None, inweave.DTypeError, "W must hold real numbers"),
        (np.array([[None]]), None, inweave.DTypeError, "NoneType"),
    ],
)
def test_a_dense_projection_refuses_bad_arrays(W, B, error, message):
    with pytest.raises(error, match=message):
        DenseProjection(W, B)


# -- pointwise layers, modules, networks ----------------------------------------------------------
def test_a_pointwise_layer_is_a_sum_of_units():
    V, W, B, C = (normal(3, 2, 4, seed=s) for s in range(4))
    layer = PointwiseLayer(V, W, B, C)
    net = Network(Layout.of({"H": (2, 4)}), (Module((layer,)),))
    H = normal(5, 2, 4, seed=9)
    expected = sum(V[k] * np.maximum(W[k] * H + B[k], 0) + C[k] for k in range(3))
    np.testing.assert_allclose(net.forward(H), expected, rtol=1e-15)
    skipped = dataclasses.replace(net, modules=(Module((layer,), skip=True),))
    np.testing.assert_allclose(skipped.forward(H), H + expected, rtol=1e-15)
    linear = PointwiseLayer(V, W, B, C, activation="identity", skip=True)
    plain = H + sum(V[k] * (W[k] * H + B[k]) + C[k] for k in range(3))
    np.testing.assert_allclose(dense.pointwise(linear, H, Floats()) + H, plain, rtol=1e-13)


@pytest.mark.parametrize(
    ("arrays", "activation", "error", "message"),
    [
        ([np.ones((1, 2, 3))] * 4, "tanh", inweave.InputError, "'tanh' is not"),
        (
            [np.ones((1, 2, 3))] * 3 + [np.ones((1, 3, 2))],
            "relu",
            inweave.ShapeError,
            "C has shape",
        ),
        ([np.ones((2, 3))] * 4, "relu", inweave.ShapeError, "V has shape"),
        ([np.ones((1, 2, 3)) * 1j] * 4, "relu", inweave.DTypeError, "complex128"),
        ([np.full((1, 2, 3), np.inf)] * 4, "relu", inweave.InputError, "finite"),
    ],
)
def test_a_bad_pointwise_layer_is_refused(arrays, activation, error, message):
    with pytest.raises(error, match=message):
        PointwiseLayer(*arrays, activation=activation)


def test_a_pointwise_layer_must_fit_the_prompt(layout):
    layer = PointwiseLayer(*[np.ones((1, 2, 3))] * 4)
    with pytest.raises(inweave.ShapeError, match=r"module 0\.0.*4 x 6"):
        Network(layout, (Module((layer,)),))


@pytest.mark.parametrize("repeat", [-1, 1.0, True, "2"])
def test_a_module_repeats_a_non_negative_number_of_times(repeat):
    with pytest.raises(inweave.InputError, match="repeat must be a non-negative int"):
        Module((), repeat=repeat)


def test_a_module_is_walked_counted_and_mapped_through_all_its_levels():
    a, b, c = (AttentionLayer((), skip=skip) for skip in (True, False, True))
    inner = Module((b, c), repeat=3)
    outer = Module((a, inner, a), repeat=2, skip=True)
    assert list(outer.walk()) == [outer, a, inner, b, c, a]
    assert outer.layers == (a, b, c, a)
    assert outer.executed() == 2 * (1 + 3 * 2 + 1)
    assert outer.executed(PointwiseLayer) == 0
    names = []

    def flipped(layer, name):
        names.append(name)
        return AttentionLayer(layer.heads, skip=not layer.skip)

    other = outer.map(flipped, "module 0")
    assert [layer.skip for layer in other.layers] == [False, True, False, False]
    assert (other.repeat, other.skip, other.body[1].repeat) == (2, True, 3)
    assert names == [
        "module 0, step {}, layer 0",
        "module 0, step {}, module 1, step {}, layer 0",
        "module 0, step {}, module 1, step {}, layer 1",
        "module 0, step {}, layer 2",
    ]


def test_sizes_of_numpy_become_sizes_of_python():
    layout = Layout.of({"a": (np.int64(2), np.int32(3))}, tokens=np.int64(4))
    assert [type(x) for x in (layout.blocks[0].rows, layout.width, layout.tokens)] == [int] * 3
    assert type(Module((), repeat=np.int64(2)).repeat) is int


def test_a_place_says_where_it_stands_and_where_it_is_read(layout):
    start = layout["A"].start
    at = Place("A", 2, 1, row=1, col=1, transpose=True)
    assert at.region(layout) == at.source(layout) == (slice(1, 2), slice(start + 1, start + 3))
    diagonal = Place("A", 1, 1, diagonal=2)
    assert diagonal.region(layout) == (slice(0, 2), slice(start, start + 2))
    assert diagonal.source(layout) == (slice(0, 1), slice(start, start + 1))


def test_a_carried_value_must_stand_in_the_prompt(layout):
    with pytest.raises(inweave.ShapeError, match="carried value"):
        Network(layout, (Module((), repeat=2, carries=((Place("A", 3, 3),),)),))


X = Input("x", 2, 1, "vector")
S = Input("s", kind="scalar")


@pytest.mark.parametrize(
    ("place", "source", "error", "message"),
    [
        (Place("A", 2, 1), {"source": "z"}, inweave.BlockError, "'z' is not an input"),
        (
            Place("A", 2, 1),
            {"source": ""},
            inweave.BlockError,
            "fill of block 'A': '' is not an input; expected one of: x, s$",
        ),
        (
            Place("A", 2, 1),
            {"source": "x", "scale": (("", Fraction(1)),)},
            inweave.BlockError,
            "fill of block 'A': '' is not an input",
        ),
        (Place("z", 2, 1), {"source": "x"}, inweave.BlockError, "no block 'z'"),
        (Place("A", 2, 1, col=3), {"source": "x"}, inweave.ShapeError, "does not fit"),
        (Place("A", 2, 1, row=-1), {"source": "x"}, inweave.ShapeError, "does not fit"),
        (Place("A", 1, 1), {"source": "x"}, inweave.ShapeError, r"source has shape \(2, 1\)"),
        (Place("A", 1, 1), {"constant": identity(2)}, inweave.ShapeError, "source has shape"),
        (Place("A", 1, 1, diagonal=2), {"source": "x"}, inweave.ShapeError, "source has shape"),
        (
            Place("A", 2, 1),
            {"source": "x", "scale": (("x", HALF),)},
            inweave.ShapeError,
            "not a scalar",
        ),
        (
            Place("A", 2, 1),
            {"source": "x", "scale": (("s", HALF),)},
            inweave.InputError,
            "square root of 's'",
        ),
    ],
)
def test_a_fill_that_does_not_fit_is_refused(layout, place, source, error, message):
    with pytest.raises(error, match=message):
        Network(layout, (), inputs=(X, S), fills=(Fill(place, **source),))


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({"inputs": (X, X)}, inweave.BlockError, "input 'x' is named twice"),
        ({"outputs": (Output("o", Place("A", 3, 1)),)}, inweave.ShapeError, "output 'o'"),
        (
            {"outputs": (Output("o", Place("A", 1, 1)), Output("o", Place("b", 1, 1)))},
            inweave.BlockError,
            "output 'o' is named twice",
        ),
    ],
)
def test_inputs_and_outputs_have_one_name_each_and_a_place(layout, parts, error, message):
    with pytest.raises(error, match=message):
        Network(layout, (), **parts)


def test_a_fill_without_any_inputs_says_so(layout):
    with pytest.raises(inweave.BlockError, match=r"'x' is not an input; .*there are none"):
        Network(layout, (), fills=(Fill(Place("A", 2, 1), source="x"),))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Input(""), inweave.BlockError, "an input needs a name, got ''"),
        (
            lambda: Input("x", kind="row"),
            inweave.InputError,
            "'x': got the kind 'row', expected sca",
        ),
        (
            lambda: Input("x", sign="negative"),
            inweave.InputError,
            "'x': got the sign 'negative', exp",
        ),
        (lambda: Input("x", 2, 1, "scalar"), inweave.ShapeError, "'x': got 2 x 1 for a scalar"),
        (lambda: Input("x", 2, 3, "vector"), inweave.ShapeError, "'x': got 2 x 3 for a vector"),
        (
            lambda: Output("o", Place("A", 1, 1), "row"),
            inweave.InputError,
            "'o': got the kind 'row'",
        ),
        (lambda: Output("o", Place("A", 2, 1), "scalar"), inweave.ShapeError, "expected 1 x 1"),
        (
            lambda: Output("o", Place("A", 2, 3), "vector"),
            inweave.ShapeError,
            "expected one column",
        ),
    ],
)
def test_inputs_and_outputs_are_what_they_are_called(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_a_fill_needs_one_source_and_a_power_of_one_or_a_half():
    with pytest.raises(inweave.BlockError, match="give a source or a constant"):
        Fill(Place("A", 1, 1))
    with pytest.raises(inweave.BlockError, match="give a source or a constant"):
        Fill(Place("A", 1, 1), source="x", constant=identity(1))
    with pytest.raises(inweave.InputError, match=r"s\^2 is not 1 or ½"):
        Fill(Place("A", 1, 1), source="x", scale=(("s", Fraction(2)),))


def test_fills_transpose_scale_and_add_up_in_a_block():
    layout = Layout.of({"P": (3, 3)})
    net = Network(
        layout,
        (),
        inputs=(Input("X", 2, 3), Input("s", kind="scalar", sign="positive")),
        fills=(
            Fill(Place("P", 2, 3, col=1, transpose=True), source="X", scale=(("s", HALF),)),
            Fill(Place("P", 1, 1, diagonal=3), source="s"),
            Fill(Place("P", 1, 1, row=2), constant=identity(1), scale=(("s", Fraction(1)),)),
        ),
        outputs=(
            Output("X", Place("P", 2, 3, col=1, transpose=True)),
            Output("s", Place("P", 1, 1, diagonal=3), "scalar"),
        ),
    )
    X = normal(2, 3)
    H = net.prompt(X=X, s=4.0)
    expected = 4 * np.eye(3)
    expected[:, 1:] += 2 * X.T
    expected[2, 0] += 4
    np.testing.assert_allclose(H, expected, rtol=1e-15)
    found = net.readout(H)
    assert list(found) == ["X", "s"]
    assert np.array_equal(found["X"], H[:, 1:].T)
    assert found["s"] == H[0, 0]


# -- immutability, equality, hashes, reprs --------------------------------------------------------
def test_parts_cannot_be_changed():
    net = small_network()
    head = net.modules[0].body[0].heads[0]
    units = PointwiseLayer(*[np.ones((1, 1, 1))] * 4)
    parts = [net, net.layout, net.layout["A"], net.modules[0], net.modules[0].body[0], head]
    parts += [head.query, head.query.pieces[0], net.inputs[0], net.fills[0], net.outputs[0]]
    for part in [*parts, DenseProjection(np.eye(2)), units]:
        name = dataclasses.fields(part)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, name, None)
    for array in (DenseProjection(np.eye(2)).W, Dense(np.eye(2)).array, units.V):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_lists_given_are_kept_as_tuples():
    head = Head(Projection([Piece(identity(1), 0)]), Projection(), Projection())
    layer = AttentionLayer([head])
    net = Network(Layout.of({"a": (1, 1)}), [Module([layer])])
    assert (head.query.pieces, layer.heads) == ((Piece(identity(1), 0),), (head,))
    assert isinstance(net.modules, tuple)
    assert hash(net) == hash(Network(net.layout, (Module((layer,)),)))


def test_equal_networks_are_equal_and_hash_alike():
    one, other = small_network(), small_network()
    assert one == other
    assert hash(one) == hash(other)
    assert one.fingerprint == other.fingerprint
    assert len({one, other}) == 1


def test_any_change_changes_equality_and_fingerprint():
    net = small_network()
    step, copy = net.modules
    head = copy.body[0].heads[0]
    changed = [
        {"modules": (dataclasses.replace(step, repeat=3), copy)},
        {"modules": (dataclasses.replace(step, skip=True), copy)},
        {"modules": (dataclasses.replace(step, carries=()), copy)},
        {"modules": (step, Module((AttentionLayer(copy.body[0].heads, skip=False),)))},
        {"modules": (step, Module((AttentionLayer((head, head)),)))},
        {"modules": (step, Module((AttentionLayer((Head(head.query, head.value, head.key),)),)))},
        {"layout": Layout.of(net.layout.blocks, tokens=3)},
        {"inputs": (net.inputs[0], Input("w", 2, 1, "matrix"))},
        {"fills": net.fills[:1]},
        {"outputs": (Output("u", Place("u", 2, 1), "vector"),)},
    ]
    seen = {net.fingerprint}
    for change in changed:
        other = dataclasses.replace(net, **change)
        assert other != net
        seen.add(other.fingerprint)
    assert len(seen) == len(changed) + 1


def test_dense_parts_are_compared_by_content():
    assert DenseProjection(np.eye(2)) == DenseProjection(np.eye(2, dtype=np.float32))
    assert DenseProjection(np.eye(2)) != DenseProjection(np.eye(2), np.zeros((1, 2)))
    assert Dense([[1.0, 2.0]]) == Dense([[1, 2]])
    assert Dense([[0.0]]) == Dense([[-0.0]])
    assert Dense([[1.0, 2.0]]) != Dense([[1.0], [2.0]])
    arrays = [normal(1, 2, 3, seed=s) for s in range(4)]
    assert PointwiseLayer(*arrays) == PointwiseLayer(*arrays)
    assert PointwiseLayer(*arrays) != PointwiseLayer(*arrays, skip=True)
    assert len({PointwiseLayer(*arrays), PointwiseLayer(*arrays[::-1])}) == 2


FINGERPRINTS = """
import numpy as np
from fractions import Fraction
import inweave
from inweave import paper
third = np.array([[Fraction(1, 3)]], dtype=object)
layer = inweave.AttentionLayer((inweave.Head(*[inweave.DenseProjection(third, third)] * 3),))
units = inweave.PointwiseLayer(*[third[None]] * 4)
net = inweave.Network(inweave.Layout.of({"a": (1, 1)}), (inweave.Module((layer, units)),))
print(net.fingerprint, paper.ridge_lsa(4, 3, 2).fingerprint, paper.ridge_elsa(4, 3, 2).fingerprint)
"""


def fresh(code, **environment):
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout


def test_fingerprints_are_the_same_in_every_process():
    first, second = (fresh(FINGERPRINTS, PYTHONHASHSEED=seed) for seed in "17")
    assert first == second
    assert len(set(first.split())) == 3


def test_importing_inweave_loads_no_heavy_library():
    code = "import sys, inweave, inweave.paper; print(*sys.modules)"
    loaded = {name.split(".")[0] for name in fresh(code).split()}
    assert "inweave" in loaded
    assert loaded.isdisjoint({"torch", "jax", "sklearn", "matplotlib", "pandas", "scipy"})


def test_every_public_name_exists():
    pytest.importorskip("torch")
    for module in (inweave, paper):
        assert len(set(module.__all__)) == len(module.__all__)
        assert not [name for name in module.__all__ if not hasattr(module, name)]


def test_reprs_can_be_read():
    net = small_network()
    assert repr(net) == "Network(elsa: 3 attention layers, 2 heads, 2 tokens x 4 columns)"
    assert repr(net.layout) == "Layout(2 tokens x 4: A 2x2, w 2x1, u 2x1)"
    assert repr(net.layout["w"]) == "w[2x1 @ 2:3]"
    head = net.modules[0].body[0].heads[0]
    assert repr(head) == "Head(query=A @ 0:2, key=I2 @ 0:2, value=w @ 2:3)"
    piece = Piece(select(4, 1, 3), 5, Fraction(-1, 2), "w")
    assert repr(Projection((piece,))) == "-1/2 w I2@(1,0; 4x2) @ 5:7"
    assert repr(Projection()) == "0"
    assert repr(DenseProjection(np.eye(2), np.ones((3, 2)))) == "dense W (2, 2) + B (3, 2)"
    layer = PointwiseLayer(*[np.ones((5, 2, 3))] * 4, skip=True)
    assert repr(layer) == "PointwiseLayer(5 relu units on 2 x 3, skip)"
    for thing in (net, head, layer, net.modules[0], net.fills[0], Dense(np.eye(2) * 2)):
        assert " object at 0x" not in repr(thing)
        assert "array(" not in repr(thing)


# -- running --------------------------------------------------------------------------------------
def test_a_head_is_query_times_key_transposed_times_value():
    m, n = 3, 4
    H, W, B = normal(2, m, n), normal(3, n, n, seed=1), normal(3, m, n, seed=2)
    head = Head(*(DenseProjection(W[k], B[k]) for k in range(3)))
    other = Head(*(DenseProjection(W[k]) for k in (2, 0, 1)))
    net = Network(Layout.of({"H": (m, n)}), (Module((AttentionLayer((head, other)),)),))
    q, k, v = (H @ W[i] + B[i] for i in range(3))
    first = q @ k.mT @ v
    second = (H @ W[2]) @ (H @ W[0]).mT @ (H @ W[1])
    np.testing.assert_allclose(net.forward(H), H + first + second, rtol=1e-13)
    traced = dense.trace(net, H)["module 0, layer 0"]
    for got, expected in zip(
        (traced.heads[0].query, traced.heads[0].key, traced.heads[0].value, traced.heads[1].output),
        (q, k, v, second),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-13)
    np.testing.assert_allclose(traced.output, first + second, rtol=1e-13)


def test_modules_nest_repeat_and_skip():
    layout = Layout.of({"H": (2, 2)})
    double = Module((AttentionLayer((pass_on(2),)),))  # H + H
    inner = Module((double, double), repeat=2, skip=True)  # H + 4 H, twice: the skip is each step's
    net = Network(layout, (Module((inner,), repeat=3),))
    H = normal(2, 2)
    np.testing.assert_allclose(net.forward(H), 25**3 * H, rtol=1e-14)
    assert net.depth == 3 * 2 * 2
    assert net.heads == 2  # stored: the two layers of the inner module


def pass_on(n):
    return Head(DenseProjection(np.eye(n)), *[DenseProjection(np.zeros((n, n)), np.eye(n))] * 2)


def test_a_module_repeated_zero_times_does_nothing():
    net = small_network()
    none = dataclasses.replace(net, modules=(Module(net.modules[0].body, repeat=0),))
    H = normal(2, 4)
    assert np.array_equal(none.forward(H), H)
    assert none.depth == 0
    assert list(dense.trace(none, H).states) == ["input"]


def test_an_empty_layer_is_a_skip_or_zero():
    layout, H = Layout.of({"H": (2, 2)}), normal(2, 2)
    for skip, expected in ((True, H), (False, 0 * H)):
        net = Network(layout, (Module((AttentionLayer((), skip=skip),)),))
        assert np.array_equal(net.forward(H), expected)


def test_the_small_network_computes_its_program():
    A, w = normal(3, 2, 2), normal(2)
    net = small_network()
    step = np.eye(2) + A
    expected = np.stack([s @ (s @ w) for s in step])
    np.testing.assert_allclose(net(A=A, w=w), expected, rtol=1e-13)
    H = net.prompt(A=A, w=w)
    assert H.shape == (3, 2, 4)
    np.testing.assert_allclose(net.readout(net.forward(H)), net(A=A, w=w), rtol=1e-15)


def test_a_trace_names_every_layer_and_every_state():
    net = small_network()
    trace = net.trace(A=normal(2, 2), w=normal(2))
    assert list(trace.states) == [
        "input",
        "module 0, step 0, layer 0",
        "module 0, step 0",
        "module 0, step 1, layer 0",
        "module 0, step 1",
        "module 1, layer 0",
        "module 1",
    ]
    assert [step.name for step in trace] == [
        "module 0, step 0, layer 0",
        "module 0, step 1, layer 0",
        "module 1, layer 0",
    ]
    assert len(trace) == net.depth == 3
    step = trace["module 0, step 1, layer 0"]
    assert np.array_equal(step.before, trace.states["module 0, step 0"])
    assert np.array_equal(step.after, step.before + step.output)
    head = step.heads[0]
    assert np.array_equal(head.output, head.query @ head.key.T @ head.value)
    assert np.array_equal(trace.final, trace.states["module 1"])
    assert [len(w) for w in trace.block("w")] == [2] * 7
    assert np.array_equal(trace.block("u")[-1], trace.block("w")[-1])
    with pytest.raises(inweave.BlockError, match=r"no layer 'module 7'.*module 1, layer 0"):
        trace["module 7"]


def test_an_integer_prompt_is_not_computed_in_integers():
    half = Head(DenseProjection(np.eye(2) / 2), *[DenseProjection(np.zeros((2, 2)), np.eye(2))] * 2)
    net = Network(Layout.of({"H": (2, 2)}), (Module((AttentionLayer((half,), skip=False),)),))
    out = net.forward(np.array([[1, 2], [3, 5]]))
    assert out.dtype == np.float64
    assert out.tolist() == [[0.5, 1.0], [1.5, 2.5]]


def test_float32_prompts_stay_float32():
    net = small_network()
    H = normal(2, 4).astype(np.float32)
    assert net.forward(H).dtype == np.float32
    assert net(A=normal(2, 2).astype(np.float32), w=[1, 2]).dtype == np.float32


@pytest.mark.parametrize(
    ("H", "error", "message"),
    [
        (np.ones((2, 5)), inweave.ShapeError, r"shape \(2, 5\), expected \(..., 2, 4\)"),
        (np.ones(4), inweave.ShapeError, "2 tokens, 4 columns"),
        (np.ones((2, 4)) * 1j, inweave.DTypeError, "complex128"),
        (np.ones((2, 4), object), inweave.DTypeError, "object"),
        ([[1.0] * 4] * 2, inweave.DTypeError, "got list"),
    ],
)
def test_forward_refuses_what_is_no_prompt(H, error, message):
    with pytest.raises(error, match=message):
        small_network().forward(H)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"v": 1}, inweave.BlockError, "takes the inputs A, w; unknown: v"),
        ({"A": np.eye(3)}, inweave.ShapeError, r"'A': got shape \(3, 3\), expected .*2, 2"),
        ({"w": [1, 2, 3]}, inweave.ShapeError, r"'w': got shape \(3,\), expected .*2"),
        ({"w": 1.0}, inweave.ShapeError, "'w'"),
        ({"A": np.ones((3, 2, 2)), "w": np.ones((4, 2))}, inweave.ShapeError, "'w' has batch axes"),
        ({"w": [1, np.nan]}, inweave.InputError, "'w' holds NaN"),
        ({"w": [1, 1j]}, inweave.DTypeError, "'w'"),
        ({"w": ["1", "2"]}, inweave.DTypeError, "'w'"),
        ({"w": [10**400, 1]}, inweave.InputError, "'w' holds a number beyond float64"),
        ({"w": [[1, 2], [3]]}, inweave.DTypeError, "'w'"),
        ({"A": np.eye(2, dtype=bool)}, inweave.DTypeError, "'A': got dtype bool"),
        ({"w": np.ma.array([1.0, 2.0], mask=[0, 1])}, inweave.InputError, "masked"),
        ({"w": {"a": 1}}, inweave.DTypeError, "'w'"),
    ],
)
def test_inputs_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        small_network()(**{"A": np.eye(2), "w": [1, 2]} | change)


def test_a_missing_input_is_refused_by_name():
    with pytest.raises(inweave.BlockError, match="takes the inputs A, w; missing: w"):
        small_network()(A=np.eye(2))


def test_refused_inputs_leave_the_given_arrays_alone():
    A, w = np.eye(2), np.array([1.0, np.nan])
    with pytest.raises(inweave.InputError):
        small_network()(A=A, w=w)
    assert np.array_equal(A, np.eye(2))
    w[1] = 2.0
    before = (A.copy(), w.copy())
    small_network()(A=A, w=w)
    assert np.array_equal(A, before[0])
    assert np.array_equal(w, before[1])


def test_torch_gradients_pass_through_a_network():
    torch = pytest.importorskip("torch")
    case = {"X": normal(4, 2), "y": normal(4), "u": normal(2), "w0": normal(2), "lam": 0.3}
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in case.items()}
    eta = torch.tensor(0.05, requires_grad=True)  # float32: the matrices decide the dtype
    answer = paper.ridge_lsa(4, 2, 3)(**tensors, eta=eta)
    assert answer.dtype == torch.float64
    answer.backward()
    expected = paper.ridge_lsa(4, 2, 3)(**case | {"u": np.eye(2)}, eta=eta.item())
    np.testing.assert_allclose(tensors["u"].grad, expected, rtol=1e-6)  # uᵀw is linear in u
    assert eta.grad is not None


def test_every_error_belongs_to_the_family_and_to_a_builtin():
    family = {
        inweave.ShapeError: ValueError,
        inweave.BlockError: ValueError,
        inweave.InputError: ValueError,
        inweave.DTypeError: TypeError,
        inweave.ProgramError: TypeError,
        inweave.CompileError: ValueError,
        inweave.VerificationError: AssertionError,
        inweave.DomainError: ValueError,
        inweave.DivergenceError: ArithmeticError,
        inweave.FileFormatError: ValueError,
    }
    for error, builtin in family.items():
        assert issubclass(error, inweave.InweaveError)
        assert issubclass(error, builtin)
