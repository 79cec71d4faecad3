"""Heads that were taken apart are put together again, and the network stays what it is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import AttentionLayer, DenseProjection, Head, Matrix, Network, Vector
from inweave.circuits import disguise
from inweave.exact.arithmetic import Rationals
from inweave.model.dense import forward
from inweave.model.prompt import by_name
from inweave.proof.algebra import NotProved
from inweave.proof.merged import echelon, factored, gathered, in_runs, is_dense, merged
from tests.random_networks import networks

RATIONALS = Rationals()
SIZE = 3
numbers = st.integers(-2, 2).map(lambda n: Fraction(n, 2))
some_entries = st.dictionaries(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)),
    numbers.filter(bool),
    max_size=4,
)


@inweave.program
def chain(A: Matrix["n", "n"], v: Vector["n"]):
    return A @ (A.T @ (A @ (A.T @ (A @ v)))) + 2 * v


def full(entries: Any) -> Any:
    matrix = np.full((SIZE, SIZE), Fraction(0), object)
    for at, x in entries.items():
        matrix[at] = x
    return matrix


def total(terms: Any) -> Any:
    """The sum of the tensor products."""
    zero = np.zeros((SIZE,) * 4, int).astype(object)
    return sum((np.multiply.outer(full(A), full(v)) for A, v in terms), zero)


def answers(network: Any, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    drawn = {s.name: rng.integers(-2, 3, (s.rows, s.cols)) / 2 for s in network.inputs}
    H = network.filled({name: RATIONALS.array(x) for name, x in drawn.items()}, RATIONALS)
    return by_name(network.readout(forward(network, H, RATIONALS), RATIONALS))


# -- terms -----------------------------------------------------------------------------------------
@settings(max_examples=40)
@given(st.lists(st.tuples(some_entries, some_entries), max_size=6))
def test_the_sum_of_terms_stays(terms: Any):
    found = gathered([*terms, *terms[:2]])
    assert (total(found) == total([*terms, *terms[:2]])).all()
    assert len(found) <= len(terms)
    assert all(A and v for A, v in found)


@given(some_entries, some_entries, some_entries, numbers)
def test_parts_of_one_head_are_one(A: Any, v: Any, w: Any, c: Fraction):
    whole = [(A, v)] if A and v else []
    shares = {at: x * c for at, x in v.items()}, {at: x * (1 - c) for at, x in v.items()}
    assert len(gathered([(A, share) for share in shares])) == len(whole)
    back = {at: -2 * x for at, x in w.items()}
    assert len(gathered([(w, v), (A, v), (back, {at: x / 2 for at, x in v.items()})])) <= 1


@given(some_entries)
def test_independent_columns_make_all_others(A: Any):
    columns, rows = echelon(A)
    E = np.full((len(rows), SIZE), Fraction(0), object)
    for k, row in enumerate(rows):
        E[k, list(row)] = list(row.values())
    assert (full(A)[:, columns] @ E == full(A)).all()
    assert len(columns) == np.linalg.matrix_rank(full(A).astype(float))


# -- networks --------------------------------------------------------------------------------------
@settings(max_examples=20)
@given(networks(repeats=2, modules_at_most=2), st.integers(0, 99))
def test_merged_networks_give_the_same_answers_exactly(net: Any, seed: int):
    expected, together = answers(net, seed), merged(net)
    for found in (together, in_runs(together)):
        assert not is_dense(found)
        for name, value in answers(found, seed).items():
            assert (value == expected[name]).all()


@settings(max_examples=20)
@given(networks(repeats=2, modules_at_most=2), st.integers(0, 99))
def test_heads_that_are_factored_are_as_many_and_answer_the_same(net: Any, seed: int):
    expected, found = answers(net, seed), factored(net)
    assert [len(x.heads) for x in attention(found)] == [len(x.heads) for x in attention(net)]
    for name, value in answers(found, seed).items():
        assert (value == expected[name]).all()


def attention(network: Network) -> list[AttentionLayer]:
    return [layer for layer in network.layers if isinstance(layer, AttentionLayer)]


def in_full(network: Network) -> Network:
    """The network with every projection as full matrices."""

    def changed(layer: Any, _: str) -> Any:
        def dense(p: Any) -> DenseProjection:
            return DenseProjection(p.weight(network.layout), p.bias(network.layout))

        return replace(layer, heads=tuple(Head(*map(dense, h.projections)) for h in layer.heads))

    return replace(network, modules=tuple(module.map(changed) for module in network.modules))


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_full_matrices_are_proved_at_their_one_size(target: str):
    net = inweave.compile(chain, n=3, target=target)
    assert net.certificate is not None
    assert net.certificate.free
    found = in_full(net).verify()
    assert found.method == "algebra"
    assert not found.free


def test_a_disguise_has_as_many_heads_as_the_network_when_it_is_merged():
    net = inweave.compile(chain, n=3)
    hidden = disguise(net, 1, 2)
    assert hidden.heads > 2 * net.heads
    assert merged(hidden).heads <= net.heads


def test_a_wrong_number_in_one_part_of_a_head_is_seen():
    net = disguise(inweave.compile(chain, n=2), 0.5, 0)
    assert net.verify().is_proof
    (first, *modules) = net.modules

    def changed(layer: Any, _: str) -> AttentionLayer:
        head, *others = layer.heads
        W = np.array(head.value.W)
        W[0, 0] += Fraction(1, 2**40)
        return replace(layer, heads=(replace(head, value=replace(head.value, W=W)), *others))

    with pytest.raises(inweave.VerificationError):
        replace(net, modules=(first.map(changed), *modules)).verify()


def test_matrices_of_many_digits_are_given_up_at_once():
    net = inweave.compile(chain, n=20, verify=False)
    rng = np.random.default_rng(0)

    def drawn(layer: Any, _: str) -> AttentionLayer:
        shapes = ((net.width, net.width), (net.tokens, net.width))
        parts = (DenseProjection(*(rng.normal(size=s) for s in shapes)) for _ in range(3))
        return replace(layer, heads=(Head(*parts),))

    with pytest.raises(NotProved, match="many digits"):
        merged(replace(net, modules=tuple(module.map(drawn) for module in net.modules)))
