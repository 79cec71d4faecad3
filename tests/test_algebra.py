"""The proof by algebra: what it is claimed to show it shows.

That it shows nothing that is not so is tested with changed networks, in tests/test_mutation.py.
"""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.exact.constants import Dense, Ones, Shift, identity, select, simplest
from inweave.gallery import ridge_gd as ridge
from inweave.proof import algebra, words
from inweave.proof.algebra import NotProved, prove
from inweave.proof.words import Alphabet
from tests.cases import CASES
from tests.ways import WAYS, compiled


@pytest.mark.parametrize("way", [way for way in WAYS if way != "collapsed"])
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.usefixtures("compiled_once")
def test_every_case_with_its_loops_kept_is_proved(case, target, way):
    net = compiled(case.program, way, target, verify=False, **case.sizes)
    assert prove(net.origin.traced, net).every_step


@pytest.mark.parametrize("made", [inweave.paper.ridge_lsa, inweave.paper.ridge_elsa])
def test_the_papers_networks_are_proved_for_any_number_of_steps(made):
    net = made(7, 3, 10**6)
    assert prove(ridge.trace(n=7, d=3, steps=10**6), net).every_step


@pytest.mark.parametrize(
    ("n", "d", "sizes"), [(7, 3, ("n", "d")), (3, 3, ()), (1, 4, ("d",)), (4, 1, ("n",))]
)
def test_ridge_is_proved_for_every_size_that_no_other_size_is_alike(n, d, sizes):
    net = inweave.compile(ridge, n=n, d=d, steps=50, verify=False)
    assert prove(net.origin.traced, net).sizes == sizes


def test_a_proof_that_counts_ones_is_about_one_size():
    """1ᵀ1 is n: a coefficient of the network, and nothing that it writes down follows n."""

    @inweave.program
    def counted(x: Vector["n"], s: Scalar):
        return s * (inweave.ones(1, 7) @ inweave.ones(7, 1)) * x

    net = inweave.compile(counted, n=7, verify=False)
    assert prove(net.origin.traced, net).sizes == ()


def test_a_proof_that_writes_constants_out_is_about_one_size():
    """Whether pieces of an identity add up to it depends on where it ends."""

    @inweave.program
    def pieces(x: Vector["n"]):
        top, bottom = x[:3], x[3:]
        return inweave.vstack([top, bottom])

    net = inweave.compile(pieces, n=7, verify=False)
    assert prove(net.origin.traced, net).sizes == ()


@settings(max_examples=60)
@given(st.data())
def test_products_and_transposes_of_chains_are_those_of_their_letters(data):
    """They are put together at their cuts; letter by letter it is the same word."""
    alphabet, sizes = Alphabet(), [data.draw(st.integers(1, 3)) for _ in range(8)]
    letters = []
    for rows, cols in itertools.pairwise(sizes):
        kind = data.draw(st.sampled_from(["symbol", "turned", "shift", "ones"]))
        if kind in ("symbol", "turned"):
            value = alphabet.symbol(data.draw(st.sampled_from("AB")), rows, cols)
            value = alphabet.symbol("C", cols, rows).T if kind == "turned" else value
        else:
            value = alphabet.constant(Shift(rows, cols, 0, cols - 1, 1))
            value = alphabet.constant(Ones(rows, cols)) if kind == "ones" else value
        letters.append(next(iter(value.terms))[1] if value.terms else ())
    at = data.draw(st.integers(0, len(letters)))
    before, after = (
        alphabet.written(tuple(itertools.chain(*part))) for part in (letters[:at], letters[at:])
    )
    if before is not None and after is not None:
        a, b = before[1][1], after[1][1]
        assert alphabet.joined(a, b) == alphabet.written((*a, *b))
        assert alphabet.turned(a) == alphabet.written(tuple((n, not f) for n, f in reversed(a)))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-3, 3)), max_size=8))
def test_words_that_differ_in_numbers_at_one_end_are_gathered(drawn):
    """A sum of K x M keeps its value; those with one M, or else with one K, are one word."""
    alphabet, rng = Alphabet(), np.random.default_rng(0)
    x = alphabet.symbol("x", 3, 3)
    some = [alphabet.constant(Dense(rng.normal(size=(3, 3)))) for _ in range(3)]
    some.append(alphabet.constant(identity(3)))
    parts = [(c, some[i] @ x @ some[j]) for i, j, c in drawn]
    total = alphabet.total(3, 3, parts)
    found = total.gathered()
    assert (total - found).is_zero()
    assert len(found.terms) <= len({j for _, j, _ in drawn})
    assert not (total - found + x).is_zero()


