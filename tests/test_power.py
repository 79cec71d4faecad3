"""Affine loops by powers of their matrix: the same answers, in fewer calls."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Network, Scalar, Vector, gallery
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.run.cost import counted
from inweave.run.plan import Variant
from inweave.run.rules.fold import Asked
from inweave.run.rules.power import Way
from inweave.run.values.node import Price
from tests.random_networks import networks

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")

FIELD = FieldArithmetic(key=3)
DEAR = Price(1e9, 1e-9, 1e-9)  # calls: whatever can be powered is


def ways(network: Network) -> list[Variant]:
    """The network's plan with every loop powered that can be, as one matrix and apart."""
    variant = network.plan.from_inputs
    powers = [Way(DEAR, joint, any_matrix=True) for joint in (True, False)]
    return [Variant(*variant._made, Asked(way)) for way in powers]


def has_loops(variant: Variant) -> bool:
    return any(node.op == "loop" for node in variant.nodes)


def same(network: Network, lead: tuple[int, ...] = ()) -> None:
    """Powers, products side by side, and steps that are one product, are what the steps come to.

    Over a field, bit for bit.
    """
    rng = np.random.default_rng(5)
    inputs = {s.name: FIELD.field.random((*lead, s.rows, s.cols), rng) for s in network.inputs}
    sources = network.plan.sources(inputs, FIELD)
    expected = network.plan.from_inputs.run(sources, FIELD)
    beside = Variant(*network.plan.from_inputs._made, Asked(stays=True, side=True))
    in_one = Variant(*network.plan.from_inputs._made, Asked(Way(DEAR, joint=True)))
    for way in (*ways(network), beside, in_one):
        for found, right in zip(way.run(sources, FIELD), expected, strict=True):
            assert (found == right).all()


@settings(max_examples=30)
@given(networks())
def test_any_network_computes_the_same_by_powers(network):
    same(network)


def terms(a, b, q, A, X, v, y, s):
    """What the next a, b and q may be sums of."""
    return (
        (a, A @ a, X.T @ b, X.T @ (X @ a - b), s * a, v * a, q * v, v, A @ (v * (a - v))),
        (b, X @ a, -b / 2, y),
        (q, v @ a, s),
    )


ALL = tuple(set(range(n)) for n in (9, 4, 3))


@settings(max_examples=10)
@example(ALL, 7)
@example(({8}, {0}, {0}), 7)  # what is added stands only beside what is multiplied
@given(st.tuples(*(st.sets(st.integers(0, n - 1), min_size=1) for n in (9, 4, 3))),
       st.integers(2, 40))  # fmt: skip
@pytest.mark.filterwarnings("ignore:program 'made' does not use")
def test_any_affine_step_comes_to_the_same_by_powers(chosen, steps):
    @inweave.program
    def made(A: Matrix["n", "n"], X: Matrix["m", "n"], v: Vector["n"], y: Vector["m"], s: Scalar):
        def step(*carried):
            found = zip(terms(*carried, A, X, v, y, s), chosen, strict=True)
            return tuple(reduce(add, (of[i] for i in sorted(some))) for of, some in found)

        return inweave.iterate(step, (v, y, s), steps)

    network = inweave.compile(made, n=3, m=2, verify=False)
    if chosen == ALL:
        assert not any(map(has_loops, ways(network)))
    same(network, (2,) if steps % 2 else ())


AFFINE = ["ridge_gd", "heavy_ball", "nesterov", "dual_gd", "td0", "ridge_multi_output",
          "weighted_least_squares", "covariate_shift", "neumann_series",
          "ridge_selection"]  # fmt: skip


@pytest.mark.parametrize("name", AFFINE)
def test_affine_loops_of_the_gallery_are_powered(name):
    network = gallery.get(name).compile(verify=False)
    assert not any(map(has_loops, ways(network)))
    same(network)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_matrix_with_transposes_across_is_symmetric_and_is_powered(sign):
    """[XᵀX Xᵀ1; 1ᵀX n], of descent with an intercept; with -1ᵀX it is not."""

    @inweave.program
    def descent(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar):
        one = inweave.ones(4)

        def step(w, c):
            missed = X @ w + c * one - y
            return w - eta * (X.T @ missed), c - sign * eta * (one.T @ missed)

        return inweave.iterate(step, (inweave.zeros(2), 0), 100)

    network = inweave.compile(descent, n=4, d=2, verify=False)
    powered = Variant(*network.plan.from_inputs._made, Asked(Way(DEAR, joint=True)))
    assert has_loops(powered) == (sign < 0)
    same(network)


