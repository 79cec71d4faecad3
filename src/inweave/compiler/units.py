"""In which units a program computes, so that what the compiler adds stays in range.

`for _ in range(k): v = eta * (A @ v)` computes with numbers like v. Written out it is eta^k times a
product of k matrices, whose pieces a network stores: A^9 of A about 1e5, times 1e-45, is nothing
that float32 holds. The program says by its coefficients how large it takes its inputs to be: A
about 1/eta, or its steps would not stay where they are. So the sizes of inputs, as powers of two,
are those for which everything that the program computes is nearest to one, by least squares. From
them follows the size of any form, and a piece that is far from one is stored divided by its size.

A domain says more than a coefficient: how large an argument is, and with it the value of 1/x and
1/√x. Newton's steps after those are of the size that they refine, whatever their terms add up to:
an error of estimation would be cubed by every step.

Where eta is an input too, there is nothing to divide by: eta and A may be of any size, as long as
eta A is about one. So one other choice of sizes is kept, at random among those that give all that
the program computes the same size; with it one sees which scalar makes up for which factors, and it
is put beside them.

Nothing is assumed of the data: sizes only decide where exact powers of two and scalars stand, and
as the program has them they stand where it multiplies by them itself. Where no piece of a program
is far from one, nothing is scaled at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from inweave.compiler.forms import AppliedLeaf, DefinedLeaf, Form, InputLeaf, Node, Product, ordered
from inweave.exact.constants import FAR, Array, log2, magnitude
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced
from inweave.model.relunet import Function

READ = 10  # powers of two from one, up to which a head reads a value as it is: three multiply
ABOUT = 4  # and up to which a stored value counts as one: errors of estimation must not add up
FLOAT = 100  # and beyond which hardly any float32 is, so that it was estimated wrongly
BEYOND = 4096  # and beyond which nothing helps: no float is so large, whatever it is divided by
DEGREE = 1e6  # of a value beyond which nothing can be said
KNOWN = 1e3  # how much more a domain counts than the guess that a value is about one


class Sizes(NamedTuple):
    """Sizes of inputs, as powers of two: the likely ones, and others that fit as well."""

    likely: Mapping[str, float]
    other: Mapping[str, float]


UNKNOWN = Sizes({}, {})


# -- of functions ---------------------------------------------------------------------------------
def within(function: Function, size: float) -> float:
    """The size nearest to another that a function's domain has room for."""
    if function.domain is None:
        return size
    low, high = function.domain
    least, most = sorted(map(abs, (low, high)))
    if most:
        size = min(size, math.log2(most))
    return max(size, math.log2(least)) if low * high > 0 else size


def applied(function: Function, size: float) -> float:
    """The size of a function's value where that of its argument is known: of 1/x and 1/√x."""
    if not function.relative or function.domain is None:
        return 0.0
    low, high = function.domain
    value = float(function.net(np.array(min(max(2.0 ** within(function, size), low), high))))
    return math.log2(abs(value)) if value else 0.0


# -- of inputs ------------------------------------------------------------------------------------
def units(traced: Traced) -> Sizes:
    """The sizes of inputs at which what a program computes is nearest to one."""
    names = [spec.name for spec in traced.inputs]
    if not names:
        return UNKNOWN
    computed = _Computed(names)
    rows = _relative(computed.of(traced.outputs.values()))
    rows = np.vstack([rows, KNOWN * _relative(computed.arguments)])
    ridge = 1e-3 * np.eye(len(names))  # what nothing is said of is near one
    free = 2 * ABOUT * np.sqrt(2.0 + np.arange(len(names)))
    likely = _solved(np.vstack([rows[:, 1:], ridge]), np.append(-rows[:, 0], 0.0 * free))
    other = free - _solved(rows[:, 1:], rows[:, 1:] @ free)
    found = (dict(zip(names, sizes.round(6).tolist(), strict=True)) for sizes in (likely, other))
    return Sizes(*found)


def _relative(rows: Sequence[Array] | Array) -> Array:
    """Each row that is of inputs once, for degree one."""
    found = np.unique(np.round(np.array(rows), 9), axis=0)
    found = found[found[:, 1:].any(axis=1)]
    return found / found[:, 1:].max(axis=1, keepdims=True)


def _solved(matrix: Array, right: Array) -> Array:
    return np.linalg.lstsq(matrix, right, rcond=None)[0]


