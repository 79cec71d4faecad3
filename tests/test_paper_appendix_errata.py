"""The slips of the appendix that docs/errata.md lists: the print fails, the repair holds.

In comments and names, letters with the paper's meaning are 1-based as printed; code is 0-based.
"""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave.paper import components as c
from inweave.paper.division import invsqr, sigma
from inweave.paper.elimination import gaussian_elimination
from inweave.paper.properties import mask
from tests.rational_systems import draw, exact, solvable, solve_exactly

KNOTS = [Fraction(k) for k in (1, 2, 3, 5, 8)]  # x_1, ..., x_{n+1} with n = 4


@pytest.fixture
def system():
    """F, a, the exact solution and the exact trace of a system with m = 4."""
    F, a = solvable(4, 3)
    return F, a, solve_exactly(F, a), gaussian_elimination(4, knots=None).trace(F, a)


def relu(z):
    return max(z, 0)


# -- A.2, components ------------------------------------------------------------------------------
def test_two_units_are_enough_for_an_affine_map():
    gamma, C, X = draw(0, 2, 3), draw(1, 2, 3), draw(2, 2, 3)
    assert c.affine(gamma, C).V.shape[0] == 2
    assert c.apply(c.affine(gamma, C), X) == pytest.approx(gamma * X + C)


def test_masks_in_a_weighted_sum_have_the_size_of_the_input_not_of_the_output():
    A = draw(3, 2, 3)
    pick = np.zeros((4, 5, 2, 3))
    pick[3, 4] = mask(2, 3, (1, 2), (2, 3))
    assert c.weighted_sum(A, pick)[3, 4] == A[1, 2]
    with pytest.raises(inweave.ShapeError, match="do not fit a 2 x 3 input"):
        c.weighted_sum(A, np.zeros((4, 5, 4, 5)))


def test_the_entry_that_is_moved_to_s_t_is_s_minus_a_t_minus_b():
    A, (a, b) = draw(4, 5, 6), (2, -1)
    P = c.weighted_sum(A, c.move(5, 6, (0, 2), (3, 5), down=a, right=b))
    for s, t in [(2, 2), (2, 3), (3, 2), (3, 3)]:
        assert P[s, t] == A[s - a, t - b]
    assert np.count_nonzero(P) == 4


def test_weights_of_the_weighted_sum_network_are_m_by_n_like_the_input():
    X, zeros = draw(5, 2, 3), np.zeros((1, 1, 1))
    assert c.WeightedSum(zeros + 1, np.ones((1, 1, 1, 2, 3)), zeros, zeros, "identity")(X) == (
        pytest.approx(X.sum())
    )
    with pytest.raises(inweave.ShapeError, match="own m x n"):
        c.WeightedSum(zeros, np.ones((1, 1, 1, 3, 2)), zeros, zeros)(X)


# -- A.3, division --------------------------------------------------------------------------------
def test_a_negative_f_with_decreasing_modulus_comes_out_with_the_wrong_sign():
    def printed(x):
        y = [-1 / k**2 for k in KNOTS[:-1]] + [0]
        total = Fraction(0)
        for k in range(1, len(KNOTS)):
            slope = (y[k] - y[k - 1]) / (KNOTS[k] - KNOTS[k - 1])
            for sign in (-1, 1):
                total += relu(slope * (x + sign * KNOTS[k])) - relu(
                    slope * (x + sign * KNOTS[k - 1])
                )
        return total

    assert [printed(x) for x in KNOTS[:-1]] == [1 / x**2 for x in KNOTS[:-1]]  # f is minus that
    with pytest.raises(inweave.InputError, match="f must decrease"):
        sigma(lambda x: -1 / x**2, KNOTS)


def test_knots_are_positive_without_the_x_0_that_the_paper_counts_among_them():
    with pytest.raises(inweave.InputError, match="knots must be positive"):
        invsqr([Fraction(0), *KNOTS])


def test_an_x_below_x_k_is_not_enough_for_the_left_value_of_the_sigmoid():
    s = invsqr(KNOTS)
    left = s.values[0] - s.values[1]
    assert s.r_plus_k(0, Fraction(3, 2)) != left  # x = 3/2 < x_2 = 2
    assert s.r_plus_k(0, KNOTS[0]) == left  # x <= x_1 is


def test_the_interval_of_r_plus_ends_at_x_m_not_at_minus_x_m():
    s = invsqr(KNOTS)
    for m in range(1, len(KNOTS)):
        inside = (KNOTS[m - 1] + KNOTS[m]) / 2
        assert s.r_plus(inside) == s.slopes[m - 1] * (inside - KNOTS[m]) + s.values[m]
        assert not KNOTS[m - 1] < inside <= -KNOTS[m]


