"""Rational linear systems and an elimination that shares no code with inweave's."""

from fractions import Fraction

import numpy as np


def exact(array):
    """The same array with Fractions for entries."""
    return np.vectorize(Fraction, otypes=[object])(array)


def draw(seed, *shape):
    """Standard normal numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def solvable(m, seed):
    """A rational system with nonzero leading minors, negative pivots and fractions among them."""
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.integers(-4, 5, (m, m)), -1) + np.eye(m, dtype=int)
    upper = np.triu(rng.integers(-4, 5, (m, m)), 1)
    pivots = rng.choice([-3, -2, -1, 1, 2, 3], m)
    F = exact(lower) @ (exact(upper) + exact(np.diag(pivots))) / Fraction(7, 3)
    return F, exact(rng.integers(-5, 6, m))


def solve_exactly(F, a):
    """Gauss-Jordan over the rationals, one row operation at a time."""
    rows = [[*row, right] for row, right in zip(F.tolist(), a.tolist(), strict=True)]
    for k in range(len(rows)):
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]
