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
primes: `modulo(random_prime(rng))`. Outside of that, arithmetic is modulo P = 2**31 - 1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from hashlib import blake2b
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "FieldArray", "P", "inverse", "keyed", "matmul", "modulo", "random_prime", "residue"
]  # fmt: skip

P = 2**31 - 1
LEAST = 3 * 2**29  # primes are drawn between this and 2**31: there are 2.5e7


class _Working(threading.local):
    """The prime that a thread computes with; see `modulo`."""

    p = P


_field = _Working()

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Shape: TypeAlias = int | tuple[int, ...]
Index: TypeAlias = "slice | int | EllipsisType | npt.NDArray[Any] | None"

_LIMB = 2.0**16
_TERMS = 248  # 2**8 less a margin: rounding in _centre moves its bound from 2**30 to 2**30 + 3,
#               and the high limb, up to 2**46 once reduced and shifted, joins the low one's sum.
_FEW = 8192  # scalar products below which int64 loops beat the fixed cost of the float path
_BLOCK = 2**16  # entries of the result worked on at a time, so that temporaries stay in cache


@contextmanager
def modulo(prime: int) -> Iterator[None]:
    """Compute with another prime of 31 bits, in this thread; its arrays mean nothing afterwards."""
    before, _field.p = _field.p, prime
    try:
        yield
    finally:
        _field.p = before


def random_prime(rng: np.random.Generator) -> int:
    """A prime between `LEAST` and 2**31, each as likely as any other."""
    while not _is_prime(found := int(rng.integers(LEAST, 2**31))):
        pass
    return found


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test; the bases 2, 7 and 61 decide below 4759123141 (Jaeschke 1993)."""
    if n < 2 or n % 2 == 0:
        return n == 2
    twos = (n - 1 & 1 - n).bit_length() - 1
    for base in (2, 7, 61):
        x = pow(base, n - 1 >> twos, n)
        if x in (0, 1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def matmul(a: Ints, b: Ints) -> Ints:
    """`a @ b` modulo p for entries in [0, p), with numpy's rules for shapes."""
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError(f"a matrix product needs matrices or vectors, not {a.shape} @ {b.shape}")
    if a.ndim == 1:
        return matmul(a[None, :], b)[..., 0, :] if b.ndim > 1 else matmul(a, b[:, None])[..., 0]
    if b.ndim == 1:
        return matmul(a, b[:, None])[..., 0]
    inner = a.shape[-1]
    if inner != b.shape[-2]:
        raise ValueError(f"cannot multiply shapes {a.shape} @ {b.shape}: {inner} != {b.shape[-2]}")
    if inner <= 2 or not a.size or not b.size:
        return _reduce(a @ b)
    if max(a.size * b.shape[-1], b.size * a.shape[-2]) <= _FEW:
        # inner <= 2**13 here, so both sums stay below 2**61
        return ((a @ (b >> 16) % _field.p << 16) + a @ (b & 0xFFFF)) % _field.p
    if b.size > a.size:  # cut the smaller factor
        return _by_floats(b.swapaxes(-1, -2), a.swapaxes(-1, -2)).swapaxes(-1, -2)
    return _by_floats(a, b)