@settings(max_examples=60)
@given(st.data())
def test_a_product_is_the_sum_of_its_entries_in_their_places_and_of_nothing_else(data):
    """Also beside a scalar, transposed, where a row is a matrix, and with numbers around it."""
    rows, inner, cols = (data.draw(st.integers(least, 3)) for least in (1, 2, 1))
    alphabet, rng = Alphabet(), np.random.default_rng(data.draw(st.integers(0, 9)))
    a, b = alphabet.symbol("a", rows, inner), alphabet.symbol("b", inner, cols)
    v = alphabet.symbol("v", inner, 1)
    K, M = (np.eye(k) + np.triu(rng.integers(-2, 3, size=(k, k)), 1) for k in (rows, cols))
    whole = alphabet.constant(simplest(K)) @ a @ b @ alphabet.constant(simplest(M))
    scalar = v.T @ v if data.draw(st.booleans()) else alphabet.constant(identity(1))
    changed = data.draw(st.sampled_from([0, 0, 1, -2]))
    entries = []
    for i, j, k, m in itertools.product(range(rows), range(cols), range(rows), range(cols)):
        between = unit(alphabet, rows, k).T @ (a @ b) @ unit(alphabet, cols, m)
        entry = between.T if data.draw(st.booleans()) else between
        here = unit(alphabet, rows, i) @ entry @ unit(alphabet, cols, j).T
        entries.append((int(K[i, k] * M[m, j]), here.scaled(scalar)))
    entries.append((changed, entries[-1][1]))
    total = alphabet.total(rows, cols, entries)
    assert (whole.scaled(scalar) - total).is_zero() == (changed == 0)
    assert (total.T - whole.scaled(scalar).T).is_zero() == (changed == 0)


def unit(alphabet, size, i):
    """The i-th unit vector."""
    return alphabet.constant(select(size, i, i + 1))


@pytest.mark.parametrize("steps", [1, 7, 60])
def test_loops_that_multiply_by_matrices_of_numbers_are_proved(steps):
    """Every step has one word, however many powers it is a sum of."""
    L = 0.1 * (np.eye(5, k=1) + np.eye(5, k=-1) - 2 * np.eye(5))

    @inweave.program
    def heat(u: Vector["n"], c: Vector["n"]):
        return inweave.iterate(lambda u: u + L @ u + c, u, steps)

    net = inweave.compile(heat, n=5, optimize="depth")
    assert (net.depth, net.certificate.method) == (1, "algebra")
    entries = 4 * L.size  # of the numbers of a step, which are counted as well
    assert prove(heat.trace(n=5), net).letters < (100 + entries) * (steps + 1)

    @inweave.program
    def more(u: Vector["n"], c: Vector["n"]):
        return inweave.iterate(lambda u: u + L @ u + c, u, steps + 1)

    with pytest.raises(NotProved):
        prove(more.trace(n=5), net)


def test_what_is_written_out_has_a_limit():
    @inweave.program
    def powers(A: Matrix["n", "n"], B: Matrix["n", "n"]):
        x = A + B
        for i in range(12):
            x = x @ (A + (i + 2) * B)
        return x

    net = inweave.compile(powers, n=3, optimize="depth", verify=False)  # without the loop
    with pytest.raises(NotProved, match="too many words"):
        prove(net.origin.traced, net)


@pytest.mark.parametrize(("n", "many"), [(8, False), (32, True)])
def test_entries_with_too_many_words_are_given_up_before_the_network_is_read(n, many):
    """A quotient is refined by Newton's method: up to 15 words in each of n² entries."""

    @inweave.program
    def quotients(A: Matrix["n", "n"], B: Matrix["n", "n"]):
        return A / inweave.assume(B, 0.1, 10)

    outputs = quotients.trace(n=n).outputs.values()
    if not many:
        algebra.check_entries([*outputs], ())
        return
    with pytest.raises(words.TooManyWords):
        algebra.check_entries([*outputs], ())


@pytest.mark.parametrize("module", [algebra, words])
def test_the_checker_uses_no_code_of_the_compiler_or_of_what_runs_networks(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        name = getattr(node, "module", None) or ""
        assert not name.startswith(("inweave.compiler", "inweave.run"))
