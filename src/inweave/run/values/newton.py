"""Newton's steps after a table, recognised in a plan: one operation, where exact a division.

A network refines a table of 1/x by `r ← 2r − r x r` and one of 1/√x by `r ← 1.5 r − 0.5 r x r r`,
a layer each. In a plan, the table and its steps are one value of x. Nothing that the table says of
itself is believed: how far it is from x^-a follows from its knots. Between two of them it is a
line, and (c + d x) x^a is furthest from 1 at an end, or at x = -c a/(d (1 + a)); a step squares
that. Where the steps leave no more than inverses promise unless told otherwise, a run that checks
the domain divides instead. Outside the domain, where no one checks it, and in exact arithmetic, the
steps are taken as they stand in the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.model.relunet import Function, ReluNet
from inweave.run.values.node import Node, Part

# By how often r stands in the product of a step: the step's coefficients, a, and by how much more
# than squared an error is.
STEPS = {
    2: (Fraction(2), Fraction(-1), 1.0, 1.0),
    3: (Fraction(3, 2), Fraction(-1, 2), 0.5, 2.0),
}

PROMISED = (
    5e-13  # relative: the half of what inverses promise unless told otherwise; steps end there
)

MOST_FACTORS = 1 + max(STEPS)


@dataclass(frozen=True)
class Refined:
    """A table and some of Newton's steps after it, in whose product r stands `degree` times.

    Where an argument is known to be inside the domain, steps that are exact need not be taken.
    """

    table: Function
    degree: int
    steps: int
    is_inside: bool = False

    @property
    def name(self) -> str:
        return f"newton{self.steps}_{self.table.name}"

    @property
    def net(self) -> ReluNet:
        return self.table.net

    @cached_property
    def is_exact(self) -> bool:
        """Whether the steps end as near x^-a as is promised by default, in all of the domain."""
        _, _, a, growth = STEPS[self.degree]
        error = distance(self.table, a)
        for _ in range(self.steps):
            error = growth * (error + 1e-15) ** 2
        return error <= PROMISED

    def after(
        self, table: Callable[[Array], Array], arithmetic: Arithmetic
    ) -> Callable[[Array], Array]:
        """The steps after the table, in any arithmetic."""
        plus, minus = (arithmetic.number(c) for c in STEPS[self.degree][:2])

        def apply(x: Array) -> Array:
            r = table(x)
            for _ in range(self.steps):
                product = r * x * r
                for _ in range(self.degree - 2):
                    product = product * r
                r = r * plus + product * minus
            return r

        return apply

    def direct(self, xp: Any) -> Callable[[Array], Array]:
        """What the steps end at, by the array library."""
        if self.degree == 3:
            return lambda x: 1.0 / xp.sqrt(x)
        return lambda x: 1.0 / x


def distance(table: Function, a: float) -> float:
    """The largest |table(x) x^a - 1| over a positive domain; infinite where there is none."""
    low, high = table.domain or (0.0, 0.0)
    if not 0 < low < high < np.inf:
        return np.inf
    pairs = zip(table.net.weights, table.net.biases, strict=True)
    knots = np.unique([low, high, *(k for w, b in pairs if w and low < (k := -b / w) < high)])
    values = table.net(knots)
    with np.errstate(all="ignore"):
        slopes = np.diff(values) / np.diff(knots)
        starts = values[:-1] - slopes * knots[:-1]
        turns = -starts * a / (slopes * (1 + a))
        turns = np.where((knots[:-1] < turns) & (turns < knots[1:]), turns, knots[:-1])
        x = np.concatenate([knots, turns])
        off = np.abs(np.concatenate([values, starts + slopes * turns]) * x**a - 1)
    worst = float(np.max(off))
    return worst if np.isfinite(worst) else np.inf


def step(
    rows: int, cols: int, parts: Sequence[Part], scale: Callable[[Fraction, Node], Node]
) -> tuple[Node, Refined] | None:
    """If a sum is a step of Newton's after a table: the x it is of, and the two together.

    `scale` tells whether x is a multiple of what the step multiplies by.
    """
    if len(parts) != 2 or any(node.shape != (rows, cols) for _, node, _, _ in parts):
        return None
    alone = [_monomial(sign, node, ()) for sign, node, _, _ in parts]
    first = next((i for i, (_, factors) in enumerate(alone) if factors.total() == 1), None)
    if first is None:
        return None
    plus, (r, *_) = alone[first]
    if r.op != "apply":
        return None
    before, x = r.data, r.args[0]
    sign, node, _, _ = parts[1 - first]
    minus, many = _monomial(sign, node, (r, x))
    degree = many.pop(r, 0)
    expected = STEPS.get(degree)
    if expected is None or plus != expected[0] or many.total() != 1:
        return None
    (base,) = many
    if scale(minus / expected[1], base) is not x:
        return None
    if not isinstance(before, Refined):
        return x, Refined(before, degree, 1)
    same = before.degree == degree
    return (x, Refined(before.table, degree, before.steps + 1)) if same else None


def _monomial(sign: int, x: Node, whole: Sequence[Node]) -> tuple[Fraction, Counter[Node]]:
    """A value as a number times values, entry by entry: no more than a step has of them.

    Some are taken as a `whole`. A product of products is not written out any further: its factors
    may be exponentially many.
    """
    coefficient, factors, waiting = Fraction(sign), Counter[Any](), [x]
    while waiting:
        node = waiting.pop()
        if node.op == "scale" and node not in whole:
            coefficient *= node.data
            waiting.append(node.args[0])
        elif (
            node.op == "mul"
            and node not in whole
            and all(part.shape == x.shape for part in node.args)
            and factors.total() + len(waiting) < MOST_FACTORS - 1
        ):
            waiting += node.args
        else:
            factors[node] += 1
    return coefficient, factors
