"""The degree of a program's answers, exactly: how deep a network must be.

An attention layer at most triples the degree of the state in the entries of the prompt. Where those
are affine in the inputs, a program of degree D hence needs at least ⌈log₃ D⌉ layers; of any other
prompt, `inweave.proof.entries` weighs the inputs, and each counts in the degree by its weight.

`Leading` carries each value's leading form over the finite field: a nonzero top
part proves that the degree is exact. Where tops cancel, the degree is read off values along a ray
instead; where the program is long, it is only bounded. Often none of this is needed, because signs
tell that nothing cancels (`degree_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.errors import InputError
from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.exact.field import Field, FieldArray, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.language.expressions import Applied, every
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.proof.cost import program_work
from inweave.proof.degree_bound import ALIKE, leading
from inweave.proof.heights import VARIABLE, Bounded, Heights
from inweave.run.plan import Plan

RAY_LIMIT = 600
MOST_OPERATIONS = 50_000  # of a program that is followed in every step
QUICK = 1_000, 2_000_000  # operations and multiplications of one that is followed to be printed


class Cancelled(Exception):
    """Top parts cancelled, so the leading form is not known."""


class Top:
    """A matrix by its leading form: the degree, and the part of that degree (None: zero)."""

    def __init__(self, degree: int, part: FieldArray) -> None:
        self.degree, self.part = degree, part
        self.shape = part.shape

    @property
    def mT(self) -> Top:
        return Top(self.degree, self.part.mT)

    def _nonzero(self) -> Top:
        if not self.part.values.any():
            raise Cancelled
        return self

    @property
    def is_zero(self) -> bool:
        return self.degree < 0

    def __getitem__(self, index: Any) -> Top:
        part = self.part[index]
        if self.degree == 0 and not part.values.any():  # of a constant, the top is all there is
            return Top(-1, part)
        return Top(-1, part) if self.is_zero else Top(self.degree, part)._nonzero()

    def __add__(self, other: Top) -> Top:
        if self.is_zero or (other.degree > self.degree and not other.is_zero):
            return other
        if other.is_zero or self.degree > other.degree:
            return self
        return Top(self.degree, self.part + other.part)._nonzero()

    def __sub__(self, other: Top) -> Top:
        return self + Top(other.degree, -other.part)

    def __mul__(self, other: Any) -> Top:
        if not isinstance(other, Top):
            if self.is_zero or other == 0:
                return Top(-1, self.part.field.zeros(self.shape))
            return Top(self.degree, self.part * other)._nonzero()
        if self.is_zero or other.is_zero:
            return Top(-1, self.part.field.zeros(np.broadcast_shapes(self.shape, other.shape)))
        return Top(self.degree + other.degree, self.part * other.part)._nonzero()

    def __matmul__(self, other: Top) -> Top:
        if self.is_zero or other.is_zero:
            return Top(-1, self.part.field.zeros((*self.shape[:-1], other.shape[-1])))
        return Top(self.degree + other.degree, self.part @ other.part)._nonzero()


class Leading(Arithmetic):
    """The arithmetic of leading forms."""

    def __init__(self, field: Field) -> None:
        self.field = FieldArithmetic(field)

    def number(self, value: Fraction) -> int:
        found = self.field.number(value)
        if value and not found:  # a multiple of the prime
            raise Cancelled
        return found

    def zeros(self, shape: Sequence[int]) -> Top:
        return Top(-1, self.field.zeros(shape))

    def array(self, entries: np.ndarray[Any, Any]) -> Top:
        part = self.field.array(entries)
        return Top(0 if part.values.any() else -1, part)

    def concat(self, arrays: Sequence[Top], axis: int) -> Top:
        top = max(x.degree for x in arrays)
        parts = [x.part if x.degree == top else self.field.zeros(x.shape) for x in arrays]
        return Top(top, self.field.concat(parts, axis))

    def diagonal(self, x: Top) -> Top:
        return Top(x.degree, self.field.diagonal(x.part))._nonzero()

    def pointwise(self, function: Any, x: Top) -> Top:
        raise Cancelled

    def root(self, x: Top) -> Top:
        raise Cancelled


def degree(traced: Traced, weights: Mapping[str, int] = ALIKE, seed: int = 0) -> tuple[int, bool]:
    """The degree of a program's answers, and whether it is exact (otherwise an upper bound)."""
    if has_functions(traced):
        raise InputError("a program with pointwise functions is not a polynomial: it has no degree")
    most, exact = leading(traced, weights)
    if exact or program_work(traced)[0] > MOST_OPERATIONS:
        return most, exact
    field, inputs = _drawn(traced, seed)
    try:
        tops: dict[str, Array] = {x: Top(weights.get(x, 1), part) for x, part in inputs.items()}
        found = [x.degree for x in traced.evaluate(tops, Leading(field)).values()]
        return max(0, *found), True
    except Cancelled:
        if most > RAY_LIMIT:
            return most, False
        return _along_ray(traced, inputs, most, field, weights), True


