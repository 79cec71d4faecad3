"""The functions of the language, entry by entry, each with a domain and an error.

`relu`, `abs` and `soft_threshold` are piecewise linear, so exact. The others are tables (`tables`
says where their errors come from); 1/x, 1/√x and √x are refined by Newton's steps (`inverses`). The
domain is the range that `inweave.assume` gave to a value, unless another is asked for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from inweave.errors import InputError
from inweave.exact.constants import Array
from inweave.language import inverses
from inweave.language.expressions import Applied, Held, current
from inweave.language.ranges import Range, bound, ends
from inweave.language.refusals import refuse, user_line
from inweave.language.shapes import total
from inweave.language.tables import ROUNDING, exp_table, log_table, smallest, smooth, tabulate
from inweave.language.values import Value, lift
from inweave.model.relunet import ABS, RELU, Function, ReluNet

if TYPE_CHECKING:
    from inweave.language.typed import Expression, Number, Scalar

V = TypeVar("V", bound="Expression")

POSITIVE = (1e-3, 1e2)  # domains where none is known
AROUND_ZERO = (-8.0, 8.0)


def apply(function: Function, x: V) -> V:
    """A pointwise function of every entry."""
    return cast("V", Value(Applied(function, lift(x))))


def hold(x: V) -> V:
    """The same value, stored as it is: the compiler neither expands it nor multiplies through it.

    For numerics: `2r - r p r` is computed at each step, instead of a polynomial in the first r.
    """
    return cast("V", Value(Held(lift(x))))


def relu(x: V) -> V:
    """max(x, 0) of every entry, exactly."""
    return apply(RELU, x)


def absolute(x: V) -> V:
    """|x| of every entry, exactly."""
    return apply(ABS, x)


def _threshold(xp: Any, t: Array) -> Array:
    return xp.where(t >= 0, t, xp.asarray(math.nan, dtype=t.dtype))


THRESHOLD = Function("threshold", RELU.net, (0.0, sys.float_info.max), reference=_threshold)


def soft_threshold(x: V, t: Scalar | Number) -> V:
    """sign(x) max(|x| - t, 0) of every entry, exactly, for a threshold t of at least 0.

    t is a number or a scalar of the program. A negative one would make the function jump at 0, and
    no network of attention and ReLU layers does that: a number is refused, a scalar is checked when
    the network runs (DomainError), and the program called with arrays answers NaN.
    """
    entries, threshold = lift(x), lift(t)
    if not threshold.is_scalar:
        raise refuse(f"soft_threshold needs one threshold, got {threshold!r}")
    if threshold.number is not None:
        value = float(threshold.number)
        if value < 0:
            raise refuse(
                f"soft_threshold needs a threshold of at least 0, got {value:g}", InputError
            )
        net = ReluNet((1.0, -1.0), (-value, -value), (1.0, -1.0))
        return apply(Function(f"soft_threshold({value:g})", net), x)
    whole: Any = Value(entries)
    checked = Value(Applied(THRESHOLD, threshold))
    return cast("V", relu(whole - checked) - relu(-whole - checked))


def assume(x: V, low: float, high: float, *, either_sign: bool = False) -> V:
    """The same value, of which it is known that every entry lies in [low, high].

    With `either_sign`, in [-high, -low] or [low, high]. What is known decides the table of a
    division by the value, or of a function of it, and is checked there whenever the network runs:
    a value outside raises a DomainError. It is known of this value only, not of what is computed
    from it, so it is best said where one divides. A range that nothing reads would never be
    checked, so it is refused.

    >>> import inweave
    >>> from inweave import Scalar, Vector
    >>> @inweave.program
    ... def scaled(x: Vector["n"], s: Scalar) -> Vector["n"]:
    ...     return x / inweave.assume(s, 0.1, 10)
    >>> inweave.compile(scaled, n=2)(x=[1.0, 3.0], s=4.0).tolist()
    [0.25, 0.75]
    """
    node, known = lift(x), Range(low, high, either_sign)
    unread = (
        f"nothing reads the range {known!r} that is assumed of {node!r}, so it would never be "
        "checked: it is known of that very value, where one divides by it or takes a function of "
        "it, and not of what is computed from it; say it there, or leave it out"
    )
    current().unread.append((known, unread + user_line()))
    return cast("V", Value(node, known))


def _domain(
    name: str, x: Any, domain: Any, otherwise: tuple[float, float], positive: bool = False
) -> tuple[float, float]:
    """The domain that was asked for, the range of the value, or what serves most."""
    known = x.known() if domain is None and isinstance(x, Value) else None
    if known is not None:
        if known.either_sign:
            divide = "; 1 / x takes values of either sign" if name == "reciprocal" else ""
            raise refuse(
                f"{name} of {x!r}, which lies in {known!r}, needs domain=(low, high){divide}"
            )
        domain = (known.low, known.high)
    return ends(name, otherwise if domain is None else domain, positive)


# -- inverses -------------------------------------------------------------------------------------
def reciprocal(x: V, domain: Any = None, error: float = 1e-12) -> V:
    """1/x on a positive domain, (1e-3, 1e2) unless another is known, to a relative error.

    A table of at most 64 units and Newton layers; more units where the domain spans more than a
    hundred decades. For a vector or matrix, entry by entry, Newton's steps take a head for every
    entry or column, so a table of up to 4,096 units stands alone where its error is enough. Domains
    beyond [1e-150, 1e150] and errors below 8.9e-16 are refused: float64 does not reach them.

    >>> import inweave
    >>> from inweave import Scalar
    >>> @inweave.program
    ... def inverse(p: Scalar) -> Scalar:
    ...     return inweave.reciprocal(p, domain=(0.5, 8))
    >>> net = inweave.compile(inverse)
    >>> round(float(net(p=4.0)), 12)
    0.25
    >>> net(p=16.0)
    Traceback (most recent call last):
        ...
    inweave.errors.DomainError: reciprocal got 16 at module 0, layer 1, block ...
    """
    found = _domain("reciprocal", x, domain, POSITIVE, positive=True)
    return cast("V", Value(inverses.reciprocal(lift(x), found, error)))


def rsqrt(x: V, domain: Any = None, error: float = 1e-12) -> V:
    """1/√x on a positive domain, to a relative error: a table and Newton layers.

    As `reciprocal`, with domains within [1e-200, 1e200].
    """
    found = _domain("rsqrt", x, domain, POSITIVE, positive=True)
    return cast("V", Value(inverses.rsqrt(lift(x), found, error)))


def sqrt(x: V, domain: Any = None, error: float = 1e-12) -> V:
    """√x = x (1/√x) on a positive domain, to a relative error."""
    found = _domain("sqrt", x, domain, POSITIVE, positive=True)
    p = inverses.stored(lift(x))
    return cast("V", Value(inverses.times(p, inverses.rsqrt(p, found, error))))


# -- tables ---------------------------------------------------------------------------------------
def exp(x: V, domain: Any = None, error: float = 1e-4) -> V:
    """exp(x) of every entry, to a relative error on the domain, (-8, 8) unless another is known."""
    low, high = _domain("exp", x, domain, AROUND_ZERO)
    return apply(_exp(low, high, bound("exp", error)), x)


def _exp(low: float, high: float, error: float) -> Function:
    if max(-low, high) > 300:
        raise refuse(
            f"exp works on domains within [-300, 300], because it leaves the range of float64 "
            f"beyond them; got {(low, high)!r}",
            InputError,
        )
    pieces = math.ceil((high - low) / math.sqrt(16 * error))
    return smallest("exp", exp_table, low, high, max(1, pieces // 2), error)


def log(x: V, domain: Any = None, error: float = 1e-4) -> V:
    """log(x) of every entry, to an absolute error on a positive domain."""
    low, high = _domain("log", x, domain, POSITIVE, positive=True)
    error = bound("log", error)
    pieces = math.ceil((math.log(high) - math.log(low)) / math.sqrt(16 * error))
    return apply(smallest("log", log_table, low, high, max(1, pieces // 2), error), x)


def sigmoid(x: V, domain: Any = None, error: float = 1e-4) -> V:
    """1/(1 + exp(-x)) of every entry, to an absolute error on the domain."""
    return _smooth("sigmoid", x, domain, error)


def tanh(x: V, domain: Any = None, error: float = 1e-4) -> V:
    """tanh(x) of every entry, to an absolute error on the domain."""
    return _smooth("tanh", x, domain, error)


def gelu(x: V, domain: Any = None, error: float = 1e-4) -> V:
    """x Φ(x) of every entry, Φ the normal distribution, to an absolute error on the domain."""
    return _smooth("gelu", x, domain, error)


def _smooth(name: str, x: V, domain: Any, error: float) -> V:
    low, high = _domain(name, x, domain, AROUND_ZERO)
    return apply(smooth(name, low, high, bound(name, error)), x)


def softmax(x: V, axis: int = -1, domain: Any = None, error: float = 1e-3) -> V:
    """exp(x) over its sum along an axis, to a relative error where every entry lies in the domain.

    With exp wrong by a factor within 1 ± ε, so is the sum of n of them; with the reciprocal wrong
    by 1 ± ρ the quotient is within (1 + ε)/(1 - ε) (1 + ρ). The sum lies in n exp(domain), widened
    by ε, which is the reciprocal's domain. Rounding adds less than n + 4 units in the last place.
    """
    low, high = _domain("softmax", x, domain, AROUND_ZERO)
    part = bound("softmax", error) / 5
    whole: Any = Value(lift(x))
    count = total(whole._node, axis)[1]
    table = _exp(low, high, part)
    reached = (1 + table.error) / (1 - table.error) * (1 + part) - 1 + (count + 4) * ROUNDING
    table = replace(table, name="softmax_exp", reached=reached, reaches="softmax")
    powers: Any = apply(table, whole)
    summed = inverses.stored(lift(powers.sum(axis, keepdims=True)))
    least, most = count * math.exp(low) * (1 - 2 * part), count * math.exp(high) * (1 + 2 * part)
    around = _two_digits(least, ROUND_FLOOR), _two_digits(most, ROUND_CEILING)
    return cast("V", powers * Value(inverses.reciprocal(summed, around, part)))


def _two_digits(number: float, rounding: str) -> float:
    return float(Context(prec=2, rounding=rounding).create_decimal(number))


# -- any function ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pointwise:
    """A function of every entry, as `inweave.pointwise` makes it."""

    function: Function

    def __call__(self, x: V) -> V:
        return apply(self.function, x)


def pointwise(f: Callable[[Array], Array], domain: Any, error: float, name: str = "") -> Pointwise:
    """A pointwise function from any numpy function: `g = inweave.pointwise(np.tanh, (-4, 4),
    1e-3)`.

    Knots are placed so that the absolute error holds at 33 points between every two of them, which
    the certificate calls measured: of a function that is only called, no more is known. Outside the
    domain the net is flat.
    """
    name = name or getattr(f, "__name__", "function").replace("<lambda>", "function")
    made = tabulate(name, f, ends(name, domain), bound(name, error))

    return Pointwise(made)