def _by_floats(a: Ints, b: Ints) -> Ints:
    """`a @ b` through float64 products, a block of the leading axis at a time."""
    if b.ndim == 2 and a.ndim > 2:  # one large product instead of many small ones
        return _by_floats(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    ndim = max(a.ndim, b.ndim)
    a = a.reshape((1,) * (ndim - a.ndim) + a.shape)
    y = _centre(b.reshape((1,) * (ndim - b.ndim) + b.shape).astype(np.float64))
    limbs = np.empty((2, *y.shape))
    high, low = limbs
    np.rint(y / _LIMB, out=high)
    np.subtract(y, high * _LIMB, out=low)

    batch = np.broadcast_shapes(a.shape[:-2], y.shape[:-2])
    out = np.empty((*batch, a.shape[-2], y.shape[-1]), np.int64)
    step = max(1, _BLOCK * len(out) // max(out.size, a[..., :_TERMS].size))
    for start in range(0, len(out), step):
        here = slice(start, start + step)
        left = a[here] if len(a) > 1 else a
        right = limbs[:, here] if ndim > 2 and limbs.shape[1] > 1 else limbs
        out[here] = _product(left, right)
    return out


def _product(a: Ints, limbs: Floats) -> Ints:
    """`a @ (high 2**16 + low)`, with as many terms in one float64 sum as stay exact."""
    total: Floats | float = 0.0
    for start in range(0, a.shape[-1], _TERMS):
        terms = slice(start, start + _TERMS)
        high, low = _centre(a[..., terms].astype(np.float64)) @ limbs[..., terms, :]
        _centre(high)
        high *= _LIMB
        high += low
        total = _centre(high) + total
    return _lift(_centre(np.asarray(total)).astype(np.int64))


def _centre(x: Floats) -> Floats:
    """Move integers |x| < 2**53 by multiples of p to |x| <= 2**30 + 3, in place."""
    quotient = x * (1 / _field.p)
    np.rint(quotient, out=quotient)
    quotient *= _field.p
    x -= quotient
    return x


def _lift(x: Ints) -> Ints:
    """Bring [-p, p) to [0, p): a negative number reads as a huge one without its sign."""
    lifted: Ints = np.minimum(x.view(np.uint64), (x + _field.p).view(np.uint64)).view(np.int64)
    return lifted


def _reduce(x: Ints) -> Ints:
    """`x % p`; numpy has vector instructions for `//` by a constant but not for `%`."""
    reduced: Ints = x - x // _field.p * _field.p
    return reduced


def residue(value: Any) -> Ints:
    """The exact residues of numbers: int, float, Fraction, or an array or nested list of them.

    A float stands for the dyadic rational it is, not for the decimal it prints as. Raises
    ZeroDivisionError where p divides a denominator, ValueError where a float is not finite, and
    TypeError for anything but a rational number.
    """
    exact = isinstance(value, np.ndarray | np.generic | float)
    array = np.asarray(value) if exact else np.array(value, dtype=object)
    kind = array.dtype.kind
    if kind in "bi":
        return np.asarray(_reduce(array.astype(np.int64)))
    if kind == "u":
        return np.asarray(array.astype(np.uint64) % np.uint64(_field.p)).astype(np.int64)
    if kind == "f" and array.dtype.itemsize <= 8:
        return _float_residue(array.astype(np.float64))
    if kind in "fO":
        flat = [_rational_residue(x) for x in array.astype(object).flat]
        return np.array(flat, dtype=np.int64).reshape(array.shape)
    raise TypeError(f"numbers of type {array.dtype} have no residues modulo {_field.p}")


def _float_residue(x: Floats) -> Ints:
    if not np.isfinite(x).all():
        raise ValueError(f"{x[~np.isfinite(x)].flat[0]} has no residue modulo {_field.p}")
    mantissa, exponent = np.frexp(x)  # x = mantissa 2**exponent, |mantissa| < 1 of 53 bits
    integer = _reduce(np.ldexp(mantissa, 53).astype(np.int64))
    shifts, which = np.unique(np.asarray(exponent, np.int64) - 53, return_inverse=True)
    powers = np.array([pow(2, int(shift), _field.p) for shift in shifts], dtype=np.int64)
    return np.asarray(_reduce(integer * powers[which].reshape(integer.shape)))


def _rational_residue(x: Any) -> int:
    if isinstance(x, np.integer):
        x = int(x)
    if not hasattr(x, "as_integer_ratio"):
        raise TypeError(f"{x!r} of type {type(x).__name__} is not a rational number")
    try:
        numerator, denominator = x.as_integer_ratio()
    except (OverflowError, ValueError):
        raise ValueError(f"{x} has no residue modulo {_field.p}") from None
    if denominator % _field.p == 0:
        raise ZeroDivisionError(
            f"the denominator of {x} is divisible by the field's prime {_field.p}"
        )
    return int(numerator * pow(denominator, -1, _field.p) % _field.p)


def inverse(a: Ints) -> Ints:
    """The reciprocal of every entry, a**(p - 2) by Fermat; ZeroDivisionError if one is 0."""
    if not np.all(a):
        raise ZeroDivisionError(f"0 has no inverse modulo {_field.p}")
    power, square = np.ones_like(a), a
    for bit in reversed(f"{_field.p - 2:b}"):
        if bit == "1":
            power = _reduce(power * square)
        square = _reduce(square * square)
    return power


def keyed(name: str, key: int, a: Ints) -> Ints:
    """A pseudo-random function of the field, one for each (name, key), applied to every entry.

    It stands for a function that is no polynomial: equal arguments give equal values, and nothing
    else can be foretold. The mixing is that of splitmix64: statistically sound, no cryptography.
    """
    seed = blake2b(f"{key}:{name}".encode(), digest_size=16).digest()
    x = a.reshape(-1).astype(np.uint64)
    for constant in np.frombuffer(seed, dtype="<u8").astype(np.uint64):
        x = x ^ constant
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x % np.uint64(_field.p)).astype(np.int64).reshape(a.shape)


def _operand(x: object) -> Ints | None:
    """The residues of an operator's other side, or None where that side must answer itself."""
    if isinstance(x, FieldArray):
        return x.values
    if isinstance(x, int | float | Fraction | np.ndarray | np.generic):
        return residue(x)
    return None


def _operator(compute: Callable[[Ints, Ints], Ints]) -> Callable[[FieldArray, Any], FieldArray]:
    """A method of FieldArray from its effect on residues in [0, p)."""

    def method(self: FieldArray, other: Any) -> FieldArray:
        y = _operand(other)
        return NotImplemented if y is None else self._wrap(compute(self.values, y))

    return method


class FieldArray:
    """An array over the field, with the operators that code written for float arrays uses.

    Numbers and numpy arrays met by an operator stand for their residues. Operations never change
    their operands, though like numpy's they may return views.
    """

    __slots__ = ("values",)
    __array_ufunc__ = None  # `ndarray @ FieldArray` is ours to answer
    __hash__ = None  # type: ignore[assignment]

    values: Ints

    def __init__(self, values: Ints) -> None:
        """Wrap int64 residues already in [0, p); `FieldArray.of` takes any numbers."""
        values = np.asarray(values)
        if values.dtype != np.int64 or (
            values.size and not 0 <= values.min() <= values.max() < _field.p
        ):
            raise ValueError(f"not int64 residues in [0, {_field.p}): use FieldArray.of")
        self.values = values

    @classmethod
    def _wrap(cls, values: Ints) -> FieldArray:
        array = object.__new__(cls)
        array.values = np.asarray(values)  # numpy turns 0-d results into scalars
        return array

    @classmethod
    def of(cls, x: Any) -> FieldArray:
        return x if isinstance(x, FieldArray) else cls._wrap(residue(x))

    @classmethod
    def random(cls, shape: Shape, rng: np.random.Generator) -> FieldArray:
        """Independent entries, uniform over the whole field."""
        return cls._wrap(rng.integers(0, _field.p, shape, dtype=np.int64))

    @classmethod
    def zeros(cls, shape: Shape) -> FieldArray:
        return cls._wrap(np.zeros(shape, np.int64))

    @classmethod
    def eye(cls, n: int) -> FieldArray:
        return cls._wrap(np.eye(n, dtype=np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def mT(self) -> FieldArray:
        """The last two axes swapped."""
        return self._wrap(self.values.swapaxes(-1, -2))

    @property
    def T(self) -> FieldArray:
        """As `mT`, batched too; a vector or scalar is its own transpose, as in numpy."""
        return self.mT if self.ndim > 1 else self

    def reshape(self, *shape: Any) -> FieldArray:
        return self._wrap(self.values.reshape(*shape))

    def broadcast_to(self, shape: Shape) -> FieldArray:
        return self._wrap(np.broadcast_to(self.values, shape))

    def copy(self) -> FieldArray:
        return self._wrap(self.values.copy())

    def __getitem__(self, index: Index | tuple[Index, ...]) -> FieldArray:
        return self._wrap(self.values[index])

    def __neg__(self) -> FieldArray:
        return self._wrap(_lift(-self.values))

    __add__ = __radd__ = _operator(lambda x, y: _lift(x + y - _field.p))
    __sub__ = _operator(lambda x, y: _lift(x - y))
    __rsub__ = _operator(lambda x, y: _lift(y - x))
    __mul__ = __rmul__ = _operator(lambda x, y: _reduce(x * y))
    __truediv__ = _operator(lambda x, y: _reduce(x * inverse(y)))
    __rtruediv__ = _operator(lambda x, y: _reduce(y * inverse(x)))
    __matmul__ = _operator(lambda x, y: matmul(x, y))
    __rmatmul__ = _operator(lambda x, y: matmul(y, x))

    def __eq__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        y = _operand(other)
        return NotImplemented if y is None else np.asarray(self.values == y)

    def __ne__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        y = _operand(other)
        return NotImplemented if y is None else np.asarray(self.values != y)

    def __repr__(self) -> str:
        text = np.array2string(self.values, separator=", ", prefix="FieldArray(", threshold=100)
        return f"FieldArray({text}, shape={self.shape}, modulo {_field.p})"
