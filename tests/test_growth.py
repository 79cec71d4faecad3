"""What is compiled, checked and read back takes work that grows as the program's own heads do."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import Matrix
from inweave.decompiler.tidy import _merged
from inweave.exact.arithmetic import Rationals, times
from inweave.exact.constants import Ones, Shift, added, fractions, identity
from inweave.exact.field import Field
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.language import expressions as ex
from inweave.proof import passes


@inweave.program
def flat(A: Matrix["n", "m"]):
    return A.reshape(-1)


@inweave.program
def columns_first(A: Matrix["n", "m"]):
    return A.ravel(order="F")


@inweave.program
def again(A: Matrix["n", "m"]):
    return A.reshape(-1).reshape(A.shape[1], A.shape[0]) @ A


@inweave.program
def layer_norm(X: Matrix["n", "d"]):
    D = X - X.mean(axis=1, keepdims=True)
    return D * inweave.rsqrt((D * D).mean(axis=1), domain=(1e-2, 1e2))[:, None]


def numbers(traced) -> int:
    """How many numbers the constants of a program hold, written down as they are described."""
    found = [
        x.constant for x in ex.every(traced.outputs.values()) if isinstance(x, ex.ConstantExpr)
    ]
    return sum(1 if isinstance(k, (Shift, Ones)) else k.rows * k.cols for k in found)


# -- shapes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("program", [flat, columns_first, again], ids=lambda p: p.name)
@pytest.mark.parametrize(("n", "m"), [(40, 60), (60, 40), (20, 300), (64, 64)])
def test_other_shapes_of_large_matrices_take_no_large_constants(program, n, m):
    assert numbers(program.trace(n=n, m=m)) <= 4 * (n + m)  # not (n m)^2


@pytest.mark.parametrize(("n", "m"), [(3, 5), (5, 3), (33, 34), (20, 60)])
def test_the_entries_of_other_shapes_are_numpys(n, m):
    A = np.arange(1.0 * n * m).reshape(n, m)
    order = {"C": flat, "F": columns_first}
    for way, program in order.items():
        net = inweave.compile(program, n=n, m=m)
        assert (net(A=A) == A.ravel(order=way)).all()


@pytest.mark.parametrize("n", [4, 20, 48])
def test_a_shape_of_a_shape_is_no_loop_however_large_it_is(n):
    net = inweave.compile(again, n=n, m=n, verify=False)
    assert net.depth == 3


# -- checks of passes -----------------------------------------------------------------------------
@pytest.mark.parametrize("arithmetic", [FieldArithmetic(), Rationals()], ids=["field", "rationals"])
def test_a_piece_of_an_identity_moves_columns(arithmetic):
    rng = random.Random(0)
    for _ in range(50):
        rows, cols = rng.randint(1, 6), rng.randint(1, 6)
        size = rng.randint(0, min(rows, cols))
        piece = Shift(rows, cols, rng.randint(0, rows - size), rng.randint(0, cols - size), size)
        x = fractions(np.array([[rng.randint(-9, 9) for _ in range(rows)] for _ in range(3)]))
        found, exact = times(arithmetic, arithmetic.array(x), piece), x @ fractions(piece.entries())
        assert arithmetic.same(found, arithmetic.array(exact))


def test_the_check_of_passes_takes_bounded_work(monkeypatch):
    done = []
    multiply = Field.matmul

    def counted(self, a, b):
        done.append(a.size * b.shape[-1])
        return multiply(self, a, b)

    monkeypatch.setattr(Field, "matmul", counted)
    monkeypatch.setattr(passes.Metered, "left", 2_000_000)
    with inweave.network.checked_passes() as notes:
        inweave.compile(layer_norm, n=24, d=4, verify=False)
    assert sum(done) <= 2 * 2_000_000  # two compilations are compared
    assert "checked: equal" in notes["normalize"]
    assert notes["merge"].startswith("not checked: that takes over")


# -- reading back ---------------------------------------------------------------------------------
def merged_one_by_one(group):
    """What `_merged` does, by comparing every word with every other."""
    waiting, done = list(group), []
    while waiting:
        c, constants = waiting.pop(0)
        for i, (d, others) in enumerate(waiting):
            apart = [
                k
                for k, pair in enumerate(zip(constants, others, strict=True))
                if pair[0] != pair[1]
            ]
            if len(apart) < 2:
                del waiting[i]
                if apart:
                    total = added([(c, constants[apart[0]]), (d, others[apart[0]])])
                    constants = [*constants]
                    constants[apart[0]] = total
                waiting.insert(0, (Fraction(1) if apart else c + d, constants))
                break
        else:
            done.append((c, constants))
    return done


def test_words_that_differ_in_one_constant_are_one_whatever_their_order():
    rng = random.Random(1)
    for _ in range(40):
        units = [Shift(4, 4, i, j, 1) for i in range(4) for j in range(2)]
        group = [(Fraction(1), rng.choices(units, k=2)) for _ in range(rng.randint(1, 9))]
        total = sum(c * np.kron(a.entries(), b.entries()) for c, (a, b) in _merged(group))
        exact = sum(c * np.kron(a.entries(), b.entries()) for c, (a, b) in group)
        assert (total == exact).all()
        assert len(_merged(group)) == len(merged_one_by_one(group))


def test_words_that_have_nothing_in_common_are_not_compared_with_one_another():
    side = 20_000
    group = [(Fraction(1), [Shift(side, side, i, i, 1), identity(side), Shift(side, side, i, 0, 1)])
             for i in range(side)]  # fmt: skip
    assert _merged(group) == group
