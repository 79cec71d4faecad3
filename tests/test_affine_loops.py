"""Affine loops collapse however they are written, and at every size.

`optimize="depth"` brings whatever is affine in what a loop carries to `x ← A x + c`, or to
`x ← L x R + c`. What reaches the bound and what takes more layers is said in docs/howto/depth.md.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.proof.degree import degree, lower_bound
from scripts.least_depth import LONGEST, PROGRAMS, network, sizes
from tests.fuzz import equal_in_rationals

TARGETS = ("elsa", "lsa")
OMEGAS = [0.5, 0.25, 2.0, 1.0, 0.75, 1.5, 0.125, 3.0, 0.875]


# -- one program for each way to write a loop ------------------------------------------------------
@inweave.program
def number(a: Scalar, c: Scalar, x: Scalar, *, steps: int):
    return inweave.iterate(lambda x: a * x + c, x, steps)


@inweave.program
def number_beside_a_vector(A: Matrix["d", "d"], b: Vector["d"], s: Scalar, *, steps: int):
    return inweave.iterate(lambda w, q: (A @ w + q * b, s * q + b @ w), (b, s), steps)[0]


@inweave.program
def two_sided(A: Matrix["d", "d"], B: Matrix["d", "d"], C: Matrix["d", "d"], *, steps: int):
    return inweave.iterate(lambda W: A @ W @ B + C, C, steps)


@inweave.program
def covariance(A: Matrix["d", "d"], Q: Matrix["d", "d"], *, steps: int):
    return inweave.iterate(lambda P: A @ P @ A.T + Q, inweave.zeros(A.shape), steps)


@inweave.program
def turned(A: Matrix["d", "d"], C: Matrix["d", "d"], *, steps: int):
    return inweave.iterate(lambda W: A @ W.T + C, C, steps)


@inweave.program
def turned_from_the_right(A: Matrix["d", "d"], C: Matrix["d", "d"], *, steps: int):
    return inweave.iterate(lambda W: W.T @ A + C, C, steps)


@inweave.program
def entrywise(a: Vector["d"], b: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: a * w + b, b, steps)


@inweave.program
def reflection(a: Vector["d"], c: Vector["d"], v: Vector["d"], *, steps: int):
    return inweave.iterate(lambda v: v - a * (c @ v), v, steps)


@inweave.program
def loop_in_a_loop(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: inweave.iterate(lambda v: A @ v + b, w, 3), b, steps)


@inweave.program
def listed(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    x = b
    for omega in (OMEGAS * 4)[:steps]:
        x = x + omega * (b - A @ x)
    return x


@inweave.program
def listed_momentum(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    x, v = b, b
    for omega in (OMEGAS * 4)[:steps]:
        v = omega * v - A @ x
        x = x + v
    return x


@inweave.program
def loop_around_a_loop(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: b + inweave.iterate(lambda v: A @ v + w, w, 3), b, steps)


AT_THE_BOUND = (
    number, number_beside_a_vector, two_sided, covariance, turned, turned_from_the_right,
    entrywise, reflection, loop_in_a_loop, loop_around_a_loop, listed, listed_momentum,
)  # fmt: skip


@inweave.program
def both_sides_at_once(
    A: Matrix["d", "d"], B: Matrix["d", "d"], C: Matrix["d", "d"], *, steps: int
):
    return inweave.iterate(lambda W: W - A @ W - W @ B + C, C, steps)


@inweave.program
def matrix_beside_a_vector(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    return inweave.iterate(lambda W, v: (A @ W + v @ b.T, A @ v + W @ b), (A, b), steps)[0]


@inweave.program
def matrix_entrywise(A: Matrix["d", "d"], C: Matrix["d", "d"], *, steps: int):
    return inweave.iterate(lambda W: A * W + C, C, steps)


@inweave.program
def matrix_and_entrywise(A: Matrix["d", "d"], a: Vector["d"], b: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: A @ w + a * w + b, b, steps)


@inweave.program
def loop_around_a_long_loop(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    def inner(w):
        return inweave.iterate(lambda v: v - A @ v + w, w, 10)

    return inweave.iterate(lambda w: b + inner(w), b, steps)


ABOVE_IT = {  # by so many layers at most
    both_sides_at_once: 2, matrix_beside_a_vector: 2, matrix_entrywise: 3, matrix_and_entrywise: 1,
    loop_around_a_long_loop: 1,
}  # fmt: skip


def at(program, steps: int, size: int) -> dict[str, int]:
    return dict.fromkeys(program.size_names, size) | {"steps": steps}


def bound(program, **sizes: int) -> int:
    found, exact = degree(program.trace(**sizes))
    assert exact
    return lower_bound(found)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("program", [*AT_THE_BOUND, *ABOVE_IT], ids=lambda program: program.name)
def test_layers_are_as_few_as_is_said(program):
    """Where the bound is just not going up; one target for some sizes, the other for others."""
    for size, target in ((1, "elsa"), (2, "elsa"), (3, "lsa")):
        for steps in (1, 2, 4, 8, 13, 26):
            here = at(program, steps, size)
            found = network(program, here, target).depth - bound(program, **here)
            assert 0 <= found <= ABOVE_IT.get(program, 0), (size, steps, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", [*AT_THE_BOUND, *ABOVE_IT], ids=lambda program: program.name)
def test_collapsed_loops_are_the_program(program, target):
    """Every pass is checked, the certificate is made, and exact rationals are put through it."""
    for size, steps in ((1, 4), (2, 3)):
        net = inweave.compile(program, optimize="depth", target=target, **at(program, steps, size))
        assert net.certificate is not None
        assert equal_in_rationals(net)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("name", PROGRAMS)
def test_data_of_one_row_or_column_is_like_any_other(name):
    program = PROGRAMS[name]
    for small in ({"n": 1, "d": 1, "m": 1}, {"n": 3, "d": 1, "m": 1}, {"n": 1, "d": 2, "m": 2}):
        for steps in (1, 2, 3, 4) if name in LONGEST else (1, 3, 8, 14):
            here = sizes(program, small, steps)
            assert network(program, here).depth == bound(program, **here), here


def test_one_step_of_any_loop_is_its_step():
    net = network(two_sided, {"d": 2, "steps": 1})
    assert net.depth == 1

    @inweave.program
    def square(A: Matrix["d", "d"]):
        return inweave.iterate(lambda M: M @ M, A, 1)

    assert network(square, {"d": 2}).depth == 1


# -- loops that nobody thought of ------------------------------------------------------------------
OPERATIONS = {
    "mm": ("A@x", "x@A", "A@x@B", "x.T", "A@x.T", "s*x", "A*x", "x"),
    "mv": ("x@b", "x.T@b"),
    "ms": ("b@(x@a)",),
    "vm": ("x@b.T",),
    "vv": ("A@x", "a*x", "a*(b@x)", "s*x", "x", "A.T@x"),
    "vs": ("b@x",),
    "sm": ("x*A",),
    "sv": ("x*b",),
    "ss": ("s*x", "x"),
}


@st.composite
def loops(draw):
    """A loop over numbers, vectors and matrices, each of which moves all of them linearly."""
    kinds = draw(st.lists(st.sampled_from("svm"), min_size=1, max_size=2))
    steps = []
    for kind in kinds:
        terms = []
        for _ in range(draw(st.integers(1, 2))):
            j = draw(st.integers(0, len(kinds) - 1))
            made = draw(st.sampled_from(OPERATIONS[kinds[j] + kind]))
            terms.append((draw(st.sampled_from([1, -1, 0.5])), made, j))
        steps.append((terms, draw(st.booleans())))
    times, from_zero = draw(st.integers(1, 30)), draw(st.booleans())

    @inweave.program
    def drawn(A: Matrix["d", "d"], B: Matrix["d", "d"], a: Vector["d"], b: Vector["d"], s: Scalar):
        units = {"m": B, "v": b, "s": s}
        starts = [0 * units[kind] if from_zero else units[kind] for kind in kinds]

        def step(*state):
            out = []
            for kind, (terms, constant) in zip(kinds, steps, strict=True):
                known = [{"A": A, "B": B, "a": a, "b": b, "s": s, "x": state[j]} for *_, j in terms]
                made = [c * eval(how, {}, by)
                        for (c, how, _), by in zip(terms, known, strict=True)]  # fmt: skip
                out.append(sum(made[1:], made[0]) + (units[kind] if constant else 0 * units[kind]))
            return tuple(out) if len(out) > 1 else out[0]

        found = inweave.iterate(step, tuple(starts) if len(starts) > 1 else starts[0], times)
        return found[0] if len(starts) > 1 else found

    return drawn, times


@pytest.mark.filterwarnings("ignore:program 'drawn' does not use its input")
@pytest.mark.usefixtures("unchecked_passes")
@settings(max_examples=12)
@given(loops(), st.integers(1, 3), st.sampled_from(TARGETS))
def test_any_affine_loop_collapses_and_is_right(drawn, size, target):
    program, times = drawn
    net = inweave.compile(program, optimize="depth", target=target, verify=False, d=size)
    found, exact = net._degree
    assert not exact or net.depth >= lower_bound(found)
    assert net.depth <= max(
        2 * times, 9
    )  # 3^4 steps of two letters: 5 layers, and what is laid out
    if times <= 9:
        assert equal_in_rationals(net)


def test_what_is_listed_is_taken_in_its_order():
    """In float64, beside the loop itself: other numbers in each step, none of them twice."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(3, 3)) / 3, rng.normal(size=3)
    net = inweave.compile(listed, optimize="depth", d=3, steps=9)
    assert np.allclose(net(A=A, b=b), listed(A=A, b=b, steps=9), rtol=1e-12)


