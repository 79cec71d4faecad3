"""The paper's Appendix A.4: Gaussian elimination from components, traced, exact and approximate."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave.paper.division import chord_error, geometric_knots, invsqr
from inweave.paper.elimination import (
    approximate_division,
    back_substitution,
    exact_division,
    forward_elimination,
    gaussian_elimination,
)
from tests.rational_systems import draw, exact, solvable, solve_exactly


# -- elimination ----------------------------------------------------------------------------------
@pytest.mark.parametrize("m", [2, 3, 4, 5])
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_elimination_with_exact_division_is_exact_over_the_rationals(m, seed):
    F, a = solvable(m, seed)
    x = gaussian_elimination(m, knots=None)(F, a)
    assert x.tolist() == solve_exactly(F, a)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_every_traced_matrix_has_its_printed_form(m):
    """Equations (119) to (157)."""
    F, a = solvable(m, m)
    trace = gaussian_elimination(m, knots=None).trace(F, a)
    I, zero = exact(np.eye(m + 1)), exact(np.zeros((m + 1, m + 1)))
    P = zero.copy()
    P[:m, :m], P[:m, m] = F, a
    for k in range(m - 1):  # forward elimination, equations (119) to (132)
        step = trace[f"FE[{k}]"]
        p, below = P[k, k], slice(k + 1, m)
        expected = {name: zero.copy() for name in ("Z1", "Z2", "Z3", "Z4", "Z5")}
        expected["Z1"][k, k], expected["Z2"][k, k], expected["Z3"][k, k] = p, 1 / p**2, -1 / p
        expected["Z4"][below, k], expected["Z5"][below, k] = P[below, k], -P[below, k] / p
        expected["Z6"] = expected["Z5"] + I
        after = P.copy()
        for i in range(k + 1, m):
            after[i] = P[i] - P[i, k] / p * P[k]
        assert (step.before == P).all()
        assert list(step.Z) == list(expected)
        assert all((step.Z[name] == expected[name]).all() for name in expected)
        assert (step.after == after).all()
        P = after
    assert (np.tril(P[:, :-1], -1) == 0).all()
    x = solve_exactly(F, a)
    Q = P
    for k in reversed(range(m)):  # back substitution, equations (133) to (157)
        step = trace[f"BS1[{k}]"]
        assert (step.before == Q).all()
        mid, expected = Q.copy(), {}
        if k < m - 1:
            expected["Z1"] = zero.copy()
            expected["Z1"][k + 1, m] = x[k + 1]
            expected["Z2"] = I - expected["Z1"]
            mid[:, m] = Q[:, m] - x[k + 1] * Q[:, k + 1]
            expected["Z3"] = mid
        q, names = Q[k, k], ("Z1", "Z2", "Z3") if k == m - 1 else ("Z4", "Z5", "Z6")
        for name, value in zip(names, (q, 1 / q**2, 1 / q), strict=True):
            expected[name] = zero.copy()
            expected[name][k, k] = value
        expected["Z4" if k == m - 1 else "Z7"] = I.copy()
        expected["Z4" if k == m - 1 else "Z7"][k, k] = 1 / q
        after = mid.copy()
        after[k] = mid[k] / q
        after[k, k] = 0
        assert sorted(step.Z) == sorted(expected)
        assert all((step.Z[name] == expected[name]).all() for name in expected)
        assert (step.after == after).all()
        Q = after
    assert trace.solution.tolist() == x


@pytest.mark.parametrize("ratio", [1.3, 1.1, 1.03])
@pytest.mark.parametrize("m", [2, 4, 7])
def test_the_approximate_solver_is_as_near_lapack_as_its_knots_allow(m, ratio):
    knots = geometric_knots(0.05, 10.0, ratio)
    solve, error = gaussian_elimination(m, knots=knots), chord_error(ratio)
    for seed in range(3):
        X = draw(seed, 50, m)
        F, a = X.T @ X / 50 + 0.1 * np.eye(m), draw(seed + 99, m)
        reference = np.linalg.solve(F, a)
        bound = (m + 1) * np.linalg.cond(F) * error
        off = np.linalg.norm(solve(F, a) - reference) / np.linalg.norm(reference)
        assert off <= bound
        assert off >= error / 1e3  # a bound that could be met by nothing says nothing


def test_finer_knots_bring_the_error_down_with_the_square_of_the_log_ratio():
    X = draw(5, 30, 4)
    F, a = X.T @ X / 30, draw(6, 4)
    off = [
        abs(gaussian_elimination(4, knots=geometric_knots(0.05, 10.0, ratio))(F, a)
            - np.linalg.solve(F, a)).max()
        for ratio in (1.2, 1.2 ** (1 / 16))
    ]  # fmt: skip
    assert off[1] < off[0] / 50


@pytest.mark.parametrize("seed", range(3))
def test_approximate_division_solves_a_system_with_a_shifted_diagonal_exactly(seed):
    F, a = solvable(4, seed)
    knots = [Fraction(2**k, 100) for k in range(14)]
    trace = gaussian_elimination(4, knots=knots).trace(F, a)
    s, shifted = invsqr(knots), F.copy()
    pivots = [trace[f"BS1[{k}]"].before[k, k] for k in range(4)]
    for k, p in enumerate(pivots):
        shifted[k, k] += 1 / (p * s(p)) - p
    found = [trace[f"BS1[{k}]"].after[k, 4] for k in range(4)]
    assert found == solve_exactly(shifted, a)


def test_batches_columns_and_vectors_are_solved_alike():
    X = draw(7, 5, 20, 3)
    F, a = X.mT @ X / 20, draw(8, 3)
    solve = gaussian_elimination(3, knots=geometric_knots(0.01, 20.0, 1.05))
    batch = solve(F, a)
    assert batch.shape == (5, 3)
    assert batch[2] == pytest.approx(solve(F[2], a), rel=1e-12)
    assert np.array_equal(solve(F[2], a[:, None]), solve(F[2], a)[:, None])
    assert batch == pytest.approx(np.linalg.solve(F, a[:, None])[..., 0], rel=0.1, abs=0.05)


def test_the_two_halves_can_be_run_by_themselves_with_either_division():
    F, a = np.array([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0])
    P = np.zeros((3, 3))
    P[:2, :2], P[:2, 2] = F, a
    for divide in (exact_division(), approximate_division(invsqr(geometric_knots(1, 9, 1.001)))):
        *_, top = forward_elimination(P, divide)
        *_, last = back_substitution(top.after, divide)
        assert last.after[:2, 2] == pytest.approx(np.linalg.solve(F, a), rel=1e-5)


# -- errors ---------------------------------------------------------------------------------------
KNOTS = geometric_knots(0.1, 10.0, 1.1)


@pytest.mark.parametrize("m", [1, 0, -2, 2.0, True, "3"])
def test_fewer_than_two_unknowns_are_refused(m):
    with pytest.raises(inweave.InputError, match="m must be an int of at least 2"):
        gaussian_elimination(m, knots=KNOTS)


@pytest.mark.parametrize(
    ("knots", "error", "message"),
    [
        ([1.0, 3.0, 2.0], inweave.InputError, r"knots must increase, but knot 2 is 2.0 after 3.0"),
        ([1.0, 1.0], inweave.InputError, "knots must increase"),
        ([0.0, 1.0], inweave.InputError, "knots must be positive, the first is 0.0"),
        ([1.0, np.nan, 2.0], inweave.InputError, "knots must be finite"),
        ([1.0], inweave.ShapeError, "at least 2 numbers"),
        (["a", "b"], inweave.DTypeError, "knots must hold real numbers"),
        ([1e-200, 1.0], inweave.InputError, "cannot be computed|finite number"),
    ],
)
def test_bad_knots_are_refused(knots, error, message):
    with pytest.raises(error, match=message):
        gaussian_elimination(3, knots=knots)


@pytest.mark.parametrize(
    ("F", "message"),
    [
        (
            [[1.0, 2.0], [2.0, 4.0]],
            r"pivot 1 of 2 is -?0\.\d+.*outside the domain 0.1 <= \|x\| <= 10.0",
        ),
        ([[0.0, 1.0], [1.0, 0.0]], r"pivot 0 of 2 is 0.0, outside .* leading minors"),
        ([[50.0, 1.0], [1.0, 1.0]], "pivot 0 of 2 is 50.0.*widen the knots"),
    ],
)
def test_a_pivot_outside_the_knots_is_named(F, message):
    with pytest.raises(inweave.DomainError, match=message):
        gaussian_elimination(2, knots=KNOTS)(F, [1.0, 1.0])


def test_a_zero_pivot_is_named_with_exact_division_too():
    singular = exact([[1, 2], [2, 4]])
    for F in (singular, singular.astype(float)):
        with pytest.raises(inweave.DomainError, match=r"pivot 1 of 2 is 0.*cannot divide by it"):
            gaussian_elimination(2, knots=None)(F, F[0])


def test_a_negative_pivot_whose_digits_are_lost_is_an_error_not_an_answer():
    F, a = np.diag([2.0, -899.3]), np.ones(2)
    solve = gaussian_elimination(2, knots=geometric_knots(1e-3, 1e3, 1.1))
    with pytest.raises(inweave.DomainError, match=r"pivot 1 of 2 is -899.3: .* cancels"):
        solve(F, a)
    unchecked, right = solve(F, a, check=False)[1], solve.sigma.piecewise(-899.3) * -899.3
    assert abs(unchecked / right - 1) > 1e-6
    assert solve(abs(F), a)[1] == pytest.approx(-right, rel=1e-12)


def test_overflow_is_an_error():
    F = np.array([[1e-200, 1e200], [1e200, 1.0]])
    with pytest.raises(inweave.DomainError, match="elimination left the range of float64"):
        gaussian_elimination(2, knots=None)(F, np.ones(2))


@pytest.mark.parametrize(
    ("F", "a", "error", "message"),
    [
        (np.eye(3), np.ones(2), inweave.ShapeError, "F must be 2 x 2, got 3 x 3"),
        (
            np.eye(2),
            np.ones(3),
            inweave.ShapeError,
            r"a must have shape \(2,\) or \(2, 1\), got \(3,\)",
        ),
        (np.ones(2), np.ones(2), inweave.ShapeError, "F must be a matrix"),
        (np.full((2, 2), np.inf), np.ones(2), inweave.InputError, "F must be finite"),
        (np.eye(2), [np.nan, 1.0], inweave.InputError, "a must be finite"),
        (np.eye(2) * 1j, np.ones(2), inweave.DTypeError, "F must hold real numbers"),
        (exact(np.eye(2)), np.ones(2), inweave.InputError, "both be floats or both be Fractions"),
        (np.ones((3, 2, 2)), np.ones((4, 2)), inweave.ShapeError, "batch axes"),
    ],
)
def test_systems_that_cannot_be_read_are_refused(F, a, error, message):
    with pytest.raises(error, match=message):
        gaussian_elimination(2, knots=KNOTS)(F, a)


def test_a_trace_lists_its_steps_and_says_which_it_does_not_have():
    trace = gaussian_elimination(2, knots=None).trace(np.eye(2), np.ones(2))
    assert [step.name for step in trace] == ["FE[0]", "BS1[1]", "BS1[0]"]
    assert len(trace) == 3
    with pytest.raises(inweave.BlockError, match=r"no step 'FE\[9\]'; steps are FE\[0\], BS1\[1\]"):
        trace["FE[9]"]
