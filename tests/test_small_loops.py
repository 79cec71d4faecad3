"""Loops over matrices of a few entries, written over numbers, answer as they do in arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.errors import DomainError
from inweave.run.libraries import functions, numpy, rows
from inweave.run.libraries.entries import InEntries
from inweave.run.lines.code import Counter, Line, Repeat, Stack

TIMES = 3
ROWS, SOURCE, COLUMN, NUMBER, CLOCK, BACK, POSITIVE, AXES = 0, 1, 2, 3, 4, 5, 6, (7, 8)
PHIS, OUTS, INDEX, FREE = (9, 10), (11, 12), 13, 20
TANH = inweave.pointwise(np.tanh, (-2, 2), 1e-2).function


class Drawn:
    """A loop that is drawn line by line; every line knows its shape."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.slots: list[object] = [None] * 200
        self.body: list[Line] = []
        self.shapes: dict[int, tuple[int, int]] = {}
        size = self.draw(st.integers(1, 3))
        self.given(ROWS, TIMES, size)
        self.given(SOURCE, size, self.draw(st.integers(1, 3)))
        self.given(COLUMN, size, 1)
        self.slots[NUMBER], self.shapes[NUMBER] = 2.0, (1, 1)
        self.slots[POSITIVE] = functions.POSITIVE
        self.slots[AXES[0]], self.slots[AXES[1]] = -2, -1
        del self.shapes[ROWS]
        self.shapes |= {PHIS[0]: self.shapes[SOURCE], PHIS[1]: (size, 1)}
        row = self.line("pick", ROWS, self.draw(st.sampled_from([CLOCK, BACK])), (1, size))
        self.line("flip", row, row, (size, 1))
        for _ in range(self.draw(st.integers(1, 10))):
            self.step()

    def given(self, slot: int, rows: int, cols: int) -> None:
        whole = st.lists(st.integers(-2, 2), min_size=rows * cols, max_size=rows * cols)
        self.slots[slot] = np.array(self.draw(whole), float).reshape(rows, cols)
        self.shapes[slot] = rows, cols

    def line(self, op: str, a: int, b: int, shape: tuple[int, int]) -> int:
        out = FREE + len(self.body)
        self.body.append(Line(op, a, b, out, *shape))
        self.shapes[out] = shape
        return out

    def step(self) -> None:
        op = self.draw(st.sampled_from(
            ["add", "sub", "mul", "matmul", "flip", "getitem", "join", "pointwise", "diagonal"]
        ))  # fmt: skip
        a = self.draw(st.sampled_from([x for x in self.shapes if x != NUMBER]))
        rows, cols = self.shapes[a]
        if op in ("add", "sub", "mul", "matmul", "join"):
            b = self.draw(st.sampled_from(sorted(self.shapes)))
            if b == NUMBER and op in ("matmul", "join"):
                b = a
            self.pair(op, a, b)
        elif op == "getitem":
            top, left = (self.draw(st.integers(0, size - 1)) for size in (rows, cols))
            slot = INDEX + len(self.body) + 100
            self.slots[slot] = (..., slice(top, top + 1), slice(left, cols))
            self.line(op, a, slot, (1, cols - left))
        elif op == "diagonal":
            self.line(op, a, a, (min(rows, cols), 1))
        elif op == "flip":
            self.line(op, a, a, (cols, rows))
        else:
            self.line(op, a, POSITIVE, (rows, cols))

    def pair(self, op: str, a: int, b: int) -> None:
        (rows, cols), (more, wide) = self.shapes[a], self.shapes[b]
        if op == "matmul" and cols == more:
            self.line(op, a, b, (rows, wide))
        elif op == "join" and cols == wide and rows + more <= 3:
            first = self.line("one", a, a, (rows, cols))
            both = self.line("more", first, b, (rows, cols))
            self.line("concat", both, AXES[0], (rows + more, cols))
            for collected in (first, both):
                del self.shapes[collected]
        elif op in ("add", "sub", "mul") and {rows, more} <= {1, max(rows, more)}:
            if {cols, wide} <= {1, max(cols, wide)}:
                self.line(op, a, b, (max(rows, more), max(cols, wide)))

    def loop(self) -> Repeat:
        def one_of(shape: tuple[int, int]) -> int:
            return self.draw(st.sampled_from([x for x in self.shapes if self.shapes[x] == shape]))

        nexts = tuple(one_of(self.shapes[phi]) for phi in PHIS)
        left = [x for x in self.shapes if x not in (NUMBER, SOURCE, COLUMN)]
        stacks = []
        for out in OUTS:
            slot = self.draw(st.sampled_from(left))
            flip, back = self.draw(st.booleans()), self.draw(st.booleans())
            stacks.append(Stack(slot, out, flip, back, self.shapes[slot][0]))
        counters = (Counter(CLOCK, False, 1), Counter(BACK, True, 1))
        inits = (SOURCE, COLUMN)
        return Repeat(TIMES, self.body, PHIS, inits, nexts, 0, counters, tuple(stacks))

    def batch(self) -> tuple[int, ...]:
        """Batch axes, which some of what is given gets: as many numbers for every problem."""
        lead = self.draw(st.sampled_from([(2,), (1,), (2, 3)]))
        for slot in (ROWS, SOURCE, COLUMN):
            if self.draw(st.booleans()):
                x = self.slots[slot]
                whole = st.integers(0, 10**6).map(np.random.default_rng)
                shape = (*lead, *x.shape)
                self.slots[slot] = self.draw(whole).integers(-2, 3, shape).astype(float)
        return lead

    def known(self) -> list[object]:
        """Slots before any call: constants may be."""
        at = [slot for slot in (SOURCE, COLUMN, NUMBER) if self.draw(st.booleans())]
        plain = [slot for slot in at if np.ndim(self.slots[slot]) < 3]
        return [x if slot in plain else None for slot, x in enumerate(self.slots)]


