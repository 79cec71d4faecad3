"""Loops that multiply from both sides, by powers of each: looked at, and given up if they grew."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import Matrix, Network, Scalar
from inweave.exact.arithmetic import Floats
from inweave.run.plan import Variant
from inweave.run.rules.fold import Asked
from inweave.run.rules.power import Way
from inweave.run.values.node import Price

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")

DEAR = Price(1e9, 1e-9, 1e-9)  # calls: whatever can be powered is
N, M, STEPS = 4, 3, 45


@inweave.program
def covariance(A: Matrix["n", "n"], Q: Matrix["n", "n"], *, steps: int):
    return inweave.iterate(lambda P: A @ P @ A.T + Q, Q, steps)


@inweave.program
def both(
    A: Matrix["n", "n"],
    B: Matrix["m", "m"],
    X: Matrix["n", "m"],
    C: Matrix["n", "m"],
    *,
    steps: int,
):
    return inweave.iterate(lambda X: A @ (X @ B + C) - 2 * C, X, steps)


@inweave.program
def decaying(A: Matrix["n", "n"], X: Matrix["n", "n"], g: Scalar, *, steps: int):
    return inweave.iterate(lambda X: g * (A.T @ X @ A), X, steps)


@inweave.program
def from_the_left(A: Matrix["n", "n"], X: Matrix["n", "m"], C: Matrix["n", "m"], *, steps: int):
    return inweave.iterate(lambda X: A @ X + C, X, steps)


@inweave.program
def from_the_right(B: Matrix["m", "m"], X: Matrix["n", "m"], C: Matrix["n", "m"], *, steps: int):
    return inweave.iterate(lambda X: X @ B.T - C, X, steps)


@inweave.program
def read_twice(A: Matrix["n", "n"], X: Matrix["n", "n"], *, steps: int):
    return inweave.iterate(lambda X: A @ X @ A.T + X, X, steps)


SHAPES = {
    covariance: {"A": (N, N), "Q": (N, N)},
    both: {"A": (N, N), "B": (M, M), "X": (N, M), "C": (N, M)},
    decaying: {"A": (N, N), "X": (N, N), "g": (1, 1)},
    from_the_left: {"A": (N, N), "X": (N, M), "C": (N, M)},
    from_the_right: {"B": (M, M), "X": (N, M), "C": (N, M)},
}


def compiled(program: inweave.Program, steps: int = STEPS) -> Network:
    sizes = {"n": N, "m": M} if "C" in SHAPES[program] else {"n": N}
    return inweave.compile(program, **sizes, steps=steps, verify=False)


def by_powers(network: Network, **more: bool) -> Variant:
    variant = network.plan.from_inputs
    way = Variant(*variant._made, Asked(Way(DEAR, joint=False, **(more or {"looks": True}))))
    way.unseen = variant
    return way


def markov(rng: np.random.Generator, size: int) -> np.ndarray:
    P = rng.random((size, size))
    return P / P.sum(axis=1, keepdims=True)


def mild(rng: np.random.Generator, size: int) -> np.ndarray:
    A = rng.normal(size=(size, size))
    return A / np.linalg.norm(A, 2)


def far(rng: np.random.Generator, size: int) -> np.ndarray:
    """Powers grow to thousands before they fall."""
    return 0.7 * np.eye(size) + 20.0 * np.eye(size, k=1) + 0 * mild(rng, size)


def drawn(program, matrix, seed: int, dtype=np.float64, lead: tuple[int, ...] = ()):
    rng = np.random.default_rng(seed)
    given = {}
    for name, (rows, cols) in SHAPES[program].items():
        if name in "AB":
            each = [matrix(rng, rows) for _ in range(int(np.prod(lead)))]
            given[name] = np.array(each).reshape(*lead, rows, cols)
        else:
            given[name] = (
                np.full((1, 1), 0.9) if name == "g" else rng.normal(size=(*lead, rows, cols))
            )
    return {("input", name): value.astype(dtype) for name, value in given.items()}


def exact(program, given) -> np.ndarray:
    """The loop in rational numbers."""
    of = {name: np.vectorize(lambda x: Fraction(float(x)), otypes=[object])(x)
          for (_, name), x in given.items()}  # fmt: skip
    A, B = of.get("A"), of.get("B")
    if program is from_the_left:
        value, step = of["X"], lambda X: A @ X + of["C"]
    elif program is from_the_right:
        value, step = of["X"], lambda X: X @ B.T - of["C"]
    elif program is covariance:
        value, step = of["Q"], lambda P: A @ P @ A.T + of["Q"]
    elif program is both:
        value, step = of["X"], lambda X: A @ (X @ B + of["C"]) - 2 * of["C"]
    else:
        value, step = of["X"], lambda X: of["g"][0, 0] * (A.T @ X @ A)
    for _ in range(STEPS):
        value = step(value)
    return value


def missed(found, right) -> float:
    gap = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])(found) - right
    return float(max(abs(x) for x in gap.flat) / max(abs(x) for x in right.flat))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("matrix", [markov, mild, far])
@pytest.mark.parametrize("program", SHAPES, ids=lambda p: p.name)
def test_the_digits_of_steps_are_kept_whatever_the_matrices(program, matrix, dtype):
    network, floats = compiled(program), Floats(np, np.dtype(dtype))
    way = by_powers(network)
    assert [node.op for node in way.nodes].count("grown") == 1
    for seed in range(3):
        given = drawn(program, matrix, seed, dtype)
        right = exact(program, given)
        (by_steps,) = network.plan.from_inputs.run(given, floats)
        (found,) = way.run(given, floats)
        few = 8 * float(np.finfo(dtype).eps)
        assert missed(found, right) <= 10 * missed(by_steps, right) + few


@pytest.mark.parametrize("program", SHAPES, ids=lambda p: p.name)
def test_powers_are_trusted_where_they_stay_small_and_only_there(program):
    bound = by_powers(compiled(program)).bind(Floats())
    assert not bound.grown(drawn(program, markov, 0)).any()
    assert bound.grown(drawn(program, far, 0)).all()


@pytest.mark.parametrize("lead", [(0,), (1,), (5,), (2, 3)])
@pytest.mark.parametrize("shared", [(), ("A",), ("A", "B"), ("C", "Q", "X")], ids=str)
@pytest.mark.parametrize("program", SHAPES, ids=lambda p: p.name)
def test_prompts_stand_side_by_side_and_share_what_they_share(program, shared, lead):
    network = compiled(program)
    given = drawn(program, markov, 1, lead=lead)
    for name in shared:
        if ("input", name) in given:
            given["input", name] = drawn(program, markov, 2)["input", name]
    (found,), (steps,) = (
        by_powers(network).run(given, Floats()),
        network.plan.from_inputs.run(given, Floats()),
    )
    assert found.shape == steps.shape
    np.testing.assert_allclose(found, steps, rtol=1e-12, atol=1e-13)


def test_one_prompt_that_grows_is_seen_among_others():
    given = drawn(covariance, markov, 3, lead=(5,))
    given["input", "A"][3] = far(np.random.default_rng(0), N)
    way = by_powers(compiled(covariance))
    grown = way.bind(Floats()).grown(given)[:, 0, 0]
    assert grown.tolist() == [i == 3 for i in range(5)]
    (found,), (steps,) = way.run(given, Floats()), way.unseen.run(given, Floats())
    assert (found[3] == steps[3]).all()
    assert (found != steps).any()


def test_what_multiplies_from_one_side_or_reads_twice_stays_as_it_is():
    network = inweave.compile(read_twice, n=N, steps=5, verify=False)
    assert any(node.op == "loop" for node in by_powers(network).nodes)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 64, 100])
@pytest.mark.parametrize("program", SHAPES, ids=lambda p: p.name)
def test_every_number_of_steps_is_the_one_asked_for(program, steps):
    network = compiled(program, steps)
    given = drawn(program, mild, 4)
    (found,), (right,) = (
        by_powers(network, any_matrix=True).run(given, Floats()),
        network.plan.from_inputs.run(given, Floats()),
    )
    np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-9 * abs(right).max())


def test_many_steps_are_few_products():
    """300 steps of a covariance are nine squarings, not 600 products."""
    network = compiled(covariance, 300)
    for way in (network.plan.from_inputs.alone, network.plan.from_inputs.batched):
        ops = [node.op for node in way.nodes]
        assert "loop" not in ops
        assert ops.count("matmul") < 60
