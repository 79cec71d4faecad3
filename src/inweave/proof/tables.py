"""How far a network's own table of 1/x is from 1/x, bounded from its knots.

Between two knots a table is a + b x, so x times it is a parabola, and its distance from 1 is
largest at an end or at the vertex: a finite number of exact rational numbers. What float64 adds
when it sums the units is bounded by the same sum of absolute values. Nothing that the table says of
itself is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from inweave.model.relunet import Function, ReluNet, rounded_up

ROUNDING = Fraction(1, 2**52)
Line = tuple[Fraction, Fraction]  # a + b x


def reciprocal_error(net: ReluNet, low: float, high: float) -> float:
    """The largest |x net(x) - 1| over a positive interval, rounding of float64 included."""
    worst = Fraction(0)
    for start, stop, (a, b), (size, growth) in _pieces(net, Fraction(low), Fraction(high)):
        rounding = (net.units + 3) * ROUNDING * stop * max(size + growth * x for x in (start, stop))
        at = [start, stop]
        if b and start < -a / (2 * b) < stop:
            at.append(-a / (2 * b))
        worst = max(worst, max(abs(x * (a + b * x) - 1) for x in at) + rounding)
    return math.nextafter(float(worst), math.inf)


def _pieces(
    net: ReluNet, low: Fraction, high: Fraction
) -> Iterator[tuple[Fraction, Fraction, Line, Line]]:
    """(start, stop, the line between them, the line of absolute values) from left to right."""
    units = [
        (Fraction(w), Fraction(b), Fraction(v))
        for w, b, v in zip(net.weights, net.biases, net.outputs, strict=True)
    ]
    line, size = [Fraction(net.constant), Fraction(0)], [abs(Fraction(net.constant)), Fraction(0)]
    turns: dict[Fraction, list[tuple[int, Fraction, Fraction, Fraction]]] = {}
    for w, b, v in units:
        knot = -b / w if w else low
        begins = b > 0 if not w else (knot <= low if w > 0 else knot > low)
        if begins:
            _add(line, size, 1, w, b, v)
        if w and low < knot < high:
            turns.setdefault(knot, []).append((1 if w > 0 else -1, w, b, v))
    for start, stop in pairwise([low, *sorted(turns), high]):
        for sign, w, b, v in turns.get(start, ()):
            _add(line, size, sign, w, b, v)
        yield start, stop, (line[0], line[1]), (size[0], size[1])


def _add(
    line: list[Fraction], size: list[Fraction], sign: int, w: Fraction, b: Fraction, v: Fraction
) -> None:
    """Switch a unit on (sign 1) or off (sign -1)."""
    for total, factor in ((line, v), (size, abs(v))):
        total[0] += sign * factor * b
        total[1] += sign * factor * w


def note(function: Function, error: float) -> str:
    """A line for the certificate about a network's own table."""
    low, high = function.domain or (-math.inf, math.inf)
    return (
        f"{function.name} on [{low:g}, {high:g}]: {function.net.units} units, "
        f"relative error at most {rounded_up(error)}, from the network's own knots"
    )