def left_by(written, slots, lead=()):
    """What a loop leaves; and what it reads is not changed."""
    slots = [*slots]
    before = {slot: slots[slot].copy() for slot in (ROWS, SOURCE, COLUMN)}
    written.function()(slots, lead)
    for slot, x in before.items():
        np.testing.assert_array_equal(slots[slot], x)
    return [np.asarray(slots[slot]) for slot in (*PHIS, *OUTS)]


@settings(max_examples=200)
@given(st.data())
def test_entries_answer_as_arrays_do(data):
    """Numbers are whole and not large, so both are exact whatever the order of sums."""
    drawn = Drawn(data)
    loop, slots = drawn.loop(), drawn.slots
    alone = numpy.in_entries(loop, slots, (), numpy.InPlace, drawn.known())
    assert alone is not None
    with np.errstate(all="ignore"):
        wanted = left_by(numpy.InPlace(loop, slots, ()), slots)
        assume(all(np.abs(x).max() < 2**50 for x in wanted))
        found = left_by(alone, slots)
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(x, y)


@settings(max_examples=200)
@given(st.data())
def test_entries_of_a_batch_answer_as_the_arrays_of_each_problem_do(data):
    """What all problems share may be left once, and is then the same for all of them."""
    drawn = Drawn(data)
    loop, lead, slots = drawn.loop(), drawn.batch(), drawn.slots
    dtype = data.draw(st.sampled_from([np.float64, np.float32]))
    for slot in (ROWS, SOURCE, COLUMN):
        slots[slot] = slots[slot].astype(dtype)
    whole = [slots[slot] for slot in (ROWS, SOURCE, COLUMN)]
    alone = numpy.in_entries(loop, slots, lead, numpy.InPlace, drawn.known())
    assume(any(x.ndim > 2 for x in whole))
    assert alone is not None
    with np.errstate(all="ignore"):
        found = left_by(alone, slots, lead)
        for at in np.ndindex(*lead):
            for slot, x in zip((ROWS, SOURCE, COLUMN), whole, strict=True):
                slots[slot] = (x[at] if x.ndim > 2 else x).astype(float)
            wanted = left_by(numpy.InPlace(loop, slots, ()), slots)
            assume(all(np.abs(x).max() < 2**20 for x in wanted))
            for x, y in zip(found, wanted, strict=True):
                assert (x.shape[-2:], x.dtype) == (y.shape, dtype)
                np.testing.assert_array_equal(x[at] if x.ndim > 2 else x, y)


