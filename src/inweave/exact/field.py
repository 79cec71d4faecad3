"""Exact arithmetic modulo a prime of 31 bits, at the speed of floating point.

A network of attention layers computes polynomials with rational coefficients, and so does the
program it was compiled from. Two different polynomials rarely agree at a random point of a finite
field, so evaluating both sides here, where nothing rounds, decides equality with a known and tiny
chance of error. Floats could never do that: they only ever show agreement up to a tolerance.

The size of the prime is chosen for the arithmetic. Two residues multiply within int64. Every finite
float is an integer times a power of two and has an exact residue. And a product of matrices splits
into two float64 products, each of them exact: take residues nearest zero, |x| <= 2**30, and cut one
factor into limbs, y = high 2**16 + low with |low| <= 2**15. Every term is then at most 2**45, so
nearly 2**8 terms add up below 2**53.

Which prime is open. Two polynomials that differ may be equal modulo one prime, if it divides every
coefficient of their difference (x and 2**31 x are equal modulo 2**31 - 1), so a check draws its
primes: `Field(random_prime(rng))`. An array belongs to the field that made it, for good: arrays of
two fields do not mix. Numbers that are computed with one by one may have a `LONG` prime, of which
so many are to choose from that one or two of them decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from types import EllipsisType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

P = 2**31 - 1


class Primes(NamedTuple):
    """Primes to draw from, in a range; there are more than `many` (by Dusart's bounds)."""

    least: int
    end: int
    many: float
    doubt: float = 0.0  # that a number is none which is drawn for one


SHORT = Primes(3 * 2**29, 2**31, 2.5e7)  # for arrays
LONG = Primes(3 * 2**59, 2**61, 1.3e16)

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Shape: TypeAlias = int | tuple[int, ...]
Index: TypeAlias = "slice | int | EllipsisType | npt.NDArray[Any] | None"

_LIMB = 2.0**16
_LARGEST_WHOLE = 2.0**53  # up to here floats hold every integer
_TERMS = 248  # 2**8 less a margin: rounding in _centre moves its bound from 2**30 to 2**30 + 3,
#               and the high limb, up to 2**46 once reduced and shifted, joins the low one's sum.
_FEW = 8192  # scalar products below which int64 loops beat the fixed cost of the float path
_CHUNK = 2**16  # entries of the result worked on at a time, so that temporaries stay in cache


def random_prime(rng: np.random.Generator, primes: Primes = SHORT) -> int:
    """One of some primes, each as likely as any other."""
    while not _is_prime(found := int(rng.integers(primes.least, primes.end))):
        pass
    return found


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test; the primes up to 37 decide below 2**64 (Sorenson, Webster 2015)."""
    if n < 2 or n % 2 == 0:
        return n == 2
    return all(passes(n, base) for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))


def passes(n: int, base: int) -> bool:
    """Whether an odd number passes a round of Miller and Rabin's test."""
    twos = (n - 1 & 1 - n).bit_length() - 1
    x = pow(base, n - 1 >> twos, n)
    if x in (0, 1, n - 1):
        return True
    for _ in range(twos - 1):
        x = x * x % n
        if x == n - 1:
            return True
    return False


@dataclass(frozen=True)
class Field:
    """The integers modulo a prime: makes arrays, if it has 31 bits, and computes with residues."""

    prime: int = P
    end: ClassVar[float] = SHORT.end  # of the primes that arrays may have
    dtype: ClassVar[Any] = np.int64  # in which they store residues

    # -- arrays -----------------------------------------------------------------------------------
    def array(self, x: Any) -> FieldArray:
        """The residues of any numbers (see `residue`); an array of this field is itself."""
        if isinstance(x, FieldArray):
            self._own(x)
            return x
        return _wrap(self, self.residue(x))

    def random(self, shape: Shape, rng: np.random.Generator) -> FieldArray:
        """Independent entries, uniform over the whole field."""
        return _wrap(self, rng.integers(0, self.prime, shape, dtype=np.int64))

    def zeros(self, shape: Shape) -> FieldArray:
        return _wrap(self, np.zeros(shape, self.dtype))

    def operand(self, x: object) -> Ints | None:
        """The residues of an operator's other side, or None where that side must answer itself."""
        if isinstance(x, FieldArray):
            return self._own(x)
        if isinstance(x, int | float | Fraction | np.ndarray | np.generic):
            return self.residue(x)
        return None

    def _own(self, x: FieldArray) -> Ints:
        """The residues of an array of this field; refuses those of another, which mean nothing."""
        if x.field.prime != self.prime:
            raise ValueError(f"arrays modulo {self.prime} and modulo {x.field.prime} do not mix")
        return x.values

    # -- residues in [0, p) -----------------------------------------------------------------------
    def matmul(self, a: Ints, b: Ints) -> Ints:
        """`a @ b` modulo p for entries in [0, p), with numpy's rules for shapes."""
        if a.ndim == 0 or b.ndim == 0:
            raise ValueError(
                f"a matrix product needs matrices or vectors, not {a.shape} @ {b.shape}"
            )
        if b.ndim == 1:
            return self.matmul(a, b[:, None])[..., 0]
        if a.ndim == 1:
            return self.matmul(a[None, :], b)[..., 0, :]
        inner = a.shape[-1]
        if inner != b.shape[-2]:
            raise ValueError(
                f"cannot multiply shapes {a.shape} @ {b.shape}: {inner} != {b.shape[-2]}"
            )
        if inner <= 2 or not a.size or not b.size:
            return self.reduced(a @ b)
        if max(a.size * b.shape[-1], b.size * a.shape[-2]) <= _FEW:
            # inner <= 2**13 here, so both sums stay below 2**61
            return ((a @ (b >> 16) % self.prime << 16) + a @ (b & 0xFFFF)) % self.prime
        if b.size > a.size:  # cut the smaller factor
            return self._by_floats(b.swapaxes(-1, -2), a.swapaxes(-1, -2)).swapaxes(-1, -2)
        return self._by_floats(a, b)

    def _by_floats(self, a: Ints, b: Ints) -> Ints:
        """`a @ b` through float64 products, a chunk of the leading axis at a time."""
        if b.ndim == 2 and a.ndim > 2:  # one large product instead of many small ones
            flat = self._by_floats(a.reshape(-1, a.shape[-1]), b)
            return flat.reshape(*a.shape[:-1], b.shape[-1])
        ndim = max(a.ndim, b.ndim)
        a = a.reshape((1,) * (ndim - a.ndim) + a.shape)
        y = self._centre(b.reshape((1,) * (ndim - b.ndim) + b.shape).astype(np.float64))
        limbs = np.empty((2, *y.shape))
        high, low = limbs
        np.rint(y / _LIMB, out=high)
        np.subtract(y, high * _LIMB, out=low)

        batch = np.broadcast_shapes(a.shape[:-2], y.shape[:-2])
        out = np.empty((*batch, a.shape[-2], y.shape[-1]), np.int64)
        step = max(1, _CHUNK * len(out) // max(out.size, a[..., :_TERMS].size))
        for start in range(0, len(out), step):
            here = slice(start, start + step)
            left = a[here] if len(a) > 1 else a
            right = limbs[:, here] if ndim > 2 and limbs.shape[1] > 1 else limbs
            out[here] = self._product(left, right)
        return out

    def _product(self, a: Ints, limbs: Floats) -> Ints:
        """`a @ (high 2**16 + low)`, with as many terms in one float64 sum as stay exact."""
        total: Floats | float = 0.0
        for start in range(0, a.shape[-1], _TERMS):
            terms = slice(start, start + _TERMS)
            high, low = self._centre(a[..., terms].astype(np.float64)) @ limbs[..., terms, :]
            self._centre(high)
            high *= _LIMB
            high += low
            total = self._centre(high) + total
        return self.raised(self._centre(np.asarray(total)).astype(np.int64))

    def _centre(self, x: Floats) -> Floats:
        """Move integers |x| < 2**53 by multiples of p to |x| <= 2**30 + 3, in place."""
        quotient = x * (1 / self.prime)
        np.rint(quotient, out=quotient)
        quotient *= self.prime
        x -= quotient
        return x

    def raised(self, x: Ints) -> Ints:
        """Bring [-p, p) to [0, p): a negative number reads as a huge one without its sign."""
        raised = np.minimum(x.view(np.uint64), (x + self.prime).view(np.uint64))
        return raised.view(np.int64)

    def reduced(self, x: Ints) -> Ints:
        """`x % p`; numpy has vector instructions for `//` by a constant but not for `%`."""
        out: Ints = x - x // self.prime * self.prime
        return out

    def residue(self, value: Any) -> Ints:
        """The exact residues of numbers: int, float, Fraction, or an array or nested list of them.

        A float stands for the dyadic rational it is, not for the decimal it prints as. Raises
        ZeroDivisionError where p divides a denominator, ValueError where a float is not finite, and
        TypeError for anything but a rational number.
        """
        if isinstance(value, int | Fraction):
            return np.asarray(self.rational(value))
        exact = isinstance(value, np.ndarray | np.generic | float)
        array = np.asarray(value) if exact else np.array(value, dtype=object)
        kind = array.dtype.kind
        if kind in "bi":
            return np.asarray(self.reduced(array.astype(np.int64)))
        if kind == "u":
            return np.asarray(array.astype(np.uint64) % np.uint64(self.prime)).astype(np.int64)
        if kind == "f" and array.dtype.itemsize <= 8:
            return self._float_residue(array.astype(np.float64))
        if kind in "fO":
            flat = [self.rational(x) for x in array.astype(object).flat]
            return np.array(flat, dtype=np.int64).reshape(array.shape)
        raise TypeError(f"numbers of type {array.dtype} have no residues modulo {self.prime}")

    def _float_residue(self, x: Floats) -> Ints:
        if (np.abs(x) <= _LARGEST_WHOLE).all() and (x == (whole := x.astype(np.int64))).all():
            return np.asarray(self.reduced(whole))  # most constants are made of 0 and 1
        if not np.isfinite(x).all():
            raise ValueError(f"{x[~np.isfinite(x)].flat[0]} has no residue modulo {self.prime}")
        mantissa, exponent = np.frexp(x)  # x = mantissa 2**exponent, |mantissa| < 1 of 53 bits
        integer = self.reduced(np.ldexp(mantissa, 53).astype(np.int64))
        shifts, which = np.unique(np.asarray(exponent, np.int64) - 53, return_inverse=True)
        powers = np.array([pow(2, int(shift), self.prime) for shift in shifts], dtype=np.int64)
        return np.asarray(self.reduced(integer * powers[which].reshape(integer.shape)))

    def rational(self, x: Any) -> int:
        """The residue of one number."""
        if isinstance(x, np.integer):
            x = int(x)
        if not hasattr(x, "as_integer_ratio"):
            raise TypeError(f"{x!r} of type {type(x).__name__} is not a rational number")
        try:
            numerator, denominator = x.as_integer_ratio()
        except (OverflowError, ValueError):
            raise ValueError(f"{x} has no residue modulo {self.prime}") from None
        if denominator % self.prime == 0:
            raise ZeroDivisionError(
                f"the denominator of {_shown(x)} is divisible by the field's prime {self.prime}"
            )
        if denominator != 1:
            numerator *= pow(denominator, -1, self.prime)
        return int(numerator % self.prime)

    def inverse(self, a: Ints) -> Ints:
        """The reciprocal of every entry, a**(p - 2) by Fermat; ZeroDivisionError if one is 0."""
        if not np.all(a):
            raise ZeroDivisionError(f"0 has no inverse modulo {self.prime}")
        power, square = np.ones_like(a), a
        for bit in reversed(f"{self.prime - 2:b}"):
            if bit == "1":
                power = self.reduced(power * square)
            square = self.reduced(square * square)
        return power

    def keyed(self, name: str, key: int, a: Ints) -> Ints:
        """A pseudo-random function of the field, one for each (name, key), applied to every entry.

        It stands for a function that is no polynomial: equal arguments give equal values, nothing
        else can be foretold. The mixing is that of splitmix64: statistically sound, no
        cryptography.
        """
        seed = blake2b(f"{key}:{name}".encode(), digest_size=16).digest()
        x = a.reshape(-1).astype(np.uint64)
        for constant in np.frombuffer(seed, dtype="<u8").astype(np.uint64):
            x = x ^ constant
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x ^= x >> np.uint64(31)
        return (x % np.uint64(self.prime)).astype(np.int64).reshape(a.shape)


def _shown(x: Any) -> str:
    """A number in an error; Python writes no integer of more than 4,300 digits."""
    bits = int(x.denominator).bit_length() if hasattr(x, "denominator") else 0
    return f"a fraction of {bits} bits" if bits > 1000 else str(x)


def _wrap(field: Field, values: Any) -> FieldArray:
    if field.prime >= field.end:
        raise ValueError(f"products modulo {field.prime} do not fit the entries of an array")
    array = object.__new__(FieldArray)  # numpy turns 0-d results into scalars
    array.field, array.values = field, np.asarray(values, field.dtype)
    return array


def _operator(
    compute: Callable[[Field, Ints, Ints], Ints],
) -> Callable[[FieldArray, Any], FieldArray]:
    """A method of FieldArray from its effect on residues in [0, p)."""

    def method(self: FieldArray, other: Any) -> FieldArray:
        y = self.field.operand(other)
        field = self.field
        return NotImplemented if y is None else _wrap(field, compute(field, self.values, y))

    return method


class FieldArray:
    """An array over a field, with the operators that code written for float arrays uses.

    Numbers and numpy arrays met by an operator stand for their residues. Operations never change
    their operands, though like numpy's they may return views.
    """

    __slots__ = ("field", "values")
    __array_ufunc__ = None  # `ndarray @ FieldArray` is ours to answer
    __hash__ = None  # type: ignore[assignment]

    field: Field
    values: Ints

    def __init__(self, field: Field, values: Ints) -> None:
        """Wrap residues already in [0, p), as they are stored; `Field.array` takes any numbers."""
        values, p, dtype = np.asarray(values), field.prime, np.dtype(field.dtype)
        if values.dtype != dtype or (values.size and not 0 <= values.min() <= values.max() < p):
            raise ValueError(f"not {dtype} residues in [0, {p}): use Field.array")
        self.field, self.values = field, values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def mT(self) -> FieldArray:
        """The last two axes swapped."""
        return _wrap(self.field, self.values.swapaxes(-1, -2))

    def reshape(self, *shape: Any) -> FieldArray:
        return _wrap(self.field, self.values.reshape(*shape))

    def inverse(self) -> FieldArray:
        """The reciprocal of every entry."""
        return _wrap(self.field, self.field.inverse(self.values))

    def keyed(self, name: str, key: int) -> FieldArray:
        """A pseudo-random function of every entry; see `Field.keyed`."""
        return _wrap(self.field, self.field.keyed(name, key, self.values))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> FieldArray:
        return _wrap(self.field, self.values[index])

    def __neg__(self) -> FieldArray:
        return _wrap(self.field, self.field.raised(-self.values))

    __add__ = __radd__ = _operator(lambda field, x, y: field.raised(x + y - field.prime))
    __sub__ = _operator(lambda field, x, y: field.raised(x - y))
    __rsub__ = _operator(lambda field, x, y: field.raised(y - x))
    __mul__ = __rmul__ = _operator(lambda field, x, y: field.reduced(x * y))
    __truediv__ = _operator(lambda field, x, y: field.reduced(x * field.inverse(y)))
    __rtruediv__ = _operator(lambda field, x, y: field.reduced(y * field.inverse(x)))
    __matmul__ = _operator(lambda field, x, y: field.matmul(x, y))
    __rmatmul__ = _operator(lambda field, x, y: field.matmul(y, x))

    def __eq__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        y = self.field.operand(other)
        return NotImplemented if y is None else np.asarray(self.values == y)

    def __ne__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        y = self.field.operand(other)
        return NotImplemented if y is None else np.asarray(self.values != y)

    def __repr__(self) -> str:
        text = np.array2string(self.values, separator=", ", prefix="FieldArray(", threshold=100)
        return f"FieldArray({text}, shape={self.shape}, modulo {self.field.prime})"