MIXED = np.array([[1, 2, 0], [0, 3, 0], [0, 0, 5]])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("right", "apart"),
    [
        (lambda _, s: s * np.diag([1, 3, 5]), True),
        (lambda v, _: inweave.diag(v), True),
        (lambda _, s: s * MIXED, False),
        (lambda v, _: inweave.outer(v, v), False),
    ],
    ids=["constants", "data", "mixed by constants", "mixed by data"],
)
@pytest.mark.filterwarnings("ignore:program .descent. does not use")
def test_columns_that_a_step_does_not_mix_are_powered_each_by_itself(right, apart, turned):
    @inweave.program
    def descent(X: Matrix["n", "d"], C: Matrix["d", "k"], v: Vector["k"], s: Scalar):
        last = inweave.hstack([inweave.zeros(X.shape[1], 2), C[:, 1:2]])

        def step(W):
            W = W.T if turned else W
            after = W - X.T @ (X @ W) + W @ right(v, s) / 2 + last
            return after.T if turned else after

        return inweave.iterate(step, C.T if turned else C, 11)

    network = inweave.compile(descent, n=4, d=2, k=3, verify=False)
    powered = Variant(*network.plan.from_inputs._made, Asked(Way(DEAR, joint=True)))
    assert has_loops(powered) != apart  # and each is known to be symmetric
    same(network)
    same(network, (2,))


@pytest.mark.parametrize("name", ["newton_schulz", "lasso_ista", "recursive_least_squares"])
def test_steps_that_are_not_affine_stay_steps(name):
    network = gallery.get(name).compile(verify=False)
    assert all(map(has_loops, ways(network)))


@inweave.program
def powers(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    """By a matrix that is known to be symmetric."""
    return inweave.iterate(lambda x: A.T @ (A @ x), x, steps)


def test_the_price_decides():
    small = inweave.compile(powers, n=3, steps=100, verify=False).plan.from_inputs
    assert not has_loops(small.alone)
    assert counted(small.alone).calls < 15
    large = inweave.compile(powers, n=300, steps=100, verify=False).plan.from_inputs
    assert large.alone is large.batched is large
    few = inweave.compile(powers, n=40, steps=25, verify=False).plan.from_inputs
    assert not has_loops(few.alone)  # fewer calls
    assert has_loops(few.batched)  # but more work
    many = gallery.get("dual_gd").compile(verify=False).plan.from_inputs
    assert not has_loops(many.batched)
    assert has_loops(many.staged)  # where a product with a vector is no call


def test_a_batch_that_shares_the_matrix_shares_its_powers():
    network = inweave.compile(powers, n=6, steps=1000, verify=False)
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(6, 6)) / 4, rng.normal(size=(50, 6))
    expected = x @ np.linalg.matrix_power(A.T @ A, 1000)
    np.testing.assert_allclose(network(A=A, x=x), expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_powers_that_overflow_where_nothing_is_multiplied_do_no_harm(check, lead):
    network = inweave.compile(powers, n=2, steps=5000, verify=False)
    assert not has_loops(network.plan.from_inputs.alone)
    A, x = np.diag([2.0, 0.999]) ** 0.5, np.broadcast_to([0.0, 1.0], (*lead, 2))
    for _ in range(2):  # the long way in, then the short one
        found = network(A=A, x=x, check=check)
        np.testing.assert_allclose(found, np.broadcast_to([0.0, 0.999**5000], (*lead, 2)))


def test_jax_compiles_as_many_products_as_there_are_powers():
    jax = pytest.importorskip("jax")
    network = inweave.compile(powers, n=3, steps=1000, verify=False)
    x = jax.numpy.ones(3)
    staged = str(jax.make_jaxpr(lambda A: network(A=A, x=x))(jax.numpy.eye(3)))
    assert 1 < staged.count("dot_general") < 3 * (1000).bit_length()


# -- loops whose surroundings vanish ---------------------------------------------------------------
def sums(carried, row):
    return carried + row, carried + row


@inweave.program
def scan_in_a_still_loop(v: Vector["n"], A: Matrix["n", "n"]):
    return inweave.iterate(lambda a, _b: (a, inweave.scan(sums, a, A)[0]), (v, v), 4)


@inweave.program
def rows_in_a_still_loop(v: Vector["n"], A: Matrix["n", "n"]):
    def step(a, _b):
        return a, inweave.scan(sums, a, A, reverse=True)[1]

    return inweave.iterate(step, (v, A), 4)


@inweave.program
def loop_that_changes_nothing(a: Scalar, b: Scalar):
    x, _ = inweave.iterate(lambda x, y: (y, x), (a, a), 2)
    inner = lambda w: inweave.iterate(lambda _p, _q: (w, b), (x, b), 2)[0]  # noqa: E731
    return inweave.iterate(inner, b, 3)


@pytest.mark.parametrize("optimize", ["faithful", "depth", "speed"])
@pytest.mark.parametrize(
    "program", [scan_in_a_still_loop, rows_in_a_still_loop, loop_that_changes_nothing]
)
@pytest.mark.filterwarnings("ignore:program .* does not use")
def test_loops_inside_loops_that_vanish_are_computed(program, optimize):
    rng = np.random.default_rng(2)
    if program is loop_that_changes_nothing:
        inputs = {"a": 2.0, "b": 3.0}
    else:
        inputs = {"v": rng.normal(size=3), "A": rng.normal(size=(3, 3))}
    net = inweave.compile(program, **program.sizes_of(inputs), optimize=optimize)
    found, expected = net(**inputs), program(**inputs)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-12)


