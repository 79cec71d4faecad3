"""Degrees of loops: bounded in no time, and never by too little."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector, zeros
from inweave.exact.field import Field, random_prime
from inweave.proof import degree_bound as bounds
from inweave.proof.degree import _along_ray, degree, degree_text, least_degree, lower_bound


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


@st.composite
def programs(draw):
    """A loop of scalars: each becomes a sum of products of them, of inputs and of signs."""
    size = draw(st.integers(1, 2))
    term = st.tuples(st.sampled_from([1, -1, 2]), st.integers(0, 1), st.integers(0, size))
    sums = draw(st.lists(st.lists(term, min_size=1, max_size=3), min_size=size, max_size=size))

    @inweave.program
    def drawn(r: Scalar, *, times: int):
        def step(*state):
            read = (*state, r)
            return tuple(
                sum((c * (r * read[i] if k else read[i]) for c, k, i in each), 0 * r)
                for each in sums
            )

        found = inweave.iterate(step, (r,) * size if size > 1 else r, times)
        return found[0] if size > 1 else found

    return drawn


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
        assert f" (degree {most}: lower bound " in str(network)
        assert network.degree == most
    assert calls < 1000


@inweave.program
def cancels(s: Scalar, r: Scalar, *, times: int):
    """What is carried beside s cancels in every step, or in every other one."""

    def step(a, b):
        return s * b - r * b + r * b, s * a

    return inweave.iterate(step, (s, s), times)[0]


@inweave.program
def alternates(s: Scalar, *, times: int):
    return s * s + inweave.iterate(lambda x: 0 - x, s * s, times)


@inweave.program
def apart(x: Vector["n"], *, times: int):
    """Supports that never meet: the product of two units is zero."""
    first, second = (inweave.constant(unit) for unit in ([1.0, 0.0], [0.0, 1.0]))
    return inweave.iterate(lambda y: y + (first @ second) * x, x, times)


@pytest.mark.parametrize("program", [cancels, alternates, apart], ids=lambda program: program.name)
@pytest.mark.parametrize("times", [1, 2, 3, 60, 61])
def test_a_degree_that_is_said_to_be_reached_is(program, times):
    traced = program.trace(times=times, **({"n": 2} if program is apart else {}))
    most, exact = bounds.leading(traced)
    assert least_degree(traced) <= most
    if exact:
        assert along_ray(traced) == most


def along_ray(traced):
    """The degree from values of the program alone."""
    rng = np.random.default_rng(0)
    field = Field(random_prime(rng))
    inputs = {s.name: field.random((s.rows, s.cols), rng) for s in traced.inputs}
    return _along_ray(traced, inputs, 130, field)


@settings(max_examples=30)
@given(programs(), st.integers(1, 70))
def test_signs_tell_degrees_that_are_reached(make, times):
    traced = make.trace(times=times)
    most, exact = bounds.leading(traced)
    found = along_ray(traced)
    assert found <= most
    if exact:
        assert found == min(most, 130)


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
    net = inweave.compile(raised)
    assert float(net(s=3.0)) == 3.0**power
    assert net.depth == math.ceil(math.log(power, 3) - 1e-9)
    assert degree(raised.trace()) == (power, True)


def test_a_high_power_is_recorded_in_few_operations():
    @inweave.program
    def raised(s: Scalar):
        return s**10**6

    assert len(raised.trace().operations) < 50


@given(st.integers(0, 400), st.integers(-2, 2), st.integers(0, 3000))
def test_the_bound_of_layers_is_the_logarithm_rounded_up(power, more, small):
    for high in (max(0, 3**power + more), small):
        layers = lower_bound(high)
        assert 3**layers >= high
        assert layers == 0 or 3 ** (layers - 1) < high
