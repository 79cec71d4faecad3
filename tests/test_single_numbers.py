"""Loops over single numbers, written over Python's floats, answer bit for bit as numpy does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.errors import DomainError
from inweave.exact.arithmetic import Floats
from inweave.run.domains import OutOfDomain
from inweave.run.libraries import functions, numpy
from inweave.run.libraries.numbers import Numbers
from inweave.run.libraries.parted import parted
from inweave.run.lines.code import Counter, Line, Repeat, Stack
from inweave.run.values.newton import Refined

TIMES = 4
CLOCKS, ROWS, SOURCES, NUMBERS, PHIS, OTHERS, OUTS = (
    (0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11, 12, 13), (14, 15),
)  # fmt: skip
FIRST, SECOND, ONE, PAIR, MORE = 16, 17, 18, 28, 29
TANH = inweave.pointwise(np.tanh, (-2, 2), 1e-2).function
INVERSE = inweave.pointwise(lambda x: 1 / x, (1e-3, 1e3), 1e-1).function
APPLIED = {
    19: functions.POSITIVE,
    20: functions.SIZE,
    21: functions._towards_zero(0.25, Floats()),
    22: replace(functions.INVERSE, guarded=INVERSE, dtype=np.float64),
    23: replace(functions.ROOT, guarded=INVERSE, dtype=np.float64),
    24: functions.applied(TANH, 1, 1, Floats()),  # looks at its domain
    25: functions._table(TANH, 1, 1, Floats()),  # does not
    26: functions.applied(Refined(INVERSE, 2, 1), 1, 1, Floats()),
    27: functions.applied(Refined(INVERSE, 3, 2), 1, 1, Floats()),
}
DIVIDING = (22, 23, 26, 27)
SPECIAL = (0.0, -0.0, 1.0, -0.25, 1e-300, 1e300, np.inf, -np.inf, np.nan)
numbers = st.floats(-4, 4) | st.sampled_from(SPECIAL)


@st.composite
def loops(draw):
    """A loop of numbers, which it reads from rows, from before and from constants."""
    body = [
        Line("pick", ROWS[0], CLOCKS[0], 10, 1, 1),
        Line("pick", ROWS[1], CLOCKS[1], PAIR, 1, 2),
        Line("getitem", PAIR, draw(st.sampled_from((FIRST, SECOND))), 12, 1, 1),
    ]
    filled = [10, 12, *SOURCES, *PHIS]
    for _ in range(draw(st.integers(1, 10))):
        op = draw(st.sampled_from(("add", "sub", "mul", "matmul", "flip", "pointwise")))
        a, b = draw(st.sampled_from(filled)), draw(st.sampled_from((*filled, *NUMBERS)))
        if op == "matmul" and b in NUMBERS:
            op = "mul"
        if op == "flip":
            b = a
        if op == "pointwise":
            b = draw(st.sampled_from(sorted(APPLIED)))
            if b in DIVIDING and draw(st.integers(0, 3)):  # 1 / (1 + a²), and a root of it
                body += [Line("mul", a, a, MORE, 1, 1), Line("add", MORE, ONE, MORE, 1, 1)]
                a = MORE
        body.append(Line(op, a, b, draw(st.sampled_from(OTHERS)), 1, 1))
        filled.append(body[-1].out)
    nexts = tuple(draw(st.sampled_from(filled)) for _ in PHIS)
    inits = tuple(draw(st.sampled_from(SOURCES)) for _ in PHIS)
    stacks = tuple(
        Stack(draw(st.sampled_from(filled)), out, draw(st.booleans()), draw(st.booleans()), 1)
        for out in OUTS
    )
    counters = tuple(Counter(slot, draw(st.booleans()), 1) for slot in CLOCKS)
    return Repeat(TIMES, body, PHIS, inits, nexts, 0, counters, stacks)


def slots_of(values, dtype=np.float64):
    """The slots of a loop: rows and numbers of so many values, functions and indices."""
    values = np.array(values, dtype)
    slots = [None] * 19 + [*APPLIED.values(), None, None]
    slots[ROWS[0]], slots[ROWS[1]] = values[:4, None], values[4:12].reshape(4, 2)
    for slot, x in zip(SOURCES, values[12:14], strict=True):
        slots[slot] = x.reshape(1, 1)
    for slot, x in zip((*NUMBERS, ONE), (*values[14:16], 1.0), strict=True):
        slots[slot] = float(x)
    slots[FIRST], slots[SECOND] = ((..., slice(0, 1), slice(k, k + 1)) for k in range(2))
    return slots


def of_numbers(loop, slots):
    """Whether all of a loop is of numbers."""
    parts = parted(loop, slots)
    return parts is not None and parts.rest is None


def in_parts(loop, slots, lead):
    return numpy.in_parts(loop, slots, lead, numpy.InPlace)


def left_by(writer, loop, slots, lead=()):
    """What a loop leaves, or that it refuses; and no slot that it reads is changed."""
    slots, sources, count = [*slots], (*ROWS, *SOURCES), len(slots)
    before = [slots[slot].copy() for slot in sources]
    try:
        with np.errstate(all="ignore"):
            writer(loop, slots, lead).function()(slots, lead)
    except OutOfDomain:
        return None
    assert len(slots) == count
    for slot, x in zip(sources, before, strict=True):
        np.testing.assert_array_equal(slots[slot], x)
    return [slots[slot] for slot in (*loop.phis, *OUTS)]


@given(loop=loops(), values=st.lists(numbers, min_size=16, max_size=16))
def test_floats_answer_bit_for_bit_as_arrays_do_and_refuse_what_they_refuse(loop, values):
    slots = slots_of(values)
    loop = replace(loop, body=numpy.divided(loop.body, set(loop.nexts), slots))
    assert of_numbers(loop, slots)
    found = left_by(lambda loop, slots, _: Numbers(loop, slots), loop, slots)
    wanted = left_by(numpy.InPlace, loop, slots)
    assert (found is None) == (wanted is None)
    for x, y in zip(found or (), wanted or (), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(x, y)  # NaN too; of zeros numpy leaves the sign open


@given(loop=loops())
def test_single_precision_and_batches_stay_in_arrays(loop):
    values = np.linspace(-1, 1, 16)
    assert of_numbers(loop, slots_of(values))
    assert not of_numbers(loop, slots_of(values, np.float32))
    batch = slots_of(values)
    batch[ROWS[0]] = np.stack([batch[ROWS[0]]] * 3)
    assert not of_numbers(loop, batch)


SEVERAL = 3  # problems of a batch
seen = {"parted": 0}


@given(
    loop=loops(),
    values=st.lists(numbers, min_size=16, max_size=16),
    batched=st.sets(st.sampled_from((*ROWS, *SOURCES)), min_size=1, max_size=3),
)
def test_numbers_beside_a_batch_answer_bit_for_bit_in_a_loop_of_their_own(loop, values, batched):
    slots = slots_of(values)
    for slot in batched:
        slots[slot] = np.stack([slots[slot] * scale for scale in (1.0, -0.5, 2.0)])
    lead = (SEVERAL,)
    divided = replace(loop, body=numpy.divided(loop.body, set(loop.nexts), slots))
    seen["parted"] += parted(divided, slots) is not None
    found = left_by(in_parts, divided, slots, lead)
    wanted = left_by(numpy.InPlace, divided, slots, lead)
    assert (found is None) == (wanted is None)
    for x, y in zip(found or (), wanted or (), strict=True):
        np.testing.assert_array_equal(x, y)


def test_loops_were_parted_in_the_test_before():
    test_numbers_beside_a_batch_answer_bit_for_bit_in_a_loop_of_their_own()
    assert seen["parted"] > 0


# -- whole programs --------------------------------------------------------------------------------
@inweave.program
def mean(x: Vector["n"], a: Scalar):
    return inweave.scan(lambda m, t: ((1 - a) * m + a * t,) * 2, x[0], x)[1]


@inweave.program
def last_mean(x: Vector["n"], a: Scalar):
    m = x[0]
    for i in range(1, len(x)):
        m = (1 - a) * m + a * x[i]
    return m


@inweave.program
def filtered(x: Vector["n"], a: Scalar):
    def step(carried, t):
        y, z = carried
        new = 0.5 * t - a * y - 0.3 * z
        return (new, y), new

    return inweave.scan(step, (0 * a, 0 * a), x, reverse=True)[1]


@inweave.program
def kalman(x: Vector["n"], a: Scalar):
    def step(carried, t):
        m, p = carried
        p = p + 0.1
        k = p * inweave.reciprocal(p + a, domain=(0.1, 10))
        return (m + k * (t - m), p - k * p), m

    return inweave.scan(step, (0 * a, 0 * a + 1), x)[1]


@inweave.program
def alarms(x: Vector["n"], a: Scalar):
    def step(carried, t):
        u, v = carried
        u, v = inweave.relu(u + t - a), inweave.relu(v - t - a)
        return (u, v), (u, v)

    return inweave.scan(step, (0 * a, 0 * a), x)[1]


@inweave.program
def neuron(x: Vector["n"], a: Scalar):
    def step(m, t):
        m = inweave.tanh(a * m + t, domain=(-4, 4))
        return m, m

    return inweave.scan(step, 0 * a, x)[1]


@inweave.program
def two_weights(X: Matrix["n", 2], a: Scalar):
    def step(carried, x):
        u, v = carried
        error = 1 - u * x[0] - v * x[1]
        return (u + a * error * x[0], v + a * error * x[1]), error

    return inweave.scan(step, (0 * a, 0 * a), X)[1]


@inweave.program
def chaos(x: Scalar, a: Scalar):
    return inweave.iterate(lambda x: 3.7 * a * x * (1 - x), x, 100)


PROGRAMS = (mean, last_mean, filtered, kalman, alarms, neuron, two_weights, chaos)


def made(program):
    """A network, and what it may be given."""
    rng, n = np.random.default_rng(0), 25
    if program is chaos:
        return inweave.compile(program, optimize="speed"), {"x": 0.3, "a": 0.9}
    data = {"X": rng.normal(size=(n, 2))} if program is two_weights else {"x": rng.normal(size=n)}
    return inweave.compile(program, optimize="speed", n=n), data | {"a": 0.4}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_programs_over_numbers_run_over_floats_and_answer_as_in_arrays(program, monkeypatch):
    network, data = made(program)
    written = list[bool]()

    def noted(loop, slots):
        written.append(of_numbers(loop, slots))
        return parted(loop, slots)

    monkeypatch.setattr(numpy, "parted", noted)
    found = network(**data)
    assert set(written) == {True}
    monkeypatch.setattr(numpy, "parted", lambda *_: None)
    again, _ = made(program)
    for x, y in zip(np.atleast_1d(found), np.atleast_1d(again(**data)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_what_leaves_a_domain_is_refused_in_the_same_words(monkeypatch):
    words = []
    for floats in (True, False):
        if not floats:
            monkeypatch.setattr(numpy, "parted", lambda *_: None)
        for program, data in ((kalman, {"a": 50.0}), (neuron, {"a": 0.4})):
            network, given = made(program)
            if program is neuron:
                given["x"][7] = 9.0
            with pytest.raises(DomainError) as error:
                network(**given | data)
            words.append(str(error.value))
    assert words[:2] == words[2:]


def test_what_grows_without_bound_is_told_as_it_is_in_arrays(monkeypatch):
    words = []
    for floats in (True, False):
        if not floats:
            monkeypatch.setattr(numpy, "parted", lambda *_: None)
        network, _ = made(chaos)
        with pytest.raises(inweave.InweaveError) as error, np.errstate(all="ignore"):
            network(x=30.0, a=2.0)
        words.append(str(error.value))
    assert words[0] == words[1]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_batch_in_arrays_answers_as_each_prompt_does_in_floats(program):
    network, data = made(program)
    prompts = [{name: x * scale for name, x in data.items()} for scale in (1.0, 0.5, 0.75)]
    batch = {name: np.stack([prompt[name] for prompt in prompts]) for name in data}
    alone = [np.asarray(network(**prompt)) for prompt in prompts]
    together = np.asarray(network(**batch))
    if program is alarms:  # two answers
        together = np.moveaxis(together, 1, 0)
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-14)