@inweave.program
def affine(A: Matrix["d", "d"], c: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: A @ w + c, inweave.zeros(A.shape[0]), steps)


@pytest.mark.parametrize("optimize", ["faithful", "speed"])
@pytest.mark.parametrize(("d", "steps", "at", "above"), [(8, 500, 0.8, 3.0), (6, 64, 0.5, 5.0)])
def test_steps_whose_powers_are_large_on_the_way_are_as_good_as_by_hand(
    d, steps, at, above, optimize
):
    """A^k grows by many orders before it falls: squares of it would lose every digit."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    A, c = Q @ (at * np.eye(d) + above * np.eye(d, k=1)) @ Q.T, rng.normal(size=d)
    by_hand, exact = np.zeros(d), np.zeros(d, np.longdouble)
    for _ in range(steps):
        by_hand, exact = A @ by_hand + c, A.astype(np.longdouble) @ exact + c
    found = inweave.compile(affine, d=d, steps=steps, optimize=optimize)(A=A, c=c, check=False)
    assert abs(found - exact).max() <= 10 * abs(by_hand - exact).max()


@inweave.program
def summed(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps: int):
    """Residuals that a symmetric matrix multiplies, and a sum of what is learned from each."""

    def step(r, w):
        change = eta * (X.T @ r)
        return r - X @ change, w + change

    return inweave.iterate(step, (y, inweave.zeros(X.shape[1])), steps)[1]


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("along", [0, -1], ids=["strong", "weak"])
def test_sums_of_what_a_symmetric_matrix_multiplies_keep_the_digits_of_steps(spread, along):
    """Also where y lies along one direction of X, and sums along others are larger by far."""
    n, d, steps = 6, 4, 300
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.normal(size=(m, d)))[0] for m in (n, d))
    X = (U * np.geomspace(1, spread, d)) @ V.T
    y, eta = U[:, along] + 1e-3 * rng.normal(size=n), 0.9
    net = inweave.compile(summed, n=n, d=d, steps=steps, verify=False)
    assert not any(map(has_loops, ways(net)))

    def by_steps(kind):
        """With the matrix made before the steps, as a programmer would."""
        A, r, w = X.astype(kind), y.astype(kind), np.zeros(d, kind)
        S, L = np.eye(n, dtype=kind) - kind(eta) * (A @ A.T), kind(eta) * A.T
        for _ in range(steps):
            r, w = S @ r, w + L @ r
        return w

    exact, size = by_steps(np.longdouble), np.finfo(float).eps * abs(by_steps(float)).max()
    missed = abs(by_steps(float) - exact).max()
    assert abs(net(X=X, y=y, eta=eta) - exact).max() <= 10 * max(missed, size)


@pytest.mark.parametrize("name", sorted({*AFFINE} - {"ridge_multi_output", "ridge_selection"}))
def test_a_batch_that_shares_its_matrices_answers_as_its_prompts_alone(name):
    """Their powers are those of the whole batch."""
    entry = gallery.get(name)
    network = entry.compile(verify=False, steps=300)
    given = {k: np.asarray(v) for k, v in entry.example(steps=300).items()}
    signs = np.array([1.0, -0.5, 2.0])
    several = {k: signs[:, None] * v if v.ndim == 1 else v for k, v in given.items()}
    found = network(**several, check=False)
    for i in range(3):
        one = {k: v[i] if v.ndim == 2 and given[k].ndim == 1 else v for k, v in several.items()}
        np.testing.assert_allclose(found[i], network(**one, check=False), rtol=1e-9, atol=1e-12)


@inweave.program
def sweeps(A: Matrix["n", "n"], b: Vector["n"], *, steps: int):
    """Gauss-Seidel with a fixed step: every row reads what the rows before it have changed."""

    def sweep(x):
        for i in range(A.shape[0]):
            x = x + inweave.eye(A.shape[0])[:, i] * (0.1 * (b[i] - A[i] @ x))
        return x

    return inweave.iterate(sweep, inweave.zeros(A.shape[0]), steps)


def test_the_plan_of_a_sweep_over_rows_grows_with_the_rows_and_is_the_sweep():
    """A row after the other, and not every row as all those before it."""
    plans = {
        n: inweave.compile(sweeps, n=n, steps=5, verify=False).plan.from_inputs for n in (5, 10)
    }
    few, many = (
        len(Variant(*plan._made, Asked(Way(Price(1e9, 1e-9, 1e-9), True, any_matrix=True))).nodes)
        for plan in plans.values()
    )
    assert many <= 3 * few
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(10, 10)), rng.normal(size=10)
    net = inweave.compile(sweeps, n=10, steps=5, optimize="speed")
    np.testing.assert_allclose(net(A=A, b=b), sweeps(A=A, b=b, steps=5), rtol=1e-12, atol=1e-13)
