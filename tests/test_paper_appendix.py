"""The paper's Appendix A.2 and A.3: components, skip connections, and σ_f by sums of ReLUs."""

import subprocess
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave.paper import components as c
from inweave.paper.division import (
    chord_error,
    geometric_knots,
    inverse_square,
    invsqr,
    invsqr_error,
    sigma,
)
from inweave.paper.properties import mask, mask_and_move
from tests.rational_systems import draw, exact

KNOTS = geometric_knots(0.1, 10.0, 1.1)
unhurried = settings(max_examples=60)
rationals = st.builds(Fraction, st.integers(-200, 200), st.integers(1, 7))
exact_knots = st.lists(
    st.builds(Fraction, st.integers(1, 60), st.integers(1, 6)), min_size=2, max_size=6, unique=True
).map(sorted)


# -- components -----------------------------------------------------------------------------------
def test_a_network_component_acts_entry_by_entry_as_equation_88_says():
    V, W, B, C = draw(0, 4, 3, 2, 5)
    X = draw(1, 2, 5)
    Z = c.network_component(X, V, W, B, C)
    for i, j in np.ndindex(2, 5):
        units = zip(V[:, i, j], W[:, i, j], B[:, i, j], C[:, i, j], strict=True)
        assert Z[i, j] == pytest.approx(
            sum(v * max(w * X[i, j] + b, 0) + k for v, w, b, k in units)
        )


@pytest.mark.parametrize("units", [2, 3, 6])
def test_affine_and_identity_components_are_exact_over_the_rationals(units):
    gamma, C, X = (
        exact(np.arange(-3, 3).reshape(2, 3)) / 7,
        exact(np.eye(2, 3)),
        exact([[-2, 0, 5]] * 2),
    )
    assert (c.apply(c.affine(gamma, C, units), X) == gamma * X + C).all()
    assert (c.apply(c.identity(2, 3), X) == X).all()
    assert (c.apply(c.affine(gamma * 0, C, units), X) == C).all()


def test_a_mask_keeps_a_block_and_an_anti_mask_keeps_the_rest():
    X = draw(2, 3, 4, 5)
    kept = c.apply(c.masking(mask(4, 5, (1, 3), (0, 2))), X)
    rest = c.apply(c.masking(c.anti_mask(4, 5, (1, 3), (0, 2))), X)
    assert (kept[:, 1:3, 0:2] == X[:, 1:3, 0:2]).all()
    assert np.count_nonzero(kept[0]) == 4
    assert (kept + rest == X).all()


@pytest.mark.parametrize("gamma", [1, -1])
def test_skip_connections_add_and_multiply_with_either_sign_on_either_side(gamma):
    A, L, R = draw(3, 3, 4), draw(4, 2, 3), draw(5, 4, 6)
    assert np.array_equal(c.add_skip(np.cos, A, gamma), np.cos(A) + gamma * A)
    assert np.array_equal(c.multiply_skip(lambda _: L, A, gamma), gamma * (L @ A))
    assert np.array_equal(c.multiply_skip(lambda _: R, A, gamma, side="right"), gamma * (A @ R))


def test_total_is_the_sum_of_all_entries_of_each_matrix_of_a_batch():
    A = draw(6, 2, 3, 4)
    assert c.total(A) == pytest.approx([A[0].sum(), A[1].sum()])


@unhurried
@given(st.integers(0, 2), st.integers(0, 2), st.integers(-2, 2), st.integers(-2, 2))
def test_weighted_sums_mask_and_move_like_property_1(row, col, down, right):
    A, rows, cols = exact(draw(7, 5, 5)), (row, row + 2), (col, col + 1)
    fits = row + down >= 0 and row + 2 + down <= 5 and col + right >= 0
    if fits:
        W = c.move(5, 5, rows, cols, down, right)
        assert (c.weighted_sum(A, exact(W)) == mask_and_move(A, rows, cols, down, right)).all()
    else:
        with pytest.raises(inweave.ShapeError, match="leave a 5 x 5"):
            c.move(5, 5, rows, cols, down, right)


def test_weighted_sums_insert_constants_and_change_the_size():
    A, W, b = draw(8, 3, 2), draw(9, 4, 1, 3, 2), draw(10, 4, 1)
    P = c.weighted_sum(A, W, b)
    assert P.shape == (4, 1)
    assert P[2, 0] == pytest.approx((W[2, 0] * A).sum() + b[2, 0])
    assert np.array_equal(c.weighted_sum(A, 0 * W, b), b)