# -- loops that a loop inside of them outlives, numbers that are parts of matrices ----------------
@inweave.program
def inner_loop_stays(A: Matrix["n", "n"], x: Vector["n"]):
    def step(v):
        return inweave.iterate(lambda w: inweave.relu(A @ w + v), v, 2)

    return inweave.iterate(step, x, 1)


@inweave.program
def times_an_entry(E: Matrix["n", "m"], s: Scalar):
    return inweave.iterate(lambda a, _: (E[2, 0] * a, s), (s, E[2, 0]), 3)


@inweave.program
def once_with_a_number(s: Scalar):
    v = inweave.iterate(lambda z: z * (s * s), s, 1)
    return inweave.hstack([v, s]), v


@inweave.program
def an_entry_that_is_zero(A: Matrix[1, "n"], b: Vector["n"], d: Vector["n"]):
    return inweave.outer(d + np.array([0.5, 0, -1, 0.5]), b)[1, 2] * A


@inweave.program
def rows_entry_by_entry(A: Matrix["n", "n"], x: Vector["n"]):
    return inweave.iterate(lambda w: w * A[1] - w * A[:, 0] + x, x, 3)


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize(
    ("program", "sizes"),
    [
        (rows_entry_by_entry, {"n": 3}),
        (inner_loop_stays, {"n": 3}),
        (times_an_entry, {"n": 4, "m": 2}),
        (once_with_a_number, {}),
        (an_entry_that_is_zero, {"n": 4}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_odd_loops_and_entries_compile_in_every_mode(program, sizes, target, optimize):
    network = inweave.compile(program, target=target, optimize=optimize, **sizes)
    rng = np.random.default_rng(0)
    inputs = {spec.name: rng.normal(size=spec.shape) for spec in network.inputs}
    found, expected = network(**inputs), program(**inputs)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("steps", [2, 5, 30])
@pytest.mark.parametrize("optimize", ["speed", "depth"])
def test_loops_with_matrices_of_numbers_are_one_matrix(optimize, steps):
    """`I + L` on one side or on both; whatever is added stays, and so do shifts as shifts."""
    L = 0.1 * (np.eye(4, k=1) + np.eye(4, k=-1) - 2 * np.eye(4))

    @inweave.program
    def heat(U: Matrix["n", "n"], u: Vector["n"], c: Vector["n"]):
        plate = inweave.iterate(lambda U: U + L @ U + U @ L, U, steps)
        rod = inweave.iterate(lambda u: u + 0.5 * (L @ u) + c, u, steps)
        scaled = inweave.iterate(lambda u: 0.3 * (L @ u), u, steps)
        return plate, rod, scaled

    network = inweave.compile(heat, n=4, optimize=optimize)
    assert equal_in_rationals(network)
    if optimize == "depth" and steps > 2:
        assert network.depth <= 3


@pytest.mark.parametrize(
    ("n", "steps", "depth"), [(4, 1000, 1), (40, 1000, 1000), (2, 20_001, 20_001)]
)
def test_powers_of_numbers_are_written_out_only_while_they_are_short(n, steps, depth):
    """A step adds some 55 bits to every entry; beyond 25 million in all, a loop stays a loop."""
    L = 0.1 * (np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n))

    @inweave.program
    def heat(u: Vector["n"]):
        return inweave.iterate(lambda u: u + L @ u, u, steps)

    assert inweave.compile(heat, n=n, optimize="depth").depth == depth
    assert without_loops(inweave.compile(heat, n=n, optimize="speed"))


def without_loops(net):
    """Whether the power of a constant matrix is there before any call, in network or plan."""
    ways = net.plan.from_inputs.alone, net.plan.from_inputs.batched
    return not any(node.op in ("loop", "grown") for way in ways for node in way.nodes)


@pytest.mark.parametrize(
    ("n", "steps", "depth"), [(10, 50, 1), (20, 100, 1), (100, 100, 100), (100, 300, 300)]
)
def test_powers_are_as_long_however_a_step_is_written(n, steps, depth):
    """0.2 inside the matrix, beside it, and beside shifts up and down, whose powers are dense."""
    L, none = np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n), inweave.zeros(1)
    M = 0.2 * L

    def shifted(u):
        up, down = inweave.vstack([u[1:], none]), inweave.vstack([none, u[:-1]])
        return 0.2 * (up + down - 2 * u)

    def compiled(slope, optimize):
        @inweave.program
        def heat(u: Vector["n"], f: Vector["n"]):
            return inweave.iterate(lambda u: u + slope(u) + f, u, steps)

        return inweave.compile(heat, n=n, optimize=optimize)

    rng = np.random.default_rng(0)
    u, f = rng.normal(size=(2, n))
    for optimize in ("speed", "depth"):
        ways = (lambda u: M @ u, lambda u: 0.2 * (L @ u), shifted)
        inside, beside, moved = (compiled(way, optimize) for way in ways)
        if optimize == "depth":
            assert {net.depth for net in (inside, beside, moved)} == {depth}
            assert inside.stored_numbers == beside.stored_numbers
        else:
            assert all(map(without_loops, (inside, beside, moved)))
        np.testing.assert_allclose(beside(u=u, f=f), inside(u=u, f=f), rtol=1e-9)
        np.testing.assert_allclose(moved(u=u, f=f), inside(u=u, f=f), rtol=1e-9)


def test_coefficients_count_where_they_are_multiplied_into_powers():
    """In sums of powers and beside other values; a power alone is as long as without one."""
    n, steps = 100, 300
    L = np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n)

    @inweave.program
    def summed(u: Vector["n"], f: Vector["n"]):
        return inweave.iterate(lambda u: 0.2 * (L @ u) + f, u, steps)

    @inweave.program
    def wave(u: Vector["n"], v: Vector["n"]):
        return inweave.iterate(lambda u, v: (u + v, v + 0.2 * (L @ u)), (u, v), steps)[0]

    for program in (summed, wave):
        assert inweave.compile(program, n=n, optimize="depth").depth == steps


