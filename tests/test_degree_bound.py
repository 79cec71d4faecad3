"""Degrees of loops: bounded in no time, and never by too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector, zeros
from inweave.proof import degree_bound as bounds
from inweave.proof.degree import degree, degree_text


@st.composite
def steps(draw):
    """A step on degrees: of every carried value the largest of some sums, or zero."""
    size = draw(st.integers(1, 3))
    form = st.tuples(st.integers(0, 3), st.lists(st.integers(0, 2), min_size=size, max_size=size))
    forms = draw(st.lists(st.lists(form, max_size=3), min_size=size, max_size=size))
    state = draw(st.lists(st.none() | st.integers(0, 9), min_size=size, max_size=size))

    def value(form, state):
        constant, factors = form
        read = [(c, d) for c, d in zip(factors, state, strict=True) if c]
        return None if any(d is None for _, d in read) else constant + sum(c * d for c, d in read)

    def step(state):
        found = ([value(form, state) for form in each] for each in forms)
        return tuple(max((d for d in each if d is not None), default=None) for each in found)

    return step, tuple(state)


@given(steps(), st.integers(0, 200))
def test_degrees_after_many_steps_are_never_more_than_their_bound(drawn, times):
    step, start = drawn
    true = bounds._times(step, times, start)
    found = bounds._repeated(step, start, times)
    for a, b in zip(true, found, strict=True):
        assert a is None or (b is not None and a <= b)


@inweave.program
def halved(x: Vector["n"], *, times: int):
    return inweave.iterate(lambda x: 0.5 * x, x, times)


@inweave.program
def descended(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, times: int):
    return inweave.iterate(lambda w: w - eta * (X.T @ (X @ w - y)), zeros(X.shape[1]), times)


@inweave.program
def in_turn(s: Scalar, *, times: int):
    return inweave.iterate(lambda a, b: (b, s * a), (s, s), times)[0]


@inweave.program
def nested(s: Scalar, *, times: int):
    def step(x):
        return inweave.iterate(lambda z: s * z, x, times)

    return inweave.iterate(step, s, times)


SIZES = {halved: {"n": 2}, descended: {"n": 3, "d": 2}, in_turn: {}, nested: {}}


@pytest.mark.parametrize("program", SIZES, ids=lambda program: program.name)
def test_where_degrees_move_regularly_the_bound_is_the_degree(program):
    for times in (1, 2, 60, 61, 67):
        traced = program.trace(times=times, **SIZES[program])
        assert (bounds.degree_bound(traced), True) == degree(traced)


def test_a_loop_of_a_million_steps_is_described_without_following_it(monkeypatch):
    calls = 0
    step = bounds._step

    def counted(*args):
        nonlocal calls
        calls += 1
        return step(*args)

    monkeypatch.setattr(bounds, "_step", counted)
    for program, most in {halved: 1, descended: 3 * 10**6, in_turn: 500_001}.items():
        network = inweave.compile(program, times=10**6, verify=False, **SIZES[program])
        assert f"(degree at most {most})" in str(network)
        assert network.degree == most
    assert calls < 1000


def test_degrees_that_multiply_are_bounded():
    @inweave.program
    def cubed(s: Scalar, *, times: int):
        return inweave.iterate(lambda r: r * s * r * r, s, times)

    few, many = (cubed.trace(times=times) for times in (60, 10**6))
    assert degree(few)[0] <= bounds.degree_bound(few) <= degree(few)[0] ** 2
    assert bounds.degree_bound(many) >= 3**10**6
    assert degree_text(degree(many)[0]).endswith(f"e+{len_of(bounds.degree_bound(many)) - 1}")


def len_of(number):
    """Decimal digits, by comparison with powers of ten."""
    low, high = 1, number.bit_length()
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if number >= 10**middle else (low, middle)
    return low


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5, 6, 7, 31, 32, 33])
def test_a_power_is_a_power(power):
    @inweave.program
    def raised(s: Scalar):
        return s**power

    assert float(raised(s=3.0)) == 3.0**power
    assert float(inweave.compile(raised)(s=3.0)) == 3.0**power
    assert degree(raised.trace()) == (power, True)


def test_a_high_power_is_recorded_in_few_operations():
    @inweave.program
    def raised(s: Scalar):
        return s**10**6

    assert len(raised.trace().operations) < 50
