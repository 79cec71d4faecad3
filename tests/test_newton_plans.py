"""A plan runs a table and Newton's steps as the division that they are, and only where they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.exact.arithmetic import Floats
from inweave.model import dense
from inweave.model.layers import BlockPointwiseLayer
from inweave.model.network import Network
from inweave.model.relunet import ReluNet
from inweave.run.plan import Plan
from inweave.run.values.newton import Refined


@inweave.program
def inverse(p: Scalar) -> Scalar:
    return inweave.reciprocal(p, domain=(0.1, 10), error=1e-15)


@inweave.program
def root(p: Scalar) -> Scalar:
    return inweave.rsqrt(p, domain=(0.1, 10), error=1e-15)


@inweave.program
def coarse(p: Scalar) -> Scalar:
    return inweave.reciprocal(p, domain=(0.1, 10), error=1e-6)


@inweave.program
def divided(x: Vector["n"], y: Vector["n"]) -> Vector["n"]:
    return x / inweave.assume(y, 0.1, 10)


def refined(plan: Plan) -> list[Refined]:
    nodes = plan.from_inputs.nodes
    return [node.data for node in nodes if isinstance(node.data, Refined)]


def by_layers(net: Network, p: float) -> float:
    """What the network does, layer by layer."""
    return float(net.readout(dense.forward(net, net.prompt(p=p), Floats())))


@given(st.floats(0.1, 10))
def test_a_reciprocal_that_is_exact_to_rounding_is_a_division(p):
    assert float(NETS["inverse"](p=p)) == 1 / p
    assert float(NETS["root"](p=p)) == 1 / np.sqrt(p)


def test_entries_are_divided_too():
    net = inweave.compile(divided, n=3)
    y = np.array([0.1, 0.7, 9.9])
    assert np.array_equal(net(x=[1.0, 1.0, 1.0], y=y), 1 / y)


def test_a_plan_has_one_operation_for_the_table_and_its_steps():
    assert refined(NETS["inverse"].plan)[-1].steps == 3
    live = [line.op for line in NETS["inverse"].plan.from_inputs.code.lines]
    assert live == ["pointwise"]


def test_steps_that_end_before_they_are_exact_are_taken_as_they_are():
    net = NETS["coarse"]
    assert not refined(net.plan)[-1].is_exact
    p = np.geomspace(0.1, 10, 1001)
    off = np.abs(net(p=p) * p - 1)
    assert 1e-9 < off.max() <= 1e-6


def test_outside_the_domain_an_unchecked_run_does_what_the_layers_do():
    for p in (0.01, 20.0, 1e3):
        found = float(NETS["inverse"](p=p, check=False))
        assert found == pytest.approx(by_layers(NETS["inverse"], p), rel=1e-9)
        assert found != pytest.approx(1 / p, rel=1e-3)
        with pytest.raises(inweave.DomainError):
            NETS["inverse"](p=p)


def halved(layer):
    """A layer whose tables are half of what they were, and say of themselves what they said."""
    if not isinstance(layer, BlockPointwiseLayer):
        return layer
    tables = []
    for place, f in layer.applied:
        net = f.net
        half = ReluNet(net.weights, net.biases, tuple(v / 2 for v in net.outputs), net.constant / 2)
        tables.append((place, replace(f, net=half)))
    return replace(layer, applied=tuple(tables))


def test_a_table_is_not_believed_to_be_what_it_says():
    net = NETS["inverse"]
    modules = tuple(m.map(lambda layer, _: halved(layer), "") for m in net.modules)
    changed = inweave.Network(net.layout, modules, net.inputs, net.fills, net.outputs)
    assert not refined(changed.plan)[-1].is_exact
    assert float(changed(p=4.0)) == pytest.approx(by_layers(changed, 4.0), rel=1e-12)
    assert float(changed(p=4.0)) != pytest.approx(0.25, rel=1e-4)


def test_a_power_by_squaring_is_no_step_and_is_not_written_out():
    @inweave.program
    def tower(s: Scalar):
        for _ in range(40):
            s = inweave.hold(s * s)
        return s - 0.5 * inweave.relu(s)

    net = inweave.compile(tower, verify=False)
    assert float(net(s=1.0)) == 0.5


@inweave.program
def kalman(Y: Matrix["n", 1], A: Matrix["d", "d"], c: Vector["d"], Q: Matrix["d", "d"]):
    def step(carried, y):
        x, P = carried
        x, P = A @ x, A @ P @ A.T + Q
        k = P @ c / inweave.assume(c @ P @ c + 0.1, 1e-2, 1e4)
        x = x + k * (y[0] - c @ x)
        return (x, P - inweave.outer(k, c @ P)), x

    return inweave.scan(step, (inweave.zeros(A.shape[0]), inweave.eye(A.shape[0])), Y)[1]


def test_a_filter_writes_one_row_in_each_step():
    """A sum of two rows in one place is one row there, so the rows are stacked, not added up."""
    net = inweave.compile(kalman, n=6, d=2)
    (loop,) = [line for line in net.plan.from_inputs.code.lines if hasattr(line, "body")]
    assert len(loop.stacks) == 1
    rng = np.random.default_rng(0)
    A, Q, Y = np.array([[1.0, 0.1], [0, 0.9]]), 0.1 * np.eye(2), rng.normal(size=(6, 1))
    inputs = {"Y": Y, "A": A, "c": np.array([1.0, 0.5]), "Q": Q}
    np.testing.assert_allclose(net(**inputs), kalman(**inputs), rtol=1e-12)


NETS = {p.name: inweave.compile(p) for p in (inverse, root, coarse)}


def test_a_table_of_a_multiple_and_its_steps_are_one_operation_too():
    @inweave.program
    def length(x: Vector["n"]) -> Scalar:
        return inweave.rsqrt(x.T @ x / 16, domain=(1e-3, 1e3))

    net = inweave.compile(length, n=3, verify=False)
    x = np.array([1.0, 2.0, 2.0])
    applied = [line.b for line in net.plan.from_inputs.code.lines if line.op == "pointwise"]
    assert len(applied) == 1
    assert float(net(x=x)) == pytest.approx(4 / 3, rel=1e-12)


def adagrad(A: Matrix["n", "n"], b: Vector["n"]):
    def step(w, G):
        g = A @ w - b
        G = G + g * g
        return w - 0.1 * g * inweave.rsqrt(G + 0.01, domain=(1e-3, 1e4)), G

    zero = inweave.zeros(b.shape[0])
    return inweave.iterate(step, (zero, zero), 20)[0]


def sinkhorn(A: Matrix["n", "n"], b: Vector["n"]):
    def step(u):
        v = inweave.reciprocal(3 * (A.T @ u), domain=(1e-3, 1e4))
        return inweave.reciprocal(3 * (A @ v), domain=(1e-3, 1e4))

    return inweave.iterate(step, b * b + 1, 20)


def normalised(A: Matrix["n", "n"], b: Vector["n"]):
    def step(w):
        g = A @ (A @ w - b)
        return w - 0.1 * g * inweave.rsqrt(g @ g + 0.01, domain=(1e-3, 1e4))

    return inweave.iterate(step, inweave.zeros(b.shape[0]), 20)


@pytest.mark.parametrize("mode", ["faithful", "speed"])
@pytest.mark.parametrize("function", [adagrad, sinkhorn, normalised], ids=lambda f: f.__name__)
def test_a_step_divides_whole_vectors_whatever_their_size(function, mode):
    """Not entry by entry, not by Newton's steps, and nothing beside its negative."""
    program, rng, ops = inweave.program(function), np.random.default_rng(0), []
    for n in (3, 4, 10):
        net = inweave.compile(program, optimize=mode, n=n, verify=False)
        loops = [node.data for node in net.plan.from_inputs.nodes if node.op == "loop"]
        ops.append(sorted(node.op for body in loops for node in body.nodes if node.op != "view"))
        A, b = rng.uniform(0.1, 1, size=(n, n)) / n, rng.normal(size=n)
        np.testing.assert_allclose(net(A=A, b=b), program(A=A, b=b), rtol=1e-9)
    assert ops[0] == ops[1]
    assert all(found.count("apply") == (2 if function is sinkhorn else 1) for found in ops)
    assert max(map(len, ops)) <= 20


