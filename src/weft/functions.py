"""The pointwise functions of the language, and how each becomes a ReLU net with a known error.

Where the error bound comes from: `relu`, `abs` and `soft_threshold` are piecewise linear, so exact.
For 1/x the chord over [a, ρa] is too high by a factor 1 + δ, δ = (ρ - 1)²/(4ρ), at most; lowered
by half of that, the relative error is δ/(2 + δ), the same on every piece of a geometric grid. Any
other function is interpolated at knots spread like √|f''|, and its error is measured between them.

A table alone needs about 1/√error units. Newton's `r ← 2r − r p r` is one head and squares the
error, so a coarse table and three layers reach machine precision: `reciprocal` compiles to that.

Every net is flat outside its domain, and is anchored on the side where its terms do not cancel: the
paper's σ_f adds huge terms of opposite sign for large negative x and loses all its digits there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from weft import expressions as ex
from weft.constants import Array
from weft.errors import InputError
from weft.expressions import Applied, Expr, refuse
from weft.language import hold
from weft.relunet import Function, ReluNet

MOST_UNITS = 200_000
TABLE_UNITS = 64  # of a table that Newton's iteration refines
ROUNDING = 2.0**-52


# -- nets -----------------------------------------------------------------------------------------
def interpolant(knots: Array, values: Array) -> ReluNet:
    """The piecewise linear function through the knots, flat outside them.

    Anchored left, `y_0 + Σ Δs_k relu(x - x_k)`, or right, with relu(x_k - x): whichever adds up to
    less.
    """
    x, y = np.asarray(knots, dtype=np.float64), np.asarray(values, dtype=np.float64)
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
    ends = np.maximum(np.abs(w * low + b), np.abs(w * high + b))
    size = float(np.sum(np.abs(v) * ends)) + abs(net.constant)
    return (net.units + 3) * ROUNDING * size


def chord_excess(ratio: float) -> float:
    """δ: the chord of 1/x over [a, ρa] is at most (1 + δ)/x."""
    return (ratio - 1) ** 2 / (4 * ratio)


@lru_cache(maxsize=256)
def reciprocal_table(low: float, high: float, pieces: int) -> Function:
    """1/x on [low, high] by chords over a geometric grid, lowered to halve the relative error."""
    ratio = (high / low) ** (1 / pieces)
    excess = chord_excess(ratio)
    knots = low * ratio ** np.arange(pieces + 1)
    knots[-1] = high
    net = interpolant(knots, 2 / (2 + excess) / knots)
    error = excess / (2 + excess) + 4 * (net.units + 3) * ROUNDING
    return Function("reciprocal", net, (low, high), error, True, True, _reciprocal)


@lru_cache(maxsize=256)
def rsqrt_table(low: float, high: float, pieces: int) -> Function:
    """1/√x likewise; its chord over [a, ρa] is highest at x = (a + √(ab) + b)/3, b = ρa."""
    ratio = (high / low) ** (1 / pieces)
    root = math.sqrt(ratio)
    at = (1 + root + ratio) / 3
    slope = (1 / root - 1) / (ratio - 1)
    excess = (1 + slope * (at - 1)) * math.sqrt(at) - 1
    knots = low * ratio ** np.arange(pieces + 1)
    knots[-1] = high
    net = interpolant(knots, 2 / (2 + excess) / np.sqrt(knots))
    error = excess / (2 + excess) + 4 * (net.units + 3) * ROUNDING
    return Function("rsqrt", net, (low, high), error, True, False, _rsqrt)


def tabulate(
    name: str, f: Callable[[Array], Array], domain: tuple[float, float], error: float
) -> Function:
    """Any function on a bounded domain to an absolute error, with a bound that was measured."""
    low, high = domain
    grid = np.linspace(low, high, 20_001)
    values = _sample(name, f, grid)
    bend = np.abs(np.diff(values, 2)) / (grid[1] - grid[0]) ** 2
    density = np.sqrt(np.concatenate([[bend[0]], bend, [bend[-1]]])) + 1e-6 * math.sqrt(
        bend.max() + 1e-300
    )
    weight = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    weight *= grid[1] - grid[0]
    pieces = max(1, math.ceil(float(weight[-1]) / math.sqrt(8 * error)))
    while pieces <= MOST_UNITS:
        if weight[-1] > 0:
            knots = np.interp(np.linspace(0, weight[-1], pieces + 1), weight, grid)
        else:
            knots = np.linspace(low, high, pieces + 1)
        knots = np.unique(np.concatenate([[low], knots[1:-1], [high]]))
        at = _sample(name, f, knots)
        found = _worst(name, f, knots, at)
        if found <= error:
            net = interpolant(knots, at)

            def reference(xp: Any, x: Array) -> Array:
                return _through_numpy(xp, f, x)

            bound = found * (1 + 1e-3) + float_error(net, low, high)
            return Function(name, net, (low, high), bound, False, False, reference)
        pieces = math.ceil(pieces * max(1.05, math.sqrt(found / error)))
    raise InputError(
        f"{name} on [{low:g}, {high:g}] to an error of {error:g} needs more than {MOST_UNITS} "
        "units; allow a larger error or a smaller domain"
    )


def _sample(name: str, f: Callable[[Array], Array], x: Array) -> Array:
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(f(x), dtype=np.float64)
        except Exception as error:
            raise InputError(
                f"{name}: the function fails on an array of points: {error}"
            ) from error
    if values.shape != x.shape or not np.isfinite(values).all():
        raise InputError(
            f"{name}: the function must give one finite number per point of its domain "
            f"[{x[0]:g}, {x[-1]:g}]"
        )
    return values


def _worst(name: str, f: Callable[[Array], Array], knots: Array, at: Array) -> float:
    """The largest interpolation error at 33 points inside every piece."""
    worst = 0.0
    for t in np.linspace(0, 1, 35)[1:-1]:
        x = knots[:-1] + t * np.diff(knots)
        chord = at[:-1] + t * np.diff(at)
        worst = max(worst, float(np.max(np.abs(chord - _sample(name, f, x)))))
    return worst


def _through_numpy(xp: Any, f: Callable[[Array], Array], x: Array) -> Array:
    """A numpy function of an array of any library, in float64."""
    if xp.__name__.endswith("numpy"):
        return np.asarray(f(x), dtype=x.dtype)
    values = f(np.asarray([float(v) for v in xp.reshape(x, (-1,))]))
    return xp.reshape(xp.asarray(values.tolist(), dtype=x.dtype), x.shape)


def _reciprocal(_: Any, x: Array) -> Array:
    return 1.0 / x


def _rsqrt(xp: Any, x: Array) -> Array:
    return 1.0 / xp.sqrt(x)


def _sigmoid(xp: Any, x: Array) -> Array:
    return 1.0 / (1.0 + xp.exp(-x))


RELU = Function("relu", ReluNet((1.0,), (0.0,), (1.0,)))
ABS = Function("abs", ReluNet((1.0, -1.0), (0.0, 0.0), (1.0, 1.0)))


# -- the language ---------------------------------------------------------------------------------
def relu(x: Any) -> Expr:
    """max(x, 0) of every entry, exactly."""
    return Applied(RELU, ex.lift(x))


def absolute(x: Any) -> Expr:
    """|x| of every entry, exactly."""
    return Applied(ABS, ex.lift(x))


def soft_threshold(x: Any, t: Any) -> Expr:
    """sign(x) max(|x| - t, 0) of every entry, exactly; t is a number or a scalar of the program."""
    x, t = ex.lift(x), ex.lift(t)
    if not t.is_scalar:
        raise refuse(f"soft_threshold needs one threshold, got {t!r}")
    value = ex.constant_number(t)
    if value is not None:
        if value < 0:
            raise refuse(
                f"soft_threshold needs a threshold of at least 0, got {float(value):g}", InputError
            )
        b = -float(value)
        net = ReluNet((1.0, -1.0), (b, b), (1.0, -1.0))
        return Applied(Function(f"soft_threshold({float(value):g})", net), x)
    shift = ex.times(t, ex.constant_ones(x.rows, x.cols, x.units))
    return relu(x - shift) - relu(-x - shift)


def _domain(name: str, domain: Any, positive: bool = False) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in domain)
    except (TypeError, ValueError):
        raise refuse(f"{name} needs domain=(low, high), got {domain!r}", InputError) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise refuse(f"{name} needs a finite domain with low < high, got {domain!r}", InputError)
    if positive and low <= 0:
        raise refuse(f"{name} needs a domain of positive numbers, got {domain!r}", InputError)
    return low, high


def _error(name: str, error: Any) -> float:
    if not isinstance(error, (int, float)) or not 0 < error < 1:
        raise refuse(f"{name} needs an error between 0 and 1, got {error!r}", InputError)
    return float(error)


def _geometric(
    name: str, table: Callable[..., Function], low: float, high: float, error: float
) -> Function:
    """The smallest geometric table of a relative error."""
    pieces = max(1, math.ceil(math.log(high / low) / math.sqrt(8 * error)) // 2)
    while pieces < MOST_UNITS:
        found = table(low, high, pieces)
        if found.error <= error:
            return found
        pieces = max(pieces + 1, math.ceil(pieces * min(2.0, math.sqrt(found.error / error))))
    raise InputError(f"{name} to a relative error of {error:g} needs more than {MOST_UNITS} units")


def _newton_steps(start: float, error: float, growth: float) -> int:
    """How often e -> growth e² takes the table's error below the wanted one."""
    steps, e = 0, start
    while e > max(error, 4 * ROUNDING) / 2 and steps < 8:
        e, steps = growth * e * e, steps + 1
    return steps