# -- programs -------------------------------------------------------------------------------------
A, Q = np.array([[1, 0.1], [0, 0.98]]), 0.01 * np.eye(2)


@inweave.program
def tracked(y: Vector["n"], r: Scalar):
    """A Kalman filter of two states, and what it believes after every observation."""

    def step(carried, seen):
        x, P = carried
        x, P = A @ x, A @ P @ A.T + Q
        K = P[:, 0] * inweave.reciprocal(P[0, 0] + r, (0.1, 20))
        x = x + K * (seen - x[0])
        return (x, P - inweave.outer(K, P[0])), x

    return inweave.scan(step, (np.zeros(2), np.eye(2)), y)[1]


@inweave.program
def observed(z: Vector["n"]):
    """The same with a division; what a step leaves is made by two heads, side by side."""
    F = np.array([[1, 0.1], [0, 1]])

    def step(carried, seen):
        x, P = carried
        x, P = F @ x, F @ P @ F.T + Q
        k = P[:, 0] / inweave.assume(P[0, 0] + 0.5, 1e-2, 100)
        x = x + k * (seen - x[0])
        return (x, P - inweave.outer(k, P[0, :].T)), x

    return inweave.scan(step, (inweave.zeros(2), inweave.eye(2)), z)[1]


@pytest.mark.parametrize("n", [20, 60])
def test_what_steps_leave_side_by_side_is_a_row_of_what_they_leave(n, monkeypatch):
    found = written(monkeypatch)
    net, z = inweave.compile(observed, n=n, optimize="speed"), np.linspace(-1, 1, n)
    np.testing.assert_allclose(net(z=z), observed(z=z), rtol=1e-9, atol=1e-12)
    assert True in found


def by_hand(y, r):
    x, P, found = np.zeros(2), np.eye(2), []
    for seen in y:
        x, P = A @ x, A @ P @ A.T + Q
        K = P[:, 0] / (P[0, 0] + r)
        x, P = x + K * (seen - x[0]), P - np.outer(K, P[0])
        found.append(x)
    return np.array(found)


@inweave.program
def recurrent(W: Matrix["d", "d"], X: Matrix["n", "d"]):
    """A recurrent network, backwards through its prompt."""
    return inweave.scan(
        lambda h, x: (inweave.tanh(W @ h + x, (-6, 6)),) * 2, X[0] * 0, X, reverse=True
    )


@inweave.program
def cubic(B: Matrix["d", "d"], w: Vector["d"], *, steps):
    return inweave.iterate(lambda w: w - 0.1 * (B @ (w * w * w)), w, steps)


def written(monkeypatch):
    """Whether loops that are written from here on are written entry by entry."""
    found = list[bool]()

    def noted(*args):
        made = quickest(*args)
        found.append(isinstance(made, InEntries))
        return made

    quickest = numpy.quickest
    monkeypatch.setattr(numpy, "quickest", noted)
    return found


