"""How large the polynomials are that a check compares: their degree, and the bits of coefficients.

A value is a rational function of what is drawn at random: a polynomial with whole coefficients,
over a whole number that all entries of a matrix share, over a polynomial where something was
divided by. Its height bounds the degrees and the sums of absolute coefficients, which multiply in
products and add up in sums. `Heights` computes with matrices of which only a height is known, so
that programs and plans are bounded by the code that evaluates them.

A polynomial that is not zero is zero at a random point of the field in two ways only: the prime
divides all of its coefficients, and a number of B bits has at most B / b prime divisors of b bits;
or the point is a root, which at most degree / p of all points are (Schwartz and Zippel).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Constant, Ones, Shift
from inweave.exact.field import SHORT, Primes
from inweave.model.layers import AttentionLayer, Head, Layer
from inweave.model.layout import Layout
from inweave.model.modules import Executor
from inweave.model.projection import Piece

Whole = tuple[tuple[int, int], ...]
"""A whole number as powers ((base, exponent), ...) of 2 and of odd numbers taken as they are."""


def _whole(number: int) -> Whole:
    twos = (number & -number).bit_length() - 1
    odd = number >> twos
    return tuple(((2, twos),) if twos else ()) + (((odd, 1),) if odd > 1 else ())


def _merged(a: Whole, b: Whole, joined: Any) -> Whole:
    if a == b and joined is max:
        return a
    found = dict(a)
    for base, power in b:
        found[base] = joined(found.get(base, 0), power)
    return tuple(sorted(found.items()))


def _multiple(a: Whole, b: Whole) -> Whole:
    """A common multiple: every power as often as in either."""
    return _merged(a, b, max)


def _times(a: Whole, b: Whole) -> Whole:
    return _merged(a, b, int.__add__)


def bits_of(number: Whole, odd: bool = False) -> float:
    return sum(power * math.log2(base) for base, power in number if base != 2 or not odd)


def common(heights: Iterable[Height]) -> Whole:
    """A common multiple of what values are divided by."""
    return reduce(_multiple, (height.scale for height in heights), ())


def power(first: Whole, each: Whole, times: int) -> Whole:
    """A whole number times so many others."""
    return _times(first, tuple((base, times * exponent) for base, exponent in each))


def _sum(a: float, b: float) -> float:
    """The logarithm of a sum, from those of its parts."""
    low, high = min(a, b), max(a, b)
    return high if math.isinf(high) else high + math.log2(1 + 2.0 ** (low - high))


@dataclass(frozen=True)
class Height:
    """Bounds for an entry `top / (scale bottom)`: degrees, and bits of the sums of coefficients."""

    degree: int = 0
    bits: float = 0.0
    scale: Whole = ()
    below: int = 0  # the degree of the bottom
    below_bits: float = 0.0

    @property
    def is_zero(self) -> bool:
        return self.degree < 0

    def __add__(self, other: Height) -> Height:
        if self.is_zero or other.is_zero:
            return other if self.is_zero else self
        scale = _multiple(self.scale, other.scale)
        whole = bits_of(scale)
        return Height(
            max(self.degree + other.below, other.degree + self.below),
            _sum(
                self.bits + whole - bits_of(self.scale) + other.below_bits,
                other.bits + whole - bits_of(other.scale) + self.below_bits,
            ),
            scale,
            self.below + other.below,
            self.below_bits + other.below_bits,
        )

    def __mul__(self, other: Height) -> Height:
        if self.is_zero or other.is_zero:
            return ZERO
        return Height(
            self.degree + other.degree,
            self.bits + other.bits,
            _times(self.scale, other.scale),
            self.below + other.below,
            self.below_bits + other.below_bits,
        )

    def __or__(self, other: Height) -> Height:
        """For entries that may be either: side by side in one matrix."""
        if self.is_zero or other.is_zero or self == other:
            return other if self.is_zero else self
        scale = _multiple(self.scale, other.scale)
        whole = bits_of(scale)
        bits = [x.bits + whole - bits_of(x.scale) for x in (self, other)]
        return Height(
            max(self.degree, other.degree),
            max(bits),
            scale,
            max(self.below, other.below),
            max(self.below_bits, other.below_bits),
        )

    def summed(self, terms: int) -> Height:
        """A sum of so many different entries."""
        if self.is_zero:
            return self
        more = terms - 1
        return replace(
            self,
            degree=self.degree + more * self.below,
            bits=self.bits + more * self.below_bits + math.log2(max(terms, 1)),
            below=terms * self.below,
            below_bits=terms * self.below_bits,
        )

    def inverse(self) -> Height:
        bits = self.below_bits + bits_of(self.scale)
        return Height(self.below, bits, (), max(self.degree, 0), self.bits)


ZERO = Height(-1, 0.0)
VARIABLE = Height(1)


class Bounded:
    """A matrix of which only the shape and a height of its entries is known."""

    def __init__(self, shape: Sequence[int], height: Height) -> None:
        self.shape, self.height = tuple(shape), height

    @property
    def mT(self) -> Bounded:
        return Bounded((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.height)

    def __getitem__(self, index: tuple[Any, slice, slice]) -> Bounded:
        _, rows, cols = index
        *lead, height, width = self.shape
        shape = (*lead, len(range(height)[rows]), len(range(width)[cols]))
        return Bounded(shape, self.height)

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(np.broadcast_shapes(self.shape, other.shape), self.height + other.height)

    __sub__ = __add__

    def __mul__(self, other: Bounded) -> Bounded:
        return Bounded(np.broadcast_shapes(self.shape, other.shape), self.height * other.height)

    def __matmul__(self, other: Bounded) -> Bounded:
        height = (self.height * other.height).summed(self.shape[-1])
        return Bounded((*self.shape[:-1], other.shape[-1]), height)


@dataclass
class Heights(Arithmetic):
    """The arithmetic of bounds.

    A function of which nothing is known (with `opaque`, a reciprocal too) gives a fresh variable
    for every argument; `met` are those arguments, how many and how large, by function. `below` is
    the product of all that must be divided by: its degree and its bits.
    """

    opaque: bool = False
    met: dict[str, tuple[int, Height]] = field(default_factory=dict)
    below: tuple[int, float] = (0, 0.0)

    def number(self, value: Fraction) -> Bounded:
        return self.array(np.array([[value]], dtype=object))

    def zeros(self, shape: Sequence[int]) -> Bounded:
        return Bounded(shape, ZERO)

    def array(self, entries: np.ndarray[Any, Any]) -> Bounded:
        """Constants: the largest numerator over a common denominator."""
        flat = entries[entries != 0]
        if not flat.size:
            return Bounded(entries.shape, ZERO)
        if entries.dtype == object:
            bottoms = (_whole(Fraction(q).denominator) for q in set(flat.tolist()))
            scale: Whole = reduce(_multiple, bottoms, ())
            top = max(math.log2(abs(q.numerator)) - math.log2(q.denominator) for q in flat)
        else:
            mantissa, exponent = np.frexp(flat.astype(np.float64))
            whole = np.ldexp(mantissa, 53).astype(np.int64)
            spare = np.log2((whole & -whole).astype(np.float64))
            power = int(np.max(53 - exponent - spare))
            scale = ((2, power),) if power > 0 else ()
            top = float(np.max(np.log2(np.abs(flat.astype(np.float64)))))
        self._divided(1, 0, bits_of(scale, odd=True))
        return Bounded(entries.shape, Height(0, max(0.0, top + bits_of(scale)), scale))

    def concat(self, arrays: Sequence[Bounded], axis: int) -> Bounded:
        height, shape = arrays[0].height, list(arrays[0].shape)
        for array in arrays[1:]:
            height |= array.height
            shape[axis] += array.shape[axis]
        return Bounded(shape, height)

    def diagonal(self, x: Bounded) -> Bounded:
        return Bounded((*x.shape[:-1], 1), x.height)

    def pointwise(self, function: Any, x: Bounded) -> Bounded:
        entries = math.prod(x.shape)
        if function.is_reciprocal and not self.opaque:
            self._divided(entries, max(x.height.degree, 0), x.height.bits)
            return Bounded(x.shape, x.height.inverse())
        count, height = self.met.get(function.digest, (0, ZERO))
        self.met[function.digest] = count + entries, height | x.height
        return Bounded(x.shape, VARIABLE)

    def root(self, x: Bounded) -> Bounded:
        return Bounded(x.shape, VARIABLE)

    def _divided(self, times: int, degree: int, bits: float) -> None:
        self.below = self.below[0] + times * degree, self.below[1] + times * bits


def _chance(primes: Primes, degree: int, bits: float) -> float:
    """That a polynomial which is not zero is zero at a random point, modulo a random prime."""
    if degree >= primes.least or math.isinf(bits):
        return 1.0
    divisors = max(bits, 0.0) * (1 + 1e-9) / math.log2(primes.least)
    return min(1.0, max(degree, 0) / primes.least + divisors / primes.many + primes.doubt)


@dataclass(frozen=True)
class Size:
    """What is compared at a point: the height of the largest difference, and of arguments.

    `arguments` are the numbers of pairs of arguments of unknown functions, each with the height of
    a difference. Taken for each other at every point, two different ones would hide a difference;
    that they are not at some points and are at others is noticed. No point is one at which what is
    `below` is zero.
    """

    degree: int
    bits: float
    below: tuple[int, float] = (0, 0.0)
    arguments: tuple[tuple[int, int, float], ...] = ()
    primes: Primes = SHORT  # that the modulus is drawn from

    @classmethod
    def of(cls, worst: Height, heights: Heights) -> Size:
        met = [
            (count * (count - 1) // 2, (x + x).degree, (x + x).bits)
            for count, x in heights.met.values()
        ]
        bits = worst.bits if math.isinf(worst.bits) else math.ceil(worst.bits)
        return cls(max(worst.degree, 0), bits, heights.below, tuple(met))

    def risk(self, trials: int) -> float:
        """That so many trials do not see a difference: at most this."""
        refused, *chances = (
            _chance(self.primes, degree, bits)
            for degree, bits in (
                self.below,
                (self.degree, self.bits),
                *(x[1:] for x in self.arguments),
            )
        )
        if not refused < 0.5:
            return 1.0
        left = 1 - refused  # of all points, where nothing is divided by zero
        pairs = 1, *(count for count, _, _ in self.arguments)
        found = sum(n * (each / left) ** trials for n, each in zip(pairs, chances, strict=True))
        return min(1.0, found)


# -- of a network's blocks ------------------------------------------------------------------------
State = Mapping[str, Height]  # of the entries of every block


class Blocks(Executor[State]):
    """How large the blocks of a network become, read off its heads, which are given in pieces.

    A plan would tell more exactly, but takes longer to make than a comparison in words, which needs
    no plan. Heads that read and write entries of the same height are many, and are counted.
    """

    def __init__(self, layout: Layout, arithmetic: Heights) -> None:
        self.layout, self.arithmetic = layout, arithmetic
        self._constants: dict[tuple[Constant, Fraction], tuple[Height, int]] = {}

    def plus(self, before: State, after: State, name: str) -> State:
        return {block: after[block] + before[block] for block in before}

    def layer(self, layer: Layer, state: State, name: str) -> State:
        assert isinstance(layer, AttentionLayer)
        found = Counter(written for head in layer.heads for written in self._written(head, state))
        after = dict(state) if layer.skip else dict.fromkeys(state, ZERO)
        for (block, query, key, inner, value), count in found.items():
            scores = (query * key).summed(inner)
            after[block] += (scores * value).summed(self.layout.tokens).summed(count)
        return after

    def _written(self, head: Head, state: State) -> list[tuple[str, Height, Height, int, Height]]:
        """The blocks that a head writes into, and of what."""
        assert head.pieces is not None
        *scores, values = head.pieces
        query, key = (self._projected(pieces, state) for pieces in scores)
        inner = min(query[1], key[1])
        return [
            (block.name, query[0], key[0], inner, self._read(piece, state))
            for piece in values
            for block in self.layout.over(piece.at, piece.stop)
        ]

    def _projected(self, pieces: Sequence[Piece], state: State) -> tuple[Height, int]:
        """The entries of `H W + B`, and in how many columns they stand."""
        height = sum((self._read(piece, state) for piece in pieces), ZERO)
        return height, sum(piece.matrix.cols for piece in pieces)

    def _read(self, piece: Piece, state: State) -> Height:
        what = piece.matrix, piece.coefficient
        if what not in self._constants:
            height, terms = self._constant(piece.matrix)
            number = self.arithmetic.number(piece.coefficient).height
            self._constants[what] = height * number, terms
        height, terms = self._constants[what]
        return height if piece.block is None else (state[piece.block] * height).summed(terms)

    def _constant(self, matrix: Constant) -> tuple[Height, int]:
        """The entries of a constant, and of how many terms its products are sums."""
        if isinstance(matrix, Shift | Ones):
            return Height(), 1 if isinstance(matrix, Shift) else matrix.rows
        entries = matrix.entries()
        terms = int(np.count_nonzero(entries, axis=0).max(initial=0))
        return self.arithmetic.array(entries).height, terms