@pytest.mark.parametrize("activation", ["relu", "identity"])
def test_every_network_component_is_a_weighted_sum_component(activation):
    layer = inweave.PointwiseLayer(*draw(11, 4, 3, 2, 4), activation)
    X = draw(12, 2, 4)
    assert c.WeightedSum.of(layer)(X) == pytest.approx(c.apply(layer, X))
    exactly = c.WeightedSum.of(layer)(exact(X))
    assert (exactly == c.apply(layer, exact(X))).all()
    assert all(isinstance(z, Fraction) for z in exactly.flat)


# -- σ_f ------------------------------------------------------------------------------------------
@unhurried
@given(exact_knots, rationals)
def test_the_piecewise_formula_is_the_sum_of_relus_exactly(knots, x):
    """Equation (118)."""
    s = invsqr(knots)
    inside = [(a + b) / 2 for a, b in pairwise(knots)]
    for at in [x, *knots, *inside, knots[0] / 2, knots[-1] + 1, Fraction(0)]:
        assert s(at) == s.piecewise(at)
        assert s(-at) == s.piecewise(-at)


@unhurried
@given(exact_knots, rationals)
def test_eq_117_sigma_f_is_r_plus_plus_r_minus(knots, x):
    s = invsqr(knots)
    y = [1 / knot**2 for knot in knots[:-1]] + [Fraction(0)]
    parts = []
    for (low, high), (above, below) in zip(pairwise(knots), pairwise(y), strict=True):
        alpha = (below - above) / (high - low)
        parts += [max(alpha * (x - high), 0), -max(alpha * (x - low), 0)]
        parts += [max(alpha * (x + high), 0), -max(alpha * (x + low), 0)]
    assert s(x) == s.r_plus(x) + s.r_minus(x) == sum(parts)


@unhurried
@given(exact_knots)
def test_sigma_f_is_f_at_the_knots_flat_inside_and_zero_outside(knots):
    s = invsqr(knots)
    first, last = knots[0], knots[-1]
    for x in knots[:-1]:
        assert s(x) == s(-x) == 1 / x**2
    assert {s(y) for y in (0 * first, first / 3, -first / 3, -first)} == {1 / first**2}
    assert {s(y) for y in (last, last + 5, -last, -last - 5)} == {0}


@unhurried
@given(exact_knots, rationals)
def test_each_hard_sigmoid_has_its_printed_three_pieces(knots, x):
    s, y = invsqr(knots), invsqr(knots).values
    for k, (low, high) in enumerate(pairwise(knots)):
        slope, step = s.slopes[k], y[k] - y[k + 1]
        assert slope < 0
        assert s.r_plus_k(k, x) == (step if x <= low else slope * (x - high) if x <= high else 0)
        assert s.r_minus_k(k, x) == (
            -step if x <= -high else -slope * (x + low) if x <= -low else 0
        )
    assert s.r_plus(x) == sum(s.r_plus_k(k, x) for k in range(s.pieces))
    assert s.r_minus(x) == sum(s.r_minus_k(k, x) for k in range(s.pieces))


@pytest.mark.parametrize(
    "f", [inverse_square, lambda x: np.exp(-abs(x)), lambda x: 1 / (1 + x * x)]
)
def test_the_relu_sum_is_close_in_floating_point_for_any_even_decreasing_f(f):
    knots = np.array([0.5, 0.8, 1.0, 1.5, 2.5, 4.0])
    s = sigma(f, knots)
    x = np.concatenate([knots, -knots, np.linspace(-6, 6, 997)])
    assert s(x) == pytest.approx(s.piecewise(x), rel=1e-12, abs=1e-13)
    assert s(knots[:-1]) == pytest.approx(f(knots[:-1]), rel=1e-13)
    on_right = np.interp(abs(x), knots, [*f(knots[:-1]), 0.0])
    assert s.piecewise(x) == pytest.approx(on_right, rel=1e-12, abs=1e-13)


def test_the_printed_sum_loses_all_digits_for_large_negative_x_and_none_for_positive():
    s = invsqr(geometric_knots(1e-4, 1e4, 1.1))
    x = np.geomspace(1e-4, 1e4, 200)
    assert s(x) == pytest.approx(s.piecewise(x), rel=1e-13)
    lost = abs(s(-x) / s.piecewise(-x) - 1)
    assert (lost < 4 * 2.0**-52 * (x / 1e-4) ** 3 + 1e-13).all()
    assert lost[x > 1e2].max() > 1e3  # not even the magnitude is right


def test_the_same_sum_in_rationals_loses_nothing():
    s = invsqr([Fraction(4**k, 10**4) for k in range(14)])
    x = Fraction(-1234567, 1000)
    assert s(x) == s.piecewise(x) > 0
    assert abs(float(s(float(x))) / float(s(x)) - 1) > 1e3


