"""Least depth: `optimize="depth"` has as many layers as the degree asks for, and is still right.

The sweep over all numbers of steps is `scripts/least_depth.py`, which writes the table of
docs/explanation/lower-bound.md; here are some on either side of where the bound goes up.
"""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.proof.degree import lower_bound
from scripts import conditions, least_depth
from scripts.least_depth import PROGRAMS, SMALL, bound, digits, network, rises, sizes
from tests.fuzz import equal_in_rationals
from tests.ways import compiled

TARGETS = ("elsa", "lsa")


def by_depth(name: str, steps: int, target: str = "elsa", **options):
    at = sizes(PROGRAMS[name], SMALL, steps)
    return inweave.compile(PROGRAMS[name], optimize="depth", target=target, **options, **at)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("name", PROGRAMS)
def test_depth_is_the_bound_where_it_goes_up(name):
    near = sorted({T - by for T in rises(name)[1:] for by in (0, 1) if T <= 62})
    found = {
        (T, target): network(PROGRAMS[name], sizes(PROGRAMS[name], SMALL, T), target).depth
        for T in near
        for target in TARGETS[:: 1 if T < 10 else 2]
    }
    assert found == {(T, target): bound(PROGRAMS[name], T) for T, target in found}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "steps"),
    [("descent", 4), ("ridge_gd", 2), ("nesterov", 2), ("td0", 2), ("weighted_least_squares", 2),
     ("chebyshev", 4), ("newton_schulz", 3), ("hyperpower", 2)],
)  # fmt: skip
def test_a_network_whose_words_are_cut_is_the_program(name, steps, target):
    """Every pass is checked, the certificate is made, and exact rationals are put through it."""
    net = by_depth(name, steps, target)
    assert net.certificate is not None
    assert net.depth == net.depth_lower_bound
    assert equal_in_rationals(net, key=steps)


def test_four_steps_of_descent_fit_into_two_layers():
    """(uᵀXᵀX)(XᵀXXᵀ)(XXᵀy): cut between steps they would take three, as they do for speed."""
    at = sizes(PROGRAMS["descent"], SMALL, 4)
    assert by_depth("descent", 4, verify=False).depth == 2
    assert compiled(PROGRAMS["descent"], "collapsed", verify=False, **at).depth == 3


# -- loops of all kinds ----------------------------------------------------------------------------
def test_a_loop_of_one_step_that_adds_no_layer_has_none():
    """Two values that are both the start's: as one stacked value they were taken apart again."""

    @inweave.program
    def copied(A: Matrix["n", "n"], b: Vector["n"]):
        start = (A @ b, A @ b)
        return inweave.iterate(lambda w, v: (w + 0 * v, w + 0 * v), start, 1)[1]

    for target in TARGETS:
        assert inweave.compile(copied, n=2, optimize="depth", target=target).depth == 1


def test_one_step_of_which_one_value_is_read_is_no_deeper_than_without_a_loop():
    """bᵀ A³ b, beside a value that nothing reads: stacked on top of each other they took three."""

    @inweave.program
    def looped(A: Matrix["n", "n"], b: Vector["n"]):
        return b.T @ inweave.iterate(lambda w, v: (A @ (A @ (A @ w)), w + v), (b, b), 1)[0]

    for target in TARGETS:
        assert inweave.compile(looped, n=2, optimize="depth", target=target).depth == 2


def test_entries_that_are_multiplied_each_by_itself_are_no_deeper_than_for_speed():
    @inweave.program
    def scaled(A: Matrix["n", "n"], w: Vector["n"], x: Vector["n"]):
        return inweave.iterate(lambda w: w * A[1] - w * A[:, 0] + x, w, 3)

    assert inweave.compile(scaled, n=3, optimize="depth").depth <= 4


