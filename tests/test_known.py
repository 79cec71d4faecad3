"""What is made of constants only is computed before any call, powers of constant matrices too."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import inweave
from benchmarks.others import wave
from inweave import Matrix, Vector
from inweave.exact.arithmetic import Rationals

N = 12
P = np.random.default_rng(0).random((N, N))
P /= P.sum(axis=0)


@inweave.program
def ranks(x: Vector["n"]):
    return inweave.iterate(lambda v: 0.85 * (P @ v) + 0.15 * x, x, 30)


@inweave.program
def diffused(H: Matrix["n", "k"], f: Matrix["n", "k"]):
    return inweave.iterate(lambda H: H - 0.5 * (P @ P.T @ H - 0.25 * H) + f, H, 17)


@inweave.program
def two_values(x: Vector["n"], v: Vector["n"]):
    return inweave.iterate(lambda x, v: (x + 0.1 * v, v - 0.1 * (P.T @ x)), (x, v), 25)


@inweave.program
def valued(r: Vector["n"]):
    return inweave.iterate(lambda v: inweave.relu(r + 0.9 * (P.T @ v)), inweave.zeros(N), 9)


@inweave.program
def constant(x: Vector["n"]):
    return 0.5 * (P @ P), P @ x


PROGRAMS = (ranks, diffused, two_values, valued, constant)
AFFINE = PROGRAMS[:3]


def sized(program):
    return inweave.compile(program, optimize="speed", **{"n": N, "k": 3} if "k" in
                           program.size_names else {"n": N})  # fmt: skip


def flat(answer):
    return np.concatenate(
        [np.ravel(x) for x in (answer if isinstance(answer, tuple) else [answer])]
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lead", [(), (1,), (5,)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda x: x.name)
def test_answers_are_those_of_the_program_in_every_library(program, lead, dtype):
    torch = pytest.importorskip("torch")
    net, rng = sized(program), np.random.default_rng(1)
    given = {x.name: rng.normal(size=(*lead, *x.shape)).astype(dtype) for x in net.inputs}
    wide = {name: x.astype(np.longdouble) for name, x in given.items()}
    each = [{name: x[i] for name, x in wide.items()} for i in np.ndindex(lead)]
    right = [flat(program(**one)).astype(float) for one in each]
    tensors = {name: torch.as_tensor(x) for name, x in given.items()}
    for found in (net(**given), net(**given), net(**tensors)):
        parts = found if isinstance(found, tuple) else (found,)
        for i, one in zip(np.ndindex(lead), right, strict=True):
            mine = np.concatenate([np.ravel(np.asarray(part)[i]) for part in parts])
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, one, atol=32 * np.finfo(dtype).eps * abs(one).max())


@pytest.mark.parametrize("program", AFFINE, ids=lambda x: x.name)
def test_loops_of_constant_matrices_are_a_product_or_two(program):
    plan = sized(program).plan
    for way in (plan.from_inputs.alone, plan.from_inputs.batched, plan.from_inputs.staged):
        assert not any(node.op in ("loop", "grown") for node in way.nodes)
        assert sum(line.op == "matmul" for line in way.code.lines) <= 2


@pytest.mark.parametrize("program", AFFINE, ids=lambda x: x.name)
def test_these_products_are_exactly_the_steps(program):
    net = sized(program)
    exact = np.vectorize(lambda k: Fraction(int(k), 2), otypes=[object])
    rng = np.random.default_rng(2)
    given = {x.name: exact(rng.integers(-9, 9, (x.rows, x.cols))) for x in net.inputs}
    sources = {("input", name): x for name, x in given.items()}
    expected = program.trace(**net.origin.sizes).evaluate(given, Rationals())
    for way in (net.plan.from_inputs, net.plan.from_inputs.alone, net.plan.from_inputs.batched):
        for found, right in zip(way.run(sources, Rationals()), expected.values(), strict=True):
            assert (found == right).all()


def test_a_matrix_times_a_number_is_no_line_of_a_call():
    code = sized(valued).plan.from_inputs.code
    assert not any(
        line.op == "mul" and line.rows == N and line.cols == N for line in code.lines[:-1]
    )
    assert any(kind == "made" for kind, _ in code.fixed.values())


def test_who_writes_into_an_answer_changes_no_later_one():
    net, x = sized(constant), np.ones(N)
    first = [part.copy() for part in net(x=x)]
    for part in net(x=x):
        part[...] = 7
    for before, after in zip(first, net(x=x), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("optimize", ["faithful", "speed"])
def test_an_answer_that_is_an_input_again_is_a_copy_of_it(optimize, n, lead):
    @inweave.program
    def turned(X: Matrix["n", "m"], Y: Matrix["n", "m"]):
        return inweave.iterate(lambda X, Y: (-1 * X, Y), (X, Y), 30)

    net = inweave.compile(turned, n=n, m=2, optimize=optimize)
    X, Y = np.ones((2, *lead, n, 2))
    for _ in range(3):
        for part in net(X=X, Y=Y):
            assert not any(np.shares_memory(part, given) for given in (X, Y))
            part[...] = 7
    assert (X == 1).all()
    assert (Y == 1).all()


def test_powers_whose_digits_are_many_are_left_to_plans():
    """Of a matrix that constants multiply from both sides, they stand for 36 x 36 numbers."""
    rng = np.random.default_rng(0)
    L, R = rng.normal(size=(2, 6, 6)) / 6

    @inweave.program
    def both(X: Matrix["n", "n"], Y: Matrix["n", "n"]):
        return inweave.iterate(lambda X: L @ X @ R + Y, X, 300)

    net = inweave.compile(both, n=6, optimize="speed", verify=False)
    assert any(module.repeat == 300 for module in net.modules)


def test_powers_that_grow_stay_steps():
    wild = 0.5 * np.eye(N) + np.triu(np.full((N, N), 100.0), 1)

    @inweave.program
    def chain(x: Vector["n"]):
        return inweave.iterate(lambda x: wild @ x, x, 60)

    plan = inweave.compile(chain, n=N, optimize="speed", verify=False).plan
    assert {"loop", "grown"} & {node.op for node in plan.from_inputs.alone.nodes}


def coupled(n):
    """What a step of a wave does to its two times."""
    one = np.eye(n)
    now = 1.5 * one + 0.25 * (np.eye(n, k=1) + np.eye(n, k=-1))
    return np.block([[now, -one], [one, 0 * one]])


def random_matrix(seed):
    """One of spectral radius about one, whose powers grow before they fall."""
    return np.random.default_rng(seed).normal(size=(40, 40)) / np.sqrt(40)


@pytest.mark.parametrize(
    ("matrix", "steps"),
    [(coupled(24), 40), *((random_matrix(seed), steps) for seed in range(4) for steps in (40, 90))],
)
def test_powers_that_do_what_steps_do_are_taken_though_no_bound_says_so(matrix, steps):
    @inweave.program
    def repeated(x: Vector["n"]):
        return inweave.iterate(lambda x: matrix @ x, x, steps)

    net = inweave.compile(repeated, n=len(matrix), verify=False)
    assert not any(node.op == "loop" for node in net.plan.from_inputs.alone.nodes)
    x = np.random.default_rng(9).normal(size=len(matrix))
    exact, by_hand = x.astype(np.longdouble), x
    for _ in range(steps):
        exact, by_hand = matrix @ exact, matrix @ by_hand
    lost = np.abs(by_hand - exact).max()
    assert np.abs(net(x=x) - exact).max() <= 4 * lost + 4e-16 * np.abs(exact).max()


def test_powers_that_do_not_do_what_steps_do_stay_steps():
    """Pairs of eigenvalues near one: a square moves them by the root of its rounding errors."""
    matrix = coupled(24)

    @inweave.program
    def repeated(x: Vector["n"]):
        return inweave.iterate(lambda x: matrix @ x, x, 1000)

    net = inweave.compile(repeated, n=len(matrix), verify=False)
    assert any(node.op in ("loop", "grown") for node in net.plan.from_inputs.alone.nodes)


def test_in_a_batch_only_those_rows_of_a_power_are_multiplied_that_are_read():
    """Of two times of a wave one is the answer; entry by entry its steps would take less alone."""
    code = inweave.compile(wave, n=24, verify=False).plan.from_inputs.batched.code
    products = [line for line in code.lines if line.op == "matmul"]
    assert [line.rows for line in products] == [24]