def reciprocal(x: Any, domain: Any = (1e-3, 1e2), error: float = 1e-12) -> Expr:
    """1/x on a positive domain, to a relative error.

    A scalar: a table of at most 64 units and Newton layers. A vector or matrix, entry by entry: a
    table alone, because a head cannot multiply entry by entry.

    >>> import weft
    >>> from weft import Scalar
    >>> @weft.program
    ... def inverse(p: Scalar) -> Scalar:
    ...     return weft.reciprocal(p, domain=(0.5, 8))
    >>> net = weft.compile(inverse)
    >>> round(float(net(p=4.0)), 12)
    0.25
    >>> net(p=16.0)
    Traceback (most recent call last):
        ...
    weft.errors.DomainError: reciprocal got 16 at module 0, layer 1, block ...
    """
    x = ex.lift(x)
    (low, high), error = _domain("reciprocal", domain, positive=True), _error("reciprocal", error)
    if not x.is_scalar:
        return Applied(_geometric("reciprocal", reciprocal_table, low, high, error), x)
    table = reciprocal_table(low, high, TABLE_UNITS - 2)
    r: Expr = Applied(table, x)
    for _ in range(_newton_steps(table.error, error, 1.0)):
        r = hold(2 * r - r * x * r)
    return r


def rsqrt(x: Any, domain: Any = (1e-3, 1e2), error: float = 1e-12) -> Expr:
    """1/√x on a positive domain, to a relative error; a scalar by a table and Newton layers."""
    x = ex.lift(x)
    (low, high), error = _domain("rsqrt", domain, positive=True), _error("rsqrt", error)
    if not x.is_scalar:
        return Applied(_geometric("rsqrt", rsqrt_table, low, high, error), x)
    table = rsqrt_table(low, high, TABLE_UNITS - 2)
    r: Expr = Applied(table, x)
    for _ in range(_newton_steps(table.error, error, 2.0)):
        r = hold(1.5 * r - 0.5 * (r * x * r * r))
    return r


