"""Exact rationals, and matrices of them: products and inverses, with nothing rounded.

Python adds and multiplies whole numbers many times faster than Fractions, which look for common
divisors at every step; and where no sum can reach 2**53, floats are exact and faster still. So a
matrix is brought to one denominator, computed with in whole numbers, and divided once at the end.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from inweave.errors import DTypeError, InputError
from inweave.exact.field import Field

Rational = np.ndarray[Any, Any]  # of float64 or of Fractions
EXACT = 2.0**53  # below it floats hold every whole number
PRIMES = (2**31 - 1, 2**31 - 19, 2**31 - 61)


def exact(number: Any) -> Fraction:
    """The rational number that a Python or numpy number stands for, exactly."""
    if isinstance(number, Fraction):
        return number
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, float, np.number)):
        raise DTypeError(f"expected a real number, got {type(number).__name__} {number!r}")
    if isinstance(number, (complex, np.complexfloating)):
        raise DTypeError(f"expected a real number, got the complex number {number!r}")
    if isinstance(number, (float, np.floating)) and not np.isfinite(number):
        raise InputError(f"expected a finite number, got {number!r}")
    if isinstance(number, np.floating):  # a longdouble among them, which Python does not know
        return Fraction(*number.as_integer_ratio())
    return Fraction(number.item() if isinstance(number, np.number) else number)


def fractions(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same entries as Fractions; of weights, few are not zero."""
    out = np.full(array.shape, Fraction(0), dtype=object)
    some = array != 0 if array.dtype.kind in "iuf" else np.full(array.shape, True)
    out[some] = [exact(entry) for entry in array[some]]
    return out


def whole(matrix: Rational) -> tuple[Rational, int]:
    """Whole numbers and their common denominator."""
    matrix = np.asarray(matrix)
    if matrix.dtype == np.float64:
        for power in range(0, 53, 4):
            scaled = matrix * 2.0**power
            if (scaled == np.rint(scaled)).all() and np.abs(scaled).max(initial=0.0) < EXACT:
                return scaled, 2**power
    exact = fractions(matrix)
    bottom = math.lcm(*{entry.denominator for entry in exact.flat})
    top = [entry.numerator * (bottom // entry.denominator) for entry in exact.flat]
    kind = np.float64 if max(map(abs, top), default=0) < EXACT else object
    return np.array([*top, None], dtype=object)[:-1].reshape(exact.shape).astype(kind), bottom


def times(a: Rational, b: Rational) -> Rational:
    """The product of matrices of whole numbers, in floats where all sums are exact."""
    if a.dtype == b.dtype == np.float64:
        largest = np.abs(a).max(initial=0.0) * np.abs(b).max(initial=0.0)
        if largest * a.shape[1] < EXACT:
            return a @ b
    return _integers(a) @ _integers(b)


def _integers(top: Rational) -> Rational:
    if top.dtype == object:
        return top
    return np.array([*map(int, top.flat), None], dtype=object)[:-1].reshape(top.shape)


def divided(top: Rational, bottom: int) -> Rational:
    """Whole numbers over a denominator: in float64 where that is exact, else as Fractions."""
    if top.dtype == np.float64 and bottom & (bottom - 1) == 0 and bottom < 2**900:
        return top / float(bottom) + 0.0
    zero = Fraction(0)
    entries = [Fraction(entry, bottom) if entry else zero for entry in _integers(top).flat]
    return np.array([*entries, None], dtype=object)[:-1].reshape(top.shape)


def product(*matrices: Rational) -> Rational:
    """The product of matrices, exactly."""
    tops, bottoms = zip(*map(whole, matrices), strict=True)
    return divided(reduce(times, tops), math.prod(bottoms))


def is_orthogonal(matrix: Rational) -> bool:
    """Whether `M Mᵀ = I`, exactly."""
    top, bottom = whole(matrix)
    found = _integers(times(top, top.T))
    return bool((found == bottom**2 * np.eye(len(top), dtype=int).astype(object)).all())


def is_invertible(matrix: Rational) -> bool:
    """Whether a matrix is invertible modulo some of three primes; then it is, exactly.

    The determinant of one that is refused is zero, or a multiple of all three.
    """
    return any(_has_full_rank(matrix, Field(prime)) for prime in PRIMES)


def _has_full_rank(matrix: Rational, field: Field) -> bool:
    try:
        rows = field.residue(matrix).copy()
    except ZeroDivisionError:  # it divides a denominator
        return False
    for k in range(len(rows)):
        pivot = k + int(np.argmax(rows[k:, k] != 0))
        if not rows[pivot, k]:
            return False
        rows[[k, pivot]] = rows[[pivot, k]]
        row = rows[k] * field.inverse(rows[k, k]) % field.prime
        rows[k + 1 :] = (rows[k + 1 :] - rows[k + 1 :, k, None] * row % field.prime) % field.prime
    return True


def inverse(matrix: Rational) -> Rational:
    """The inverse of an invertible matrix, exactly, by elimination without fractions (Bareiss)."""
    if is_orthogonal(matrix):
        return np.asarray(matrix).T.copy()
    top, bottom = whole(matrix)
    size, last = len(top), 1
    rows = np.concatenate([_integers(top), np.eye(size, dtype=int).astype(object)], axis=1)
    for k in range(size):
        pivot = k + int(np.argmax(rows[k:, k] != 0))
        rows[[k, pivot]] = rows[[pivot, k]]
        here = rows[k, k]
        others = np.arange(size) != k
        rows[others] = (here * rows[others] - rows[others, k, None] * rows[k]) // last
        last = here
    return divided(bottom * rows[:, size:], last)