@pytest.mark.parametrize("mode", ["faithful", "speed"])
def test_a_filter_of_two_states_is_that_by_hand(mode, monkeypatch):
    found, rng = written(monkeypatch), np.random.default_rng(0)
    net = inweave.compile(tracked, n=40, optimize=mode)
    y = rng.normal(size=40)
    np.testing.assert_allclose(net(y=y, r=0.5), by_hand(y, 0.5), rtol=1e-11, atol=1e-13)
    assert mode == "faithful" or True in found  # there, a step adds a row to all that is left
    many = rng.normal(size=(5, 40))
    wanted = [by_hand(y, 0.5) for y in many]
    np.testing.assert_allclose(net(y=many, r=0.5), wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 5, 6, 20])
def test_answers_do_not_depend_on_how_a_loop_is_written(d, monkeypatch):
    rng = np.random.default_rng(d)
    given = {"W": rng.normal(size=(d, d)) / d, "X": rng.normal(size=(30, d))}
    net = inweave.compile(recurrent, n=30, d=d)
    found = net(**given)
    monkeypatch.setattr(numpy, "in_entries", lambda *_: None)
    wanted = inweave.compile(recurrent, n=30, d=d)(**given)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-15)


def test_wide_values_and_other_precisions_stay_in_arrays(monkeypatch):
    found, rng = written(monkeypatch), np.random.default_rng(0)
    for d, dtype, small in ((4, np.float64, True), (4, np.float32, False), (6, np.float64, False)):
        given = {"B": np.eye(d, dtype=dtype), "w": rng.normal(size=d).astype(dtype)}
        answer = inweave.compile(cubic, d=d, steps=20)(**given)
        assert answer.dtype == dtype
        assert found.pop() == small


@pytest.mark.parametrize("largest", [3.0, np.inf, np.nan])
def test_what_leaves_a_domain_is_refused_in_the_same_words(largest, monkeypatch):
    words = []
    for way in (numpy.in_entries, lambda *_: None):
        monkeypatch.setattr(numpy, "in_entries", way)
        net = inweave.compile(recurrent, n=9, d=2)
        X = np.full((9, 2), 0.3)
        X[4, 1] = 4 * largest
        with pytest.raises((DomainError, inweave.InputError)) as error:
            net(W=np.eye(2), X=X)
        words.append(str(error.value))
    assert words[0] == words[1]


def test_what_grows_without_bound_is_told_in_the_same_words(monkeypatch):
    words = []
    for way in (numpy.in_entries, lambda *_: None):
        monkeypatch.setattr(numpy, "in_entries", way)
        net = inweave.compile(cubic, d=2, steps=300)
        with pytest.raises(inweave.DivergenceError) as error, np.errstate(all="ignore"):
            net(B=-np.eye(2), w=np.full(2, 9.0))
        words.append(str(error.value))
    assert words[0] == words[1]


def test_a_matrix_that_no_step_changes_may_have_more_entries(monkeypatch):
    """Coordinate descent: every step reads one row, and changes one number."""
    d, found = 10, written(monkeypatch)

    @inweave.program
    def program(A: Matrix["d", "d"], b: Vector["d"]):
        def sweep(w):
            for j in range(d):
                z = w[j] + 0.1 * (b[j] - A[j] @ w)
                w = w + np.eye(d)[j] * (inweave.soft_threshold(z, 0.01) - w[j])
            return w

        return inweave.iterate(sweep, inweave.zeros(d), 20)

    net = inweave.compile(program, d=d, optimize="speed", verify=False)
    rng = np.random.default_rng(0)
    A, b, w = np.eye(d) + rng.normal(size=(d, d)) / d, rng.normal(size=d), np.zeros(d)
    for _ in range(20):
        for j in range(d):
            z = w[j] + 0.1 * (b[j] - A[j] @ w)
            w[j] = z - np.clip(z, -0.01, 0.01)
    np.testing.assert_allclose(net(A=A, b=b), w, rtol=1e-10)
    assert found[-1]


# -- batches ---------------------------------------------------------------------------------------
@inweave.program
def inverted(A: Matrix["d", "d"]):
    """Newton's iteration: two products of matrices in a step."""
    return inweave.iterate(lambda V: 2 * V - V @ A @ V, 0.2 * inweave.eye(A.shape[0]), 30)