@pytest.mark.parametrize("ratio", [1.01, 1.2, 2.0, 10.0])
def test_the_chord_error_is_the_largest_error_between_two_knots(ratio):
    x = np.linspace(3.0, 3.0 * ratio, 20001)
    error = invsqr([3.0, 3.0 * ratio, 100.0])(x) * x**2 - 1
    assert error.min() > -1e-14
    assert error.max() == pytest.approx(chord_error(ratio), rel=1e-4)


def test_the_chord_error_is_about_three_quarters_of_the_squared_log_ratio():
    for ratio in (1.001, 1.01, 1.05):
        assert chord_error(ratio) == pytest.approx(0.75 * np.log(ratio) ** 2, rel=0.01)


def test_geometric_knots_keep_the_ratio_and_end_one_beyond_the_range():
    x = geometric_knots(1e-2, 50.0, 1.3)
    assert (x[0], x[-2]) == (1e-2, 50.0)
    assert (x[1:] / x[:-1]).max() <= 1.3 * (1 + 1e-12)
    assert invsqr_error(x) <= chord_error(1.3)
    assert len(geometric_knots(1.0, 8.0, 2.0)) == 5


def test_sigma_as_a_network_component_acts_at_one_entry_only():
    s, X = invsqr([1.0, 1.5, 2.0, 4.0]), draw(13, 2, 3, 3)
    Z = c.apply(s.layer(3, 3, 1, 2), X)
    assert Z[:, 1, 2] == pytest.approx(s.piecewise(X[:, 1, 2]))
    Z[:, 1, 2] = X[:, 1, 2]
    assert np.array_equal(Z, X)


# -- errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x, "f must be even"),
        (lambda x: x * x, "f must decrease"),
        (lambda x: -1 / x**2, "f must decrease"),
        (lambda x: 2.0 - abs(x), "f must be positive"),
        (lambda x: float("nan") * x, "finite"),
    ],
)
def test_functions_that_are_not_even_positive_and_decreasing_are_refused(f, message):
    with pytest.raises(inweave.InputError, match=message):
        sigma(f, [1.0, 2.0, 3.0])


def test_components_say_what_does_not_fit():
    A = np.ones((2, 3))
    for wrong, message in [
        (lambda: c.apply(c.identity(3, 3), A), "for 3 x 3 matrices, got 2 x 3"),
        (lambda: c.add_skip(np.transpose, A), r"of A's size \(2, 3\), got \(3, 2\)"),
        (lambda: c.multiply_skip(lambda A: A, A), "cannot stand on the left of A, which is 2 x 3"),
        (lambda: c.multiply_skip(lambda A: A, A, side="right"), "on the right of A"),
        (lambda: c.weighted_sum(A, np.ones((1, 1, 3, 2))), "do not fit a 2 x 3 input"),
        (lambda: c.masking(np.ones(3)), r"a mask must be a matrix, got an array of shape \(3,\)"),
        (lambda: c.affine(A, np.ones((3, 2))), "must be matrices of one shape"),
        (lambda: invsqr(KNOTS).layer(2, 2, 2, 0), r"entry \(2, 0\) does not lie in a 2 x 2"),
    ]:
        with pytest.raises(inweave.ShapeError, match=message):
            wrong()
    for wrong, message in [
        (lambda: c.add_skip(lambda A: A, A, gamma=2), r"\+1 or -1, got 2"),
        (lambda: c.multiply_skip(lambda A: A.mT, A, side="top"), "side must be 'left' or 'right'"),
        (lambda: c.affine(A, A, units=1), "at least 2 ReLU units"),
        (lambda: invsqr(KNOTS)(np.inf), "x must be finite"),
        (lambda: geometric_knots(2.0, 1.0, 1.1), "0 < low < high"),
        (lambda: geometric_knots(1.0, 2.0, 1.0 + 1e-9), "choose a larger"),
        (lambda: chord_error(0.5), "got 0.5"),
    ]:
        with pytest.raises(inweave.InputError, match=message):
            wrong()


# -- the figure -----------------------------------------------------------------------------------
def test_the_figure_shows_the_knots_where_the_code_puts_them(tmp_path):
    pytest.importorskip("matplotlib")
    from scripts.paper_figure import KNOTS as drawn
    from scripts.paper_figure import figure1

    figure = figure1(tmp_path / "new" / "figure1.png")
    assert (tmp_path / "new" / "figure1.png").stat().st_size > 10_000
    plus, minus, both = figure.axes
    dots = [line.get_xydata() for axes in (plus, minus, both) for line in axes.lines
            if line.get_marker() == "o"]  # fmt: skip
    values = [*(1 / np.array(drawn[:-1]) ** 2), 0.0]
    assert dots[0] == pytest.approx(np.column_stack([drawn, values]))
    assert dots[1][:, 1] == pytest.approx(np.array(values) - values[0], abs=1e-12)
    assert len(dots) == 4


def test_the_appendix_loads_without_matplotlib():
    code = "import sys, inweave.paper; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
