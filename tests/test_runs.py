"""Collapsed loops in words at a random point: what is proved there, and what must not be.

Everything is a number there but what is left of a word, so the danger is to take for equal what is
equal for numbers only: products in another order, runs that moved from one factor to another.
"""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.exact.field import Field
from inweave.proof import runs
from inweave.proof.degree import degree
from inweave.proof.states import NotProved

pytestmark = pytest.mark.usefixtures("unchecked_passes")


def found_equal(program, other, **sizes):
    """Whether a program is found equal to the network of another one."""
    net = inweave.compile(other, optimize="depth", verify=False, **sizes)
    try:
        runs.compare(program.trace(**sizes), net, Field(), np.random.default_rng(0))
    except NotProved:
        return False
    return True


# -- what is proved --------------------------------------------------------------------------------
@inweave.program
def row(X: Matrix["n", "d"], u: Vector["d"], s: Scalar, *, steps: int):
    return inweave.iterate(lambda v: v @ X.T @ X + s * u.T, u.T, steps)


@inweave.program
def number_beside_a_column(X: Matrix["n", "d"], u: Vector["d"], s: Scalar, *, steps: int):
    return inweave.iterate(lambda w, q: (X.T @ (X @ w) + q * u, s * q + 2), (u, s), steps)[0]


@inweave.program
def columns(X: Matrix["n", "d"], Y: Matrix["n", "k"], s: Scalar, *, steps: int):
    return inweave.iterate(lambda W: W - s * (X.T @ (X @ W - Y)), inweave.zeros((2, 3)), steps)


@inweave.program
def square(A: Matrix["d", "d"], b: Vector["d"], *, steps: int):
    return inweave.iterate(lambda w: A @ w + b, b, steps)


@pytest.mark.parametrize(
    ("program", "sizes"),
    [
        (row, {"n": 3, "d": 2}),
        (number_beside_a_column, {"n": 3, "d": 2}),
        (columns, {"n": 4, "d": 2, "k": 3}),
        (square, {"d": 2}),
        (gallery.heavy_ball, {"n": 3, "d": 2}),
        (gallery.nesterov, {"n": 3, "d": 2}),
        (gallery.kernel_regression, {"n": 3, "d": 2}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_long_collapsed_loops_are_proved_in_words(program, sizes):
    net = inweave.compile(program, optimize="depth", steps=100, **sizes)
    assert net.certificate.method == "words"
    assert net.certificate.probability <= 1e-12
    assert net.certificate.degree >= degree(net.origin.traced)[0]
    assert "sums of words" in str(net.certificate)
    assert net.verify(trials=2).method == "direct"


def test_it_takes_no_longer_for_larger_matrices():
    """10⁵ x 10⁴, where the matrix alone would take eight gigabytes."""
    net = inweave.compile(gallery.heavy_ball, optimize="depth", verify=False,
                          n=10**5, d=10**4, steps=10**6)  # fmt: skip
    found = net.verify()
    assert (found.method, found.trials) == ("words", 2)  # so many primes are there to draw from
    assert found.degree >= 3 * 10**6  # X Xᵀ and the step size, every time


def test_a_network_of_another_number_of_steps_is_refused():
    for steps in (99, 101):
        assert not found_equal(repeated(steps), repeated(100), d=2)


def repeated(steps):
    @inweave.program
    def powers(A: Matrix["d", "d"], b: Vector["d"]):
        return inweave.iterate(lambda w: A @ w + b, b, steps)

    return powers


# -- what is equal for numbers only ----------------------------------------------------------------
def both(first, second, **sizes):
    assert not found_equal(first, second, **sizes)
    assert not found_equal(second, first, **sizes)


def test_matrices_do_not_commute():
    @inweave.program
    def one(X: Matrix["n", "d"], Z: Matrix["n", "d"], w: Vector["d"]):
        return X.T @ (X @ (Z.T @ (Z @ w)))

    @inweave.program
    def other(X: Matrix["n", "d"], Z: Matrix["n", "d"], w: Vector["d"]):
        return Z.T @ (Z @ (X.T @ (X @ w)))

    both(one, other, n=3, d=2)


def test_a_run_does_not_move_from_one_factor_to_another():
    @inweave.program
    def one(X: Matrix["n", "d"], w: Vector["d"]):
        G = X.T @ X
        return (w @ G @ G @ G @ w) * (G @ w)

    @inweave.program
    def other(X: Matrix["n", "d"], w: Vector["d"]):
        G = X.T @ X
        return (w @ G @ w) * (G @ G @ G @ w)

    both(one, other, n=3, d=2)


def test_a_run_does_not_move_past_a_constant():
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])

    @inweave.program
    def one(X: Matrix["n", "d"], w: Vector["d"]):
        G = X.T @ X
        return G @ (swap @ (G @ (G @ w)))

    @inweave.program
    def other(X: Matrix["n", "d"], w: Vector["d"]):
        G = X.T @ X
        return G @ (G @ (swap @ (G @ w)))

    both(one, other, n=3, d=2)


def test_a_square_matrix_is_not_its_transpose():
    @inweave.program
    def one(A: Matrix["d", "d"], w: Vector["d"]):
        return A @ (A @ (A.T @ w))

    @inweave.program
    def other(A: Matrix["d", "d"], w: Vector["d"]):
        return A @ (A.T @ (A.T @ w))

    both(one, other, d=3)
    both(square_of(lambda A: A), square_of(lambda A: A.T), d=3)


def square_of(read):
    @inweave.program
    def powers(A: Matrix["d", "d"], w: Vector["d"]):
        return read(A) @ (read(A) @ w)

    return powers


def test_the_first_letters_of_a_run_are_not_lost():
    @inweave.program
    def one(X: Matrix["n", "d"], w: Vector["d"]):
        return w + X.T @ (X @ w)

    @inweave.program
    def other(X: Matrix["n", "d"], w: Vector["d"]):
        return w + X.T @ (X @ (X.T @ (X @ w)))

    both(one, other, n=3, d=2)


def test_a_step_that_is_not_affine_is_taken_step_by_step():
    sizes = {"n": 3, "d": 2, "steps": 6}
    assert found_equal(gallery.chebyshev, gallery.chebyshev, **sizes)
    assert not found_equal(gallery.chebyshev, faster, **sizes)


@inweave.program
def faster(X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, *, steps: int):
    return 1.5 * gallery.chebyshev.function(X, y, lam, steps=steps)
