"""The pointwise functions of the language, and how each becomes a ReLU net with a known error.

Where the error bound comes from: `relu`, `abs` and `soft_threshold` are piecewise linear, so exact.
For 1/x the chord over [a, ρa] is too high by a factor 1 + δ, δ = (ρ - 1)²/(4ρ), at most; lowered
by half of that, the relative error is δ/(2 + δ), the same on every piece of a geometric grid. Any
other function is interpolated at knots spread like √|f''|. Its error is proved where it is known
how far a chord is from the curve (sigmoid); elsewhere it is measured between the knots, and called
a measurement.

A table alone needs about 1/√error units. Newton's `r ← 2r − r p r` is one head and squares the
error, so a coarse table and three layers reach machine precision: `reciprocal` compiles to that.
On domains of a hundred decades and more the table grows, until so few layers are enough again.

Every net is flat outside its domain, and is anchored on the side where its terms do not cancel: the
paper's σ_f adds huge terms of opposite sign for large negative x and loses all its digits there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from inweave.errors import InputError, InweaveError
from inweave.exact.constants import Array
from inweave.exact.schema import short
from inweave.language.expressions import Applied, Held
from inweave.language.refusals import refuse
from inweave.language.values import Value, is_number, lift
from inweave.model.inputs import plain
from inweave.model.relunet import ABS, RELU, Function, ReluNet

if TYPE_CHECKING:
    from inweave.language.typed import Expression, Number, Scalar

V = TypeVar("V", bound="Expression")

MOST_UNITS = 200_000
TABLE_UNITS = 64  # of a table that Newton's iteration refines, on domains of moderate width
MOST_STEPS = 8  # of Newton's iteration: where they are not enough, the table grows instead
ROUNDING = 2.0**-52
LAST_STEP = 2 * ROUNDING  # what rounding adds in a Newton step whose result is nearly exact
ANY_STEP = 6 * ROUNDING  # and in one from a value that is wrong by up to its own size
LEAST_ERROR = 4 * ROUNDING  # that a table and Newton steps reach in float64
# A table of x^-a holds slopes up to low^(-a - 1), and Newton's steps hold r² or r³: within these
# ends, none of them leaves the normal floats.
LIMITS = {"reciprocal": (1e-150, 1e150), "rsqrt": (1e-200, 1e200)}


# -- nets -----------------------------------------------------------------------------------------
def interpolant(knots: Array, values: Array) -> ReluNet:
    """The piecewise linear function through the knots, flat outside them.

    Anchored left, `y_0 + Σ Δs_k relu(x - x_k)`, or right, with relu(x_k - x): whichever adds up to
    less.
    """
    x, y = np.asarray(knots, dtype=np.float64), np.asarray(values, dtype=np.float64)
    with np.errstate(all="ignore"):  # an infinite sum is the larger one, an infinite slope refused
        slopes = np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])
        jumps = np.diff(slopes)
        left = float(np.sum(np.abs(jumps) * (x[-1] - x)))
        right = float(np.sum(np.abs(jumps) * (x - x[0])))
    sign, anchor = (1.0, y[0]) if left <= right else (-1.0, y[-1])
    return ReluNet(
        tuple(sign for _ in x),
        tuple(float(-sign * k) for k in x),
        tuple(float(j) for j in jumps),
        float(anchor),
    )


def float_error(net: ReluNet, low: float, high: float) -> float:
    """A bound on the rounding error of a net on its domain (standard summation bound)."""
    w, b, v = (np.asarray(a) for a in (net.weights, net.biases, net.outputs))
    with np.errstate(over="ignore"):
        ends = np.maximum(np.abs(w * low + b), np.abs(w * high + b))
        size = float(np.sum(np.abs(v) * ends)) + abs(net.constant)
    return (net.units + 3) * ROUNDING * size


def chord_excess(ratio: float) -> float:
    """δ: the chord of 1/x over [a, ρa] is at most (1 + δ)/x."""
    return (ratio - 1) ** 2 / (4 * ratio)


def _grid(low: float, high: float, pieces: int) -> tuple[float, Array]:
    """The ratio of a geometric grid, and its knots; fewer where floats lie no closer."""
    if math.isfinite(high / low):
        ratio = (high / low) ** (1 / pieces)
        knots = low * ratio ** np.arange(pieces + 1)
    else:
        ratio = math.exp((math.log(high) - math.log(low)) / pieces)
        knots = np.exp(np.linspace(math.log(low), math.log(high), pieces + 1))
        knots[0] = low
    knots[-1] = high
    return ratio, np.unique(np.minimum(knots, high))


@lru_cache(maxsize=256)
def reciprocal_table(low: float, high: float, pieces: int) -> Function:
    """1/x on [low, high] by chords over a geometric grid, lowered to halve the relative error."""
    ratio, knots = _grid(low, high, pieces)
    excess = chord_excess(ratio)
    net = interpolant(knots, 2 / (2 + excess) / knots)
    error = excess / (2 + excess) + _table_rounding(net)
    return Function("reciprocal", net, (low, high), error, True, True, _reciprocal, "proved")


@lru_cache(maxsize=256)
def rsqrt_table(low: float, high: float, pieces: int) -> Function:
    """1/√x likewise; its chord over [a, ρa] is highest at x = (a + √(ab) + b)/3, b = ρa."""
    ratio, knots = _grid(low, high, pieces)
    root = math.sqrt(ratio)
    at = (1 + root + ratio) / 3
    slope = (1 / root - 1) / (ratio - 1) if ratio > 1 else 0.0
    excess = (1 + slope * (at - 1)) * math.sqrt(at) - 1
    net = interpolant(knots, 2 / (2 + excess) / np.sqrt(knots))
    error = excess / (2 + excess) + _table_rounding(net)
    return Function("rsqrt", net, (low, high), error, True, False, _rsqrt, "proved")


def _table_rounding(net: ReluNet) -> float:
    """The relative rounding error of a geometric table: its terms all have one sign."""
    return 4 * (net.units + 3) * ROUNDING


def tabulate(
    name: str,
    f: Callable[[Array], Array],
    domain: tuple[float, float],
    error: float,
    errors: Callable[[Array, Array], Array] | None = None,
) -> Function:
    """Any function on a bounded domain to an absolute error, which is measured between the knots.

    That is no proof: a function may do anything between two points. With `errors`, the largest
    error of every piece between given knots and values, it is one.
    """
    low, high = domain
    grid = np.linspace(0, 1, 20_001)  # of the domain: its own numbers may be too large to square
    values = _sample(name, f, _between(low, high, grid))
    bend = np.abs(np.diff(values, 2)) * (len(grid) - 1) ** 2
    density = np.sqrt(np.concatenate([[bend[0]], bend, [bend[-1]]])) + 1e-6 * math.sqrt(
        bend.max() + 1e-300
    )
    weight = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    weight /= len(grid) - 1
    pieces = max(1, math.ceil(float(weight[-1]) / math.sqrt(8 * error)))
    while pieces <= MOST_UNITS:
        at = np.interp(np.linspace(0, weight[-1], pieces + 1)[1:-1], weight, grid)
        knots = np.unique(np.concatenate([[low], _between(low, high, at), [high]]))
        reached = _sample(name, f, knots)
        net = interpolant(knots, reached)
        if errors is None:
            bound = float(np.max(_worst(name, f, knots, reached))) * (1 + 1e-3)
            evidence = f"measured at {_points(knots):,} points"
        else:
            bound, evidence = float(np.max(errors(knots, reached))) + 4 * ROUNDING, "proved"
        bound += float_error(net, low, high)
        if bound <= error:
            return Function(name, net, (low, high), bound, False, False, ThroughNumpy(f), evidence)
        pieces = math.ceil(pieces * min(max(1.05, math.sqrt(bound / error)), MOST_UNITS))
    raise InputError(
        f"{name} on [{low:g}, {high:g}] to an error of {error:g} needs more than {MOST_UNITS} "
        "units; allow a larger error or a smaller domain"
    )


def _between(low: float, high: float, share: Array) -> Array:
    return low * (1 - share) + high * share


def _sample(name: str, f: Callable[[Array], Array], x: Array) -> Array:
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(plain(f"the value of {name}", f(x)))
        except InweaveError:
            raise
        except Exception as error:
            raise InputError(
                f"{name}: the function fails on an array of points: {error}"
            ) from error
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"{name}: the function gives numbers of dtype {values.dtype}, expected real ones"
        )
    values = values.astype(np.float64)
    if values.shape != x.shape or not np.isfinite(values).all():
        raise InputError(
            f"{name}: the function must give one finite number per point of its domain "
            f"[{x[0]:g}, {x[-1]:g}]"
        )
    return values


INSIDE = 33  # points of every piece at which an error is measured


def _worst(name: str, f: Callable[[Array], Array], knots: Array, at: Array) -> Array:
    """The largest interpolation error at the points inside every piece."""
    worst = np.zeros(len(knots) - 1)
    for t in np.linspace(0, 1, INSIDE + 2)[1:-1]:
        x = knots[:-1] + t * np.diff(knots)
        chord = at[:-1] + t * np.diff(at)
        worst = np.maximum(worst, np.abs(chord - _sample(name, f, x)))
    return worst


def _points(knots: Array) -> int:
    """How many points `_worst` looks at, with the knots themselves."""
    return len(knots) + INSIDE * (len(knots) - 1)


@dataclass(frozen=True)
class ThroughNumpy:
    """A numpy function of arrays of any library, in float64; the same for the same function."""

    function: Callable[[Array], Array]

    def __call__(self, xp: Any, x: Array) -> Array:
        if xp.__name__.endswith("numpy"):
            return np.asarray(self.function(x), dtype=x.dtype)
        values = self.function(np.asarray([float(v) for v in xp.reshape(x, (-1,))]))
        return xp.reshape(xp.asarray(values.tolist(), dtype=x.dtype), x.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThroughNumpy) and _alike(self.function, other.function)

    def __hash__(self) -> int:  # a function may be an object without one
        return hash(getattr(self.function, "__code__", type(self.function)))


def _alike(f: Any, g: Any) -> bool:
    """Whether two are one function: a lambda in a step is made anew whenever the step is called."""
    if f is g or not (isinstance(f, FunctionType) and isinstance(g, FunctionType)):
        return f is g
    if f.__code__ != g.__code__ or f.__globals__ is not g.__globals__:
        return False
    ours, theirs = _bound(f), _bound(g)
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))


def _bound(f: FunctionType) -> list[Any]:
    """What a function brings along besides its code: what it closes over, and its defaults."""
    cells = [cell.cell_contents for cell in f.__closure__ or ()]
    return [*cells, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]


def _reciprocal(_: Any, x: Array) -> Array:
    return 1.0 / x


def _rsqrt(xp: Any, x: Array) -> Array:
    return 1.0 / xp.sqrt(x)


def _sigmoid(xp: Any, x: Array) -> Array:
    shrinking = xp.exp(-xp.abs(x))  # exp(-x) may overflow
    return xp.where(x >= 0, 1.0, shrinking) / (1.0 + shrinking)


# -- the language ---------------------------------------------------------------------------------
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


def _domain(name: str, domain: Any, positive: bool = False) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in domain)
    except OverflowError:
        low, high = -math.inf, math.inf
    except (TypeError, ValueError):
        raise refuse(f"{name} needs domain=(low, high), got {domain!r}", InputError) from None
    if not (math.isfinite(high - low) and low < high):
        raise refuse(
            f"{name} needs a finite domain with low < high, got {short(domain)}", InputError
        )
    if positive and low <= 0:
        raise refuse(f"{name} needs a domain of positive numbers, got {domain!r}", InputError)
    return low, high


def _error(name: str, error: Any) -> float:
    if not is_number(error) or np.iscomplexobj(error) or not 0 < error < 1:
        raise refuse(f"{name} needs an error between 0 and 1, got {error!r}", InputError)
    return float(error)


def _inverse_power(name: str, domain: Any, error: Any) -> tuple[float, float, float]:
    """Domain and error of a reciprocal or rsqrt, refused where float64 cannot serve them."""
    (low, high), error = _domain(name, domain, positive=True), _error(name, error)
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


def _geometric(
    name: str, table: Callable[..., Function], low: float, high: float, error: float
) -> Function:
    """The smallest geometric table of a relative error."""
    span = math.log(high) - math.log(low)
    pieces = max(1, math.ceil(span / math.sqrt(8 * error)) // 2)
    while pieces < MOST_UNITS:
        found = table(low, high, pieces)
        if found.error <= error:
            return found
        if _table_rounding(found.net) > error:
            raise InputError(
                f"{name} to a relative error of {error:g} needs a table of more than "
                f"{found.net.units} units, whose rounding alone may be "
                f"{_table_rounding(found.net):.1e}; allow a larger error, or take scalars, which "
                f"Newton's steps refine to {LEAST_ERROR:.1e}"
            )
        pieces = max(pieces + 1, math.ceil(pieces * min(2.0, math.sqrt(found.error / error))))
    raise InputError(f"{name} to a relative error of {error:g} needs more than {MOST_UNITS} units")


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


def reciprocal(x: V, domain: Any = (1e-3, 1e2), error: float = 1e-12) -> V:
    """1/x on a positive domain, to a relative error.

    A scalar: a table of at most 64 units and Newton layers; more units where the domain spans more
    than a hundred decades. A vector or matrix, entry by entry: a table alone, because a head cannot
    multiply entry by entry. Domains beyond [1e-150, 1e150] and errors below 8.9e-16 are refused:
    float64 does not reach them.

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
    p: Any = Value(lift(x))
    low, high, error = _inverse_power("reciprocal", domain, error)
    if not lift(x).is_scalar:
        return apply(_geometric("reciprocal", reciprocal_table, low, high, error), x)
    table = _refined(reciprocal_table, low, high, error, 1.0)
    r = apply(table, p)
    for _ in range(table.steps):
        r = hold(2 * r - r * p * r)
    return cast("V", r)


