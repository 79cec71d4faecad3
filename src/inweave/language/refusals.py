"""What attention cannot express, refused at the user's own line and with what to write instead.

While a program is recorded its values are symbols. Python would happily take such a symbol for
true, for unequal to everything, or for a list, and numpy for an object: a program would then be
recorded that the user did not write. So everything that asks a symbol for its value is refused,
whoever asks. A frame is looked at for one thing only: to quote the user's line.
"""

from __future__ import annotations

import linecache
import math
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inweave.errors import InputError, InweaveError, ProgramError

_HERE = str(Path(__file__).parent.parent) + os.sep
_LIBRARY = str(Path(os.__file__).parent) + os.sep
MOST_BITS = 1 << 18  # of the denominator of a constant

# What to write instead of numpy's functions, ufuncs and methods, by name.
_POLYNOMIAL = (
    "attention computes polynomials; iterate towards it with inweave.iterate, as "
    "inweave.gallery.get('newton_schulz') does for an inverse"
)
_ENTRIES = "use inweave.pointwise(f, domain=..., error=...) for entries"
_OPERATORS = "use +, -, *, @, .T, .sum, .mean, slices and the functions of inweave"
_INSTEAD = {
    name: instead
    for names, instead in {
        "vdot multi_dot tensordot": "use a @ b",
        "einsum": (
            'write it with @, .T, .sum(axis), inweave.trace and inweave.diag: "ij,jk->ik" is '
            'a @ b, "ij,ij->" is (a * b).sum()'
        ),
        "prod": (
            "a product of all entries is inweave.scan(lambda p, x: (p * x, None), 1.0, x)[0], and "
            "a * b multiplies entry by entry"
        ),
        "inv solve pinv lstsq det eigh svd": _POLYNOMIAL,
        "trace": "use inweave.trace(x)",
        "norm": "use inweave.squared_norm(x)",
        "var std": "write it with x.mean(axis) and inweave.squared_norm",
        "cumsum cumprod diff ediff1d accumulate": (
            "what runs along rows is written with inweave.scan(step, start, x), whose step gets "
            "what it carries and one row"
        ),
        "transpose swapaxes matrix_transpose": "use x.T",
        "flip flipud": "use x[::-1]",
        "take": "use x[[0, 2]] with a list of ints",
        "squeeze expand_dims atleast_2d": "use x[:, 0], x[:, None] or x.reshape(...)",
        "vstack stack row_stack": (
            "matrices one below the other are inweave.vstack([a, b]), vectors as rows "
            "inweave.hstack([x, y]).T and as columns inweave.hstack([x, y])"
        ),
        "concatenate append hstack": (
            "one below the other is inweave.vstack([a, b]), vectors too; side by side is "
            "inweave.hstack([a, b])"
        ),
        "column_stack": "use inweave.hstack",
        "astype dtype copy": "values are real numbers and never change: leave it out",
        "block": "use inweave.block",
        "zeros_like ones_like": "use inweave.zeros or inweave.ones with sizes",
        "maximum max fmax clip": "max(a, b) is b + inweave.relu(a - b)",
        "minimum min fmin": "min(a, b) is a - inweave.relu(a - b)",
        "where": "use inweave.where with a constant mask, or a pointwise function of the values",
        "tril": "use inweave.tril",
        "triu": "use inweave.triu",
        "diag diagonal": "use inweave.diag",
        "square": "use x ** 2",
        "sign heaviside": "use inweave.relu or another pointwise function",
        "exp": "use inweave.exp(x, domain=(lo, hi))",
        "log": "use inweave.log(x, domain=(lo, hi))",
        "sqrt": "use inweave.sqrt(x, domain=(lo, hi))",
        "tanh": "use inweave.tanh(x, domain=(lo, hi))",
        "softmax": "use inweave.softmax(x, axis)",
        "log1p expm1 sin cos cbrt": _ENTRIES,
        "reciprocal": "use inweave.reciprocal(x, domain=(lo, hi))",
    }.items()
    for name in names.split()
}


def user_line() -> str:
    """The innermost line outside inweave and Python's own library, as ' (at file.py:12: `...`)'."""
    frame = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    name, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, line).strip()
    return f" (at {Path(name).name}:{line}" + (f": `{source}`)" if source else ")")


def _is_ours(file: str) -> bool:
    """Whether code is inweave's, or what inweave or the user calls of Python's library."""
    library = file.startswith((_LIBRARY, "<frozen ")) and "-packages" not in file
    return library or file.startswith(_HERE)


