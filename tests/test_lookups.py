"""A table looked up by a guide is the very line that bisection finds, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweave.exact.arithmetic import Floats
from inweave.language.tables import exp_table, interpolant, reciprocal_table, smooth
from inweave.model.relunet import Function
from inweave.run.libraries import tables
from inweave.run.libraries.functions import applied
from inweave.run.libraries.tables import Even, Octaves, Table

FUNCTIONS = [
    exp_table(-5.0, 5.0, 300),
    reciprocal_table(1e-6, 1e6, 400),
    smooth("tanh", -60.0, 60.0, 1e-5),
    smooth("sigmoid", -12.0, 12.0, 1e-4),
]


def points(table: Table, count: int, seed: int = 0) -> np.ndarray:
    """Numbers inside and outside, all knots, and their neighbours among floats."""
    rng = np.random.default_rng(seed)
    knots = table.knots
    inside = rng.uniform(knots[:-1], knots[1:], (-(-count // len(knots)) + 1, len(knots) - 1))
    near = [np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)]
    far = [-1e30, -0.0, 0.0, 5e-324, 1e30, knots[0] - 1, knots[-1] + 1]
    return rng.permutation(np.concatenate([inside.ravel(), *near, far]))


def looked_up(table: Table, x: np.ndarray) -> np.ndarray:
    out = np.full(x.shape, 7.0, x.dtype)
    tables.in_numpy(table)(x, out)
    return out


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_a_guide_finds_what_bisection_finds(function):
    table = Table.of(function)
    assert table.guide is not None
    x = points(table, 3 * tables.CHUNK)
    assert np.array_equal(looked_up(table, x), np.interp(x, table.knots, table.values))


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=60, unique=True).map(sorted),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_so_it_is_for_any_knots(gaps, even, seed):
    """Close ones, far ones, both signs: with a guide or, where it would be too large, without."""
    knots = np.cumsum(gaps) - (sum(gaps) / 3 if even else 0)
    knots = np.unique(knots)
    values = np.random.default_rng(seed).normal(size=len(knots))
    table = Table(knots, values)
    x = points(table, 2 * tables.FEW, seed)
    assert x.size > tables.FEW
    assert np.array_equal(looked_up(table, x), np.interp(x, knots, values))


def test_a_cell_is_even_or_a_part_of_an_octave_whichever_are_fewer():
    assert isinstance(Table.of(FUNCTIONS[0]).guide[0], Even)
    assert isinstance(Table.of(FUNCTIONS[1]).guide[0], Octaves)
    squares = np.arange(1.0, 40) ** 2
    assert isinstance(Table(squares, squares).guide[0], Octaves)
    signed = np.array([-1.0, 0.0, 1e-12, 1.0])
    assert Table(signed, signed).guide is None


@pytest.mark.parametrize("size", [0, 1, tables.FEW, tables.FEW + 1, tables.CHUNK, 40_000])
def test_few_numbers_and_many_none_among_them_and_infinite_ones(size):
    table = Table.of(FUNCTIONS[0])
    x = np.random.default_rng(1).uniform(-6, 6, size)
    x[: min(3, size)] = [np.nan, np.inf, -np.inf][: min(3, size)]
    expected = np.interp(x, table.knots, table.values)
    assert np.array_equal(looked_up(table, x), expected, equal_nan=True)


def test_infinity_is_where_the_table_is_flat_and_nan_stays_nan_without_a_warning():
    table = Table.of(FUNCTIONS[1])
    x = np.full(2 * tables.FEW, np.nan)
    x[1::2] = np.inf
    x[3::4] = -np.inf
    found = looked_up(table, x)
    assert np.isnan(found[::2]).all()
    assert np.array_equal(np.unique(found[1::2]), np.sort(table.values[[0, -1]]))


def test_views_and_parts_of_other_arrays_are_read_and_written_where_they_stand():
    table = Table.of(FUNCTIONS[3])
    whole = np.random.default_rng(2).normal(size=(40, 60, 8))
    for view in (
        whole[..., ::-2],
        whole.mT,
        whole[::3, 1:, :],
        np.broadcast_to(whole[0], (5, 60, 8)),
    ):
        wide = np.zeros((*view.shape[:-1], view.shape[-1] + 3))
        before = view.copy()
        tables.in_numpy(table)(view, wide[..., 1:-2])
        assert np.array_equal(wide[..., 1:-2], np.interp(view, table.knots, table.values))
        assert not wide[..., 0].any()
        assert not wide[..., -2:].any()
        assert np.array_equal(view, before)


def test_single_precision_is_the_double_rounded_at_the_end():
    table = Table.of(FUNCTIONS[0])
    x = np.random.default_rng(3).uniform(-6, 6, 5000).astype(np.float32)
    expected = np.interp(x, table.knots, table.values).astype(np.float32)
    found = applied(FUNCTIONS[0], 50, 100, Floats(np, np.float32))(x)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


def test_a_table_wider_than_floats_reach_is_still_searched():
    huge = np.array([-1.7e308, 0.0, *range(1, 12), 1.7e308])
    function = Function(
        "wide", interpolant(np.arange(12.0), np.arange(12.0) % 2), (-1.7e308, 1.7e308)
    )
    assert Table(huge, huge).guide is None
    x = np.linspace(-3, 15, 2 * tables.FEW)
    found = applied(function, 1, x.size, Floats())(x)
    assert np.allclose(found, function.net(x), atol=1e-9)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jax_finds_the_same_lines(function, dtype):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(dtype == "float64"):
        floats = Floats(jax.numpy, jax.numpy.dtype(dtype))
        table = Table.of(function).rounded(dtype)
        x = points(table, 2000).astype(dtype)
        x = np.concatenate([x, np.array([np.nan, np.inf, -np.inf], dtype)])
        expected = np.interp(x, table.knots, table.values)
        found = np.asarray(jax.jit(tables.in_jax(Table.of(function), floats))(x))
    assert found.dtype == dtype
    ulps = np.spacing(np.max(np.abs(table.values)).astype(dtype))
    assert np.allclose(found, expected, rtol=0, atol=4 * ulps, equal_nan=True)


def test_in_jax_a_table_has_the_slopes_of_its_lines_and_none_outside():
    jax = pytest.importorskip("jax")
    table = Table.of(FUNCTIONS[0])
    with jax.enable_x64(True):
        apply = tables.in_jax(table, Floats(jax.numpy, jax.numpy.dtype("float64")))
        middles = (table.knots[1:] + table.knots[:-1]) / 2
        slopes = jax.vmap(jax.grad(apply))(middles)
        assert np.allclose(slopes, np.diff(table.values) / np.diff(table.knots), rtol=1e-12)
        assert float(jax.grad(apply)(-5.5)) == float(jax.grad(apply)(5.5)) == 0.0


def test_knots_too_fine_for_single_precision_are_one_knot_there():
    jax = pytest.importorskip("jax")
    knots = np.array([1.0, 1.0 + 1e-12, 1.5, 2.0])
    table = Table(knots, np.array([3.0, 3.0, 4.0, 5.0]))
    assert len(table.rounded("float32").knots) == 3
    apply = tables.in_jax(table, Floats(jax.numpy, jax.numpy.dtype("float32")))
    x = np.linspace(0.5, 2.5, 21, dtype=np.float32)
    assert np.allclose(jax.jit(apply)(x), np.interp(x, knots, table.values), atol=1e-6)
