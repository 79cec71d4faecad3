"""Constants are folded and loops are written out without changing what is computed."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import inweave
from inweave import Matrix, Network, Scalar, Vector, gallery
from inweave.exact.arithmetic import Rationals
from inweave.exact.constants import identity
from inweave.model import dense
from inweave.model.prompt import fill_prompt
from inweave.run.lines.code import Repeat
from inweave.run.rules.multiples import common
from inweave.run.values.graph import Graph
from inweave.text.plan import describe

pytestmark = pytest.mark.usefixtures("unchecked_passes", "stepped")


@inweave.program
def descent(X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, eta: Scalar, *, steps: int) -> Any:
    """Gradient descent."""
    step = lambda w: w - eta * (X.T @ (X @ w - y) + lam * w)  # noqa: E731
    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@inweave.program
def momentum(A: Matrix["d", "d"], b: Vector["d"], c: Vector["t"], beta: Scalar) -> Any:
    """A step that is scaled by a row of the data, and two carried values that change places."""

    def step(state: Any, c: Any) -> Any:
        w, v = state
        after = v + c * (w - v - A @ w + b) - beta * v
        return (after, w), after

    start = inweave.zeros(A.shape[0])
    return inweave.scan(step, (start, start), c)[1]


@inweave.program
def rows_go_round(X: Matrix["n", "d"], y: Vector["n"]) -> Any:
    """The first row is read, and moved to the end."""

    def step(w: Any, data: Any) -> Any:
        x = data[0]
        return w + x * (x @ w + 1), inweave.vstack([data[1:, :], data[:1, :]])

    return inweave.iterate(step, (inweave.zeros(X.shape[1]), X), X.shape[0])[0] + X.T @ y


@inweave.program
def with_ones(X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, eta: Scalar, *, steps: int) -> Any:
    """Gradient descent with an intercept: a column of ones stands beside the data."""
    F = inweave.hstack([np.ones((X.shape[0], 1)), X])
    step = lambda w: w - eta * (F.T @ (F @ w - y) + lam * w)  # noqa: E731
    return inweave.iterate(step, inweave.zeros(F.shape[1]), steps)


@inweave.program
def slopes(X: Matrix["n", "d"], y: Vector["n"]) -> Any:
    """Whether each fitted value is above zero, from a difference of two that are scaled alike."""

    def step(w: Any) -> Any:
        fitted = inweave.hold(X @ w)
        above = 8 * inweave.relu(fitted) - 8 * inweave.relu(fitted - 0.125)
        return w + X.T @ (y * above) / 4

    return inweave.iterate(step, inweave.ones(X.shape[1]), 3)


@inweave.program
def chained(A: Matrix["d", "d"], B: Matrix["d", "k"], X: Matrix["n", "d"]) -> Any:
    """A vector by a product of two matrices that change, which an earlier layer multiplied."""

    def step(state: Any, x: Any) -> Any:
        P, S = state
        P, S = inweave.hold(P + x * x.T), inweave.hold(S + x @ (x.T @ B))
        return (P, S), inweave.hold(P @ S).T @ x

    return inweave.scan(step, (A, B), X)[1]


@inweave.program
def read_at_once(K: Matrix["n", "d"], V: Matrix["n", "d"], B: Matrix["d", "d"]) -> Any:
    """A memory that is read as soon as it is written, and what it was made of in a later loop."""

    def step(S: Any, k: Any, v: Any) -> Any:
        S = B * S - k @ v.T - B
        return S, S @ v - S.T @ k

    _, read = inweave.scan(step, B, K, V)
    return inweave.iterate(lambda R: R @ B.T + read - R @ (K[0] @ V[0].T), read, 3)


PROGRAMS = [descent, momentum, rows_go_round, with_ones, slopes, chained, read_at_once]


def loop_of(net: Network) -> Repeat:
    (loop,) = [line for line in net.plan.from_inputs.code.lines if isinstance(line, Repeat)]
    return loop


def exact(net: Network, inputs: dict[str, Any]) -> Any:
    """The answers of the plan and of the dense executor, in rationals."""
    arithmetic = Rationals()
    lifted = {
        spec.name: arithmetic.array(np.asarray(inputs[spec.name]).reshape(spec.rows, spec.cols))
        for spec in net.inputs
    }
    end = dense.forward(net, fill_prompt(net.layout, net.fills, lifted, arithmetic), arithmetic)
    found = net.plan.answers(lifted, arithmetic)
    return [(found[o.name], o.place.read(net.layout, end)) for o in net.outputs]


def given(program: Any) -> tuple[dict[str, Any], dict[str, int]]:
    rng = np.random.default_rng(1)
    numbers = lambda *shape: rng.integers(-3, 4, shape) / 4  # noqa: E731
    if program in (descent, with_ones):
        inputs = {"X": numbers(5, 3), "y": numbers(5), "lam": 0.5, "eta": 0.25}
        return inputs, {"n": 5, "d": 3, "steps": 4}
    if program is read_at_once:
        inputs = {"K": numbers(4, 3), "V": numbers(4, 3), "B": numbers(3, 3)}
        return inputs, {"n": 4, "d": 3}
    if program is chained:
        inputs = {"A": numbers(4, 4), "B": numbers(4, 3), "X": numbers(5, 4)}
        return inputs, {"d": 4, "k": 3, "n": 5}
    if program is momentum:
        inputs = {"A": numbers(3, 3), "b": numbers(3), "c": numbers(4), "beta": 0.5}
        return inputs, {"d": 3, "t": 4}
    return {"X": numbers(4, 3), "y": numbers(4)}, {"n": 4, "d": 3}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("optimize", ["faithful", "speed"])
def test_folded_plans_are_exactly_the_network(program, optimize):
    inputs, sizes = given(program)
    net = inweave.compile(program, **sizes, optimize=optimize, verify=False)
    for found, expected in exact(net, inputs):
        assert (found == expected).all()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("batched", [(), ("first",), ("all",)], ids=str)
def test_loops_that_are_written_out_take_batches_of_some_or_all_inputs(program, library, batched):
    xp = pytest.importorskip(library)
    inputs, sizes = given(program)
    net = inweave.compile(program, **sizes, verify=False)
    matrices = [name for name, x in inputs.items() if np.ndim(x)]
    several = matrices if "all" in batched else matrices[:1] if batched else []
    many = {k: np.stack([x, 2 * x, -x]) if k in several else x for k, x in inputs.items()}
    made = {k: xp.asarray(x) if np.ndim(x) else x for k, x in many.items()}
    found = np.asarray(net(**made))
    for i in range(3 if several else 1):
        one = {k: x[i] if k in several else x for k, x in many.items()}
        expected = np.asarray(program(**one, **{k: v for k, v in sizes.items() if k == "steps"}))
        place = found[i] if several else found
        np.testing.assert_allclose(place, expected, rtol=1e-12)


def test_a_step_of_descent_is_one_product_and_one_sum():
    net = inweave.compile(descent, n=40, d=8, steps=50, optimize="faithful", verify=False)
    assert [line.op for line in loop_of(net).body] == ["matmul", "add"], describe(net.plan)


def test_a_matrix_whose_rows_go_round_is_not_carried():
    net = inweave.compile(rows_go_round, n=6, d=3, verify=False)
    assert len(loop_of(net).phis) == 1, describe(net.plan)


def test_rows_of_a_gram_matrix_that_stand_apart_are_one_product_of_each_step():
    net = inweave.compile(with_ones, n=60, d=5, steps=40, optimize="faithful", verify=False)
    found = [line.op for line in loop_of(net).body if line.op != "flip"]
    assert found in (["matmul", "add"], ["matmul", "sub"]), describe(net.plan)


def test_a_difference_of_equal_multiples_is_multiplied_once():
    net = inweave.compile(slopes, n=6, d=3, optimize="faithful", verify=False)
    numbers = {
        slot
        for slot, (kind, content) in net.plan.from_inputs.code.fixed.items()
        if kind == "number" and content == 8
    }
    scaled = [line for line in loop_of(net).body if line.op == "mul" and line.b in numbers]
    assert len(scaled) == 1, describe(net.plan)


@inweave.program
def covariances(A: Matrix["n", "n"], P: Matrix["n", "n"], *, steps: int):
    return inweave.iterate(lambda P: A @ P @ A.T + A, P, steps)


def test_what_a_loop_changes_is_not_transposed_where_what_it_reads_can_be():
    loop = loop_of(inweave.compile(covariances, n=5, steps=4, optimize="faithful", verify=False))
    turned = {line.a for line in loop.body if line.op == "flip"}
    assert not turned & {line.out for line in loop.body if line.op == "matmul"}


def test_a_product_of_three_is_taken_in_the_shorter_order():
    net = inweave.compile(chained, n=5, d=8, k=6, optimize="faithful", verify=False)
    products = [line for line in loop_of(net).body if line.op == "matmul"]
    assert all(1 in (line.rows, line.cols) for line in products), describe(net.plan)


def test_a_memory_that_is_read_as_it_is_written_is_one_product():
    gated = gallery.get("gated_linear_attention").compile(n=40, d=12, k=9, verify=False)
    twice = inweave.compile(read_at_once, n=40, d=12, verify=False)
    for net, count in ((gated, 1), (twice, 2)):
        loop = next(x for x in net.plan.from_inputs.code.lines if isinstance(x, Repeat))
        products = [line for line in loop.body if line.op == "matmul"]
        assert len(products) == count, describe(net.plan)


def test_of_a_product_before_a_loop_no_more_is_computed_than_its_steps_read():
    entry, sizes = gallery.get("gated_linear_attention"), {"n": 40, "d": 12, "k": 9}
    net, one = entry.compile(verify=False, **sizes), entry.example(**sizes)
    assert gallery.difference(net(**one), entry.reference(**one)) < entry.tolerance
    lines = [line for line in net.plan.from_inputs.code.lines if not isinstance(line, Repeat)]
    assert not [line for line in lines if line.op == "matmul"]


def test_a_column_times_a_row_is_made_the_way_round_in_which_it_is_added():
    net = gallery.get("gated_delta_net").compile(verify=False, optimize="speed")
    flips = [line for line in loop_of(net).body if line.op == "flip"]
    assert flips
    assert all(1 in (line.rows, line.cols) for line in flips)


@pytest.mark.parametrize(
    ("name", "sizes", "shapes"),
    [
        ("ttt_linear", {"n": 38, "d": 13, "k": 9}, [(13, 9), (36, 9)]),
        ("two_layer_gd", {"n": 19, "d": 9, "m": 13}, [(9, 13), (1, 13)]),
    ],
)
def test_a_matrix_is_carried_the_way_round_in_which_steps_use_it(name, sizes, shapes):
    entry = gallery.get(name)
    net, one = entry.compile(verify=False, **sizes), entry.example(**sizes)
    (body,) = [node.data for node in net.plan.from_inputs.nodes if node.op == "loop"]
    assert [phi.shape for phi in body.phis] == shapes
    assert gallery.difference(net(**one), entry.reference(**one)) < entry.tolerance


def test_multiples_of_one_matrix_are_one_product_for_many_prompts():
    entry, sizes = gallery.get("nesterov"), {"n": 20, "d": 8, "steps": 20}
    net, one = entry.compile(verify=False, optimize="speed", **sizes), entry.example(**sizes)
    lines = net.plan.from_inputs.batched.code.lines
    (ops,) = [[step.op for step in line.body] for line in lines if isinstance(line, Repeat)]
    assert sorted(ops) == ["add", "add", "matmul", "mul", "mul"]
    both = net(**{name: np.stack([np.asarray(x)] * 2) for name, x in one.items()})
    expected = entry.reference(**one, steps=sizes["steps"])
    assert gallery.difference(both, np.stack([expected] * 2)) < entry.tolerance


@pytest.mark.parametrize("off", [0, 1])
def test_matrices_are_multiples_of_one_only_if_all_of_their_coefficients_are(off):
    graph = Graph()
    s, t, one = graph.source("s", 1, 1, "s"), graph.source("t", 1, 1, "t"), graph.const(identity(1))
    A, unit = graph.source("A", 3, 3, "A"), graph.const(identity(3))

    def summed(*terms: Any) -> Any:
        return graph.total(3, 3, [(sign, reduce(graph.mul, x), 0, 0) for sign, *x in terms])

    P = summed((1, one, unit), (1, s, unit), (-1, t, A), (-1, s, t, A))  # (1 + s) (I - t A)
    Q = summed((-1, s, unit), (1, s, t, A), (off, t, t, A))  # -s (I - t A), or nearly
    found = common([P, Q])
    if off:
        assert found is None
        return
    matrix, (p, q) = found
    assert matrix == {unit: {(): -1}, A: {(t,): 1}}
    assert (p, q) == ({(): -1, (s,): -1}, {(s,): 1})


def test_gradients_flow_through_a_loop_that_is_written_out():
    torch = pytest.importorskip("torch")
    inputs, sizes = given(descent)
    net = inweave.compile(descent, **sizes, verify=False)
    X = torch.tensor(inputs["X"], requires_grad=True)
    y = torch.tensor(inputs["y"])

    def loss(X: Any) -> Any:
        return net(X=X, y=y, lam=0.5, eta=0.25).sum()

    assert torch.autograd.gradcheck(loss, (X,))


def test_elimination_clears_no_columns_that_nothing_reads():
    """Forward elimination leaves back substitution a triangle; the network writes whole blocks."""
    m, k = 6, 2
    net = inweave.compile(gallery.gaussian_elimination, m=m, k=k, verify=False)
    code = net.plan.from_inputs.code
    cleared = [x[4:] for x in code.lines if x.op == "sub" and min(x.rows, x.cols) > 1]
    first = [(m - 1, m - 1), (m - 1, k)]  # F and B stand apart
    assert cleared == [*first, *((m - i, m - i + k) for i in range(2, m - 1))]


@inweave.program
def polynomial(A: Matrix["m", "m"], s: Scalar) -> Any:
    """A sum whose terms are products with A²."""
    square = inweave.hold(A @ A)
    return A + s * square + 3 * (A @ square) + 2 * (square @ square)


def test_products_with_one_matrix_are_one_product_of_their_sum():
    net = inweave.compile(polynomial, m=4, verify=False)
    products = [x for x in net.plan.from_inputs.code.lines if x.op == "matmul"]
    assert len(products) == 2  # A², and (s + 3 A + 2 A²) A²
    A = np.random.default_rng(0).normal(size=(4, 4))
    expected = A + 0.5 * A @ A + 3 * A @ A @ A + 2 * A @ A @ A @ A
    np.testing.assert_allclose(net(A=A, s=0.5), expected, rtol=0, atol=1e-12)


@inweave.program
def one_above_the_other(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Matrix["n", "n"]) -> Any:
    return inweave.vstack([A, B]) @ x


@inweave.program
def one_above_the_other_in_steps(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]) -> Any:
    def step(v: Any) -> Any:
        return v + inweave.vstack([A @ v[:n], B @ v[:n]])

    n = A.shape[0]
    return inweave.iterate(step, inweave.vstack([x, x]), 3)


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("program", [one_above_the_other, one_above_the_other_in_steps])
def test_products_with_one_matrix_that_stand_in_two_places_are_two(program, optimize):
    net = inweave.compile(program, n=3, optimize=optimize)
    rng = np.random.default_rng(0)
    inputs = {spec.name: rng.normal(size=spec.shape) for spec in net.inputs}
    np.testing.assert_allclose(net(**inputs), program(**inputs), rtol=1e-11)
