"""The one extension point of evaluation: in which numbers a program or a network is computed.

Programs and networks are evaluated by the same code in floating point (numpy, torch, jax, anything
with the array API), in exact rationals, in a finite field, and in fields of degrees. What differs
is small enough for one Protocol: how exact constants enter, how a pointwise function acts, and a
few facts that an executor may use. Sums, products and transposes are the array's own `+`, `-`, `*`,
`@`, `.mT` and slicing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from inweave.errors import CompileError, DTypeError, VerificationError
from inweave.exact.constants import Array, Constant, Ones, Shift, fractions

Placed = tuple[int, int, Fraction, Constant]


class Arithmetic(Protocol):
    """Numbers that a program or a network can be computed in; the defaults fit exact ones."""

    xp: Any = None  # the array library; None if arrays are of a kind of their own
    library: str = ""  # its name, such as 'numpy' or 'jax'
    dtype: Any = None  # of its arrays
    exact: bool = True  # nothing is rounded
    ordered: bool = False  # numbers are larger or smaller, so that there is a ReLU
    checked: bool = False  # pointwise functions look at their domains
    largest: float = math.inf  # the largest number

    @property
    def identity(self) -> Any:
        """What an arithmetic with equal constants has too; None if they need not be kept."""
        return None

    def relu(self, x: Array) -> Array:
        """The larger of x and 0; a method of ordered arithmetics only."""
        raise VerificationError(
            "these numbers have no order, hence no ReLU: a dense pointwise layer can only be run, "
            "and a function is proved where it is held as one (BlockPointwiseLayer)"
        )

    def same(self, x: Array, y: Array) -> bool:
        """Whether two arrays are known to be equal."""
        return bool(np.all(x == y))

    def number(self, value: Fraction) -> Any:
        """An exact coefficient, as something an array can be multiplied by."""

    def zeros(self, shape: Sequence[int]) -> Array:
        """An array of zeros."""

    def array(self, entries: np.ndarray[Any, Any]) -> Array:
        """Exact entries (float64 or Fractions) as an array of this arithmetic."""

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        """Arrays side by side (axis -1) or on top of each other (axis -2), batch axes broadcast."""

    def diagonal(self, x: Array) -> Array:
        """The diagonal of square matrices, as columns."""

    def pointwise(self, function: Any, x: Array) -> Array:
        """A pointwise function of the language, entry by entry."""

    def root(self, x: Array) -> Array:
        """The square root that an input form asks for."""


def matrix(arithmetic: Arithmetic, constant: Constant) -> Array:
    """A constant written out as an array."""
    return arithmetic.array(constant.entries())


def assemble(arithmetic: Arithmetic, rows: int, cols: int, pieces: Iterable[Placed]) -> Array:
    """The rows x cols matrix that is the sum of coefficient x constant placed at (row, col)."""
    pieces = list(pieces)
    plain = len(pieces) <= 1 and all(_exact_in_floats(c, m) for _, _, c, m in pieces)
    in_floats = plain or not arithmetic.exact
    out: np.ndarray[Any, Any] = np.zeros((rows, cols))
    if not in_floats:
        out = fractions(out)
    for row, col, coefficient, constant in pieces:
        where = (slice(row, row + constant.rows), slice(col, col + constant.cols))
        entries = constant.entries()
        if in_floats:
            out[where] += float(coefficient) * entries.astype(np.float64)
        else:
            out[where] += coefficient * fractions(entries)
    return arithmetic.array(out)


def _exact_in_floats(coefficient: Fraction, constant: Constant) -> bool:
    """Whether coefficient x constant is the same in float64 as in exact numbers."""
    if abs(coefficient) == 1:
        return bool(constant.entries().dtype != object)
    top, bottom = abs(coefficient.numerator), coefficient.denominator
    short = top < 2**53 and bottom & (bottom - 1) == 0 and bottom < 2**1000
    return short and isinstance(constant, (Shift, Ones))


def bordered(arithmetic: Arithmetic, x: Array, axis: int, before: int, after: int) -> Array:
    """Matrices between so many rows (axis -2) or columns (axis -1) of zeros."""
    rows, cols = x.shape[-2:]
    shapes = [(n, cols) if axis == -2 else (rows, n) for n in (before, after)]
    above, below = map(arithmetic.zeros, shapes)
    parts = [part for part in (above, x, below) if part.shape[axis]]
    return parts[0] if len(parts) == 1 else arithmetic.concat(parts, axis)


def times(arithmetic: Arithmetic, x: Array, constant: Constant) -> Array:
    """`x @ constant`; a piece of an identity only moves columns of x, to stand between zeros."""
    if not isinstance(constant, Shift):
        return x @ matrix(arithmetic, constant)
    kept = x[..., :, constant.row : constant.row + constant.size]
    after = constant.cols - constant.col - constant.size
    return bordered(arithmetic, kept, -1, constant.col, after)


def namespace(*arrays: Array) -> Any:
    """The array library of some arrays. Numpy speaks the array API itself, and starts faster so."""
    if all(isinstance(x, np.ndarray) for x in arrays):
        return np
    from array_api_compat import array_namespace

    return array_namespace(*arrays)


_tracing: ContextVar[bool] = ContextVar("tracing", default=False)


@contextmanager
def tracing() -> Iterator[None]:
    """While torch.compile runs code on placeholders, which have no values and must not stay."""
    token = _tracing.set(True)
    try:
        yield
    finally:
        _tracing.reset(token)


def is_tracing() -> bool:
    """Whether this runs inside `tracing`."""
    return _tracing.get()


class _Ordered(Arithmetic):
    """Numbers in arrays of a library that speaks the array API."""

    ordered = True

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return self.xp.concat(batched(self.xp.broadcast_to, arrays), axis=axis)

    def diagonal(self, x: Array) -> Array:
        return self.xp.linalg.diagonal(x)[..., None]

    def relu(self, x: Array) -> Array:
        return self.xp.where(x > 0, x, x * 0)


class Floats(_Ordered):
    """Floating point through the array API: numpy, torch, jax, cupy, array-api-strict."""

    exact = False

    def __init__(self, xp: Any = None, dtype: Any = None, device: Any = None) -> None:
        xp = np if xp is None else xp
        self.xp, self.dtype, self.device = xp, dtype or xp.float64, device
        self.library = xp.__name__.removeprefix("array_api_compat.").split(".")[0]

    @property
    def largest(self) -> float:  # type: ignore[override]
        return float(self.xp.finfo(self.dtype).max)

    @property
    def identity(self) -> Any:
        if is_tracing():
            return None
        return self.xp, self.dtype, self.device, self.checked

    @classmethod
    def like(cls, x: Array) -> Floats:
        """The arithmetic that an array lives in: its library, dtype and device.

        Integers are computed in floats: rounding a weight of 1/2 to an integer would lose it.
        """
        from array_api_compat import device, is_array_api_obj

        if not is_array_api_obj(x):
            raise DTypeError(f"expected an array, got {type(x).__name__}")
        xp = namespace(x)
        if x.dtype == object or not xp.isdtype(x.dtype, ("real floating", "integral")):
            raise DTypeError(f"expected an array of real numbers, got dtype {x.dtype}")
        dtype = x.dtype if xp.isdtype(x.dtype, "real floating") else xp.asarray(0.0).dtype
        return cls(xp, dtype, device(x))

    def convert(self, value: Any) -> Array:
        """A value as an array of this library, dtype and device; gradients pass through."""
        from array_api_compat import device, is_array_api_obj, to_device

        foreign = not is_array_api_obj(value) or isinstance(value, np.generic)
        if foreign or namespace(value) != self.xp:
            return self.xp.asarray(value, dtype=self.dtype, device=self.device)
        value = self.xp.astype(value, self.dtype, copy=False)
        there = self.device is None or device(value) == self.device
        return value if there else to_device(value, self.device)

    def number(self, value: Fraction) -> float:
        try:
            return float(value)
        except OverflowError:
            digits = Decimal(abs(value.numerator) // value.denominator).adjusted() + 1
            raise CompileError(
                f"a coefficient of {digits} digits is beyond floating point: scale the program's "
                "constants, or its inputs, so that their products stay below 1e308"
            ) from None

    def zeros(self, shape: Sequence[int]) -> Array:
        return self.xp.zeros(tuple(shape), dtype=self.dtype, device=self.device)

    def array(self, entries: np.ndarray[Any, Any]) -> Array:
        plain = entries.astype(np.float64)
        strict = self.library == "array_api_strict"
        return self.xp.asarray(plain.tolist() if strict else plain,
                               dtype=self.dtype, device=self.device)  # fmt: skip

    def pointwise(self, function: Any, x: Array) -> Array:
        return function.floats(self.xp, x)

    def root(self, x: Array) -> Array:
        return self.xp.sqrt(x)

    def same(self, x: Array, y: Array) -> bool:
        """Libraries that trace or differentiate are not asked: there, a zero may be a variable."""
        return self.library not in ("torch", "jax", "dask") and bool(self.xp.all(x == y))


class Rationals(_Ordered):
    """Exact rational numbers: numpy object arrays of Fractions. Slow, and never wrong."""

    xp = np

    def number(self, value: Fraction) -> Fraction:
        return value

    def zeros(self, shape: Sequence[int]) -> Array:
        return fractions(np.zeros(tuple(shape)))

    def array(self, entries: np.ndarray[Any, Any]) -> Array:
        return fractions(entries)

    def pointwise(self, function: Any, x: Array) -> Array:
        return function.rationals(x)

    def root(self, x: Array) -> Array:
        def root(q: Fraction) -> Fraction:
            top, bottom = math.isqrt(q.numerator), math.isqrt(q.denominator)
            if Fraction(top, bottom) ** 2 != q:
                raise ValueError(f"{q} has no rational square root")
            return Fraction(top, bottom)

        return np.vectorize(root, otypes=[object])(x)


def batched(broadcast_to: Any, arrays: Sequence[Array]) -> list[Array]:
    """The arrays with their leading (batch) axes broadcast against each other."""
    leads = [tuple(a.shape[:-2]) for a in arrays]
    if leads.count(leads[0]) == len(leads):
        return list(arrays)
    lead = np.broadcast_shapes(*leads)
    return [
        a if own == lead else broadcast_to(a, (*lead, *a.shape[-2:]))
        for a, own in zip(arrays, leads, strict=True)
    ]
