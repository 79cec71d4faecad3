"""Loops in numpy whose lines share arrays compute what lines with arrays of their own do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import gallery
from inweave.errors import DomainError
from inweave.exact.arithmetic import Floats
from inweave.run.libraries import execute, numpy, written
from inweave.run.libraries.functions import POSITIVE
from inweave.run.lines.code import Line, Repeat, Stack
from inweave.run.lines.lifetimes import lifetimes

SIDE, TIMES = 3, 4
SOURCES, PHIS, OTHERS = (0, 1), (2, 3, 4), (5, 6, 7, 8)
RELU, AXIS, HALF, ROWS, OUT = range(9, 14)  # slots of a function, an axis and the like
ALL = slice(None)
PLAIN = ("add", "sub", "mul", "matmul")
SHARED = ("flip", "pointwise", "joined")


@st.composite
def loops(draw):
    """A loop of square values, whose lines fill slots again as they like."""
    filled, body = [*SOURCES, *PHIS], list[Line]()
    for _ in range(draw(st.integers(1, 8))):
        op = draw(st.sampled_from((*PLAIN, *SHARED)))
        a, b = draw(st.sampled_from(filled)), draw(st.sampled_from(filled))
        out = draw(st.sampled_from(OTHERS))
        if op == "joined":  # the first row of one above the other two of the other
            body += [
                Line("getitem", a, HALF, 14, 1, SIDE),
                Line("getitem", b, ROWS, 15, SIDE - 1, SIDE),
                Line("one", 14, 14, 16, 1, SIDE),
                Line("more", 16, 15, 17, SIDE, SIDE),
                Line("concat", 17, AXIS, out, SIDE, SIDE),
            ]
        else:
            b = {"flip": a, "pointwise": RELU}.get(op, b)
            body.append(Line(op, a, b, out, SIDE, SIDE))
        filled.append(out)
    nexts = tuple(draw(st.sampled_from(filled)) for _ in PHIS)
    inits = tuple(draw(st.sampled_from(SOURCES)) for _ in PHIS)
    left = draw(st.sampled_from(filled))
    stacks = (Stack(left, OUT, draw(st.booleans()), draw(st.booleans()), SIDE),)
    return Repeat(TIMES, body, PHIS, inits, nexts, 0, (), stacks)


def assert_same(loop, sources):
    """A loop that is written out leaves what one leaves that is run line by line."""

    def after(step):
        slots = [x.copy() for x in sources] + [None] * 17
        slots[RELU], slots[AXIS] = POSITIVE, -2
        slots[HALF], slots[ROWS] = (..., slice(0, 1), ALL), (..., slice(1, SIDE), ALL)
        step(slots)
        assert all((x == y).all() for x, y in zip(slots, sources, strict=False))
        return [slots[slot] for slot in (*loop.phis, *(stack.out for stack in loop.stacks))]

    def refused(_):
        raise AssertionError("the loop was not written out")

    body = execute.steps_of(loop.body, execute.operations(Floats()), execute._repeated)
    with np.errstate(all="ignore"):
        wanted = after(execute._repeated(Floats(), loop, body))
        for found, x in zip(
            after(numpy.loop(loop, refused, numpy.InPlace, ())), wanted, strict=True
        ):
            np.testing.assert_allclose(found, np.broadcast_to(x, found.shape), rtol=1e-9)


@given(loop=loops(), batched=st.tuples(st.booleans(), st.booleans()))
def test_sharing_arrays_changes_no_answer_and_no_source(loop, batched):
    rng = np.random.default_rng(0)
    shapes = [(5, SIDE, SIDE) if many else (SIDE, SIDE) for many in batched]
    assert_same(loop, [rng.choice([-1.0, -0.5, 0.5, 1.0], size=shape) for shape in shapes])


def test_what_is_carried_as_a_view_of_another_carried_value_is_a_copy():
    body = [Line("flip", 2, 2, 5, SIDE, SIDE)]
    loop = Repeat(TIMES, body, PHIS, (0, 1, 0), (4, 0, 5), 0)
    assert_same(loop, [np.arange(9.0).reshape(3, 3), np.ones((3, 3))])


def test_carried_values_of_different_sizes_change_places_among_themselves():
    body = [Line("matmul", 2, 0, 5, SIDE, SIDE), Line("matmul", 3, 1, 6, 2, 2)]
    loop = Repeat(TIMES, body, (*PHIS, 18), (0, 1, 1, 0), (5, 6, 3, 2), 0)
    assert_same(loop, [np.arange(9.0).reshape(3, 3), np.arange(4.0).reshape(2, 2)])


def test_a_matrix_that_problems_share_is_the_one_of_the_step():
    body = [Line("matmul", 2, 3, 5, SIDE, 1), Line("add", 2, 0, 6, SIDE, SIDE)]
    loop = Repeat(TIMES, body, PHIS[:2], SOURCES, (6, 5), 0)
    assert_same(loop, [np.arange(9.0).reshape(3, 3), np.arange(15.0).reshape(5, 3, 1)])


def test_a_carried_value_is_updated_where_it_stands_unless_it_is_read_later():
    update, read = Line("add", 2, 0, 5, SIDE, SIDE), Line("mul", 2, 0, 6, SIDE, SIDE)

    def updated(*body, nexts=(5,)):
        phis = PHIS[: len(nexts)]
        return lifetimes(Repeat(TIMES, [*body], phis, SOURCES[: len(nexts)], nexts, 0)).updated

    assert updated(read, update) == {1: 0}
    assert updated(update, read) == {}
    assert updated(Line("flip", 2, 2, 6, SIDE, SIDE), update, read._replace(a=6)) == {}  # a view
    assert updated(update, nexts=(5, 2)) == {}  # the other one takes what it was
    assert updated(update, nexts=(5, 5)) == {}
    assert updated(update._replace(op="matmul")) == {}
    more = Line("sub", 0, 5, 7, SIDE, SIDE)  # from what the line before made there
    assert updated(update, more, nexts=(7,)) == {0: 0, 1: 0}
    assert updated(update, more, Line("mul", 5, 0, 6, SIDE, SIDE), nexts=(7,)) == {}


def test_what_is_updated_in_its_place_may_stand_in_another_as_well():
    body = [
        Line("add", 2, 0, 5, SIDE, SIDE),
        Line("one", 5, 5, 16, SIDE, SIDE),
        Line("more", 16, 0, 17, 2 * SIDE, SIDE),
        Line("concat", 17, AXIS, 6, 2 * SIDE, SIDE),
    ]
    stacks = (Stack(6, OUT, False, False, 2 * SIDE),)
    loop = Repeat(TIMES, body, PHIS[:1], SOURCES[:1], (5,), 0, (), stacks)
    assert_same(loop, [np.arange(9.0).reshape(3, 3), np.ones((3, 3))])


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("kept", [1, 5, 8, 1000])  # entries of two; steps are ten
@pytest.mark.parametrize("bad", range(10))
def test_a_domain_that_is_left_in_any_one_step_is_refused(monkeypatch, kept, bad):
    monkeypatch.setattr(numpy, "KEPT", kept)

    @inweave.program
    def looked_up(x: inweave.Matrix["t", "d"]):
        def step(total, row):
            return total + inweave.exp(2 * row, domain=(-1, 1)), row

        return inweave.scan(step, inweave.zeros(2), x)[0]

    net = inweave.compile(looked_up, t=10, d=2, verify=False)
    x = np.full((10, 2), 0.25)
    net(x=x)
    x[bad, 1] = 0.75
    with pytest.raises(DomainError, match=f"step {bad}"):
        net(x=x)


@pytest.mark.usefixtures("unchecked_passes")
def test_many_problems_have_the_answers_of_each():
    entry = gallery.get("kalman_filter")
    net, drawn = entry.compile(verify=False), [entry.example(seed) for seed in range(3)]
    times = written.MANY
    given = {k: np.stack([np.asarray(one[k], float) for one in drawn] * times) for k in drawn[0]}
    for _ in range(2):
        found = net(**given)
        for i in (0, 1, 2, 3 * times - 1):
            np.testing.assert_allclose(found[i], net(**drawn[i % 3]), rtol=1e-10)