@pytest.mark.parametrize(
    ("d", "batch", "small"), [(2, 2, False), (2, 1000, True), (6, 1000, False)]
)
def test_matrices_of_a_batch_are_entries_where_that_takes_less_time(d, batch, small, monkeypatch):
    found, rng = written(monkeypatch), np.random.default_rng(0)
    A = np.eye(d) + 0.1 * rng.normal(size=(batch, d, d))
    answer = inweave.compile(inverted, d=d)(A=A)
    np.testing.assert_allclose(answer, np.linalg.inv(A), rtol=1e-10, atol=1e-12)
    assert found[-1] == small


@pytest.mark.parametrize("lead", [(2,), (3, 5), (600,)])
def test_problems_of_a_batch_are_answered_as_each_alone(lead):
    rng = np.random.default_rng(1)
    net, y = inweave.compile(tracked, n=20, optimize="speed"), rng.normal(size=(*lead, 20))
    r = rng.uniform(0.4, 0.6, size=lead)
    found = net(y=y, r=r)
    for at in [(0,) * len(lead), tuple(size - 1 for size in lead)]:
        np.testing.assert_allclose(found[at], by_hand(y[at], r[at]), rtol=1e-11, atol=1e-13)
    net, given = inweave.compile(recurrent, n=20, d=2), rng.normal(size=(*lead, 20, 2)) / 2
    W = rng.normal(size=(*lead, 2, 2)) / 2
    every = net(W=W, X=given)
    for at in [(0,) * len(lead), tuple(size - 1 for size in lead)]:
        for x, alone in zip(every, net(W=W[at], X=given[at]), strict=True):
            np.testing.assert_allclose(x[at], alone, rtol=1e-12, atol=1e-14)


@inweave.program
def decayed(x: Vector["n"]):
    return inweave.iterate(lambda x: inweave.relu(0.9 * x), x, 30)


@pytest.mark.parametrize("n", [1, 50])
def test_numbers_of_a_loop_have_its_precision(n):
    x = np.random.default_rng(0).uniform(size=(20, n)).astype(np.float32)
    found, wanted = inweave.compile(decayed, n=n)(x=x), x
    for _ in range(30):
        wanted = np.maximum(0.9 * wanted, 0)
    np.testing.assert_array_equal(found, wanted)


@given(st.sampled_from([(), (1,), (3,), (70,), (2, 3)]), st.integers(1, 4), st.integers(1, 3))
def test_rows_of_all_problems_are_together_and_the_same(lead, height, cols):
    x = np.random.default_rng(0).normal(size=(*lead, height, cols))
    found = rows.by_rows(x)
    np.testing.assert_array_equal(found, x)
    assert rows.rows(found)[-1].flags.c_contiguous
    for k in range(cols):
        np.testing.assert_array_equal(rows.column(x, k), x[..., k : k + 1])
    entries = [rows.entry(x, i, j) for i in range(height) for j in range(cols)]
    np.testing.assert_array_equal(rows.together(entries, height, cols, x.dtype), x)


def test_a_number_over_a_root_is_one_division_whichever_way_they_lie():
    """Newton's square roots: the inverse is of a row, and multiplies a column."""
    column, row, out, inverse = np.full((3, 1), 2.0), np.full((1, 3), 3.0), 5, functions.INVERSE
    body = [
        Line("pointwise", 1, 2, 3, 1, 3),
        Line("flip", 3, 3, 4, 3, 1),
        Line("mul", 0, 4, out, 3, 1),
    ]
    found = numpy.divided(body, {out}, [column, row, inverse, None, None, None])
    assert [line.op for line in found] == ["guard", "flip", "div"]
    assert (found[1].a, found[2].a, found[2].b) == (1, 0, 4)
    kept = numpy.divided(body, {out, 4}, [column, row, inverse, None, None, None])
    assert kept == body