def test_r_plus_and_r_minus_meet_f_at_the_first_n_knots_and_not_at_the_last():
    s = invsqr(KNOTS)
    for x in KNOTS[:-1]:
        assert s.r_plus(x) == 1 / x**2
        assert s.r_minus(-x) == 1 / x**2 - 1 / KNOTS[0] ** 2
    last = KNOTS[-1]
    assert s.r_plus(last) == 0 != 1 / last**2
    assert s.r_minus(-last) == -1 / KNOTS[0] ** 2


def test_at_minus_x_k_it_is_the_slope_of_piece_k_that_counts():
    s, y = invsqr(KNOTS), invsqr(KNOTS).values
    for k in range(1, len(KNOTS)):
        right = -s.slopes[k - 1] * (-KNOTS[k] + KNOTS[k - 1]) + y[k - 1] - y[0]
        assert s.r_minus(-KNOTS[k]) == right == y[k] - y[0]
        other = s.slopes[k % 4]  # α_m with another m
        assert -other * (-KNOTS[k] + KNOTS[k - 1]) + y[k - 1] - y[0] != y[k] - y[0]


def test_the_approximation_is_good_up_to_x_n_and_gone_at_x_n_plus_1():
    s = invsqr(KNOTS)
    assert s.domain == (KNOTS[0], KNOTS[-2])
    before_end = KNOTS[-1] - Fraction(1, 100)
    assert s(before_end) * before_end**2 < Fraction(1, 10)


def test_a_pivot_beyond_the_last_knot_is_not_eliminated_at_all():
    F, a = np.array([[9.0, 1.0], [3.0, 4.0]]), np.ones(2)
    solve = gaussian_elimination(2, knots=[1.0, 2.0, 4.0, 8.0])
    trace = solve.trace(F, a, check=False)
    assert (trace["FE[0]"].after == trace["FE[0]"].before).all()
    with pytest.raises(inweave.DomainError, match=r"pivot 0 of 2 is 9\.0"):
        solve(F, a)


# -- A.4, forward elimination ---------------------------------------------------------------------
def test_an_invertible_matrix_is_not_enough_for_elimination_without_exchanges():
    F = exact([[0, 1], [1, 0]])
    assert solve_exactly(F[::-1], exact([3, 2])) == [3, 2]
    with pytest.raises(inweave.DomainError, match=r"pivot 0 of 2 is 0: .* never exchanged"):
        gaussian_elimination(2, knots=None)(F, exact([2, 3]))


def test_the_input_is_p_0_and_m_minus_1_steps_follow(system):
    F, a, _, trace = system
    forward = [step for step in trace if step.name.startswith("FE")]
    assert [step.variable for step in forward] == [
        0,
        1,
        2,
    ]  # k = 1, ..., m - 1 of P_k = FE_k(P_{k-1})
    assert (forward[0].before[:4, :4] == F).all()
    assert (forward[0].before[:4, 4] == a).all()
    assert (np.tril(forward[-1].after[:, :4], -1) == 0).all()


def test_row_i_has_its_final_entries_after_step_i_minus_1(system):
    *_, trace = system
    states = [trace["FE[0]"].before] + [trace[f"FE[{k}]"].after for k in range(3)]  # P_0, ..., P_3
    for i in range(1, 5):  # the paper's row i
        rows = [P[i - 1].tolist() for P in states]
        assert all(row == rows[-1] for row in rows[i - 1 :])  # p^(i-1) is final
        assert i == 1 or rows[i - 2] != rows[-1]  # and not a step earlier


def test_every_z_is_m_plus_1_square(system):
    *_, trace = system
    assert {Z.shape for step in trace for Z in step.Z.values()} == {(5, 5)}


def test_with_an_approximate_division_the_entries_below_the_diagonal_are_not_zero():
    F, a = solvable(3, 1)
    knots = [Fraction(2**k, 100) for k in range(14)]
    trace = gaussian_elimination(3, knots=knots).trace(F, a)
    s, P = invsqr(knots), trace["FE[0]"].before
    error = P[0, 0] ** 2 * s(P[0, 0]) - 1
    assert error > 0
    assert (trace["FE[0]"].after[1:3, 0] == -error * P[1:3, 0]).all()
    first = trace["BS1[2]"].after[2, 3]
    assert trace.solution[2] != first  # back substitution moves a variable it had solved


# -- A.4, back substitution -----------------------------------------------------------------------
def test_the_printed_sign_of_z4_gives_minus_the_last_variable(system):
    *_, x, trace = system
    step = trace["BS1[3]"]
    printed = -step.Z["Z3"] + exact(np.eye(5) * c.anti_mask(5, 5, (3, 4), (3, 4)))
    assert (printed @ step.before)[3, 4] == -x[3]
    assert (step.Z["Z4"] @ step.before)[3, 4] == x[3]