@st.composite
def loops(draw):
    """An affine loop over one or two vectors whose words are drawn; perhaps with a read-out."""
    carried = draw(st.integers(1, 2))
    letter = st.sampled_from(["A", "B", "A'", "s", "t"])
    words = st.lists(letter, max_size=3)
    term = st.tuples(st.sampled_from([1, -1, 2]), words, st.integers(-1, carried - 1))
    steps = draw(st.lists(st.lists(term, min_size=1, max_size=3),
                          min_size=carried, max_size=carried))  # fmt: skip
    start = draw(st.sampled_from(["zero", "b", "A b"]))
    front = draw(st.lists(st.sampled_from(["A", "B", "s"]), max_size=2))
    read = draw(st.booleans())
    times = draw(st.integers(1, 6))

    @inweave.program
    def drawn(A: Matrix["n", "n"], B: Matrix["n", "n"], b: Vector["n"], s: Scalar, t: Scalar):
        letters = {"A": A, "B": B, "A'": A.T}

        def times_word(word, x):
            for each in reversed(word):
                x = {"s": s, "t": t}[each] * x if each in "st" else letters[each] @ x
            return x

        def step(*state):
            made = [
                sum((c * times_word(word, b if j < 0 else state[j]) for c, word, j in terms), 0 * b)
                for terms in steps
            ]
            return tuple(made) if carried > 1 else made[0]

        first = {"zero": inweave.zeros(A.shape[0]), "b": b, "A b": A @ b}[start]
        found = inweave.iterate(step, (first,) * carried if carried > 1 else first, times)
        last = times_word(front, found[0] if carried > 1 else found)
        return b.T @ last if read else last

    return drawn


@pytest.mark.filterwarnings("ignore:program 'drawn' does not use its input")
@settings(max_examples=15)
@given(loops(), st.sampled_from(TARGETS))
@pytest.mark.usefixtures("unchecked_passes")
def test_any_affine_loop_is_right_and_no_deeper_than_cut_between_steps(program, target):
    net = inweave.compile(program, optimize="depth", target=target, verify=False, n=2)
    assert equal_in_rationals(net)
    assert net.depth <= compiled(program, "collapsed", target, verify=False, n=2).depth
    found, exact = net._degree
    assert not exact or net.depth >= lower_bound(found)


@pytest.mark.parametrize("spelled", ["2M − MAM", "M(2 − AM)", "(2 − MA)M", "M + M(1 − AM)", "loop"])
def test_newton_schulz_is_recognised_however_it_is_written(spelled):
    @inweave.program
    def inverse(A: Matrix["m", "m"], alpha: Scalar):
        two = 2 * inweave.eye(A.shape[0])
        steps = {
            "2M − MAM": lambda M: 2 * M - M @ A @ M,
            "M(2 − AM)": lambda M: M @ (two - A @ M),
            "(2 − MA)M": lambda M: (two - inweave.hold(M @ A)) @ M,
            "M + M(1 − AM)": lambda M: M + M @ (two / 2 - A @ M),
        }
        if spelled != "loop":
            return inweave.iterate(steps[spelled], alpha * A.T, 6)
        M = alpha * A.T
        for _ in range(6):
            M = 2 * M - M @ A @ M
        return M

    net = inweave.compile(inverse, optimize="depth", m=2)
    assert net.depth == net.depth_lower_bound == 5
    assert net.certificate is not None


def test_what_only_looks_like_newton_schulz_stays_a_loop():
    @inweave.program
    def other(A: Matrix["m", "m"], alpha: Scalar):
        return inweave.iterate(lambda M: 3 * M - M @ A @ M, alpha * A.T, 3)

    @inweave.program
    def turned(A: Matrix["m", "m"], alpha: Scalar):
        return inweave.iterate(lambda M: 2 * M - M @ A @ M.T, alpha * A, 3)

    for program in (other, turned):
        net = inweave.compile(program, optimize="depth", m=2)
        assert any(module.repeat > 1 for module in net.modules)
        assert equal_in_rationals(net)


def test_a_loop_over_rows_stays_one():
    """Its weights follow the number of rows, which those of a collapsed one would not."""
    net = gallery.get("delta_net").compile(optimize="depth", verify=False, n=5, d=3, k=2)
    assert any(module.repeat > 1 for module in net.modules)


def test_coefficients_may_be_carried_in_any_way():
    weights = np.array([0.5, 0.25, 2.0, 1.0, 0.75])

    @inweave.program
    def scanned(A: Matrix["n", "n"], b: Vector["n"]):
        def step(x, omega):
            return x + omega * (b - A @ x), None

        return inweave.scan(step, inweave.zeros(A.shape[0]), inweave.constant(weights))[0]

    @inweave.program
    def grown(A: Matrix["n", "n"], b: Vector["n"]):
        def step(x, omega):
            return x + omega * (b - A @ x), 0.5 * omega

        return inweave.iterate(step, (inweave.zeros(A.shape[0]), inweave.ones(1)), 5)

    for program in (scanned, grown):
        net = inweave.compile(program, optimize="depth", n=2)
        assert net.depth == net.depth_lower_bound == 2
        assert equal_in_rationals(net)


