"""Expressions: what a program records when it is called with symbols instead of arrays.

A program is traced once at concrete sizes into a graph of these nodes, and everything else is a way
of reading the graph: evaluated with arrays it computes, evaluated in a finite field it is the exact
reference, normalized and scheduled it becomes a network. Every value is a matrix; a vector is one
column, a scalar is 1 x 1. What attention cannot express is refused here, at the user's own line.
"""

from __future__ import annotations

import itertools
import linecache
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from inweave.errors import DTypeError, InputError, InweaveError, ProgramError, ShapeError
from inweave.exact.arithmetic import Arithmetic, matrix
from inweave.exact.constants import Array, Constant, Ones, exact, identity, select, simplest, zeros
from inweave.exact.whole import is_whole
from inweave.model.prompt import Kind
from inweave.model.relunet import ABS

_HERE = str(Path(__file__).parent.parent) + os.sep
_serials = itertools.count()

# What to write instead of numpy's functions, ufuncs and methods, by name.
_POLYNOMIAL = (
    "attention computes polynomials; iterate towards it with inweave.iterate, as "
    "inweave.gallery.get('newton_schulz') does for an inverse"
)
_INSTEAD = {
    **dict.fromkeys(("dot", "vdot", "inner", "multi_dot", "einsum", "tensordot"), "use a @ b"),
    **dict.fromkeys(("inv", "solve", "pinv", "lstsq", "det", "eigh", "svd"), _POLYNOMIAL),
    **dict.fromkeys(("sum", "mean", "trace", "cumsum"), "multiply by inweave.ones(n).T @ x to sum"),
    **dict.fromkeys(("transpose", "swapaxes", "matrix_transpose"), "use x.T"),
    **dict.fromkeys(
        ("vstack", "stack", "concatenate", "append"), "use inweave.vstack or inweave.hstack"
    ),
    **dict.fromkeys(("hstack", "column_stack"), "use inweave.hstack"),
    **dict.fromkeys(("block",), "use inweave.block"),
    **dict.fromkeys(("zeros_like", "ones_like"), "use inweave.zeros or inweave.ones with sizes"),
    **dict.fromkeys(("maximum", "max", "fmax", "clip"), "max(a, b) is b + inweave.relu(a - b)"),
    **dict.fromkeys(("minimum", "min", "fmin"), "min(a, b) is a - inweave.relu(a - b)"),
    **dict.fromkeys(
        ("where", "sign", "heaviside"), "use inweave.relu or another pointwise function"
    ),
    **dict.fromkeys(
        ("exp", "log", "log1p", "expm1", "sqrt", "tanh", "sin", "cos", "square", "cbrt"),
        "use inweave.pointwise(f, domain=..., error=...) for entries",
    ),
    "reciprocal": "use inweave.reciprocal(x, domain=(lo, hi))",
}
_OPERATORS = "use +, -, *, @, .T, slices and the functions of inweave"
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul",
    "power": "pow", "floor_divide": "floordiv", "remainder": "mod",
}  # fmt: skip
_UNARY = {"negative": "__neg__", "positive": "__pos__", "absolute": "__abs__"}
_COMPARE = ("less", "less_equal", "greater", "greater_equal")


def user_line() -> str:
    """The innermost line outside inweave, as ' (at file.py:12: `source`)'."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    name, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, line).strip()
    return f" (at {Path(name).name}:{line}" + (f": `{source}`)" if source else ")")


def _in_inweave() -> bool:
    """Whether a special method of an expression was called by inweave itself, not by a user."""
    return sys._getframe(2).f_code.co_filename.startswith(_HERE)


def refuse(message: str, error: type[InweaveError] = ProgramError) -> InweaveError:
    """An error that ends with the user's own line."""
    return error(message + user_line())


class _NoAttribute(ProgramError, AttributeError):
    """An attribute that arrays have and expressions have not; hasattr must still say False."""


def _refused(symbol: str) -> Any:
    """An operator that Python has and attention has not."""

    def operator(self: Expr, *_: Any) -> Any:
        raise refuse(
            f"cannot compute {symbol} of {self!r}: attention computes sums and products; "
            "use inweave.pointwise(f, domain=..., error=...) for a function of every entry"
        )

    return operator