@given(st.floats(-12, 6), st.floats(0.1, 12), st.sampled_from([inweave.reciprocal, inweave.rsqrt]))
def test_inverses_are_divisions_on_every_domain_unless_less_is_asked_for(low, decades, function):
    domain = (10**low, 10 ** (low + decades))

    @inweave.program
    def program(p: Scalar) -> Scalar:
        return function(p, domain=domain)

    plan = inweave.compile(program, verify=False).plan
    refined = [node.data for node in plan.from_inputs.nodes if node.op == "apply"]
    assert all(f.is_exact for f in refined if isinstance(f, Refined))


@pytest.mark.parametrize("mode", ["faithful", "speed"])
@pytest.mark.parametrize("added", [1e-3, 0.5])
def test_what_a_step_divides_by_is_one_value_whichever_way_its_constants_lie(added, mode):
    """A multiple of ones lies down as well as ones do; its column and its row were two values."""

    @inweave.program
    def adaptive(X: Matrix["n", "d"], y: Vector["n"]):
        w, m, v = (inweave.zeros(X.shape[1]) for _ in range(3))
        for t in range(1, 13):
            g = X.T @ (X @ w - y)
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * (g * g)
            s = inweave.rsqrt(v / (1 - 0.99**t) + added, domain=(added / 2, 1e4))
            w = w - 0.05 / (1 - 0.9**t) * (m * s)
        return w

    plan = inweave.compile(adaptive, n=9, d=4, optimize=mode, verify=False).plan
    (loop,) = (node.data for node in plan.from_inputs.nodes if node.op == "loop")
    (found,) = (node.data for node in loop.nodes if node.op == "apply")
    assert isinstance(found, Refined)
    assert found.is_exact
