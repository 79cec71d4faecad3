"""Exact rationals, and matrices of them: products and inverses, with nothing rounded.

Python adds and multiplies whole numbers many times faster than Fractions, which look for common
divisors at every step; and where no sum can reach 2**53, floats are exact and faster still. So a
matrix is brought to one denominator, computed with in whole numbers, and divided once at the end.
Large matrices of larger numbers are multiplied digit by digit: the digits are chosen so short that
floats are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from inweave.errors import DTypeError, InputError
from inweave.exact.field import Field

Rational = np.ndarray[Any, Any]  # of float64 or of Fractions
EXACT = 2.0**53  # below it floats hold every whole number
INT64 = 2**62  # below it two numbers and their sum are int64
FEW = 4096  # multiplications that Python does sooner than it takes to write digits
MOST_DIGITS = 64  # products of digits that are sooner done than one product in Python
PRIMES = (2**31 - 1, 2**31 - 19, 2**31 - 61)


class Whole(NamedTuple):
    """A rational matrix as whole numbers, floats or Python's, over one denominator."""

    top: Rational
    bottom: int

    @property
    def T(self) -> Whole:
        return Whole(self.top.T, self.bottom)


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
    if array.dtype == object and set(map(type, array.flat)) == {Fraction}:
        return array.copy()
    out = np.full(array.shape, Fraction(0), dtype=object)
    some = array != 0 if array.dtype.kind in "iuf" else np.full(array.shape, True)
    if array.dtype == np.float64 and np.isfinite(array).all():
        out[some] = [Fraction(entry) for entry in array[some].tolist()]
    else:
        out[some] = [exact(entry) for entry in array[some]]
    return out


