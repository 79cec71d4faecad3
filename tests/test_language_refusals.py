"""What a program cannot mean is refused, where Python by itself would carry on with something else.

Comparisons that would compare objects, traces of a function whose surroundings have changed, numpy
functions that know nothing of expressions, names that weft needs itself.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from weft import Scalar, Vector
from weft.errors import ProgramError, VerificationError


def refused(function, error=ProgramError, **sizes):
    """The message with which a program is refused, which names the user's own line."""
    with pytest.raises(error) as caught:
        weft.compile(weft.program(function), **sizes)
    message = str(caught.value)
    assert "test_language_refusals.py:" in message, message
    assert "object at 0x" not in message
    return message


# -- comparisons of values that are not known ------------------------------------------------------
def equal(x: Scalar):
    return 5 + x if x == 0 else 2 * x


def equal_reflected(x: Scalar):
    return 5 + x if 0 == x else 2 * x  # noqa: SIM300


def equal_to_numpy(x: Scalar):
    return 5 + x if np.float64(0) == x else 2 * x


def equal_to_an_array(x: Vector["n"]):
    return 3 * x if (np.zeros(2) == x) else 2 * x


def unequal(x: Scalar):
    return 5 + x if x != 0 else 2 * x


def equal_to_another(x: Scalar, y: Scalar):
    return x if x == y else y


def among(x: Scalar):
    return 5 + x if x in (0, 1) else 2 * x


def among_a_set(x: Scalar):
    return 5 + x if x in {0, 1} else 2 * x


def chosen(x: Scalar):
    return {0: 5 + x}.get(x, 2 * x)


def place_in_a_list(x: Scalar, y: Scalar):
    return [1, 2][[y, x].index(x)] * x


def contains(x: Vector["n"]):
    return 3 * x if 0 in x else 2 * x


def matched(x: Scalar):
    match x:
        case 0:
            return 5 + x
        case _:
            return 2 * x


@pytest.mark.parametrize(
    "function",
    [
        equal,
        equal_reflected,
        equal_to_numpy,
        equal_to_an_array,
        unequal,
        equal_to_another,
        among,
        among_a_set,
        chosen,
        place_in_a_list,
        contains,
        matched,
    ],
    ids=lambda f: f.__name__,
)
def test_a_comparison_by_value_is_refused_instead_of_comparing_objects(function):
    sizes = dict.fromkeys(weft.program(function).size_names, 2)
    message = refused(function, **sizes)
    assert re.search(r"cannot (compare|look up|ask)", message)
    assert "known while a program is traced" in message


def test_the_same_object_may_be_asked_for():
    def program(x: Scalar, y: Scalar):
        assert x is not y
        assert x in [x, y]  # the same object has the same value
        return {id(x): x + y}[id(x)]

    assert weft.compile(weft.program(program))(x=1.0, y=2.0) == 3.0


def test_constants_outside_a_program_are_compared_as_little():
    with pytest.raises(ProgramError, match="cannot compare"):
        _ = weft.eye(2) == weft.eye(2)


# -- what stands around a program may change -------------------------------------------------------
FACTOR = 1.0


def helper(x):
    return FACTOR * x


@pytest.fixture
def factor(monkeypatch):
    return lambda value: monkeypatch.setitem(globals(), "FACTOR", value)


def test_a_global_that_changes_changes_program_and_network(factor):
    @weft.program
    def program(x: Vector["n"]):
        return helper(x)

    x = np.array([1.0, 2.0])
    first = weft.compile(program, n=2)
    assert (first(x=x) == x).all()
    assert (program(x=x) == x).all()
    factor(7.0)
    assert (program(x=x) == 7 * x).all()
    assert (weft.compile(program, n=2)(x=x) == 7 * x).all()
    with pytest.raises(VerificationError, match="differ"):
        first.verify()
    with pytest.raises(VerificationError, match="differ"):
        weft.verify(program, first)
    factor(1.0)
    assert first.verify().program == "program"


def test_a_closure_or_an_array_that_changes_is_seen():
    A, k = np.eye(2), 2.0

    @weft.program
    def program(x: Vector["n"]):
        return A @ (k * x)

    x = np.array([1.0, 2.0])
    assert (weft.compile(program, n=2)(x=x) == 2 * x).all()
    A[0, 0], k = 5.0, 3.0
    expected = np.array([15.0, 6.0])
    assert (program(x=x) == expected).all()
    assert (weft.compile(program, n=2)(x=x) == expected).all()


def test_a_program_that_is_another_one_each_time_is_not_certified():
    rng = np.random.default_rng(0)

    @weft.program
    def program(x: Scalar):
        return float(rng.normal()) * x

    with pytest.raises(VerificationError, match="differ"):
        weft.compile(program)