def refuse(message: str, error: type[InweaveError] = ProgramError) -> InweaveError:
    """An error that ends with the user's own line."""
    return error(message + user_line())


def check_length(denominator: int) -> None:
    """Refuse a number so long that the next ones would take for ever: squares double in length."""
    bits = denominator.bit_length()
    if bits > MOST_BITS:
        raise refuse(
            f"a constant of this program has a denominator of {bits:,} bits, at most {MOST_BITS:,} "
            "are taken: constants are exact, and a product is as long as its factors together. "
            "Compute it in floats and round it (float(...)), or carry it in inweave.iterate"
        )


def check_range(number: Any, what: Any = None) -> None:
    """Refuse a number that no float holds: a network could be proved with it, but not run."""
    try:
        float(number)
    except OverflowError:
        value = abs(Fraction(number))
        digits = math.floor(math.log10(value.numerator) - math.log10(value.denominator) + 1e-9)
        raise refuse(
            f"a number of about 10^{digits}"
            + (f", which multiplies {what!r}," if what is not None else "")
            + " is beyond float64, whose largest is 1.8e308; scale the program",
            InputError,
        ) from None


class _NoAttribute(ProgramError, AttributeError):
    """An attribute that arrays have and values have not; hasattr must still say False."""


def _refused(message: str) -> Any:
    """A special method that Python has and attention has not; `{x}` in the message is its owner."""

    def method(self: Refusing, *_: Any, **__: Any) -> Any:
        raise refuse(message.format(x=repr(self)))

    return method


def _no_operator(symbol: str) -> Any:
    return _refused(
        f"cannot compute {symbol} of {{x}}: attention computes sums and products; "
        "use inweave.pointwise(f, domain=..., error=...) for a function of every entry"
    )


class Refusing:
    """A symbol's refusals: of operators that attention has not, and of its value."""

    __slots__ = ()

    __rpow__ = _no_operator("a power")
    __floordiv__ = __rfloordiv__ = _no_operator("//")
    __mod__ = __rmod__ = _no_operator("%")
    __divmod__ = __rdivmod__ = _no_operator("divmod")
    __and__ = __rand__ = _no_operator("&")
    __or__ = __ror__ = _no_operator("|")
    __xor__ = __rxor__ = _no_operator("^")
    __invert__ = _no_operator("~")
    __lshift__ = __rlshift__ = _no_operator("<<")
    __rshift__ = __rrshift__ = _no_operator(">>")
    __round__ = __floor__ = __ceil__ = __trunc__ = _no_operator("a rounding")

    __setitem__ = _refused(
        "cannot assign to entries of {x}: values do not change; put a new one together "
        "with inweave.vstack, inweave.hstack or inweave.block"
    )
    __bool__ = _refused(
        "the truth of {x} is not known while a program is traced: a data-dependent `if` "
        "cannot become a fixed network; use inweave.relu or another pointwise function"
    )
    __lt__ = __gt__ = __le__ = __ge__ = _refused(
        "cannot compare {x} while a program is traced; use inweave.relu of a difference"
    )
    # Python falls back to identity for ==, `in` and sets, and so would take a branch that the data
    # does not.
    __eq__ = __ne__ = _refused(
        "cannot compare {x} with ==, != or `in`: its value is not known while a program "
        "is traced, so a data-dependent choice cannot become a fixed network; use "
        "inweave.relu or another pointwise function (`is` asks for the same object)"
    )
    __hash__ = _refused(
        "cannot look up {x} in a set or dict, or use it as a key: its value is not known "
        "while a program is traced; use inweave.relu or another pointwise function for a "
        "choice by value, and id(x) as the key for the same object"
    )
    __contains__ = _refused(
        "cannot ask whether {x} contains a value: its entries are not known while a "
        "program is traced"
    )
    __float__ = __int__ = __index__ = __complex__ = _refused(
        "{x} has no value while a program is traced; keep it symbolic"
    )
    __array__ = _refused(
        "{x} cannot become an array: it has no value while a program is traced; " + _OPERATORS
    )

    def _not_numpy(self, name: str) -> InweaveError:
        return refuse(
            f"cannot use numpy's {name} on {self!r} while a program is traced; "
            + _INSTEAD.get(name, _OPERATORS)
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            said = f"{self!r} has no attribute {name!r}; {_INSTEAD.get(name, _OPERATORS)}"
            raise _NoAttribute(said + user_line())
