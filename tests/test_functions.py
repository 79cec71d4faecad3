"""Pointwise functions: stated errors hold, mean something, and survive compilation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import AttentionLayer, Matrix, Scalar, Vector, gallery
from inweave.exact.constants import fractions
from inweave.language.tables import (
    exp_table,
    log_table,
    reciprocal_table,
    rsqrt_table,
    smallest,
    smooth,
    tabulate,
)
from inweave.language.values import lift
from inweave.model.relunet import ABS, RELU, Function, ReluNet
from inweave.run.libraries.tables import Table

POINTS = 100_000


def geometric_points(low, high):
    return np.geomspace(low, high, POINTS)


def worst_error(function, x, true):
    gap = np.abs(function.net(x) - true)
    return float(np.max(gap / np.abs(true) if function.relative else gap))


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


TABLES = {
    "reciprocal, 64 units, five decades": (
        lambda: reciprocal_table(1e-3, 1e2, 62), geometric_points(1e-3, 1e2), lambda x: 1 / x),
    "reciprocal, by error": (
        lambda: smallest("reciprocal", reciprocal_table, 0.1, 10.0, 80, 1e-4),
        geometric_points(0.1, 10), lambda x: 1 / x),
    "rsqrt, 64 units, five decades": (
        lambda: rsqrt_table(1e-3, 1e2, 62), geometric_points(1e-3, 1e2), lambda x: x**-0.5),
    "rsqrt, by error": (
        lambda: smallest("rsqrt", rsqrt_table, 0.1, 10.0, 80, 1e-4),
        geometric_points(0.1, 10), lambda x: x**-0.5),
    "sigmoid": (
        lambda: smooth("sigmoid", -8.0, 8.0, 1e-4),
        np.linspace(-8, 8, POINTS), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (
        lambda: smooth("tanh", -5.0, 3.0, 1e-4), np.linspace(-5, 3, POINTS), np.tanh),
    "gelu": (
        lambda: smooth("gelu", -6.0, 4.0, 1e-4), np.linspace(-6, 4, POINTS), gelu),
    "exp": (
        lambda: smallest("exp", exp_table, -7.0, 9.0, 9, 1e-4), np.linspace(-7, 9, POINTS), np.exp),
    "log": (
        lambda: smallest("log", log_table, 1e-3, 1e2, 9, 1e-4),
        geometric_points(1e-3, 1e2), np.log),
    "tanh, only called": (
        lambda: tabulate("tanh", np.tanh, (-4.0, 4.0), 1e-3), np.linspace(-4, 4, POINTS), np.tanh),
    "gaussian": (
        lambda: tabulate("gaussian", lambda x: np.exp(-x * x), (-3.0, 3.0), 1e-5),
        np.linspace(-3, 3, POINTS), lambda x: np.exp(-x * x)),
    "square": (
        lambda: tabulate("square", np.square, (-2.0, 5.0), 1e-3), np.linspace(-2, 5, POINTS),
        np.square),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_stated_error_holds_at_a_hundred_thousand_points_and_is_nearly_reached(name):
    make, points, true = TABLES[name]
    function = make()
    observed = worst_error(function, points, true(points))
    assert observed <= function.error
    assert observed >= function.error / 2


@pytest.mark.parametrize("name", TABLES)
def test_outside_its_domain_a_table_is_flat(name):
    function = TABLES[name][0]()
    low, high = function.domain
    ends, beyond = function.net(np.array([low, high])), function.net(np.array([low - 7, high + 7]))
    np.testing.assert_allclose(beyond, ends, rtol=1e-9, atol=1e-9)


def test_piecewise_linear_functions_are_exact():
    x = np.random.default_rng(0).normal(size=POINTS) * 10
    assert np.array_equal(RELU.net(x), np.maximum(x, 0))
    assert np.array_equal(ABS.net(x), np.abs(x))
    threshold = lift(inweave.soft_threshold(np.ones(2), 0.5)).function
    assert np.array_equal(threshold.net(x), np.sign(x) * np.maximum(np.abs(x) - 0.5, 0))


@inweave.program
def inverse(x: Scalar) -> Scalar:
    return inweave.reciprocal(x, domain=(1e-3, 1e2))


@inweave.program
def inverse_root(x: Scalar) -> Scalar:
    return inweave.rsqrt(x, domain=(1e-3, 1e2))


@pytest.mark.parametrize(("program", "power"), [(inverse, -1.0), (inverse_root, -0.5)])
def test_a_reciprocal_over_five_decades_needs_64_units_and_is_exact_to_1e_12(
    program, power, capsys
):
    network = inweave.compile(program)
    units = max(layer.units for layer in network.layers if hasattr(layer, "units"))
    assert units <= 64
    x = geometric_points(1e-3, 1e2)
    error = np.max(np.abs(network(x=x) * x**-power - 1))
    assert error <= 1e-12
    table = reciprocal_table if power == -1 else rsqrt_table
    alone = units_of_a_table_alone(table, 1e-3, 1e2, 1e-12)
    assert alone > 1_000_000
    with capsys.disabled():
        print(f"\n{program.name} over five decades: {units} units and {network.depth} layers give "
              f"{error:.1e}; a table alone needs {alone:,} units for 1e-12")  # fmt: skip


def units_of_a_table_alone(table, low, high, error):
    """From the law of the table itself, error ~ 1/units², at sizes where it can be built."""
    pieces = 4096
    return math.ceil(pieces * math.sqrt(table(low, high, pieces).error / error))


def test_the_law_by_which_the_table_alone_is_counted_is_right():
    known = smallest("reciprocal", reciprocal_table, 1e-3, 1e2, 20_000, 1e-8)
    counted = units_of_a_table_alone(reciprocal_table, 1e-3, 1e2, 1e-8)
    assert counted == pytest.approx(known.net.units, rel=0.05)


@pytest.mark.parametrize("high", [1e1, 1e4, 1e12, 1e24])
def test_ten_decades_more_cost_a_layer_more(high):
    @inweave.program
    def divided(x: Scalar) -> Scalar:
        return inweave.reciprocal(x, domain=(1.0, high), error=1e-14)

    network = inweave.compile(divided)
    x = geometric_points(1.0, high)
    assert np.max(np.abs(network(x=x) * x - 1)) < 1e-14
    assert network.depth <= 7


@inweave.program
def entries(A: Matrix["n", "m"], t: Scalar):
    smooth = inweave.pointwise(np.tanh, (-4, 4), 1e-3)
    return {
        "relu": inweave.relu(A),
        "abs": inweave.abs(A - t * inweave.ones(*A.shape)),
        "soft": inweave.soft_threshold(A, t),
        "sigmoid": inweave.sigmoid(A @ A.T),
        "tanh": smooth(2 * A),
        "inverse": inweave.reciprocal(
            inweave.abs(A) + inweave.ones(*A.shape), domain=(1, 4), error=1e-5
        ),
    }


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_functions_compile_beside_attention_and_keep_their_errors(target):
    network = inweave.compile(entries, n=3, m=4, target=target)
    assert any("tanh" in note for note in network.certificate.functions)
    A, t = np.random.default_rng(0).uniform(-1.5, 1.5, (3, 4)), 0.3
    found = network(A=A, t=t)
    np.testing.assert_allclose(found["relu"], np.maximum(A, 0), atol=1e-15)
    np.testing.assert_allclose(found["abs"], np.abs(A - t), atol=1e-15)
    np.testing.assert_allclose(found["soft"], np.sign(A) * np.maximum(np.abs(A) - t, 0), atol=1e-15)
    np.testing.assert_allclose(found["sigmoid"], 1 / (1 + np.exp(-A @ A.T)), atol=1e-4)
    np.testing.assert_allclose(found["tanh"], np.tanh(2 * A), atol=1e-3)
    np.testing.assert_allclose(found["inverse"], 1 / (np.abs(A) + 1), rtol=1e-5)


def test_a_program_called_with_arrays_uses_the_true_function():
    A = np.random.default_rng(0).uniform(-1, 1, (2, 3))
    np.testing.assert_allclose(entries(A=A, t=0.1)["tanh"], np.tanh(2 * A), rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: inweave.reciprocal(x, domain=(-1, 2)), "positive"),
        (lambda x: inweave.reciprocal(x, domain=(2, 1)), "low < high"),
        (lambda x: inweave.rsqrt(x, error=2.0), "between 0 and 1"),
        (lambda x: inweave.soft_threshold(x, -1.0), "at least 0"),
        (lambda x: inweave.pointwise(np.log, (-1, 1), 1e-3)(x), "finite"),
        (lambda x: inweave.pointwise(np.abs, (0, 1), error=0)(x), "between 0 and 1"),
        (lambda x: inweave.reciprocal(x, domain=(1, 10**400)), "finite domain"),
        (lambda x: inweave.pointwise(lambda v: v + 1j, (0, 1), 1e-3)(x), "complex128"),
        (lambda x: inweave.pointwise(np.sqrt, (0, 1), 1e-3j)(x), "between 0 and 1"),
        (
            lambda x: inweave.pointwise(lambda v: np.ma.masked_less(v, 0.5), (0, 1), 0.1)(x),
            "masked",
        ),
        (lambda x: inweave.pointwise(lambda v: v / 1e-320, (0, 1e-320), 0.1)(x), "not finite"),
        (lambda x: x + np.ma.masked_array([1.0, 2.0], [0, 1]), "masked"),
        (lambda x: inweave.constant(scipy.sparse.eye(2)) @ x, "dense array"),
    ],
)
def test_what_cannot_be_tabulated_is_refused(make, message):
    @inweave.program
    def refused(x: Vector["n"]):
        return make(x)

    with pytest.raises(inweave.InweaveError, match=message):
        inweave.compile(refused, n=2)


def true_sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


@given(
    st.floats(-1e3, 1e3), st.floats(0.1, 2e3), st.sampled_from([0.4, 0.1, 1e-2, 1e-4]),
    st.sampled_from(["sigmoid", "measured"]),
)  # fmt: skip
def test_the_error_that_is_asked_for_is_met(low, width, error, how):
    domain = (low, low + width)
    if how == "sigmoid":
        function = smooth("sigmoid", *domain, error)
    else:
        function = tabulate("sigmoid", true_sigmoid, domain, error)
    assert function.error <= error
    x = np.unique([*np.linspace(*domain, 20_000), *np.linspace(-15, 15, 20_000).clip(*domain)])
    if how == "sigmoid":  # a measurement says nothing of other points
        assert worst_error(function, x, true_sigmoid(x)) <= function.error


@pytest.mark.parametrize("width", [1e-300, 1e-160, 1e100, 1e300])
def test_the_size_of_a_domain_does_not_matter(width):
    function = tabulate("bump", lambda x: np.square(x / width), (0.0, width), Fraction(1, 100))
    x = np.linspace(0, width, 1000)
    assert worst_error(function, x, np.square(x / width)) <= function.error <= 0.01


@inweave.program
def shrunk(x: Vector["n"], t: Scalar):
    return inweave.soft_threshold(x, t)


@given(
    st.lists(st.floats(-10, 10), min_size=3, max_size=3), st.floats(-10, 10, allow_subnormal=False)
)
def test_a_soft_threshold_is_right_or_refused(x, t):
    network = inweave.compile(shrunk, n=3, verify=False)
    x = np.array(x)
    if t < 0:
        assert np.isnan(shrunk(x=x, t=t)).all()
        with pytest.raises(inweave.DomainError, match="threshold got"):
            network(x=x, t=t)
    else:
        right = np.sign(x) * np.maximum(np.abs(x) - t, 0)
        np.testing.assert_array_equal(network(x=x, t=t), right)
        np.testing.assert_array_equal(shrunk(x=x, t=t), right)


def test_values_at_the_knots_are_those_of_the_net():
    """Units that grow to the left, to the right, that are flat, and two with one kink."""
    net = ReluNet((1.0, -2.0, 0.0, 4.0, -0.5), (1.0, 3.0, 2.0, -6.0, 8.0), (2, -1, 3, 0.5, 7), -4.0)
    for function in (Function("odd", net, (-3.0, 20.0)), reciprocal_table(1e-6, 1e3, 200)):
        table = Table.of(function)
        knots, values = table.knots, table.values
        exact = function.net.rationals(fractions(knots)).astype(float)
        assert values == pytest.approx(exact, rel=1e-13)


def test_an_argument_that_stands_where_its_function_is_applied_takes_no_layer():
    net = gallery.get("sinkhorn").compile(verify=False)
    assert net.depth == 53  # 73 with a layer that does nothing before each of two functions
    assert all(layer.heads for layer in net.layers if isinstance(layer, AttentionLayer))
