"""What is known of functions: the program's tables, or how far a network's own are from 1/x.

A network's own table of 1/x is bounded from its knots. Between two of them it is a + b x, so x
times it is a parabola, and its distance from 1 is largest at an end or at the vertex: a finite
number of exact rational numbers. What float64 adds when it sums the units is bounded by the same
sum of absolute values. Nothing that the table says of itself is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from inweave.errors import VerificationError
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.layers import BlockPointwiseLayer
from inweave.model.network import Network
from inweave.model.relunet import Function, ReluNet, interval, rounded_up

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


def _note(function: Function, error: float) -> str:
    """A line for the certificate about a network's own table."""
    return (
        f"{function.name} on {interval(function.domain)}: {function.net.units} units, "
        f"relative error at most {rounded_up(error)}, from the network's own knots"
    )


# -- what a certificate says of functions ----------------------------------------------------------
def functions(traced: Traced) -> list[Function]:
    """The functions that a program applies."""
    every = ex.every(traced.outputs.values())
    return [x.function for x in every if isinstance(x, ex.Applied)]


def reciprocals(traced: Traced) -> list[Function]:
    return [function for function in functions(traced) if function.is_reciprocal]


def function_notes(traced: Traced) -> list[str]:
    """What is known of the program's functions: a network that is equal has the same tables."""
    return [note for note in dict.fromkeys(f.note() for f in functions(traced)) if note]


def own_tables(name: str, traced: Traced, network: Network) -> list[str]:
    """What is known of a network's own tables of 1/x; refused if the program's are better.

    With the field's inverse for every reciprocal only the wiring is compared: neither the table
    nor Newton's steps after it are seen. So a table must by itself be as good as what the program
    reaches, wherever the program may use it.
    """
    asked = [(f.domain or (0.0, math.inf), f.reached if f.steps else f.error)
             for f in reciprocals(traced)]  # fmt: skip
    low, high = min(d[0] for d, _ in asked), max(d[1] for d, _ in asked)
    least = min(error for _, error in asked)
    notes = [f.note() for f in functions(traced) if not f.is_reciprocal]
    for function in network_functions(network):
        if not function.is_reciprocal:
            continue
        start, stop = function.domain or (0.0, math.inf)
        error = math.inf
        if 0 < start <= low <= high <= stop < math.inf:
            error = reciprocal_error(function.net, start, stop)
        if error > least:
            raise VerificationError(
                f"network and program {name!r} would be equal if every reciprocal were exactly "
                f"1/x, but the network's table of {function.name} on {interval((start, stop))} is "
                f"wrong by up to {error:.1e} of 1/x on the program's domain "
                f"{interval((low, high))}, and the program reaches {least:.1e}; "
                "compile the program itself"
            )
        notes.append(_note(function, error))
    return [note for note in dict.fromkeys(notes) if note]


def network_functions(network: Network) -> list[Function]:
    """The functions that a network applies to blocks."""
    layers = [layer for layer in network.layers if isinstance(layer, BlockPointwiseLayer)]
    return list(dict.fromkeys(f for layer in layers for _, f in layer.applied))
