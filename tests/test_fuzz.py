"""Random programs: each compiles and is proved equal, or is refused. No other outcome."""

from __future__ import annotations

from collections import Counter
from functools import reduce

import numpy as np
import pytest

import inweave
from inweave.model.dense import forward
from inweave.run.plan import Plan
from tests.fuzz import (
    CLOSE,
    EQUAL,
    FUNCTIONS,
    TARGETS,
    WAYS,
    attempt,
    close_in_floats,
    equal_in_rationals,
    fuzz,
)
from tests.programs import Recipe

COUNT, SEED = 300, 20_260


@pytest.fixture(scope="module")
def outcome() -> tuple[Counter[str], list[str]]:
    return fuzz(COUNT, SEED)


def test_300_random_programs_compile_and_verify_or_are_refused(outcome):
    outcomes, failures = outcome
    assert not failures, "\n\n".join(failures[:3])
    decided = sum(n for name, n in outcomes.items() if name not in (EQUAL, FUNCTIONS, CLOSE))
    assert decided >= COUNT


def test_most_random_programs_do_compile_and_are_checked_in_rationals_too(outcome):
    outcomes, _ = outcome
    assert outcomes["compiled"] >= 0.9 * COUNT
    assert outcomes[EQUAL] >= 0.8 * COUNT
    assert outcomes[FUNCTIONS] >= 0.1 * COUNT
    assert outcomes[CLOSE] >= 0.4 * COUNT


def test_the_fuzzer_reports_a_compiler_that_crashes(monkeypatch):
    def crash(*_args, **_kwargs):
        raise KeyError("not a refusal")

    monkeypatch.setattr(inweave, "compile", crash)
    outcomes, failures = fuzz(20, 1)
    assert outcomes["FAILED"] == len(failures) > 0
    assert "KeyError" in failures[0]


def test_a_network_with_functions_that_differs_is_seen_in_rationals(monkeypatch):
    recipe = Recipe((("x", "vector", (2, 1)),), (("relu", lambda p: inweave.relu(p[0])),), (1,))
    _, network = attempt(recipe, "elsa", "faithful")
    assert equal_in_rationals(network)
    monkeypatch.setattr(
        "tests.fuzz.forward", lambda net, H, arithmetic: forward(net, -H, arithmetic)
    )
    assert not equal_in_rationals(network)


def test_an_answer_that_keeps_the_rounding_of_something_larger_is_seen_in_floats(monkeypatch):
    """1e-16 is a rounding error of one, and all there is of an answer about 1e-30."""
    recipe = Recipe((("x", "vector", (2, 1)),), (("1e-30 * x", lambda p: 1e-30 * p[0]),), (1,))
    _, network = attempt(recipe, "elsa", "faithful")
    assert close_in_floats(network)
    answers = Plan.answers
    monkeypatch.setattr(
        Plan, "answers", lambda *given: {k: x + 1e-16 for k, x in answers(*given).items()}
    )
    assert not close_in_floats(network)


def shaped(name, kind, shape):
    return (name, kind, shape)


# Programs that earlier compilers got wrong, each shrunk to what mattered.
REGRESSIONS = {
    "a vector times numbers, entry by entry in a loop": Recipe(
        (shaped("y", "vector", (2, 1)), shaped("s", "scalar", (1, 1))),
        (("loop", lambda p: inweave.iterate(lambda c: p[0] * (p[1] * (p[1] * c)), p[0], 2)),),
        (2,),
    ),
    "a number that an inner loop spreads over a vector": Recipe(
        (shaped("v", "vector", (4, 1)), shaped("s", "scalar", (1, 1))),
        (
            (
                "loops",
                lambda p: inweave.iterate(
                    lambda a, c: inweave.iterate(
                        lambda a, c: (a - c * inweave.ones(4), c - p[1] * c), (a, c - a.sum()), 5
                    ),
                    (p[0], p[1]),
                    2,
                )[0],
            ),
        ),
        (2,),
    ),
    "a polynomial by Horner's rule": Recipe(
        (shaped("x", "vector", (3, 1)), shaped("c", "vector", (5, 1))),
        (("horner", lambda p: reduce(lambda q, j: q * p[0] + p[1][j], range(4), p[0])),),
        (2,),
    ),
    "an entry of a row vector times a matrix": Recipe(
        (shaped("A", "matrix", (2, 2)), shaped("B", "matrix", (2, 1))),
        (("B.T[0, 0] * A", lambda p: p[1].T[0:1, 0:1] * p[0]),),
        (2,),
    ),
    "a carried row vector": Recipe(
        (shaped("A", "matrix", (1, 2)),),
        (
            ("loop", lambda p: inweave.iterate(lambda s: p[0] + 0 * s, p[0], 1)),
            ("A @ loop.T", lambda p: p[0] @ p[1].T),
        ),
        (2,),
    ),
    "an entry of a transposed vector": Recipe(
        (shaped("x", "vector", (3, 1)),), (("x.T[0, 2]", lambda p: p[0].T[0, 2]),), (1,)
    ),
    "a carried value that nobody needs, fed by another loop": Recipe(
        (shaped("A", "matrix", (1, 2)),),
        (
            ("first", lambda p: inweave.iterate(lambda s: 2 * s, p[0], 2)),
            (
                "second",
                lambda p: inweave.iterate(lambda s, t: (p[1] + s, t + p[0]), (p[0], p[0]), 2)[1],
            ),
        ),
        (2,),
    ),
    "a symmetric state in no family of commuting matrices": Recipe(
        (shaped("A", "matrix", (2, 2)), shaped("S", "matrix", (2, 2))),
        (
            (
                "loop",
                lambda p: inweave.iterate(
                    lambda P: p[0] @ P @ p[0].T + p[1] @ p[1].T, inweave.eye(2), 3
                ),
            ),
            ("loop @ A", lambda p: p[2] @ p[0]),
        ),
        (3,),
    ),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_what_was_once_wrong_stays_right(name):
    for target in TARGETS:
        for way in WAYS:
            outcome, network = attempt(REGRESSIONS[name], target, way)
            assert outcome == "compiled"
            assert network is not None
            assert equal_in_rationals(network)


def test_a_recipe_is_replayed_the_same_each_time():
    recipe = REGRESSIONS["a carried row vector"]
    A = np.array([[1.0, 2.0]])
    assert np.array_equal(recipe.program()(A=A), recipe.program()(A=A))
