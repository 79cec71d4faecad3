"""Tables: functions of one variable as ReLU nets, with an error that is known.

Where the error bounds come from. For 1/x the chord over [a, ρa] is too high by a factor 1 + δ,
δ = (ρ - 1)²/(4ρ), at most; lowered by half of that, the relative error is δ/(2 + δ), the same on
every piece of a geometric grid. In the same way 1/√x has one relative error on a geometric grid,
exp x one on an even grid, and log x one absolute error on a geometric grid. Any other function is
interpolated at knots spread like √|f''|. Its error is proved where it is known how far a chord is
from the curve (sigmoid, tanh, gelu); elsewhere it is measured between the knots, and called a
measurement.

Every net is flat outside its domain, and is anchored on the side where its terms do not cancel: the
paper's σ_f adds huge terms of opposite sign for large negative x and loses all its digits there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from inweave.errors import InputError, InweaveError
from inweave.exact.constants import Array
from inweave.model.inputs import plain
from inweave.model.relunet import Function, ReluNet

MOST_UNITS = 200_000
ROUNDING = 2.0**-52


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
    biases = tuple(float(-sign * k) for k in x)
    return ReluNet((sign,) * len(x), biases, tuple(map(float, jumps)), float(anchor))


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


@lru_cache(maxsize=64)
def exp_table(low: float, high: float, pieces: int) -> Function:
    """exp x by chords over an even grid, lowered to halve the relative error.

    With s = (e^h - 1)/h the chord over [a, a + h] is (1 + s (x - a)) e^a. Divided by e^x that is
    largest at x - a = 1 - 1/s: it is s e^(1/s - 1).
    """
    knots = np.linspace(low, high, pieces + 1)
    step = float(np.max(np.diff(knots)))
    slope = math.expm1(step) / step
    excess = math.expm1(math.log(slope) + 1 / slope - 1)
    net = interpolant(knots, 2 / (2 + excess) * np.exp(knots))
    error = excess / (2 + excess) + _table_rounding(net)
    return Function("exp", net, (low, high), error, True, False, _exp, "proved")


@lru_cache(maxsize=64)
def log_table(low: float, high: float, pieces: int) -> Function:
    """log x by chords over a geometric grid, raised to halve the absolute error.

    Over [a, ρa] the chord is too low by log u - 1 + 1/u at most, u = (ρ - 1)/log ρ.
    """
    ratio, knots = _grid(low, high, pieces)
    u = (ratio - 1) / math.log(ratio)
    gap = max(0.0, math.log(u) - 1 + 1 / u)
    net = interpolant(knots, np.log(knots) + gap / 2)
    error = gap / 2 + float_error(net, low, high)
    return Function("log", net, (low, high), error, False, False, _log, "proved")


def _table_rounding(net: ReluNet) -> float:
    """The relative rounding error of a table that is convex: its terms all have one sign."""
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
    density = np.sqrt(np.concatenate([[bend[0]], bend, [bend[-1]]]))
    density += 1e-6 * math.sqrt(bend.max() + 1e-300)
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
            points = len(knots) + INSIDE * (len(knots) - 1)  # that `_worst` looks at, and knots
            evidence = f"measured at {points:,} points"
        else:
            bound, evidence = float(np.max(errors(knots, reached))) + 4 * ROUNDING, "proved"
        bound += float_error(net, low, high)
        if bound <= error:
            return Function(name, net, (low, high), bound, False, False, ThroughNumpy(f), evidence)
        pieces = math.ceil(pieces * min(max(1.05, math.sqrt(bound / error)), MOST_UNITS))
    raise _too_many(name, low, high, error)


def _too_many(name: str, low: float, high: float, error: float) -> InputError:
    return InputError(
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


def _exp(xp: Any, x: Array) -> Array:
    return xp.exp(x)


def _log(xp: Any, x: Array) -> Array:
    return xp.log(x)


def _tanh(xp: Any, x: Array) -> Array:
    return xp.tanh(x)


def smallest(
    name: str, table: Callable[..., Function], low: float, high: float, pieces: int, error: float
) -> Function:
    """The smallest table of an error, which falls with the square of its pieces."""
    before = math.inf
    while pieces < MOST_UNITS:
        found = table(low, high, pieces)
        if found.error <= error:
            return found
        if found.error >= before:
            raise InputError(
                f"{name} on [{low:g}, {high:g}] to an error of {error:g} is more than a table "
                f"reaches: of {found.net.units} units, rounding alone may be {before:.1e}; allow a "
                "larger error"
            )
        more, before = min(2.0, math.sqrt(found.error / error)), found.error
        pieces = max(pieces + 1, math.ceil(pieces * more))
    raise _too_many(name, low, high, error)


# -- functions of which it is known how far a chord is from the curve ----------------------------
def sigmoid_errors(knots: Array, values: Array) -> Array:
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


def _tanh_errors(knots: Array, values: Array) -> Array:
    """tanh x is 2 sigmoid(2x) - 1."""
    return 2 * sigmoid_errors(2 * knots, (values + 1) / 2)


def _gelu(x: Array) -> Array:
    """x Φ(x), with Φ the normal distribution."""
    return x * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)) / 2


def _gelu_errors(knots: Array, values: Array) -> Array:
    """What is seen at points of every piece, and at most |f''|/2 (h/68)² more between them.

    f'' = (2 - x²) exp(-x²/2)/√(2π) is largest at an end, or where it turns: at 0 or ±2. Where the
    error of a chord is largest it is flat, so that a point h/68 away sees almost all of it.
    """
    bend = np.abs(2 - knots**2) * np.exp(-(knots**2) / 2) / math.sqrt(2 * math.pi)
    largest = np.maximum(bend[:-1], bend[1:])
    for turn, there in ((0.0, 0.8), (2.0, 0.11), (-2.0, 0.11)):
        inside = (knots[:-1] <= turn) & (turn <= knots[1:])
        largest = np.where(inside, np.maximum(largest, there), largest)
    between = largest / 2 * (np.diff(knots) / (2 * (INSIDE + 1))) ** 2
    return _worst("gelu", _gelu, knots, values) + between


# By name: the function of any library's arrays, of numpy's, and the errors of its chords.
_SMOOTH: dict[str, tuple[Any, Any, Any]] = {
    "sigmoid": (_sigmoid, partial(_sigmoid, np), sigmoid_errors),
    "tanh": (_tanh, np.tanh, _tanh_errors),
    "gelu": (ThroughNumpy(_gelu), _gelu, _gelu_errors),
}


@lru_cache(maxsize=64)
def smooth(name: str, low: float, high: float, error: float) -> Function:
    """sigmoid, tanh or gelu to an absolute error, which is proved."""
    reference, f, errors = _SMOOTH[name]
    return replace(tabulate(name, f, (low, high), error, errors), reference=reference)