def test_steps_of_different_symmetric_matrices_are_not_taken_for_symmetric():
    @inweave.program
    def drawn_together(X: Matrix["n", "d"], Z: Matrix["n", "d"], b: Vector["d"]):
        def step(x, omega):
            return x - omega * (X.T @ (X @ x)) - Z.T @ (Z @ x), 0.5 * omega

        return inweave.iterate(step, (b, inweave.ones(1)), 12)[0]

    net = inweave.compile(drawn_together, optimize="depth", n=3, d=2)
    assert net.depth == net.depth_lower_bound == 3
    assert net.certificate is not None


# -- digits ----------------------------------------------------------------------------------------
@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize(
    ("name", "steps"),
    [("descent", 40), ("ridge_gd", 26), ("nesterov", 20), ("td0", 60),
     ("weighted_least_squares", 20), ("kernel_regression", 80), ("chebyshev", 13)],
)  # fmt: skip
def test_least_depth_costs_less_than_a_digit(name, steps):
    found = digits(name, steps)
    assert found.network <= 10 * found.program, found


@pytest.mark.usefixtures("unchecked_passes")
def test_chebyshev_loses_what_its_gram_matrix_loses():
    """Eigenvalues from 1 to 100: also the network as written multiplies XᵀX and Xᵀy apart."""
    found = digits("chebyshev", 40)
    assert found.network <= 3 * found.faithful, found


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize(("name", "steps"), [("newton_schulz", 8), ("hyperpower", 6)])
def test_geometric_sums_lose_at_most_a_bit_per_step(name, steps):
    found = digits(name, steps)
    assert found.network <= 2**steps * np.finfo(float).eps, found


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("name", ["ridge", "heavy_ball", "nesterov", "td0"])
def test_at_condition_ten_least_depth_costs_less_than_a_digit(name):
    written, _, deep = conditions.losses(name, 10.0)
    assert deep <= 10 * written


def test_the_page_says_of_every_program_what_depth_costs():
    page = conditions.PAGE.read_text(encoding="utf-8")
    for name in PROGRAMS:
        assert f"| {name}, {conditions.STEPS.get(name, 81)} steps |" in page


# -- names -----------------------------------------------------------------------------------------
@pytest.mark.usefixtures("unchecked_passes")
def test_blocks_of_collapsed_loops_are_named_after_what_they_hold():
    ridge = network(PROGRAMS["ridge"], sizes(PROGRAMS["ridge"], SMALL, 27)).layout.names
    assert {"A›A³›A⁹", "w₁›w₃›w₉", "w₂₇−w₉"} <= set(ridge)
    cut = network(PROGRAMS["descent"], sizes(PROGRAMS["descent"], SMALL, 13)).layout.names
    assert {"uᵀA", "y−X·w₁"} <= {part for name in cut for part in name.split("›")}
    long = network(PROGRAMS["ridge_gd"], sizes(PROGRAMS["ridge_gd"], SMALL, 10**6)).layout.names
    assert not any(name.startswith("part") for name in (*ridge, *cut, *long))


def test_the_matrix_of_a_loop_has_the_name_of_no_input():
    net = by_depth("newton_schulz", 3, verify=False)
    assert "A" in net.layout.names
    assert any(name.startswith("B") for name in net.layout.names)


def test_the_page_holds_a_table_of_every_program():
    page = least_depth.PAGE.read_text()
    for name in PROGRAMS:
        assert f"**{name}**" in page
    assert page.count("all at the bound") == len(PROGRAMS)


@inweave.program
def by_an_entry(A: Matrix["d", "d"], x: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: A[0, 1] * w + x, x, steps)


@inweave.program
def by_a_sum(x: Vector["d"], *, steps: int):
    k = x.sum()
    return inweave.iterate(lambda w: w + k * w + k * x, x, steps)


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("program", [by_an_entry, by_a_sum])
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_where_collapsing_costs_more_than_it_saves_a_loop_stays(program, steps, target):
    asked = {"d": 3, "steps": steps, "target": target}
    as_written = inweave.compile(program, **asked)
    assert inweave.compile(program, optimize="depth", **asked).depth <= as_written.depth


def test_a_value_of_very_many_layers_before_a_loop_takes_no_deep_recursion():
    @inweave.program
    def late(s: Scalar, *, steps: int) -> Scalar:
        for i in range(300):
            s = inweave.hold(s * s)
            s = inweave.hold(-s) if i.bit_count() % 2 else s  # no loop: never the same thrice
        return inweave.iterate(lambda x: x + s, s, steps)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 400)
    try:
        net = inweave.compile(late, optimize="depth", steps=3, verify=False)
    finally:
        sys.setrecursionlimit(limit)
    assert net.depth > 400
