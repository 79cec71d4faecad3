"""Constant matrices, held as what they are.

The weights of a compiled network are almost all zeros and identities. `Shift` (a piece of an
identity), `Ones` and `Dense` describe a constant without writing it out, so that compiling and
storing a network costs the same at d = 10 and at d = 1000. Every constant is exact: a product of
two dense constants is a matrix of rationals, never a rounded one, because verification compares
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from inweave.errors import DTypeError, InputError, ShapeError
from inweave.exact import rational
from inweave.exact.rational import Whole, divided
from inweave.exact.rational import exact as exact
from inweave.exact.rational import fractions as fractions
from inweave.exact.rational import product as multiplied
from inweave.exact.schema import Count, Stored, content, fingerprint, in_hexadecimal

Array = Any

FAR = 24  # powers of two from one, up to which the entries of a constant stay as they are


def real_array(what: str, array: Any) -> np.ndarray[Any, Any]:
    """A read-only copy of real numbers, exactly: float64 where that is exact, else Fractions."""
    array = np.asarray(array)
    if array.dtype == object:
        out = fractions(array)
    elif array.dtype.kind not in "fiub":
        raise DTypeError(f"{what} must hold real numbers, got dtype {array.dtype}")
    elif not np.isfinite(array).all():
        raise InputError(f"{what} must be finite, got NaN or infinity")
    else:
        out = array.astype(np.float64)
        out += 0.0  # there is one zero
        if array.dtype.kind in "iu" and out.size and np.abs(out).max() > 2.0**53:
            out = fractions(array.astype(object))
        elif array.dtype.kind == "f" and (out != array).any():
            out = fractions(array)
    out.setflags(write=False)
    return out


class Constant:
    """A constant matrix of known `rows` and `cols`."""

    rows: int
    cols: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def T(self) -> Constant:
        raise NotImplementedError

    def entries(self) -> np.ndarray[Any, Any]:
        """All entries, exactly: float64 where that is exact, otherwise an array of Fractions."""
        raise NotImplementedError

    @property
    def whole(self) -> Whole:
        """All entries as whole numbers over one denominator."""
        return rational.whole(self.entries())

    def is_identity(self) -> bool:
        return False


@dataclass(frozen=True)
class Shift(Constant):
    """`size` ones along a diagonal that starts at (row, col); zeros elsewhere.

    Identities, row and column slices and the paper's W_K and V_J (Property 1) are all of this form,
    and so is the product of any two of them.
    """

    rows: Count
    cols: Count
    row: Count
    col: Count
    size: Count

    def __post_init__(self) -> None:
        fits = 0 <= self.row <= self.row + self.size <= self.rows
        if not (fits and 0 <= self.col <= self.col + self.size <= self.cols):
            raise ShapeError(
                f"a diagonal of {self.size} from ({self.row}, {self.col}) does not fit into "
                f"{self.rows} x {self.cols}"
            )

    @property
    def T(self) -> Shift:
        return Shift(self.cols, self.rows, self.col, self.row, self.size)

    def entries(self) -> np.ndarray[Any, Any]:
        out = np.zeros(self.shape)
        steps = np.arange(self.size)
        out[self.row + steps, self.col + steps] = 1.0
        return out

    def is_identity(self) -> bool:
        return self.rows == self.cols == self.size

    def __repr__(self) -> str:
        if self.is_identity():
            return f"I{self.rows}"
        if self.size == 1:
            return f"e({self.row},{self.col}; {self.rows}x{self.cols})"
        return f"I{self.size}@({self.row},{self.col}; {self.rows}x{self.cols})"


@dataclass(frozen=True)
class Ones(Constant):
    """A matrix of ones."""

    rows: Count
    cols: Count

    @property
    def T(self) -> Ones:
        return Ones(self.cols, self.rows)

    def entries(self) -> np.ndarray[Any, Any]:
        return np.ones(self.shape)

    def __repr__(self) -> str:
        return f"ones({self.rows}x{self.cols})"


class ByContent:
    """A record that is equal to what holds the same; arrays have no such `==` of their own."""

    @cached_property
    def digest(self) -> str:
        return fingerprint(type(self), self)

    @property
    def key(self) -> str:
        """What equals have in common, in this process."""
        return self.digest

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, eq=False, repr=False)
class Dense(ByContent, Constant):
    """Any other constant: float64 entries (each an exact dyadic rational) or Fractions."""

    array: Stored

    def __post_init__(self) -> None:
        array = real_array("a constant", self.array)
        if array.ndim != 2:
            raise ShapeError(f"a constant must be a matrix, got an array of shape {array.shape}")
        for name, value in zip(("array", "rows", "cols"), (array, *array.shape), strict=True):
            object.__setattr__(self, name, value)

    @property
    def T(self) -> Dense:
        return Dense(self.array.T.copy())

    def entries(self) -> np.ndarray[Any, Any]:
        return self.array  # type: ignore[no-any-return]

    @cached_property
    def digest(self) -> str:
        return content(self.array)

    @cached_property
    def whole(self) -> Whole:
        return rational.whole(self.array)

    @cached_property
    def key(self) -> str:
        return content(self.array, in_hexadecimal)

    def __repr__(self) -> str:
        return f"constant({self.rows}x{self.cols})"


def identity(size: int) -> Shift:
    """The identity I_size."""
    return Shift(size, size, 0, 0, size)


def select(total: int, start: int, stop: int) -> Shift:
    """The total x (stop - start) matrix F for which `A @ F` is `A[:, start:stop]`."""
    return Shift(total, stop - start, start, 0, stop - start)


def zeros(rows: int, cols: int) -> Shift:
    """The zero matrix."""
    return Shift(rows, cols, 0, 0, 0)


def is_zero(constant: Constant | None) -> bool:
    """Whether a constant is known to be the zero matrix."""
    return isinstance(constant, Shift) and constant.size == 0


def product(left: Constant, right: Constant) -> tuple[Fraction, Constant]:
    """`left @ right` as (coefficient, constant), exactly and without writing identities out."""
    if left.cols != right.rows:
        raise ShapeError(f"cannot multiply {left!r} by {right!r}")
    one = Fraction(1)
    if left.is_identity():
        return one, right
    if right.is_identity():
        return one, left
    if isinstance(left, Shift) and isinstance(right, Shift):
        start = max(left.col, right.row)
        stop = min(left.col + left.size, right.row + right.size)
        if stop <= start:
            return one, zeros(left.rows, right.cols)
        row, col = left.row + start - left.col, right.col + start - right.row
        return one, Shift(left.rows, right.cols, row, col, stop - start)
    if isinstance(left, Ones) and isinstance(right, Ones):
        return Fraction(left.cols), Ones(left.rows, right.cols)
    if isinstance(left, Shift):
        out = np.zeros((left.rows, right.cols), dtype=right.entries().dtype)
        if out.dtype == object:
            out[...] = Fraction(0)
        out[left.row : left.row + left.size] = right.entries()[left.col : left.col + left.size]
        return one, simplest(out)
    if isinstance(right, Shift):
        coefficient, constant = product(right.T, left.T)
        return coefficient, constant.T
    return one, simplest(multiplied(left.whole, right.whole))


def log2(number: Fraction) -> float:
    """The size of a number other than zero, which may be beyond floats."""
    return math.log2(abs(number.numerator)) - math.log2(number.denominator)


def magnitude(constant: Constant) -> float:
    """The size of the largest entry; 0 if there is none."""
    if not isinstance(constant, Dense):
        return 0.0
    if constant.array.dtype != object:
        top = float(np.abs(constant.array).max(initial=0.0))
        return math.log2(top) if top else 0.0
    most, bottom = np.abs(constant.whole.top).max(initial=0), constant.whole.bottom
    return math.log2(int(most)) - math.log2(bottom) if most else 0.0


def balanced(constant: Constant) -> tuple[Fraction, Constant]:
    """A constant as (coefficient, constant): in range, whatever the units it was written in."""
    size = magnitude(constant)
    if abs(size) <= FAR:
        return Fraction(1), constant
    scale = Fraction(2) ** round(size)
    return scale, simplest(fractions(constant.entries()) / scale)


def added(parts: Iterable[tuple[Fraction, Constant]]) -> Constant:
    """A linear combination of constants, exactly."""
    parts = list(parts)
    if len(parts) == 1 and parts[0][0] == 1:
        return simplest(parts[0][1].entries())
    whole = all(
        c.denominator == 1 and abs(c) <= 1 << 20 and isinstance(k, (Shift, Ones)) for c, k in parts
    )
    if not whole:
        return simplest(divided(*rational.combined([(c, k.whole) for c, k in parts])))
    total = np.zeros(parts[0][1].shape)
    for c, k in parts:
        if isinstance(k, Shift):
            steps = np.arange(k.size)
            total[k.row + steps, k.col + steps] += float(c)
        else:
            total += float(c)
    return simplest(total)


@lru_cache(maxsize=4)  # candidates of one program ask for the same
def power(constant: Constant, e: int) -> tuple[Fraction, Constant]:
    """A constant to the power of e as (coefficient, constant), in range."""
    return balanced(simplest(divided(*rational.power(constant.whole, e))))


@lru_cache(maxsize=4)
def geometric(constant: Constant, e: int) -> tuple[Fraction, Constant]:
    """`A^0 + ... + A^(e-1)` of a constant A as (coefficient, constant), in range."""
    return balanced(simplest(divided(*rational.geometric(constant.whole, e))))


def simplest(array: Any) -> Constant:
    """The tightest description of a constant array: ones, a piece of an identity, or dense."""
    dense = Dense(array)
    entries = dense.array
    some = entries.astype(bool)
    where = np.argwhere(some)
    if len(where) == 0:
        return zeros(*dense.shape)
    row, col = (int(i) for i in where[0])
    if entries[row, col] == 1 and (entries[some] == 1).all():
        run = np.arange(len(where))
        if len(where) == entries.size:
            return Ones(*dense.shape)
        if (where == np.stack([row + run, col + run], axis=1)).all():
            return Shift(dense.rows, dense.cols, row, col, len(where))
    if entries.dtype == object and all(map(_is_float, entries[some])):
        return Dense(entries.astype(np.float64))
    return dense


def _is_float(number: Fraction) -> bool:
    """Whether float64 holds a rational number."""
    below = number.denominator
    if below & (below - 1):
        return False
    with suppress(OverflowError):
        return Fraction(float(number)) == number
    return False
