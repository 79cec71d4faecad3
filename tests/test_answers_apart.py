"""Answers are values of their own: no views of inputs or of each other, and none hides another."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Vector
from inweave.errors import DivergenceError

pytestmark = pytest.mark.usefixtures("unchecked_passes")
MODES = ({}, {"optimize": "depth"}, {"optimize": "speed"})
ANSWERS = {
    "input": lambda A: A,
    "turned": lambda A: A.T,
    "diagonal": lambda A: inweave.diag(A),
    "diagonal of the turned": lambda A: inweave.diag(A.T),
    "slice": lambda A: A[1:],
    "product": lambda A: A @ A,
    "product again": lambda A: A @ A + 0 * A,
    "product turned": lambda A: (A @ A).T,
    "columns of a product": lambda A: (A @ A)[:, 1:],
    "diagonal of a product": lambda A: inweave.diag(A @ A),
    "one step": lambda A: inweave.iterate(lambda C: A @ C, A, 1),
    "two steps": lambda A: inweave.iterate(lambda C: A @ C, A, 2),
}


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(sorted(ANSWERS)), min_size=1, max_size=4),
    st.sampled_from(MODES),
    st.sampled_from([(), (1,), (5,)]),
)
def test_what_is_done_to_an_answer_or_an_input_later_changes_no_answer(names, mode, lead):
    @inweave.program
    def answers(A: Matrix["n", "n"]):
        return tuple(ANSWERS[name](A) for name in names)

    rng = np.random.default_rng(0)
    A = rng.normal(size=(*lead, 3, 3))
    kept = A.copy()
    found = inweave.compile(answers, n=3, **mode)(A=A)
    found = found if isinstance(found, tuple) else (found,)
    for one, other in itertools.combinations((A, *found), 2):
        assert not np.shares_memory(one, other)
    A[:] = 7
    for name, value in zip(names, found, strict=True):
        np.testing.assert_allclose(value, by_hand(name, kept), atol=1e-12)


def by_hand(name, A):
    turned, product = A.swapaxes(-1, -2), A @ A
    return {
        "input": A,
        "turned": turned,
        "diagonal": np.diagonal(A, axis1=-2, axis2=-1),
        "diagonal of the turned": np.diagonal(A, axis1=-2, axis2=-1),
        "slice": A[..., 1:, :],
        "product": product,
        "product again": product,
        "product turned": product.swapaxes(-1, -2),
        "columns of a product": product[..., 1:],
        "diagonal of a product": np.diagonal(product, axis1=-2, axis2=-1),
        "one step": product,
        "two steps": A @ product,
    }[name]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("mode", MODES)
def test_no_answer_hides_another_that_overflows(order, mode):
    @inweave.program
    def grows(A: Matrix["n", "n"], x: Vector["n"]):
        return (inweave.iterate(lambda v: A @ v, x, 200), x.sum())[::order]

    net = inweave.compile(grows, n=2, **mode)
    with pytest.raises(DivergenceError):
        net(A=np.array([[1e10, -1e10], [1e10, 1e10]]), x=np.ones(2))


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_may_carry_what_stands_outside_turned_round(mode):
    @inweave.program
    def ends(x: Vector["n"], y: Vector["n"]):
        return inweave.iterate(lambda _: inweave.vstack([y[1:], y[:1]]), x, 4)

    x, y = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(inweave.compile(ends, n=4, **mode)(x=x, y=y), np.roll(y, -1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "cols"), [(4, 4), (2, 5), (5, 3)])
def test_a_matrix_may_be_read_column_by_column(mode, rows, cols):
    @inweave.program
    def columns(A: Matrix["n", "d"]):
        return A.ravel(order="F")

    A = np.arange(1.0 * rows * cols).reshape(rows, cols)
    net = inweave.compile(columns, n=rows, d=cols, **mode)
    np.testing.assert_array_equal(net(A=A), A.ravel(order="F"))