def rsqrt(x: V, domain: Any = (1e-3, 1e2), error: float = 1e-12) -> V:
    """1/√x on a positive domain, to a relative error; a scalar by a table and Newton layers.

    As `reciprocal`, with domains within [1e-200, 1e200].
    """
    p: Any = Value(lift(x))
    low, high, error = _inverse_power("rsqrt", domain, error)
    if not lift(x).is_scalar:
        return apply(_geometric("rsqrt", rsqrt_table, low, high, error), x)
    table = _refined(rsqrt_table, low, high, error, 2.0)
    r = apply(table, p)
    for _ in range(table.steps):
        r = hold(1.5 * r - 0.5 * (r * p * r * r))
    return cast("V", r)


@lru_cache(maxsize=64)
def _sigmoid_function(low: float, high: float, error: float) -> Function:
    made = tabulate("sigmoid", partial(_sigmoid, np), (low, high), error, _sigmoid_errors)
    return replace(made, reference=_sigmoid)


def _sigmoid_errors(knots: Array, values: Array) -> Array:
    """The largest error of every chord: where the slope p(1 - p) of the curve is the chord's."""
    slopes = np.diff(values) / np.diff(knots)
    p = 2 * slopes / (1 + np.sqrt(np.maximum(1 - 4 * slopes, 0)))  # the other is 1 - p
    with np.errstate(divide="ignore"):
        turn = np.log(p) - np.log1p(-p)
    worst = np.zeros(len(slopes))
    for at, true in ((turn, p), (-turn, 1 - p)):
        inside = (knots[:-1] < at) & (at < knots[1:])
        chord = values[:-1] + slopes * np.where(inside, at - knots[:-1], 0)
        worst = np.maximum(worst, np.where(inside, np.abs(chord - true), 0))
    return worst


def sigmoid(x: V, domain: Any = (-8.0, 8.0), error: float = 1e-4) -> V:
    """1/(1 + exp(-x)) of every entry, to an absolute error on the domain."""
    low, high = _domain("sigmoid", domain)
    return apply(_sigmoid_function(low, high, _error("sigmoid", error)), x)


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
    made = tabulate(name, f, _domain(name, domain), _error(name, error))

    return Pointwise(made)
