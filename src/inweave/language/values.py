"""Values: what a program's function gets in place of arrays, with the operators of the language.

A value is a handle on a recorded expression. It is what the user sees and nothing else: the rest of
inweave reads expressions, which can be compared and looked up, and the user's values never can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np

from inweave.errors import DTypeError, InputError, InweaveError, ProgramError, ShapeError
from inweave.exact.constants import Constant, exact, fractions, identity, simplest
from inweave.exact.whole import is_number, is_whole
from inweave.language import products
from inweave.language.expressions import (
    Applied,
    ConstantExpr,
    Entrywise,
    Expr,
    Scaled,
    Sum,
    current,
    shortened,
)
from inweave.language.indexing import reshaped, take
from inweave.language.inverses import inverse
from inweave.language.ranges import Range
from inweave.language.refusals import Refusing, check_range, refuse
from inweave.language.shapes import (
    MATRIX,
    ONE,
    SCALAR,
    VECTOR,
    alike,
    filled,
    labelled,
    lying,
    multiplied,
    total,
    transposed,
    upright,
)
from inweave.model.inputs import plain
from inweave.model.relunet import ABS

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

    __slots__ = ("_node", "range")

    def __init__(self, node: Expr, known: Range | None = None) -> None:
        self._node = node
        self.range = known  # where its entries lie, as far as it was said

    def __repr__(self) -> str:
        return repr(self._node)

    @property
    def shape(self) -> tuple[int, ...]:
        """What numpy would say: two sizes of a matrix, one of a vector, none of a scalar."""
        pairs = zip(self._node.shape, self._node.units, strict=True)
        return tuple(size for size, unit in pairs if not unit)

    @property
    def size(self) -> int:
        """How many entries it has."""
        return self._node.rows * self._node.cols

    @property
    def ndim(self) -> int:
        """How many axes numpy would count: two of a matrix, one of a vector, none of a scalar."""
        return 2 - sum(self._node.units)

    def known(self) -> Range | None:
        """Where its entries lie, as far as was said; whoever asks sees to it that it is checked."""
        current().noticed(self.range)
        return self.range

    def __len__(self) -> int:
        return self._node.rows

    @property
    def T(self) -> Value:
        return Value(transposed(self._node), self.range)

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
        return _divided(self._node, other if isinstance(other, Value) else Value(lift(other)))

    def __rtruediv__(self, other: Any) -> Value:
        return _divided(lift(other), self)

    def __matmul__(self, other: Any) -> Value:
        if is_number(other):
            raise refuse(f"cannot matrix-multiply {self!r} by the number {other!r}; use *")
        return Value(multiplied(self._node, lift(other)))

    def __rmatmul__(self, other: Any) -> Value:
        return Value(multiplied(lift(other), self._node))

    def __pow__(self, power: Any) -> Value:
        if not is_whole(power, 0):
            raise refuse(
                f"cannot raise {self!r} to the power {power!r}: powers are entry by entry and "
                "whole numbers from 0 on, known at compile time; for roots and inverses use "
                "inweave.sqrt, inweave.rsqrt and inweave.reciprocal, for others "
                "inweave.pointwise(f, domain=..., error=...), for powers of a matrix "
                "products with @ or inweave.matrix_power"
            )
        if power == 0:
            return Value(filled(lift(1), self._node))
        out = self
        for bit in f"{int(power):b}"[1:]:
            out = _times(out._node, out._node)
            if bit == "1":
                out = _times(self._node, out._node)
        return out

    def __getitem__(self, key: Any) -> Value:
        return Value(take(self._node, key), self.range)

    def __iter__(self) -> Iterator[Value]:
        """The rows of a matrix, the entries of a vector."""
        if self._node.units[0]:
            raise refuse(f"cannot loop over {self!r}; loop over a vector or the rows of a matrix")
        return iter([self[i] for i in range(len(self))])

    def sum(self, axis: Any = None, *, keepdims: bool = False, **others: Any) -> Value:
        """The sum of all entries, or along an axis, as numpy's."""
        _check_options("sum", others)
        return Value(total(self._node, axis, keepdims)[0])

    def mean(self, axis: Any = None, *, keepdims: bool = False, **others: Any) -> Value:
        """The mean of all entries, or along an axis, as numpy's."""
        _check_options("mean", others)
        summed, count = total(self._node, axis, keepdims)
        return Value(Sum([(Fraction(1, count), summed)]))

    def dot(self, other: Any) -> Value:
        """numpy's dot: of two vectors a number, whether they stand or lie."""
        a, b = upright(self._node), upright(lift(other))
        scaling = SCALAR in (a.units, b.units)
        return _times(a, b) if scaling else Value(multiplied(a, b))

    def reshape(self, *sizes: Any, order: str = "C") -> Value:
        """The same entries in another shape, as numpy's."""
        return Value(reshaped(self._node, sizes, order), self.range)

    def ravel(self, order: str = "C") -> Value:
        """All entries as one vector, as numpy's."""
        return self.reshape(-1, order=order)

    flatten = ravel

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array @ x` and np.add(array, x) are the operators of the language; the rest is not."""
        name = ufunc.__name__
        operator = _UFUNCS.get(name)
        if "out" in options:
            raise refuse(
                f"an array cannot be changed to hold {self!r}, which has no value while a program "
                "is traced: write a = a + x in place of a += x"
            )
        if method != "__call__" or options or operator is None:
            raise self._not_numpy(name if method == "__call__" else f"{name}.{method}")
        first, *rest = inputs
        if isinstance(first, Value):
            return getattr(first, f"__{operator}__")(*rest)
        reflected = operator if operator in _COMPARISONS else f"r{operator}"
        return getattr(self, f"__{reflected}__")(first)

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        """np.sum(x), np.outer(x, y) and others that mean here what they mean there."""
        name = function.__name__
        if name not in _FUNCTIONS:
            raise self._not_numpy(name)
        try:
            signature(_FUNCTIONS[name]).bind(*args, **options)
        except TypeError as error:
            raise refuse(f"numpy's {name} of {self!r}: {error}") from None
        return _FUNCTIONS[name](*args, **options)


# numpy's functions that mean the same of values.
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "sum": lambda a, axis=None, keepdims=False: _of(a).sum(axis, keepdims=keepdims),
    "mean": lambda a, axis=None, keepdims=False: _of(a).mean(axis, keepdims=keepdims),
    "dot": lambda a, b: _of(a).dot(b),
    "inner": lambda a, b: _inner(lift(a), lift(b)),
    "reshape": lambda a, /, shape, order="C": _of(a).reshape(shape, order=order),
    "ravel": lambda a, order="C": _of(a).ravel(order),
    "trace": lambda a: Value(products.trace(lift(a))),
    "outer": lambda a, b: Value(products.outer(lift(a), lift(b))),
    "kron": lambda a, b: Value(products.kron(lift(a), lift(b))),
    "matrix_power": lambda a, n: Value(products.power(lift(a), n)),
}


def _of(x: Any) -> Value:
    return Value(lift(x))


def _inner(a: Expr, b: Expr) -> Value:
    """The products of rows with rows."""
    return Value(a).dot(Value(transposed(b) if b.units == MATRIX else b))


# -- lifting --------------------------------------------------------------------------------------
def lift(x: Any) -> Expr:
    """The expression of a value, a Python number or an array."""
    if isinstance(x, Value):
        return x._node
    if is_number(x):
        number = _exact(x)
        check_range(number)
        one = ConstantExpr(identity(1), (True, True))
        return one if number == 1 else Sum([(number, one)])
    if isinstance(x, (list, tuple, range)) or hasattr(x, "shape"):
        array = _array(x)
        if array.ndim == 0:
            return lift(array.item())
        if array.ndim == 1:
            return ConstantExpr(_constant(array[:, None]), (False, True))
        if array.ndim == 2:
            return ConstantExpr(_constant(array))
        raise refuse(f"a constant must have at most two axes, got shape {array.shape}", ShapeError)
    raise refuse(
        f"cannot use a {type(x).__name__} in a program; expected a number, an array or a "
        "matrix value",
        DTypeError,
    )


def _exact(number: Any) -> Fraction:
    """The number that a program holds; one that no network can hold is refused."""
    try:
        return exact(number)
    except InweaveError as error:
        raise refuse(f"a constant of a program is no real number: {error}", type(error)) from None


def _constant(array: np.ndarray[Any, Any]) -> Constant:
    try:
        return simplest(array)
    except InweaveError as error:
        raise refuse(
            f"{error}; a network computes with real, finite numbers", type(error)
        ) from None


def _array(x: Any) -> np.ndarray[Any, Any]:
    """A constant of the user's as an array."""
    if isinstance(x, np.matrix):
        raise refuse(
            "cannot use a numpy.matrix in a program: there, * is a product of matrices, and here, "
            "as of arrays, entry by entry; write np.asarray(...) of it, and @ for a product",
            DTypeError,
        )
    try:
        array = np.asarray(plain("a constant", x))
    except InputError as error:
        raise refuse(str(error), InputError) from None
    except ProgramError:  # of a value inside
        raise refuse(
            "a list of expressions is not a matrix; put one below the other with inweave.vstack, "
            "side by side with inweave.hstack, and vectors as rows with inweave.hstack([x, y]).T"
        ) from None
    except Exception as error:
        raise refuse(
            f"cannot read a constant from a {type(x).__name__}: {error}; expected numbers, or rows "
            "of equal length",
            ShapeError if isinstance(x, (list, tuple)) else DTypeError,
        ) from None
    if array.dtype == object and array.ndim == 0 and not is_number(array.item()):
        raise refuse(
            f"cannot read a constant from a {type(x).__name__}: numpy makes no array of numbers of "
            "it; expected a number or a dense array (.toarray() makes one of a sparse one)",
            DTypeError,
        )
    if array.dtype == object:
        for entry in array.ravel():
            if is_number(entry):
                check_range(entry)
    return array


def _check_options(name: str, others: Iterable[str]) -> None:
    for option in others:
        raise refuse(f"{name} of a value takes axis and keepdims, got {option}")


def _text(x: Expr) -> str:
    """How the user could write a value, in a line that is advised."""
    return shortened(x.text(), 30)


def _said(x: Expr) -> str:
    return repr(x) if x.number is None else f"{float(x.number):g}"


def _factor(x: Expr) -> str:
    if x.number is not None:
        return _said(x)
    return f"({_text(x)})" if isinstance(x, Sum) else _text(x)


# -- operators ------------------------------------------------------------------------------------
def _add(a: Expr, b: Expr, sign: Fraction, symbol: str) -> Value:
    if a.number == 0 and a.units == SCALAR and sign == 1:  # sum(...) starts with it
        return Value(b)
    a, b = alike(a, b, symbol)
    return Value(Sum([(ONE, a), (sign, b)]))


def _times(a: Expr, b: Expr) -> Value:
    a, b = lying(a, b)
    if a.is_scalar and sum(a.units) < sum(b.units):  # of two 1 x 1 values, one may be a matrix
        a, b = b, a
    for s, x in ((a, b), (b, a)):
        if s.number is not None:  # which may be the only entry of a vector or matrix
            units = (s.units[0] and x.units[0], s.units[1] and x.units[1])
            return Value(labelled(Sum([(s.number, x)]), units))
    for s, x in ((a, b), (b, a)):
        if s.is_scalar:
            return Value(Scaled(s, x))
    try:
        return Value(Entrywise(*alike(a, b, "*")))
    except ShapeError:
        raise refuse(
            f"cannot multiply a = {a!r} and b = {b!r} entry by entry: they differ in size; "
            + _instead(a, b),
            ShapeError,
        ) from None


def _divided(a: Expr, divisor: Value) -> Value:
    b, known = divisor._node, divisor.known()
    if not (a.is_scalar or b.is_scalar):
        alike(a, b, "/")
    entries = _entries(b)
    if any(q == 0 for q in entries):
        raise refuse(f"division of {a!r} by zero", InweaveError)
    for q in entries:
        check_range(1 / q, a)
    if entries:
        inverted = np.array([1 / q for q in entries], dtype=object).reshape(b.shape)
        return _times(a, ConstantExpr(simplest(inverted), b.units))
    if known is None:
        raise refuse(
            f"cannot divide {_said(a)} by the variable {b!r}, whose range is not known: attention "
            f"computes 1/x by a table between two ends; for entries that stay between lo and hi, "
            f"write {_factor(a)} / inweave.assume({_text(b)}, lo, hi), with either_sign=True where "
            "they may be negative as well"
        )
    if not known.either_sign and known.low <= 0 <= known.high:
        raise refuse(
            f"cannot divide {a!r} by {b!r}, whose range {known!r} holds zero; give one without it, "
            f"such as inweave.assume({_text(b)}, lo, hi, either_sign=True) with 0 < lo < hi"
        )
    return _times(a, inverse(b, known))


def _entries(x: Expr) -> list[Fraction]:
    """The entries of a constant, exactly; none of anything else."""
    if x.number is not None:
        return [x.number]
    return [*fractions(x.constant.entries()).ravel()] if isinstance(x, ConstantExpr) else []


def _instead(a: Expr, b: Expr) -> str:
    """What to write for an entrywise product of different sizes."""
    if a.shape == b.shape[::-1]:
        return "did you mean a * b.T?"
    for x, y, small, large in ((a, b, "a", "b"), (b, a, "b", "a")):
        if x.units == VECTOR and y.units == MATRIX and y.cols == 1 < y.rows:
            return f"write {small}[None, :] for all pairs, as numpy would have it"
        if x.shape in ((y.rows, 1), (1, y.rows)):
            return f"use inweave.diag({small}) @ {large} to scale the rows of {large}"
        if x.shape in ((y.cols, 1), (1, y.cols)):
            return f"use {large} @ inweave.diag({small}) to scale the columns of {large}"
    return "use a @ b for a matrix product, or values of one size"