@lru_cache(maxsize=64)
def _sigmoid_function(low: float, high: float, error: float) -> Function:
    made = tabulate("sigmoid", lambda x: 1.0 / (1.0 + np.exp(-x)), (low, high), error)
    return Function(made.name, made.net, made.domain, made.error, False, False, _sigmoid)


def sigmoid(x: Any, domain: Any = (-8.0, 8.0), error: float = 1e-4) -> Expr:
    """1/(1 + exp(-x)) of every entry, to an absolute error on the domain."""
    low, high = _domain("sigmoid", domain)
    return Applied(_sigmoid_function(low, high, _error("sigmoid", error)), ex.lift(x))


def pointwise(
    f: Callable[[Array], Array], domain: Any, error: float, name: str = ""
) -> Callable[[Any], Expr]:
    """A pointwise function from any numpy function: `g = weft.pointwise(np.tanh, (-4, 4), 1e-3)`.

    Knots are placed so that the absolute error holds on the domain; outside it the net is flat.
    """
    name = name or getattr(f, "__name__", "function").replace("<lambda>", "function")
    made = tabulate(name, f, _domain(name, domain), _error(name, error))

    def apply(x: Any) -> Expr:
        return Applied(made, ex.lift(x))

    apply.function = made  # type: ignore[attr-defined]
    return apply
