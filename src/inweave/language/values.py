"""Values: what a program's function gets in place of arrays, with the operators of the language.

A value is a handle on a recorded expression. It is what the user sees and nothing else: the rest of
inweave reads expressions, which can be compared and looked up, and the user's values never can.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from inweave.errors import DTypeError, InweaveError, ProgramError, ShapeError
from inweave.exact.constants import exact, identity, select, simplest
from inweave.exact.whole import is_whole
from inweave.language.expressions import (
    Applied,
    ConstantExpr,
    Entrywise,
    Expr,
    Product,
    Scaled,
    Sum,
    Transposed,
)
from inweave.language.refusals import Refusing, check_range, refuse
from inweave.model.relunet import ABS

ONE = Fraction(1)

# numpy's names for operators of the language.
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul",
    "power": "pow", "floor_divide": "floordiv", "remainder": "mod", "equal": "eq",
    "not_equal": "ne", "less": "lt", "less_equal": "lt", "greater": "lt", "greater_equal": "lt",
    "negative": "neg", "positive": "pos", "absolute": "abs",
}  # fmt: skip
_COMPARISONS = {"eq", "ne", "lt"}  # refused alike on either side


class Value(Refusing):
    """A matrix value of a program while it is traced."""

    __slots__ = ("_node",)

    def __init__(self, node: Expr) -> None:
        self._node = node

    def __repr__(self) -> str:
        return repr(self._node)

    @property
    def shape(self) -> tuple[int, int]:
        return self._node.shape

    def __len__(self) -> int:
        return self._node.rows

    @property
    def T(self) -> Value:
        x = self._node
        return Value(x.x if isinstance(x, Transposed) else Transposed(x))

    def __add__(self, other: Any) -> Value:
        return _add(self._node, lift(other), ONE, "+")

    def __radd__(self, other: Any) -> Value:
        return _add(lift(other), self._node, ONE, "+")

    def __sub__(self, other: Any) -> Value:
        return _add(self._node, lift(other), -ONE, "-")

    def __rsub__(self, other: Any) -> Value:
        return _add(lift(other), self._node, -ONE, "-")

    def __neg__(self) -> Value:
        return Value(Sum([(-ONE, self._node)]))

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return Value(Applied(ABS, self._node))

    def __mul__(self, other: Any) -> Value:
        return _times(self._node, lift(other))

    def __rmul__(self, other: Any) -> Value:
        return _times(lift(other), self._node)

    def __truediv__(self, other: Any) -> Value:
        if isinstance(other, Value):
            raise refuse(
                f"cannot divide {self!r} by the variable {other!r}: attention computes "
                "polynomials; multiply by inweave.reciprocal(x, domain=(lo, hi)) instead"
            )
        if not is_number(other):
            raise refuse(f"cannot divide {self!r} by {type(other).__name__}; divide by a number")
        if exact(other) == 0:
            raise refuse(f"division of {self!r} by zero", InweaveError)
        return Value(Sum([(1 / exact(other), self._node)]))

    def __matmul__(self, other: Any) -> Value:
        if is_number(other):
            raise refuse(f"cannot matrix-multiply {self!r} by the number {other!r}; use *")
        return _multiply(self._node, lift(other))

    def __rmatmul__(self, other: Any) -> Value:
        return _multiply(lift(other), self._node)

    def __pow__(self, power: Any) -> Value:
        if not is_whole(power, 1):
            raise refuse(
                f"cannot raise {self!r} to the power {power!r}: powers are entry by entry and "
                "positive whole numbers known at compile time; use inweave.pointwise(f, "
                "domain=..., error=...) for others, products with @ for powers of a matrix"
            )
        out = self
        for _ in range(int(power) - 1):
            out = _times(self._node, out._node)
        return out

    def __getitem__(self, key: Any) -> Value:
        return _take(self._node, key)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array @ x` and np.add(array, x) are the operators of the language; the rest is not."""
        name = ufunc.__name__
        operator = _UFUNCS.get(name)
        if method != "__call__" or options or operator is None:
            raise self._not_numpy(name if method == "__call__" else f"{name}.{method}")
        first, *rest = inputs
        if isinstance(first, Value):
            return getattr(first, f"__{operator}__")(*rest)
        reflected = operator if operator in _COMPARISONS else f"r{operator}"
        return getattr(self, f"__{reflected}__")(first)


# -- lifting --------------------------------------------------------------------------------------
def is_number(x: Any) -> bool:
    return isinstance(x, (int, float, Fraction, np.number)) and not isinstance(x, bool)


def lift(x: Any) -> Expr:
    """The expression of a value, a Python number or an array."""
    if isinstance(x, Value):
        return x._node
    if is_number(x):
        number = exact(x)
        check_range(number)
        one = ConstantExpr(identity(1), (True, True))
        return one if number == 1 else Sum([(number, one)])
    if isinstance(x, (list, tuple)) or hasattr(x, "shape"):
        array = _array(x)
        if array.ndim == 0:
            return lift(array.item())
        if array.ndim == 1:
            return ConstantExpr(simplest(array[:, None]), (False, True))
        if array.ndim == 2:
            return ConstantExpr(simplest(array))
        raise refuse(f"a constant must have at most two axes, got shape {array.shape}", ShapeError)
    raise refuse(
        f"cannot use a {type(x).__name__} in a program; expected a number, an array or a "
        "matrix value",
        DTypeError,
    )