class _Computed:
    """The size of what a program computes, affine in those of its inputs: [constant, *degrees]."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.zero = names, np.zeros(1 + len(names))
        self.known: dict[Expr, Array] = {}
        self.found: list[Array] = [self.zero]
        self.arguments: list[Array] = [self.zero]  # of functions, less what their domains say

    def of(self, roots: Iterable[Expr]) -> Array:
        """One row for everything below the roots that is multiplied by a number or a scalar."""
        for x in ex.ordered(roots, stop=self.known):
            if isinstance(x, ex.LoopResult):
                self.known |= dict.fromkeys(x.loop.carried, self.zero)
                self.of(x.loop.step)
            self.known[x] = self._one(x)
        return np.array(self.found)

    def _one(self, x: Expr) -> Array:
        if isinstance(x, ex.InputExpr):
            return np.append(0.0, [float(name == x.name) for name in self.names])
        if isinstance(x, ex.ConstantExpr):
            return np.append(magnitude(x.constant), self.zero[1:])
        if isinstance(x, ex.Sum):
            rows = [self._times(c, self.known[y]) for c, y in x.terms if c]
            self.found += rows
            moving = [row for row in rows if row[1:].any()]  # 1e-6 is not the size of x² + 1e-6
            return np.mean(moving or rows, axis=0) if rows else self.zero
        if isinstance(x, ex.Applied):
            size = within(x.function, 0.0)
            self.arguments.append(self.known[x.parts[0]] - np.append(size, self.zero[1:]))
            return np.append(applied(x.function, size), self.zero[1:])
        if isinstance(x, (ex.Product, ex.Scaled)):
            row = self.known[x.parts[0]] + self.known[x.parts[1]]
            if row[1:].max(initial=0.0) >= DEGREE:
                return self.zero
            if isinstance(x, ex.Scaled) or any(isinstance(y, ex.ConstantExpr) for y in x.parts):
                self.found.append(row)
            return row
        return self.known[x.parts[0]] if isinstance(x, (ex.Transposed, ex.Held)) else self.zero

    def _times(self, c: Fraction, row: Array) -> Array:
        return row if abs(c) == 1 else row + np.append(log2(c), self.zero[1:])


# -- of forms -------------------------------------------------------------------------------------
class Units:
    """By which powers of two forms are scaled, and which scalars belong to which factors."""

    def __init__(self, inputs: Sizes, needed: Iterable[Form]) -> None:
        needed = list(needed)
        leaves = [x for x in ordered(needed) if isinstance(x, AppliedLeaf)]
        arguments = {leaf.definition: leaf.function for leaf in leaves}
        self._likely, self.other = (_Measure(sizes, arguments) for sizes in inputs)
        self.matter = any(map(self._leaves, needed))

    def scale(self, form: Form, far: float = FAR) -> Fraction:
        """The power of two by which a form is multiplied to be in range: one, unless far."""
        size = self._likely(form) if self.matter else 0.0
        return Fraction(2) ** -round(size) if far < abs(size) <= BEYOND else Fraction(1)

    def _leaves(self, form: Form) -> bool:
        """Whether a form has a coefficient, or a piece of a product, that is far from one."""
        sizes = [log2(c) for _, _, c in form.terms] + [log2(c) for _, c in form.constants]
        for p, _, _ in form.products:
            reached = [0.0, *itertools.accumulate(map(self._likely, p.chain))]
            sizes += [max(reached) - min(reached), *map(self._likely, p.scalars)]
        return any(abs(size) > FAR for size in sizes)


class _Measure:
    """The sizes of forms, given those of inputs and the functions that some are arguments of."""

    def __init__(self, inputs: Mapping[str, float], arguments: Mapping[Form, Function]) -> None:
        self._inputs, self._arguments = inputs, arguments
        self._known: dict[Node, float] = {}
        self._refined: set[Node] = set()

    def __call__(self, form: Form) -> float:
        if form not in self._known:
            for x in ordered([form], self._known):
                self._known[x] = self._one(x)
        return self._known[form]

    def _one(self, x: Node) -> float:
        if isinstance(x, Form):
            sizes = [log2(c) + self._known[v] for v, _, c in x.terms]
            sizes += [log2(c) + magnitude(k) for k, c in x.constants]
            size = max(sizes, default=0.0)
            return within(self._arguments[x], size) if x in self._arguments else size
        if isinstance(x, Product):
            return sum(self._known[part] for part in x.parts)
        if isinstance(x, DefinedLeaf):
            return self._stored(x)
        return self._inputs.get(x.name, 0.0) if isinstance(x, InputLeaf) else 0.0

    def _stored(self, x: DefinedLeaf) -> float:
        """What is stored is a float, and a function's value is any unless its domain says more."""
        if isinstance(x, AppliedLeaf):
            if x.function.steps:
                self._refined.add(x)
            return applied(x.function, self._known[x.definition])
        for v, _, _ in x.definition.terms:
            if v in self._refined:
                self._refined.add(x)
                return self._known[v]
        size = self._known[x.definition]
        return size if ABOUT < abs(size) <= FLOAT else 0.0