def quick_degree(traced: Traced, weights: Mapping[str, int] = ALIKE) -> tuple[int, bool]:
    """The degree if it takes milliseconds to know, otherwise an upper bound."""
    most, exact = leading(traced, weights)
    operations, products = program_work(traced)
    if exact or operations > QUICK[0] or products > QUICK[1]:
        return most, exact
    return degree(traced, weights)


def least_degree(traced: Traced, weights: Mapping[str, int] = ALIKE, seed: int = 0) -> int:
    """A degree that the answers reach for certain, whatever cancels: what a depth may rest on.

    Values along a ray that lie on no polynomial of a lower degree prove it, even if they are known
    modulo a prime only, and however high the degree may be.
    """
    if has_functions(traced):
        return 0
    found, exact = degree(traced, weights, seed)
    if exact:
        return found
    field, inputs = _drawn(traced, seed)
    return _along_ray(traced, inputs, RAY_LIMIT, field, weights)


def network_degree(network: Network, traced: Traced) -> tuple[int, bool]:
    """The degree of a compiled network's answers, and whether it is exact.

    Where every function of a program cancelled, its network is a polynomial and has a degree; the
    program alone does not tell, so that is bounded by the network.
    """
    if has_functions(traced) and network.is_polynomial:
        inputs = {s.name: Bounded((s.rows, s.cols), VARIABLE) for s in network.inputs}
        found = Plan(network).answers(inputs, Heights()).values()
        return max(0, *(x.height.degree for x in found)), False
    return degree(traced)


def has_functions(traced: Traced) -> bool:
    return any(isinstance(x, Applied) for x in every(traced.outputs.values()))


def _drawn(traced: Traced, seed: int) -> tuple[Field, dict[str, FieldArray]]:
    """A random field, and random inputs in it."""
    rng = np.random.default_rng(seed)
    field = Field(random_prime(rng))
    return field, {s.name: field.random((s.rows, s.cols), rng) for s in traced.inputs}


def _along_ray(
    traced: Traced,
    inputs: Mapping[str, FieldArray],
    limit: int,
    field: Field,
    weights: Mapping[str, int] = ALIKE,
) -> int:
    """The degree of t -> program(t x), from values at t = 0, ..., limit by Newton interpolation.

    If the degree is above the limit, this is at most the limit: still no more than the degree.
    An input of weight k is taken t^k times.
    """

    def power(k: int) -> FieldArray:
        return field.array(np.array([[[pow(t, k, field.prime)]] for t in range(limit + 1)]))

    lifted = {name: x * power(weights.get(name, 1)) for name, x in inputs.items()}
    values = traced.evaluate(lifted, FieldArithmetic(field)).values()
    return max((_interpolated(x) for x in values if x.ndim == 3), default=0)  # others are constant


def _interpolated(values: FieldArray) -> int:
    """The degree of the polynomial with these values at 0, 1, 2, ...: by divided differences."""
    table = values.reshape(len(values.values), -1)
    found = 0
    for order in range(len(values.values)):
        if table[0].values.any():
            found = order
        table = (table[1:] - table[:-1]) / (order + 1)
        if not table.values.any():
            break
    return found


def lower_bound(degree: int) -> int:
    """⌈log₃ degree⌉: a network of this degree in the entries of its prompt has no fewer layers."""
    layers = max(0, int((degree.bit_length() - 1) / math.log2(3)) - 1) if degree > 0 else 0
    power = 3**layers  # of a degree with a million digits, the only one of many
    while power < degree:
        power, layers = 3 * power, layers + 1
    return layers


def degree_text(degree: int) -> str:
    """A degree for people; of a long one, the first digits."""
    if degree < 10**18:
        return str(degree)
    rest = max(degree.bit_length() - 64, 0)
    digits, first = divmod(math.log10(degree >> rest) + rest * math.log10(2), 1)
    return f"{10**first:.3f}e+{digits:.0f}"