def _array(x: Any) -> np.ndarray[Any, Any]:
    """A constant of the user's as an array."""
    try:
        array = np.asarray(x)
    except ProgramError:  # of a value inside
        raise refuse(
            "a list of expressions is not a matrix; use inweave.vstack or inweave.hstack"
        ) from None
    except Exception as error:
        raise refuse(
            f"cannot read a constant from a {type(x).__name__}: {error}; expected numbers, or rows "
            "of equal length",
            ShapeError if isinstance(x, (list, tuple)) else DTypeError,
        ) from None
    if array.dtype == object:
        for entry in array.ravel():
            if is_number(entry):
                check_range(entry)
    return array


# -- operators ------------------------------------------------------------------------------------
def _add(a: Expr, b: Expr, sign: Fraction, symbol: str) -> Value:
    if a.shape != b.shape:
        raise refuse(
            f"cannot compute a {symbol} b: a = {a!r} and b = {b!r} differ in size"
            + ("; write inweave.ones(...) * s to add a number to every entry"
               if a.is_scalar or b.is_scalar else ""),
            ShapeError,
        )  # fmt: skip
    return Value(Sum([(ONE, a), (sign, b)]))


def _times(a: Expr, b: Expr) -> Value:
    for s, x in ((a, b), (b, a)):
        if s.number is not None:
            return Value(Sum([(s.number, x)]))
    for s, x in ((a, b), (b, a)):
        if s.is_scalar:
            return Value(Scaled(s, x))
    if a.shape == b.shape:
        return Value(Entrywise(a, b))
    raise refuse(
        f"cannot multiply a = {a!r} and b = {b!r} entry by entry: they differ in size; "
        + _instead(a, b),
        ShapeError,
    )


def _instead(a: Expr, b: Expr) -> str:
    """What to write for an entrywise product of different sizes."""
    if a.shape == b.shape[::-1]:
        return "did you mean a * b.T?"
    for x, y, small, large in ((a, b, "a", "b"), (b, a, "b", "a")):
        if x.shape in ((y.rows, 1), (1, y.rows)):
            return f"use inweave.diag({small}) @ {large} to scale the rows of {large}"
        if x.shape in ((y.cols, 1), (1, y.cols)):
            return f"use {large} @ inweave.diag({small}) to scale the columns of {large}"
    return "use a @ b for a matrix product, or values of one size"


def _multiply(a: Expr, b: Expr) -> Value:
    if a.cols != b.rows:
        hint = ""
        if a.rows == b.rows:
            hint = "; did you mean a.T @ b?"
        elif a.cols == b.cols:
            hint = "; did you mean a @ b.T?"
        raise refuse(
            f"cannot compute a @ b: a = {a!r} has {a.cols} columns, b = {b!r} has {b.rows} rows"
            + hint,
            ShapeError,
        )
    return Value(Product(a, b))


def _take(x: Expr, key: Any) -> Value:
    """Row and column slices: products with pieces of an identity."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > 2:
        raise refuse(f"{x!r} has two axes, got the index {key!r}", ShapeError)
    if len(keys) == 1 and is_whole(keys[0]) and not x.units[1]:
        raise refuse(
            f"{x!r}[{keys[0]}] is ambiguous; write x[i:i+1, :] for a row, x[i, j] for an entry"
        )
    out, units = x, list(x.units)
    for axis, k in enumerate(keys):
        size = x.shape[axis]
        start, stop = _bounds(k, axis, x)
        units[axis] |= is_whole(k)
        if (start, stop) != (0, size):
            piece = select(size, start, stop)
            pair = (ConstantExpr(piece.T), out) if axis == 0 else (out, ConstantExpr(piece))
            out = Product(*pair)
    if (units[0], units[1]) != out.units:
        out = Sum([(ONE, out)], (units[0], units[1]))
    return Value(out)


def _bounds(k: Any, axis: int, x: Expr) -> tuple[int, int]:
    """Where an index or a slice starts and stops, which must be known and whole."""
    size = x.shape[axis]
    if is_whole(k):
        if not -size <= k < size:
            raise refuse(f"index {int(k)} is outside axis {axis} of {x!r}", ShapeError)
        return int(k) % size, int(k) % size + 1
    if not isinstance(k, slice):
        raise refuse(f"index {k!r} of {x!r} is not an int or a slice known at compile time")
    if not (k.step is None or (is_whole(k.step) and k.step == 1)):
        raise refuse(f"slices of {x!r} must have step 1, got {k!r}")
    for end in (k.start, k.stop):
        if end is not None and not is_whole(end):
            said = ":".join("" if end is None else str(end) for end in (k.start, k.stop))
            raise refuse(f"the slice {said} of {x!r} needs ints known at compile time, got {end!r}")
    start, stop, _ = k.indices(size)
    if stop <= start:
        raise refuse(f"the slice {k!r} of {x!r} is empty", ShapeError)
    return start, stop
