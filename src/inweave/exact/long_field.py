"""Exact arithmetic modulo primes of as many bits as it takes, in Python's integers.

Where a degree is as large as a prime, nearly every point may be a root, and no number of trials
tells two polynomials apart. Every step of an inverse root multiplies the degree by three or more,
so those of fifty roots, one computed from the other, have one of seventy digits. But whatever the
degree, modulo a prime of 40 bits more than it has, two trials decide.

Of numbers this long it is not known for certain whether they are prime: a composite one passes a
round of Miller and Rabin's test, with a random base, with probability 1/4 at most (Rabin 1980).
They are drawn until one passes, and more than one in b of b bits is prime, so what is drawn is
composite with probability b / 4**ROUNDS at most. That is counted as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import shake_256
from typing import Any, ClassVar

import numpy as np

from inweave.exact.field import SHORT, Field, FieldArray, Ints, Primes, Shape, passes, random_prime

ROUNDS = 40
LENGTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1000)  # bits; a float holds how many primes


def of_bits(bits: int) -> Primes:
    """The primes in the upper quarter of the numbers of so many bits.

    With L = log(2**bits), there are at least 2**bits / (L - 1) - 3/4 2**bits / (L - 1.39) of them
    (Dusart), which is more than 0.24 2**bits / L.
    """
    many = 0.24 * 2.0**bits / (bits * math.log(2))
    return Primes(3 << bits - 2, 1 << bits, many, bits / 4.0**ROUNDS)


def random_field(rng: np.random.Generator, primes: Primes = SHORT) -> Field:
    """The field of one of some primes, each as likely as any other."""
    if not primes.doubt:
        return Field(random_prime(rng, primes))
    while True:
        found = primes.least + _below(primes.end - primes.least, rng) | 1
        if all(found % n for n in range(3, 1000, 2)) and all(
            passes(found, 1 + _below(found - 1, rng)) for _ in range(ROUNDS)
        ):
            return LongField(found)


def _below(end: int, rng: np.random.Generator) -> int:
    """A number from zero on, each as likely as any other."""
    bits = end.bit_length()
    while (found := int.from_bytes(rng.bytes(-(-bits // 8))) >> -bits % 8) >= end:
        pass
    return found


class LongField(Field):
    """The integers modulo a prime of any length."""

    end: ClassVar[float] = math.inf
    dtype: ClassVar[Any] = object

    def random(self, shape: Shape, rng: np.random.Generator) -> FieldArray:
        drawn = _each(lambda _: _below(self.prime, rng), np.empty(shape, object))
        return FieldArray(self, drawn)

    def matmul(self, a: Ints, b: Ints) -> Ints:
        return self.reduced(np.matmul(a, b))

    def raised(self, x: Ints) -> Ints:
        return x % self.prime

    reduced = raised

    def residue(self, value: Any) -> Ints:
        exact = isinstance(value, np.ndarray | np.generic)
        numbers = np.asarray(value) if exact else np.array(value, object)
        return _each(self.rational, numbers.astype(object))

    def inverse(self, a: Ints) -> Ints:
        if not np.all(a):
            raise ZeroDivisionError(f"0 has no inverse modulo {self.prime}")
        return _each(lambda x: pow(x, -1, self.prime), a)

    def keyed(self, name: str, key: int, a: Ints) -> Ints:
        length = self.prime.bit_length() // 8 + 8  # more, so that what is left is nearly uniform

        def drawn(x: int) -> int:
            digest = shake_256(f"{key}:{name}:{x}".encode()).digest(length)
            return int.from_bytes(digest) % self.prime

        return _each(drawn, a)


def _each(make: Callable[[Any], int], a: Ints) -> Ints:
    """A function of every entry."""
    out = np.empty(a.shape, object)
    out.reshape(-1)[:] = [make(x) for x in a.flat]
    return out