class Expr:
    """A rows x cols matrix value.

    `units = (row, col)`: True where the axis of length one was added by lifting (a vector's column
    axis, both axes of a scalar); it decides the shape in which an answer is handed back.
    """

    rows: int
    cols: int
    serial: int  # the order of creation, which tells what a loop's body made itself
    units: tuple[bool, bool] = (False, False)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = super().__new__(cls)
        self.serial = next(_serials)
        return self

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def kind(self) -> Kind:
        if self.units[0] and self.units[1]:
            return "scalar"
        return "vector" if self.units[1] else "matrix"

    @property
    def is_scalar(self) -> bool:
        return self.shape == (1, 1)

    @property
    def parts(self) -> tuple[Expr, ...]:
        return ()

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        raise NotImplementedError

    # -- the operators of the language ------------------------------------------------------------
    @property
    def T(self) -> Expr:
        return self.x if isinstance(self, Transposed) else Transposed(self)

    def __add__(self, other: Any) -> Expr:
        return add(self, other, Fraction(1), "+")

    def __radd__(self, other: Any) -> Expr:
        return add(lift(other), self, Fraction(1), "+")

    def __sub__(self, other: Any) -> Expr:
        return add(self, other, Fraction(-1), "-")

    def __rsub__(self, other: Any) -> Expr:
        return add(lift(other), self, Fraction(-1), "-")

    def __neg__(self) -> Expr:
        return Sum([(Fraction(-1), self)])

    def __pos__(self) -> Expr:
        return self

    def __mul__(self, other: Any) -> Expr:
        return times(self, other)

    def __rmul__(self, other: Any) -> Expr:
        return times(lift(other), self)

    def __truediv__(self, other: Any) -> Expr:
        if isinstance(other, Expr):
            raise refuse(
                f"cannot divide {self!r} by the variable {other!r}: attention computes "
                "polynomials; multiply by inweave.reciprocal(x, domain=(lo, hi)) instead"
            )
        if _is_number(other):
            if exact(other) == 0:
                raise refuse(f"division of {self!r} by zero", InweaveError)
            return Sum([(1 / exact(other), self)])
        raise refuse(f"cannot divide {self!r} by {type(other).__name__}; divide by a number")

    def __rtruediv__(self, other: Any) -> Expr:
        raise refuse(
            f"cannot divide by the variable {self!r}: attention computes polynomials; "
            "use inweave.reciprocal(x, domain=(lo, hi)) instead"
        )

    def __matmul__(self, other: Any) -> Expr:
        return multiply(self, other)

    def __rmatmul__(self, other: Any) -> Expr:
        return multiply(lift(other), self)

    def __pow__(self, power: Any) -> Expr:
        if is_whole(power, 1) and self.is_scalar:
            out: Expr = self
            for _ in range(power - 1):
                out = Scaled(self, out)
            return out
        raise refuse(
            f"cannot raise {self!r} to the power {power!r}: write products with @ for matrices, "
            "inweave.pointwise(f, domain=..., error=...) for entries"
        )

    def __abs__(self) -> Expr:
        return Applied(ABS, self)

    __rpow__ = _refused("a power")
    __floordiv__ = __rfloordiv__ = _refused("//")
    __mod__ = __rmod__ = _refused("%")
    __divmod__ = __rdivmod__ = _refused("divmod")
    __and__ = __rand__ = _refused("&")
    __or__ = __ror__ = _refused("|")
    __xor__ = __rxor__ = _refused("^")
    __invert__ = _refused("~")
    __lshift__ = __rlshift__ = _refused("<<")
    __rshift__ = __rrshift__ = _refused(">>")
    __round__ = __floor__ = __ceil__ = __trunc__ = _refused("a rounding")

    def __getitem__(self, key: Any) -> Expr:
        return take(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise refuse(
            f"cannot assign to entries of {self!r}: values do not change; put a new one together "
            "with inweave.vstack, inweave.hstack or inweave.block"
        )

    def __bool__(self) -> bool:
        raise refuse(
            f"the truth of {self!r} is not known while a program is traced: a data-dependent `if` "
            "cannot become a fixed network; use inweave.relu or another pointwise function"
        )

    def __lt__(self, other: Any) -> Any:
        raise refuse(
            f"cannot compare {self!r} while a program is traced; use inweave.relu of a difference"
        )

    __gt__ = __le__ = __ge__ = __lt__

    # Python falls back to identity for ==, `in` and sets, and so would take a branch that the data
    # does not: for users these are comparisons. The compiler means identity when it looks one up.
    def __eq__(self, other: object) -> bool:
        if _in_inweave():
            return self is other
        raise self._unequal()

    def __ne__(self, other: object) -> bool:
        if _in_inweave():
            return self is not other
        raise self._unequal()

    def _unequal(self) -> InweaveError:
        return refuse(
            f"cannot compare {self!r} with ==, != or `in`: its value is not known while a program "
            "is traced, so a data-dependent choice cannot become a fixed network; use "
            "inweave.relu or another pointwise function (`is` asks for the same object)"
        )

    def __hash__(self) -> int:
        if _in_inweave():
            return id(self)
        raise refuse(
            f"cannot look up {self!r} in a set or dict, or use it as a key: its value is not known "
            "while a program is traced; use inweave.relu or another pointwise function for a "
            "choice by value, and id(x) as the key for the same object"
        )

    def __contains__(self, other: object) -> bool:
        raise refuse(
            f"cannot ask whether {self!r} contains a value: its entries are not known while a "
            "program is traced"
        )

    def __iter__(self) -> Any:
        raise refuse(f"cannot loop over {self!r}; take rows with x[i:i+1, :]")

    def __len__(self) -> int:
        return self.rows

    def __float__(self) -> float:
        raise refuse(f"{self!r} has no value while a program is traced; keep it symbolic")

    __int__ = __index__ = __complex__ = __float__

    # -- numpy, which would take an expression for a list or an object -----------------------------
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise refuse(
            f"{self!r} cannot become an array: it has no value while a program is traced; "
            + _OPERATORS
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array @ x` and np.add(array, x) are the operators of the language; the rest is not."""
        name, x = ufunc.__name__, inputs[0]
        if method == "__call__" and not options:
            if name in ("equal", "not_equal"):
                raise self._unequal()
            if name in _COMPARE:
                return self < x
            if name in _UNARY and isinstance(x, Expr):
                return getattr(x, _UNARY[name])()
            if name in _UFUNCS and isinstance(x, Expr):
                return getattr(x, f"__{_UFUNCS[name]}__")(inputs[1])
            if name in _UFUNCS:
                return getattr(inputs[1], f"__r{_UFUNCS[name]}__")(x)
        raise self._not_numpy(name if method == "__call__" else f"{name}.{method}")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise self._not_numpy(function.__name__)

    def _not_numpy(self, name: str) -> InweaveError:
        return refuse(
            f"cannot use numpy's {name} on {self!r} while a program is traced; "
            + _INSTEAD.get(name, _OPERATORS)
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or _in_inweave():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            said = f"{self!r} has no attribute {name!r}; {_INSTEAD.get(name, _OPERATORS)}"
            raise _NoAttribute(said + user_line())

    def __repr__(self) -> str:
        return f"{shortened(self.text(), 60)} [{self.rows} x {self.cols}]"

    def text(self) -> str:
        """The expression in the program's own words, shortened.

        Each value is put into words once: written out, what is read twice would double the text.
        """
        words: dict[int, str] = {}
        for x in ordered([self]):
            words[id(x)] = shortened(x.words([words[id(part)] for part in x.parts]), 200)
        return words[id(self)]

    def words(self, parts: Sequence[str]) -> str:
        """The text of this operation, given those of what it reads."""
        return type(self).__name__


class InputExpr(Expr):
    """An argument of the program."""

    def __init__(self, name: str, rows: int, cols: int, units: tuple[bool, bool]) -> None:
        self.name, self.rows, self.cols, self.units = name, rows, cols, units

    def words(self, parts: Sequence[str]) -> str:
        return self.name


class ConstantExpr(Expr):
    """A constant matrix."""

    def __init__(self, constant: Constant, units: tuple[bool, bool] = (False, False)) -> None:
        self.constant, self.units = constant, units
        self.rows, self.cols = constant.shape

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        return matrix(arithmetic, self.constant)

    def words(self, parts: Sequence[str]) -> str:
        return repr(self.constant)


class Sum(Expr):
    """A linear combination with exact coefficients."""

    def __init__(self, terms: Iterable[tuple[Fraction, Expr]]) -> None:
        self.terms: tuple[tuple[Fraction, Expr], ...]
        flat: list[tuple[Fraction, Expr]] = []
        row = col = True
        for coefficient, x in terms:
            row, col = row and x.units[0], col and x.units[1]  # a slice is labelled by its sum
            if isinstance(x, Sum) and len(x.terms) == 1:
                coefficient, x = coefficient * x.terms[0][0], x.terms[0][1]
            if coefficient.numerator.bit_length() - coefficient.denominator.bit_length() > 1022:
                _check_range(coefficient, x)
            flat.append((coefficient, x))
        self.terms = tuple(flat)
        first = self.terms[0][1]
        self.rows, self.cols = first.shape
        self.units = (row, col)

    @property
    def parts(self) -> tuple[Expr, ...]:
        return tuple(x for _, x in self.terms)

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        total = None
        for (coefficient, _), value in zip(self.terms, values, strict=True):
            if coefficient == 1:
                total = value if total is None else total + value
            elif coefficient == -1 and total is not None:
                total = total - value
            else:
                term = value * arithmetic.number(coefficient)
                total = term if total is None else total + term
        return total

    def words(self, parts: Sequence[str]) -> str:
        out = ""
        for (c, x), inner in zip(self.terms, parts, strict=True):
            size = "" if abs(c) == 1 else f"{float(abs(c)):g} "
            sign = ("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")
            out += sign + size + (f"({inner})" if isinstance(x, Sum) else inner)
        return out


class Product(Expr):
    """A matrix product of two values."""

    def __init__(self, a: Expr, b: Expr) -> None:
        self.a, self.b = a, b
        self.rows, self.cols = a.rows, b.cols
        self.units = (a.units[0], b.units[1])

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.a, self.b

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        return values[0] @ values[1]

    def words(self, parts: Sequence[str]) -> str:
        return " @ ".join(_bracketed(self.parts, parts))


class Scaled(Expr):
    """A scalar variable times a matrix."""

    def __init__(self, s: Expr, x: Expr) -> None:
        self.s, self.x = s, x
        self.rows, self.cols, self.units = x.rows, x.cols, x.units

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.s, self.x

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        return values[0] * values[1]

    def words(self, parts: Sequence[str]) -> str:
        return " * ".join(_bracketed(self.parts, parts))


class Transposed(Expr):
    """A transpose."""

    def __init__(self, x: Expr) -> None:
        self.x = x
        self.rows, self.cols, self.units = x.cols, x.rows, (x.units[1], x.units[0])

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.x,)

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        return values[0].mT

    def words(self, parts: Sequence[str]) -> str:
        plain = isinstance(self.x, (InputExpr, Carried))
        return f"{parts[0]}.T" if plain else f"({parts[0]}).T"


class Applied(Expr):
    """A pointwise function of every entry."""

    def __init__(self, function: Any, x: Expr) -> None:
        self.function, self.x = function, x
        self.rows, self.cols, self.units = x.rows, x.cols, x.units

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.x,)

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        return arithmetic.pointwise(self.function, values[0])

    def words(self, parts: Sequence[str]) -> str:
        return f"{self.function.name}({parts[0]})"


class Held(Expr):
    """The same value, stored by the network as it is: products do not reach through it."""

    def __init__(self, x: Expr) -> None:
        self.x = x
        self.rows, self.cols, self.units = x.rows, x.cols, x.units

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.x,)

    def compute(self, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
        return values[0]

    def words(self, parts: Sequence[str]) -> str:
        return parts[0]


class Carried(Expr):
    """A value that a loop carries, as its body sees it."""

    def __init__(self, name: str, like: Expr, where: str = "") -> None:
        self.name, self.where = name, where  # the line of its loop
        self.rows, self.cols, self.units = like.rows, like.cols, like.units

    def words(self, parts: Sequence[str]) -> str:
        return self.name


class Loop:
    """`times` applications of a step to the carried values."""

    def __init__(
        self,
        carried: tuple[Carried, ...],
        init: tuple[Expr, ...],
        step: tuple[Expr, ...],
        times: int,
    ) -> None:
        self.carried, self.init, self.step, self.times = carried, init, step, times

    def run(
        self, start: Sequence[Array], known: dict[int, Array], arithmetic: Arithmetic, times: int
    ) -> list[Array]:
        """The carried values after `times` steps; `known` holds what stands outside the loop."""
        order = ordered(self.step, stop=set(map(id, self.carried)))
        moving = depends(order, self.carried)
        fill([x for x in order if id(x) not in moving], known, arithmetic)
        inner = [x for x in order if id(x) in moving]
        state = list(start)
        for _ in range(times):
            local = _Layered(known)
            for symbol, value in zip(self.carried, state, strict=True):
                local[id(symbol)] = value
            fill(inner, local, arithmetic)
            state = [local[id(x)] for x in self.step]
        return state


class LoopResult(Expr):
    """One of the values that a loop ends with."""

    def __init__(self, loop: Loop, index: int) -> None:
        self.loop, self.index = loop, index
        like = loop.init[index]
        self.rows, self.cols = like.shape
        units = [x[index].units for x in (loop.init, loop.step)]
        self.units = (units[0][0] and units[1][0], units[0][1] and units[1][1])

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (*self.loop.init, *outer(self.loop))

    def words(self, parts: Sequence[str]) -> str:
        return f"{self.loop.carried[self.index].name}[{self.loop.times}]"


def shortened(text: str, length: int) -> str:
    """A text for people: whole if it fits, otherwise its beginning."""
    return text if len(text) <= length else text[: length - 3] + "..."


def _bracketed(values: Sequence[Expr], texts: Sequence[str]) -> list[str]:
    return [
        f"({text})" if isinstance(x, Sum) else text for x, text in zip(values, texts, strict=True)
    ]


# -- building -------------------------------------------------------------------------------------
def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, Fraction, np.number)) and not isinstance(x, bool)


def _check_range(number: Any, x: Any = "") -> None:
    """Refuse a number that no float holds: a network could be proved with it, but not run."""
    try:
        float(number)
    except OverflowError:
        raise refuse(
            f"a number of about 10^{_digits(number)}"
            + (f", which multiplies {x!r}," if isinstance(x, Expr) else "")
            + " is beyond float64, whose largest is 1.8e308; scale the program",
            InputError,
        ) from None


def _digits(number: Any) -> int:
    """The decimal exponent of a number too large for a float."""
    value = abs(Fraction(number))
    return math.floor(math.log10(value.numerator) - math.log10(value.denominator) + 1e-9)


def _array(x: Any) -> np.ndarray[Any, Any]:
    """A constant of the user's as an array."""
    if isinstance(x, (list, tuple)) and any(isinstance(y, Expr) for y in _flat(x)):
        raise refuse("a list of expressions is not a matrix; use inweave.vstack or inweave.hstack")
    try:
        array = np.asarray(x)
    except InweaveError:
        raise
    except Exception as error:
        raise refuse(
            f"cannot read a constant from a {type(x).__name__}: {error}; expected numbers, or rows "
            "of equal length",
            ShapeError if isinstance(x, (list, tuple)) else DTypeError,
        ) from None
    if array.dtype == object:
        for entry in array.ravel():
            if _is_number(entry):
                _check_range(entry)
    return array


def _flat(x: Any) -> Iterable[Any]:
    for y in x:
        if isinstance(y, (list, tuple)):
            yield from _flat(y)
        else:
            yield y


def lift(x: Any) -> Expr:
    """An expression for a Python number, an array or an expression."""
    if isinstance(x, Expr):
        return x
    if _is_number(x):
        value = exact(x)
        _check_range(value)
        one = ConstantExpr(identity(1), (True, True))
        return one if value == 1 else Sum([(value, one)])
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


def add(a: Expr, b: Any, sign: Fraction, symbol: str) -> Expr:
    b = lift(b)
    if a.shape != b.shape:
        raise refuse(
            f"cannot compute a {symbol} b: a = {a!r} and b = {b!r} differ in size"
            + ("; write inweave.ones(...) * s to add a number to every entry"
               if 1 in (a.rows * a.cols, b.rows * b.cols) else ""),
            ShapeError,
        )  # fmt: skip
    left = a.terms if isinstance(a, Sum) else ((Fraction(1), a),)
    right = b.terms if isinstance(b, Sum) else ((Fraction(1), b),)
    out = Sum([*left, *((sign * c, x) for c, x in right)])
    out.units = (a.units[0] and b.units[0], a.units[1] and b.units[1])
    return out


def times(a: Expr, b: Any) -> Expr:
    b = lift(b)
    for s, x in ((a, b), (b, a)):
        value = constant_number(s)
        if value is not None:
            return Sum([(value, x)])
    if a.is_scalar:
        return Scaled(a, b)
    if b.is_scalar:
        return Scaled(b, a)
    raise refuse(
        f"cannot multiply a = {a!r} and b = {b!r} entry by entry: attention multiplies matrices; "
        "use a @ b, or scale by a scalar"
    )


def constant_number(x: Expr) -> Fraction | None:
    """The number that a constant 1 x 1 expression stands for, if it is one."""
    if isinstance(x, ConstantExpr) and x.is_scalar:
        return exact(x.constant.entries()[0, 0])
    if isinstance(x, Sum) and x.is_scalar:
        numbers = [(c, constant_number(y)) for c, y in x.terms]
        if all(n is not None for _, n in numbers):
            return sum((c * n for c, n in numbers if n is not None), Fraction(0))
    return None


def multiply(a: Expr, b: Any) -> Expr:
    if _is_number(b):
        raise refuse(f"cannot matrix-multiply {a!r} by the number {b!r}; use *")
    b = lift(b)
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
    return Product(a, b)


def take(x: Expr, key: Any) -> Expr:
    """Row and column slices: products with pieces of an identity."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > 2:
        raise refuse(f"{x!r} has two axes, got the index {key!r}", ShapeError)
    if len(keys) == 1 and is_whole(keys[0]) and not x.units[1]:
        raise refuse(
            f"{x!r}[{keys[0]}] is ambiguous; write x[i:i+1, :] for a row, x[i, j] for an entry"
        )
    units = list(x.units)
    for axis, k in enumerate(keys):
        size = x.shape[axis]
        if is_whole(k):
            k = int(k)
            if not -size <= k < size:
                raise refuse(f"index {k} is outside axis {axis} of {x!r}", ShapeError)
            start, stop = k % size, k % size + 1
            units[axis] = True
        elif isinstance(k, slice):
            if k.step not in (None, 1):
                raise refuse(f"slices of {x!r} must have step 1, got {k!r}")
            start, stop = _bounds(k, size, x)
            if stop <= start:
                raise refuse(f"the slice {k!r} of {x!r} is empty", ShapeError)
        else:
            raise refuse(f"index {k!r} of {x!r} is not an int or a slice known at compile time")
        if (start, stop) != (0, size):
            piece = select(size, start, stop)
            x = Product(ConstantExpr(piece.T), x) if axis == 0 else Product(x, ConstantExpr(piece))
    if tuple(units) != x.units:
        x = _relabel(x, (units[0], units[1]))
    return x


def _bounds(k: slice, size: int, x: Expr) -> tuple[int, int]:
    """Where a slice starts and stops, which must be known and whole."""
    for end in (k.start, k.stop):
        if end is not None and not is_whole(end):
            raise refuse(
                f"the slice {_sliced(k)} of {x!r} needs ints known at compile time, got {end!r}"
            )
    start, stop, _ = k.indices(size)
    return start, stop


def _sliced(k: slice) -> str:
    return ":".join("" if end is None else str(end) for end in (k.start, k.stop))


def _relabel(x: Expr, units: tuple[bool, bool]) -> Expr:
    out = Sum([(Fraction(1), x)])
    out.units = units
    return out


def stack(rows: Sequence[Sequence[Any]]) -> Expr:
    """A block matrix: each block embedded by pieces of an identity, all summed."""
    blocks = [[lift(x) for x in row] for row in rows]
    if not blocks or any(not row for row in blocks):
        raise refuse("nothing to stack", ShapeError)
    heights = [row[0].rows for row in blocks]
    widths = [x.cols for x in blocks[0]]
    for row, height in zip(blocks, heights, strict=True):
        if len(row) != len(widths):
            raise refuse(f"block rows have {len(widths)} and {len(row)} blocks", ShapeError)
        for x, width in zip(row, widths, strict=True):
            if x.shape != (height, width):
                raise refuse(f"block {x!r} does not fit: expected {height} x {width}", ShapeError)
    terms, top = [], 0
    total_rows, total_cols = sum(heights), sum(widths)
    for row, height in zip(blocks, heights, strict=True):
        left = 0
        for x, width in zip(row, widths, strict=True):
            y: Expr = x
            if height != total_rows:
                y = Product(ConstantExpr(select(total_rows, top, top + height)), y)
            if width != total_cols:
                y = Product(y, ConstantExpr(select(total_cols, left, left + width).T))
            terms.append((Fraction(1), y))
            left += width
        top += height
    out = Sum(terms)
    out.units = (False, len(widths) == 1 and all(row[0].units[1] for row in blocks))
    return out


def constant_zero(rows: int, cols: int, units: tuple[bool, bool]) -> Expr:
    return ConstantExpr(zeros(rows, cols), units)


def constant_ones(rows: int, cols: int, units: tuple[bool, bool]) -> Expr:
    return ConstantExpr(Ones(rows, cols), units)


# -- walking --------------------------------------------------------------------------------------
class _Layered(dict[int, Any]):
    """Values of a loop body over those that stand outside it."""

    def __init__(self, outside: dict[int, Any]) -> None:
        super().__init__()
        self.outside = outside

    def __missing__(self, key: int) -> Any:
        return self.outside[key]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self.outside


def ordered(roots: Iterable[Expr], stop: set[int] | None = None) -> list[Expr]:
    """Every expression below the roots, parts first. Not recursive: programs may be deep."""
    stop = stop or set()
    done: set[int] = set()
    out: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(x, False) for x in reversed(list(roots))]
    while stack:
        x, ready = stack.pop()
        if ready:
            out.append(x)
            continue
        if id(x) in done or id(x) in stop:
            continue
        done.add(id(x))
        stack.append((x, True))
        stack.extend((part, False) for part in reversed(x.parts))
    return out


def every(roots: Iterable[Expr]) -> list[Expr]:
    """Every expression below the roots, the bodies of loops included."""
    seen: dict[int, Expr] = {}
    waiting = list(roots)
    while waiting:
        for x in ordered(waiting, stop=set(seen)):
            seen[id(x)] = x
        waiting = [
            y
            for x in seen.values()
            if isinstance(x, LoopResult)
            for y in x.loop.step
            if id(y) not in seen
        ]
    return list(seen.values())


def depends(order: Sequence[Expr], on: Sequence[Expr]) -> set[int]:
    """The ids of the expressions, in order, that depend on any of the given ones."""
    moving = set(map(id, on))
    for x in order:
        if any(id(part) in moving for part in x.parts):
            moving.add(id(x))
    return moving


def outer(loop: Loop) -> tuple[Expr, ...]:
    """What a loop's body reads from outside: its parts that do not depend on what it carries."""
    order = ordered(loop.step, stop=set(map(id, loop.carried)))
    moving = depends(order, loop.carried)
    found = [x for x in loop.step if id(x) not in moving]
    for x in order:
        if id(x) in moving:
            found.extend(part for part in x.parts if id(part) not in moving)
    return tuple({id(x): x for x in found}.values())


def fill(order: Sequence[Expr], known: dict[int, Array], arithmetic: Arithmetic) -> None:
    """Compute every expression of an ordered list into `known`."""
    for x in order:
        if id(x) in known:
            continue
        if isinstance(x, LoopResult):
            loop = x.loop
            key = id(loop)
            if key not in known:
                start = [known[id(y)] for y in loop.init]
                known[key] = loop.run(start, known, arithmetic, loop.times)
            known[id(x)] = known[key][x.index]
        elif isinstance(x, InputExpr):
            raise ShapeError(f"no value was given for the input {x.name!r}")
        else:
            known[id(x)] = x.compute([known[id(part)] for part in x.parts], arithmetic)


def evaluate(
    roots: Sequence[Expr], inputs: Mapping[str, Array], arithmetic: Arithmetic
) -> list[Array]:
    """The values of expressions in any arithmetic."""
    order = ordered(roots)
    known: dict[int, Array] = {
        id(x): inputs[x.name] for x in order if isinstance(x, InputExpr) and x.name in inputs
    }
    fill(order, known, arithmetic)
    return [known[id(x)] for x in roots]