def test_slices_with_constant_coefficients_are_one_matrix_for_speed():
    """Ends that are held make a matrix that is not symmetric; so do two times of a wave."""
    none = inweave.zeros(1)

    @inweave.program
    def rod(u: Vector["n"], f: Vector["n"]):
        def step(u):
            return u + 0.2 * inweave.vstack([none, u[2:] - 2 * u[1:-1] + u[:-2], none]) + f

        return inweave.iterate(step, u, 20)

    @inweave.program
    def string(u: Vector["n"], v: Vector["n"], f: Vector["n"]):
        def step(u, v):
            beside = inweave.vstack([u[1:], none]) + inweave.vstack([none, u[:-1]])
            return 2 * u - v + 0.25 * (beside - 2 * u) + f * f, u

        return inweave.iterate(step, (u, v), 20)[0]

    for program in (rod, string):
        network = inweave.compile(program, n=6, optimize="speed")
        assert without_loops(network)
        assert equal_in_rationals(network)


def test_large_constant_matrices_stay_steps_for_speed():
    """Their powers would be dense, and slices are quicker; nor are they computed to find out."""
    none = inweave.zeros(1)

    @inweave.program
    def rod(u: Vector["n"]):
        def step(u):
            return u + 0.2 * inweave.vstack([none, u[2:] - 2 * u[1:-1] + u[:-2], none])

        return inweave.iterate(step, u, 3)

    assert inweave.compile(rod, n=1200, optimize="speed", verify=False).depth == 3
