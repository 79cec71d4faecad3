"""Matrices that go round in a loop are computed where they stand, with the same answers."""

import numpy as np
import pytest

import inweave
from inweave import Matrix
from inweave.run.lines.code import Repeat

pytestmark = pytest.mark.usefixtures("unchecked_passes")


def turned(P, cols, across=True):
    """The first row moves to the end, and the first of `cols` columns to the end of these."""
    P = inweave.vstack([P[1:, :], P[:1, :]])
    if not across:
        return P
    rest = [P[:, cols:]] if cols < P.shape[1] else []
    return inweave.hstack([P[:, 1:cols], P[:, :1], *rest])


@inweave.program
def pivots(P: Matrix["m", "q"], *, times: int, cols: int, across: bool, row: int):
    """Steps that need no reciprocal: a multiple of a row is added to all, then all move on."""
    m = P.shape[0]
    first = np.eye(m)[:, :1]

    def step(P):
        S = inweave.hold(P - 0.25 * (P[:, :1] - first) @ P[row : row + 1, :])
        return inweave.hold(turned(S, cols, across))

    return inweave.iterate(step, P, times)


def loops(net):
    codes = net.plan.from_inputs.alone.code, net.plan.from_inputs.batched.code
    return [line for code in codes for line in code.lines if isinstance(line, Repeat)]


@pytest.mark.parametrize(
    ("m", "q", "times", "cols", "across"),
    [(4, 6, 4, 4, True), (4, 6, 3, 4, True), (4, 6, 2, 5, True), (5, 5, 5, 5, True),
     (6, 4, 4, 4, True), (5, 3, 4, 3, False), (9, 12, 9, 9, True)],
)  # fmt: skip
def test_what_goes_round_stays_and_the_answers_are_the_same(m, q, times, cols, across, xp):
    sizes = {"times": times, "cols": cols, "across": across, "row": 0}
    net = inweave.compile(pivots, m=m, q=q, **sizes, verify=False)
    for loop in loops(net):
        assert loop.counters, "a row is read where the loop is"
        assert not [line for line in loop.body if line.op in ("concat", "matmul")], "nothing moves"
    P = np.random.default_rng(m).normal(size=(3, m, q))
    expected = [pivots(P=one, **sizes) for one in P]
    np.testing.assert_allclose(np.asarray(net(P=xp.asarray(P))), expected, rtol=1e-4, atol=1e-5)
    one = np.asarray(net(P=xp.asarray(P[0])))
    np.testing.assert_allclose(one, expected[0], rtol=1e-4, atol=1e-5)


def test_a_step_that_reads_another_row_than_the_first_goes_on_moving():
    sizes = {"times": 4, "cols": 4, "across": True, "row": 1}
    net = inweave.compile(pivots, m=4, q=6, **sizes, verify=False)
    assert not any(loop.counters for loop in loops(net))
    P = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_allclose(net(P=P), pivots(P=P, **sizes), rtol=1e-12, atol=1e-12)


def test_more_steps_than_there_are_rows_go_on_moving():
    sizes = {"times": 5, "cols": 4, "across": True, "row": 0}
    net = inweave.compile(pivots, m=4, q=6, **sizes, verify=False)
    assert not any(loop.counters for loop in loops(net))
    P = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_allclose(net(P=P), pivots(P=P, **sizes), rtol=1e-12, atol=1e-12)
