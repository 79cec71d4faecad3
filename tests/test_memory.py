"""Steps with memory: whatever they keep it in, a network is right or refused."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import Vector
from inweave.language import iterate as loops
from tests.calls import calls_of

# Each makes a function that counts its own calls, from 1 on, in another place.


def in_a_list():
    calls = []
    return lambda: (calls.append(None), len(calls))[1]


def in_an_iterator():
    return itertools.count(1).__next__


def in_a_generator():
    calls = (i for i in range(1, 10_000))
    return lambda: next(calls)


def in_an_attribute():
    def counted():
        counted.calls += 1
        return counted.calls

    counted.calls = 0
    return counted


def in_a_default():
    def counted(calls=[0]):  # noqa: B006
        calls[0] += 1
        return calls[0]

    return counted


def in_an_array():
    calls = np.zeros(3)

    def counted():
        calls[1] += 1
        return calls[1]

    return counted


class Counter:
    calls = 0

    def count(self):
        self.calls += 1
        return self.calls


def in_an_object():
    return Counter().count


def in_a_class():
    class Shared:
        calls = 0

    def counted():
        Shared.calls += 1
        return Shared.calls

    return counted


calls_of_a_global = 0


def in_a_global():
    def counted():
        global calls_of_a_global
        calls_of_a_global += 1
        return calls_of_a_global - before

    before = calls_of_a_global
    return counted


def in_random_numbers(seed, draw):
    """How often a number was drawn, read off the generator itself."""
    seed(0)
    order = [draw() for _ in range(200)]
    seed(0)
    return lambda: order.index(draw()) + 1


PLACES = [
    in_a_list, in_an_iterator, in_a_generator, in_an_attribute, in_a_default, in_an_array,
    in_an_object, in_a_class, in_a_global,
    lambda: in_random_numbers(random.seed, lambda: random.random()),
    lambda: in_random_numbers(np.random.seed, lambda: np.random.random()),  # noqa: NPY002
]  # fmt: skip


def looped(kind, step, x, times):
    if kind == "iterate":
        return inweave.iterate(step, x, times)
    return inweave.scan(lambda x, _: (step(x), None), x, inweave.ones(times))[0]


@pytest.mark.parametrize("place", PLACES)
@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from(["iterate", "scan"]))
def test_a_step_that_changes_while_its_loop_runs_is_refused(place, calls, times, kind):
    @inweave.program
    def program(x: Vector["n"]):
        counted = place()
        return looped(kind, lambda x: 2 * x if counted() <= calls else 3 * x, x, times)

    if calls < times:
        with pytest.raises(inweave.ProgramError, match="3 x where 2 x stood"):
            program.trace(n=2)
    elif calls > 1:  # a step is called twice at least
        assert program(x=[1.0, 0.0]).tolist() == [2.0**times, 0.0]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 16))
def test_a_step_that_changes_in_a_loop_inside_a_loop_is_refused(outer, inner, calls):
    @inweave.program
    def program(x: Vector["n"]):
        counted = in_a_list()

        def step(x):
            return 2 * x if counted() <= calls else 3 * x

        return inweave.iterate(lambda x: inweave.iterate(step, x, inner), x, outer)

    if calls < outer * inner:
        with pytest.raises(inweave.ProgramError, match="when it is called again"):
            program.trace(n=2)


def test_what_a_step_keeps_to_itself_once_is_no_memory():
    kept = {}

    @inweave.program
    def program(x: Vector["n"]):
        return inweave.iterate(lambda x: kept.setdefault("factor", 2) * x, x, 10**6)

    assert program.trace(n=2).outputs


def test_a_step_that_only_changes_something_is_called_as_often_as_it_runs():
    seen = []

    @inweave.program
    def program(x: Vector["n"], *, times: int):
        def step(x):
            seen.append(len(seen))
            return 2 * x

        return inweave.iterate(step, x, times)

    program.trace(n=2, times=30)
    assert len(seen) == 30
    program.trace(n=2, times=loops.MOST_CALLS)
    with pytest.raises(inweave.ProgramError, match=r"reads seen, which changes .* 1,000 calls"):
        program.trace(n=2, times=10 * loops.MOST_CALLS)


@pytest.mark.parametrize("times", [1, 2, 10**6])
def test_a_step_that_changes_nothing_is_called_twice(times):
    def step(x):
        return x @ A

    A = np.eye(2)

    @inweave.program
    def program(X: inweave.Matrix["n", 2]):
        return inweave.iterate(step, X, times)

    assert calls_of(step, lambda: program.trace(n=2)) == 2
