"""Rational rotations with small numbers, as far from the identity as a dial says.

The Cayley transform `(I − S)(I + S)⁻¹` of a skew matrix S is orthogonal, and rational where S is.
Of a large dense S it has hundreds of digits. So columns are taken four at a time, with

        ⎡ 0 −b −c −d ⎤
    S = ⎢ b  0 −d  c ⎥     S² = −s² I,  s² = b² + c² + d²,
        ⎢ c  d  0 −b ⎥     so the transform is ((1 − s²) I − 2 S) / (1 + s²)
        ⎣ d −c  b  0 ⎦

(the quaternion b i + c j + d k), then four at a time again in another order, until every column may
have met every other. With b, c, d = ±dial/3 the whole turn is the identity at 0, and at 1 every
entry is ±1/2: weights stay exact in floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from inweave.exact.constants import fractions
from inweave.exact.rational import product
from inweave.model.embedding import simple

Matrix = np.ndarray[Any, Any]


def rotation(
    size: int, free: Sequence[int], dial: Fraction, rng: np.random.Generator
) -> Matrix | None:
    """An orthogonal matrix that mixes the free indices and leaves all others; None if it is I."""
    group = 4 if len(free) >= 4 else 2
    rounds, reached = 0, 1
    while reached < len(free):
        rounds, reached = rounds + 1, reached * group
    turns = [_round(size, rng.permutation(list(free)), group, dial, rng) for _ in range(rounds)]
    return product(*turns) if turns and dial else None


def _round(
    size: int, order: Matrix, group: int, dial: Fraction, rng: np.random.Generator
) -> Matrix:
    """Groups of indices, each turned by itself."""
    t = dial / 3
    in_floats = cayley((t, t, t), group).dtype != object
    turn = np.eye(size) if in_floats else fractions(np.eye(size))
    for start in range(0, len(order) - group + 1, group):
        some = order[start : start + group]
        b, c, d = (t * int(sign) for sign in rng.choice([-1, 1], 3))
        turn[np.ix_(some, some)] = cayley((b, c, d), group)
    return turn


@lru_cache(256)
def cayley(numbers: tuple[Fraction, Fraction, Fraction], size: int) -> Matrix:
    """The transform of the skew matrix of b, c, d; of two indices, of b alone."""
    b, c, d = numbers
    S = fractions(np.zeros((4, 4)))
    S[...] = [[0, -b, -c, -d], [b, 0, -d, c], [c, d, 0, -b], [d, -c, b, 0]]
    S = S[:size, :size]
    square = sum(x * x for x in S[:, 0])
    return simple(((1 - square) * fractions(np.eye(size)) - 2 * S) / (1 + square))
