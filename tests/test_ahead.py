"""What loops make of their rows alone is made before them, and is what the program says."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.run.lines.code import live_nodes
from tests.fuzz import equal_in_rationals

pytestmark = [
    pytest.mark.usefixtures("unchecked_passes"),
    pytest.mark.filterwarnings("ignore:.*does not use its input"),
]

SIZES = {"n": 5, "d": 3}


def scanned(step, reverse=False):
    @inweave.program
    def program(X: Matrix["n", "d"], Y: Matrix["n", "d"], t: Vector["n"], B: Matrix["d", "d"],
                m: Vector["d"], a: Scalar):  # fmt: skip
        def stepped(w, x, y, s):
            return step(w, SimpleNamespace(x=x, y=y, t=s, B=B, m=m, a=a)), None

        return inweave.scan(stepped, m, X, Y, t, reverse=reverse)[0]

    return inweave.compile(program, verify=False, **SIZES)


def normalised(w, of):
    return w + (of.t - of.x @ w) * of.x / inweave.assume(0.1 + of.x @ of.x, 0.05, 100)


def with_a_rate(w, of):
    return w + of.a * 0.1 * (of.t - of.x @ w) * of.x


def average(w, of):
    return (1 - of.a) * w + of.a * of.x


def centred(w, of):
    return w + 0.5 * (w @ (of.x - of.m)) * (of.y + of.m)


def mapped(w, of):
    return of.m * w + of.B @ of.x - (of.x @ of.B.T) * (of.t * of.y)


def gated(w, of):
    return inweave.relu(of.x + of.y) * w + inweave.abs(of.x * of.m) * (of.x @ of.y)


STEPS = {
    # what of a step is left: its operations but views and picks
    normalised: ["matmul", "mul", "sum", "sum"],
    with_a_rate: ["matmul", "mul", "sum", "sum"],
    average: ["mul", "sum"],
    centred: ["matmul", "matmul", "mul", "sum", "sum"],  # multiplied out, as the network has it
    mapped: ["mul", "sum"],
    gated: ["mul", "sum"],
}


def left(variant):
    """The operations of the steps of loops."""
    live = live_nodes(variant.outputs)
    loops = [node.data for node in variant.nodes if node.op == "loop"]
    nodes = [node for body in loops for node in body.nodes if node in live]
    return sorted(node.op for node in nodes if node.op not in ("view", "pick", "at", "phi"))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=lambda f: f.__name__)
def test_a_step_does_what_waits_for_the_step_before_and_nothing_else(step, reverse):
    net = scanned(step, reverse)
    assert equal_in_rationals(net)
    assert left(net.plan.from_inputs.alone) == STEPS[step]
    assert left(net.plan.from_inputs.batched) == STEPS[step]


def test_products_that_are_larger_than_their_rows_stay_where_they_are():
    """All of them at once would take as many times more memory."""

    @inweave.program
    def memory(K: Matrix["n", "d"], V: Matrix["n", "d"]):
        def step(S, k, v):
            return inweave.relu(S + inweave.outer(k, v)), None

        return inweave.scan(step, inweave.zeros((K.shape[1], V.shape[1])), K, V)[0]

    net = inweave.compile(memory, verify=False, **SIZES)
    assert equal_in_rationals(net)
    assert "mul" in left(net.plan.from_inputs.alone)


def test_a_coefficient_that_multiplies_several_values_is_taken_once():
    """A multiple of it for each, made before, would be a product more in every step."""

    @inweave.program
    def scheduled(A: Matrix["d", "d"], b: Vector["d"]):
        w = inweave.zeros(b.shape[0])
        v = w
        for j in range(1, 9):
            w, v = v + (1 / j) * (0.3 * b - v - 0.2 * (A @ w)), w
        return w

    for mode in ("faithful", "speed"):
        net = inweave.compile(scheduled, d=4, optimize=mode, verify=False)
        assert equal_in_rationals(net)
        assert left(net.plan.from_inputs.alone).count("mul") <= 1


@pytest.mark.parametrize("lead", [(), (3,)])
def test_a_domain_that_is_left_is_left_in_a_step(lead):
    net, rng = scanned(normalised), np.random.default_rng(0)
    given = {s.name: rng.normal(size=(*lead, s.rows, s.cols)) for s in net.inputs}
    given |= {name: given[name][..., 0] for name in ("t", "m")} | {"a": 0.5}
    assert np.isfinite(net(**given)).all()
    given["X"][..., 2, :] = 40.0
    with pytest.raises(inweave.DomainError, match="step 2"):
        net(**given)


def test_a_product_with_a_vector_is_not_taken_for_one_with_a_number():
    @inweave.program
    def nested(X: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]):
        def outer(carried, r):
            U, v = carried
            v = inweave.iterate(lambda u: u / 2 + r * u, v, 3)
            U = U / 2 + inweave.outer(v, r)
            return (U, v), U @ r

        return inweave.scan(outer, (X, x), B)[1]

    for mode in ("faithful", "speed", "depth"):
        assert equal_in_rationals(inweave.compile(nested, n=3, optimize=mode, verify=False))