@pytest.mark.parametrize("k", range(4))
def test_the_anti_mask_is_a_hadamard_product_in_all_three_places(system, k):
    *_, x, trace = system
    step = trace[f"BS1[{k}]"]
    product = step.Z["Z4"] @ step.before if k == 3 else step.Z["Z7"] @ step.Z["Z3"]
    M = exact(c.anti_mask(5, 5, (k, k + 1), (k, k + 1)))
    assert (step.after == M * product).all()
    assert step.after[k, k] == 0
    assert step.after[k, 4] == x[k]
    assert (M @ product)[k, 4] != x[k]


def test_the_updated_entry_that_is_divided_stands_in_row_m_minus_1(system):
    *_, x, trace = system
    Z3 = trace["BS1[2]"].Z["Z3"]  # m = 4, so variable m - 1 is number 3, index 2
    assert Z3[2, 4] / Z3[2, 2] == x[2]
    assert Z3[3, 4] / Z3[2, 2] != x[2]  # the printed (m, m+1) entry


def test_the_step_after_the_last_variable_solves_variable_m_minus_1(system):
    *_, x, trace = system
    names = [step.name for step in trace]
    assert names[names.index("BS1[3]") + 1] == "BS1[2]"
    assert trace["BS1[2]"].after[2, 4] == x[2]


def test_z2_is_the_identity_minus_z1_as_matrices(system):
    *_, trace = system
    for k in (2, 1, 0):
        step = trace[f"BS1[{k}]"]
        assert (step.Z["Z2"] == exact(np.eye(5)) - step.Z["Z1"]).all()


def test_variable_m_minus_1_takes_row_m_minus_1(system):
    *_, x, trace = system
    Q = trace["BS1[3]"].before
    values = [(Q[k, 4] - x[3] * Q[k, 3]) / Q[2, 2] for k in range(4)]
    assert [value == x[2] for value in values] == [False, False, True, False]


def test_xi_k_t_means_before_xi_t_is_put_in(system):
    *_, x, trace = system
    Q, m = trace["BS1[3]"].before, 4
    for s in range(m - 1):  # t = m - s
        Q_t = trace[f"BS1[{m - s - 1}]"].after
        for k in range(m - s - 1):
            assert Q_t[k, m] == Q[k, m] - sum(x[m - j] * Q[k, m - j] for j in range(1, s + 1))
    Q_m = trace["BS1[3]"].after
    assert Q_m[0, 4] == Q[0, 4]  # ξ_{1,m} of equations (148), (149)
    assert trace["BS1[2]"].Z["Z3"][0, 4] == Q[0, 4] - x[3] * Q[0, 3]  # ξ_{1,m} of (141): ξ_{1,m-1}


def test_a_solved_row_keeps_its_entries_right_of_the_pivot(system):
    *_, trace = system
    Q = trace["BS1[3]"].before
    end = trace["BS1[0]"].after
    for k in range(4):
        assert (end[k, k + 1 : 4] == Q[k, k + 1 : 4] / Q[k, k]).all()
        assert (end[k, : k + 1] == 0).all()
    assert (end[:3, 1:4] != 0).any()


def test_the_printed_z6_in_place_of_z7_loses_every_other_row(system):
    *_, trace = system
    step = trace["BS1[1]"]
    M = exact(c.anti_mask(5, 5, (1, 2), (1, 2)))
    printed, right = M * (step.Z["Z6"] @ step.Z["Z3"]), M * (step.Z["Z7"] @ step.Z["Z3"])
    assert (printed[[0, 2, 3]] == 0).all()
    assert (right == step.after).all()
    assert (right[[0, 2, 3], 4] != 0).all()


def test_the_row_of_zeros_is_there_to_the_end(system):
    *_, trace = system
    assert all(step.after.shape == (5, 5) for step in trace)
    assert all((step.after[4] == 0).all() for step in trace)


def test_back_substitution_takes_m_modules_and_each_solves_its_own_variable(system):
    *_, x, trace = system
    backward = [step for step in trace if step.name.startswith("BS1")]
    assert [step.variable for step in backward] == [3, 2, 1, 0]
    for step in backward:
        assert step.after[step.variable, 4] == x[step.variable] != step.before[step.variable, 4]
    assert (backward[0].before == trace["FE[2]"].after).all()  # BS_m starts from Q, not from Q_m


def test_every_test_that_the_appendix_errata_name_exists():
    here = Path(__file__).parent
    errata = (here.parent / "docs" / "errata.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", errata.split("\n## Appendix\n")[1]))
    written = "".join(path.read_text(encoding="utf-8") for path in here.glob("test_paper_app*.py"))
    assert len(named) > 25
    assert named <= set(re.findall(r"^def (test_\w+)", written, re.MULTILINE))