def whole(matrix: Rational | Whole) -> Whole:
    """Whole numbers and their common denominator."""
    if isinstance(matrix, Whole):
        return matrix
    matrix = np.asarray(matrix)
    if matrix.dtype == np.float64 and np.isfinite(matrix).all():
        return _whole_floats(matrix)
    entries = matrix.ravel().tolist()
    if set(map(type, entries)) != {Fraction}:
        entries = fractions(matrix).ravel().tolist()
    ratios = [entry.as_integer_ratio() for entry in entries]
    bottoms = {bottom for _, bottom in ratios}
    bottom = math.lcm(*bottoms)
    factors = {part: bottom // part for part in bottoms}
    top = [number * factors[part] for number, part in ratios]
    kind = np.float64 if max(map(abs, top), default=0) < EXACT else object
    return Whole(_objects(top).reshape(matrix.shape).astype(kind), bottom)


def _whole_floats(matrix: Rational) -> Whole:
    """The same of floats: odd numbers times powers of two."""
    parts, powers = np.frexp(matrix)
    odd = (parts * EXACT).astype(np.int64)
    zeros = np.frexp((odd & -odd).astype(np.float64))[1] - 1  # at the end of a number
    odd, powers = odd >> np.maximum(zeros, 0), np.where(odd == 0, 0, powers - 53 + zeros)
    bottom = -int(powers.min(initial=0))
    if not np.abs(matrix).max(initial=0.0) >= EXACT / 2.0 ** min(bottom, 1000):
        return Whole(np.ldexp(matrix, bottom), 1 << bottom)
    return Whole(odd.astype(object) << (powers + bottom).astype(object), 1 << bottom)


def times(a: Rational, b: Rational) -> Rational:
    """The product of matrices of whole numbers, in floats where all sums are exact."""
    if a.dtype == b.dtype == np.float64:
        largest = np.abs(a).max(initial=0.0) * np.abs(b).max(initial=0.0)
        if largest * a.shape[1] < EXACT:
            return a @ b
    if a.ndim == b.ndim == 2 and a.size * b.shape[1] > FEW:
        return _by_digits(a, b)
    return integers(a) @ integers(b)


def _by_digits(a: Rational, b: Rational) -> Rational:
    """The product of large matrices, of which only what is not zero is looked at."""
    out: Rational = np.zeros((len(a), b.shape[1]), dtype=object)
    some_a, some_b = a != 0, b != 0
    rows, inner = np.flatnonzero(some_a.any(axis=1)), some_a.any(axis=0) & some_b.any(axis=1)
    cols = np.flatnonzero(some_b.any(axis=0))
    a, b = a[np.ix_(rows, inner)], b[np.ix_(inner, cols)]
    bits = (53 - a.shape[1].bit_length()) // 2
    left, right = _digits(a, bits), _digits(b, bits)
    if len(left) * len(right) > MOST_DIGITS:
        out[np.ix_(rows, cols)] = integers(a) @ integers(b)
        return out
    sums = [np.zeros((len(rows), len(cols)), dtype=np.int64) for _ in range(len(left) + len(right))]
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            sums[i + j] += (x @ y).astype(np.int64)
    for low, high in pairwise(sums):
        high += low >> bits
        low &= 2**bits - 1
    there = np.nonzero(np.any(sums, axis=0))
    total: Rational = np.zeros(len(there[0]), dtype=object)
    for digit in reversed(sums):
        total = (total << bits) + digit[there].astype(object)
    out[rows[there[0]], cols[there[1]]] = total
    return out


def _digits(top: Rational, bits: int) -> list[Rational]:
    """Whole numbers as sums of floats times powers of 2**bits, lowest first, only the last < 0."""
    found = []
    rest = top.astype(np.int64) if top.dtype == np.float64 else top
    while (size := np.abs(rest).max(initial=0)) >= 2**bits:
        if size < INT64:
            rest = rest.astype(np.int64)
        found.append((rest & (2**bits - 1)).astype(np.float64))
        rest = rest >> bits
    return [*found, rest.astype(np.float64)]


def integers(top: Rational) -> Rational:
    """Whole numbers as Python's own."""
    return top if top.dtype == object else _objects(map(int, top.flat)).reshape(top.shape)


def _objects(entries: Iterable[Any]) -> Rational:
    """An array of Python's own numbers."""
    return np.array([*entries, None], dtype=object)[:-1]


def divided(top: Rational, bottom: int) -> Rational:
    """Whole numbers over a denominator: in float64 where that is exact, else as Fractions."""
    if top.dtype == np.float64 and bottom & (bottom - 1) == 0 and bottom < 2**900:
        return top / float(bottom) + 0.0
    out = np.full(top.shape, Fraction(0), dtype=object)
    some = top != 0
    out[some] = _objects(Fraction(entry, bottom) for entry in integers(top[some]))
    return out


def combined(parts: Sequence[tuple[int | Fraction, Rational | Whole]]) -> Whole:
    """A linear combination of arrays of one shape in whole numbers; large ones as `times` does."""
    tops, bottoms = zip(*(whole(matrix) for _, matrix in parts), strict=True)
    ratios = [(c.numerator, c.denominator * b) for (c, _), b in zip(parts, bottoms, strict=True)]
    bottom = math.lcm(*(below for _, below in ratios))
    factors = [above * (bottom // below) for above, below in ratios]
    if tops[0].size > FEW and all(top.dtype == np.float64 for top in tops):
        largest = (int(np.abs(top).max()) * abs(c) for top, c in zip(tops, factors, strict=True))
        if sum(largest) < EXACT:
            return Whole(sum(top * float(c) for top, c in zip(tops, factors, strict=True)), bottom)
    total = integers(np.zeros(tops[0].shape))
    for top, c in zip(tops, factors, strict=True):
        some = top != 0
        total[some] += integers(top[some]) * c
    return Whole(total, bottom)


def multiplied(*matrices: Rational | Whole) -> Whole:
    """The product of matrices in whole numbers."""
    tops, bottoms = zip(*map(whole, matrices), strict=True)
    return Whole(reduce(times, tops), math.prod(bottoms))


def product(*matrices: Rational | Whole) -> Rational:
    """The product of matrices, exactly."""
    return divided(*multiplied(*matrices))


def power(matrix: Rational | Whole, e: int) -> Whole:
    """A matrix to the power of e, at least 1, by squaring."""
    top, bottom = whole(matrix)
    out = top
    for bit in f"{e:b}"[1:]:
        out = times(out, out)
        out = times(out, top) if bit == "1" else out
    return Whole(out, bottom**e)


def geometric(matrix: Rational | Whole, e: int) -> Whole:
    """`A^0 + ... + A^(e-1)` of a matrix A, e at least 1, by doubling: S_2k = S_k + A^k S_k."""
    top, bottom = whole(matrix)
    top = integers(top)
    last, total, scale = top, integers(np.eye(len(top))), bottom  # A^k, S_k, their denominator
    total = total * scale
    for bit in f"{e:b}"[1:]:
        total, last, scale = total * scale + times(last, total), times(last, last), scale**2
        if bit == "1":
            total, last, scale = (total + last) * bottom, times(last, top), scale * bottom
    return Whole(total, scale)


def is_orthogonal(matrix: Rational) -> bool:
    """Whether `M Mᵀ = I`, exactly."""
    top, bottom = whole(matrix)
    found = integers(times(top, top.T))
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
    rows = np.concatenate([integers(top), np.eye(size, dtype=int).astype(object)], axis=1)
    for k in range(size):
        pivot = k + int(np.argmax(rows[k:, k] != 0))
        rows[[k, pivot]] = rows[[pivot, k]]
        here = rows[k, k]
        others = np.arange(size) != k
        rows[others] = (here * rows[others] - rows[others, k, None] * rows[k]) // last
        last = here
    return divided(bottom * rows[:, size:], last)
