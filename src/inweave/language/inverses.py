"""1/x and 1/√x: a coarse table, and Newton's steps as expressions.

A table alone needs about 1/√error units. Newton's `r ← 2r − r p r` is one head and squares the
error, so a coarse table and three layers reach machine precision; for 1/√x the step is
`r ← 1.5 r − 0.5 r p r r`. On domains of a hundred decades and more the table grows, until so few
layers are enough again. For a vector or matrix the products are entry by entry, a head for each of
its entries or columns: there a table that is small enough is left as it is.

A division is a product with 1/x. Where the sign is not known, 1/x is x (1/x²): the domain of the
table is the squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from inweave.errors import InputError
from inweave.language.expressions import Applied, Entrywise, Expr, Held, Scaled, Sum, Symbol
from inweave.language.ranges import Range, bound, ends
from inweave.language.refusals import refuse
from inweave.language.tables import ROUNDING, reciprocal_table, rsqrt_table, smallest
from inweave.model.relunet import Function

TABLE_UNITS = 64  # of a table that Newton's iteration refines, on domains of moderate width
ALONE = 4096  # units of a table for many entries, up to which there are no steps after it
EXACT = 1e-11  # of a table that stands alone: rounding of that many units is a third of it
MOST_STEPS = 8  # of Newton's iteration: where they are not enough, the table grows instead
LAST_STEP = 2 * ROUNDING  # what rounding adds in a Newton step whose result is nearly exact
ANY_STEP = 6 * ROUNDING  # and in one from a value that is wrong by up to its own size
LEAST_ERROR = 4 * ROUNDING  # that a table and Newton steps reach in float64
# A table of x^-a holds slopes up to low^(-a - 1), and Newton's steps hold r² or r³: within these
# ends, none of them leaves the normal floats.
LIMITS = {"reciprocal": (1e-150, 1e150), "rsqrt": (1e-200, 1e200)}


# -- expressions ----------------------------------------------------------------------------------
def reciprocal(p: Expr, domain: Any, error: Any) -> Expr:
    """1/p on a positive domain, to a relative error."""
    table = _table("reciprocal", reciprocal_table, p, domain, error, 1.0)
    r: Expr = Applied(table, p)
    for _ in range(table.steps):
        r = Held(Sum([(Fraction(2), r), (Fraction(-1), times(times(r, p), r))]))
    return r


def rsqrt(p: Expr, domain: Any, error: Any) -> Expr:
    """1/√p on a positive domain, to a relative error."""
    table = _table("rsqrt", rsqrt_table, p, domain, error, 2.0)
    r: Expr = Applied(table, p)
    for _ in range(table.steps):
        cubed = times(times(times(r, p), r), r)
        r = Held(Sum([(Fraction(3, 2), r), (Fraction(-1, 2), cubed)]))
    return r


def inverse(x: Expr, known: Range) -> Expr:
    """1/x to machine precision, where x lies in a range without zero."""
    low, high = known.low, known.high
    x = stored(x)
    if known.either_sign:
        squares = tuple(float(f"{end * end:.12g}") for end in (low, high))
        return times(x, reciprocal(Held(times(x, x)), squares, LEAST_ERROR))
    if high < 0:
        positive = Held(Sum([(Fraction(-1), x)]))
        return Sum([(Fraction(-1), reciprocal(positive, (-high, -low), LEAST_ERROR))])
    return reciprocal(x, (low, high), LEAST_ERROR)


def stored(x: Expr) -> Expr:
    """The same value where Newton's steps can read it as it is."""
    return x if isinstance(x, (Symbol, Held, Applied)) else Held(x)


def times(a: Expr, b: Expr) -> Expr:
    """A product entry by entry of two values of one shape."""
    return Scaled(a, b) if a.is_scalar else Entrywise(a, b)


# -- tables and steps -----------------------------------------------------------------------------
def _table(
    name: str, make: Callable[..., Function], p: Expr, domain: Any, error: Any, growth: float
) -> Function:
    low, high, error = _inverse_power(name, domain, error)
    pieces = (math.log(high) - math.log(low)) / math.sqrt(8 * error)
    if not p.is_scalar and pieces <= ALONE and error >= EXACT:
        return smallest(name, make, low, high, max(1, math.ceil(pieces) // 2), error)
    return _refined(make, low, high, error, growth)


def _inverse_power(name: str, domain: Any, error: Any) -> tuple[float, float, float]:
    """Domain and error of a reciprocal or rsqrt, refused where float64 cannot serve them."""
    (low, high), error = ends(name, domain, positive=True), bound(name, error)
    least, most = LIMITS[name]
    if low < least or high > most:
        raise refuse(
            f"{name} works on domains within [{least:g}, {most:g}], because its table and its "
            f"Newton steps leave the range of float64 beyond them; got {domain!r}",
            InputError,
        )
    if error < LEAST_ERROR:
        raise refuse(
            f"{name} cannot reach a relative error of {error:g} in float64; the least that it "
            f"reaches is {LEAST_ERROR:.1e}",
            InputError,
        )
    return low, high, error


def _newton_steps(start: float, error: float, growth: float) -> int | None:
    """How often e -> growth e² must be taken to get below half the wanted error.

    The other half is for rounding. None where `MOST_STEPS` are not enough, or where the iteration
    does not converge at all.
    """
    for steps in range(MOST_STEPS + 1):
        if _remaining(start, steps, growth) <= error / 2:
            return steps
    return None


def _remaining(start: float, steps: int, growth: float) -> float:
    """The error after some steps but for the rounding of the last, which is not squared."""
    e, rounding = start, 0.0
    for _ in range(steps):
        e, rounding = growth * (e + rounding) ** 2, ANY_STEP
    return e


def _refined(
    table: Callable[..., Function], low: float, high: float, error: float, growth: float
) -> Function:
    """A table from which few Newton steps reach the error, and how many.

    On wide domains a table of 64 units is wrong by almost its own value or more: Newton's steps
    would be many times as many, or for a root lead to its negative. So there the table grows.
    """
    made = table(low, high, pieces := TABLE_UNITS - 2)
    while (steps := _newton_steps(made.error, error, growth)) is None:
        made = table(low, high, pieces := math.ceil(1.25 * pieces))
    reached = _remaining(made.error, steps, growth) + LAST_STEP if steps else made.error
    return replace(made, steps=steps, reached=reached)
