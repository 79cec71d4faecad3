"""Slopes: derivatives of pointwise functions, for plans that run backwards.

A function is a piecewise linear table or a few of Newton's steps after one, so its derivative needs
no new knowledge: the slope of the segment that an argument is in, carried through the steps. Where
two segments meet it is that of the left one, and of a positive part it is zero at zero, as in
torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.model.relunet import Function, ReluNet
from inweave.run.libraries.tables import Table
from inweave.run.values.newton import STEPS, Refined

FEW = 8  # units up to which they are added up


@dataclass(frozen=True)
class Slope:
    """The derivative of a function, entry by entry."""

    function: Function | Refined

    @property
    def name(self) -> str:
        return f"slope of {self.function.name}"

    @property
    def net(self) -> ReluNet:
        return self.function.net


def inside(function: Function | Refined) -> Function | Refined:
    """A function of arguments that are known to lie in its domain."""
    if isinstance(function, Refined) and function.is_exact:
        return replace(function, is_inside=True)
    return function


def by_power(function: Function | Refined) -> int:
    """How often r stands in a step, if a function is r = 1/x (2) or 1/√x (3) itself; 0 if not."""
    return function.degree if isinstance(function, Refined) and function.is_inside else 0


def applied(
    slope: Slope, values: Callable[[Function], Callable[[Array], Array]], arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """A slope in floats; `values` applies a table."""
    function = slope.function
    if not isinstance(function, Refined):
        return _of_table(function, arithmetic)
    plus, minus = (arithmetic.number(c) for c in STEPS[function.degree][:2])
    table, rise, degree = (
        values(function.table), _of_table(function.table, arithmetic), function.degree,
    )  # fmt: skip

    def apply(x: Array) -> Array:
        r, dr = table(x), rise(x)
        for _ in range(function.steps):
            power = r ** (degree - 1)
            dr = dr * plus + (power * x * dr * degree + power * r) * minus
            r = r * plus + power * r * x * minus
        return dr

    return apply


def _of_table(function: Function, arithmetic: Arithmetic) -> Callable[[Array], Array]:
    """The slope of the segment that an argument is in."""
    xp, net = arithmetic.xp, function.net
    if function.domain is None or net.units <= FEW:
        units = list(zip(net.outputs, net.weights, net.biases, strict=True))
        return lambda x: sum(((x * w + b > 0) * (v * w) for v, w, b in units), x * 0)
    table = Table.of(function)
    knots = arithmetic.array(table.knots)
    rises = arithmetic.array(np.concatenate([[0.0], table.slopes[:-1], [0.0]]))
    return lambda x: rises[xp.searchsorted(knots, x)]
