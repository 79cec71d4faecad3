"""Elimination leaves the columns alone that it is done with, and only those that nobody reads."""

from dataclasses import replace

import numpy as np
import pytest

from inweave import gallery
from inweave.run.lines import narrow
from inweave.run.lines.code import Line, Repeat

pytestmark = pytest.mark.usefixtures("unchecked_passes")


def elimination(m=12, k=3):
    """The plan of Gauss-Jordan for batches."""
    net = gallery.get("gauss_jordan").compile(m=m, k=k, verify=False)
    return net, net.plan.from_inputs.batched.code


def loop_of(code):
    lines = narrow.with_unread(code.lines, code.outputs, code.fixed)
    return next(line for line in lines if isinstance(line, Repeat))


@pytest.mark.parametrize("batch", [3, 600])
def test_systems_are_solved_by_the_columns_that_are_left(batch):
    net, code = elimination()
    assert loop_of(code).unread == (12,)
    assert narrow.narrow(loop_of(code)) is not None
    rng = np.random.default_rng(0)
    F = np.eye(12) + rng.uniform(-0.5, 0.5, (batch, 12, 12)) / 12
    B = rng.normal(size=(batch, 12, 3))
    for _ in range(2):
        np.testing.assert_allclose(net(F=F, B=B), np.linalg.solve(F, B), rtol=1e-10)


def test_what_is_read_afterwards_or_otherwise_keeps_all_columns():
    loop = loop_of(elimination()[1])
    found = narrow.narrow(loop)
    update = loop.body[found.update]
    row = next(line for line in loop.body if line.op == "pick" and line.a == loop.phis[0])
    assert narrow.narrow(replace(loop, unread=(11,))) is None  # a column that a step has left

    def with_line(at, line):
        return replace(loop, body=[*loop.body[:at], line, *loop.body[at:]])

    n, at = row.cols, loop.body.index(row) + 1
    other = max(line.out for line in loop.body) + 50
    for odd in (
        Line("pointwise", row.out, other + 1, other, 1, n),
        Line("matmul", row.out, other + 1, other, 1, 1),  # of all columns of the row
        Line("matmul", loop.phis[0], other + 1, other, 12, 1),
        Line("getitem", loop.phis[0], other + 1, other, 12, 1),
    ):
        assert narrow.narrow(with_line(at, odd)) is None
    again = Line("mul", update.out, update.out, other, *update[4:])
    assert narrow.narrow(with_line(found.update + 1, again)) is None


INDEX = {9: ("index", (0, 4, 2, 5)), 8: ("index", (0, 4, 3, 5))}
LOOP = Repeat(2, [], (1,), (0,), (1,), 0)


@pytest.mark.parametrize(
    ("after", "outputs", "unread"),
    [
        ([Line("getitem", 1, 9, 2, 4, 3)], [2], 2),
        ([Line("getitem", 1, 9, 2, 4, 3), Line("getitem", 1, 8, 3, 4, 2)], [2], 2),
        ([Line("getitem", 1, 8, 1, 4, 2), Line("flip", 1, 1, 2, 2, 4)], [2], 3),
        ([Line("getitem", 1, 9, 2, 4, 3)], [1, 2], 0),
        ([Line("getitem", 1, 9, 2, 4, 3), Line("flip", 1, 1, 2, 5, 4)], [2], 0),
        ([Line("getitem", 1, 9, 2, 4, 3), replace(LOOP, phis=(5,), inits=(1,))], [2], 0),
    ],
)
def test_columns_are_unread_if_all_readers_begin_right_of_them(after, outputs, unread):
    assert narrow.with_unread([LOOP, *after], outputs, INDEX)[0].unread == (unread,)
