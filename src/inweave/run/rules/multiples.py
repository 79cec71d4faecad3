"""Matrices that are multiples of one, seen through the sums that make them.

A network that computes `P w + Q v` in every step may have made `P = (1 + s) A` and `Q = -s A`
before the loop, each as a sum of products of numbers with the same few matrices. A programmer who
wants it fast computes `A ((1 + s) w - s v)`. So each matrix is written out as such a sum, its
coefficients polynomials in numbers. What divides all coefficients of the shortest is taken out of
it; what is left is the one matrix, if it divides the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce

from inweave.exact.constants import exact, identity
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import ONE
from inweave.run.values.node import Node

Monomial = tuple[Node, ...]
"""A product of numbers, in their order."""

Polynomial = dict[Monomial, Fraction]
Combination = dict[Node, Polynomial]
"""A sum of matrices, by their coefficients."""

MOST = 200  # nodes that are looked at, and products that a polynomial is written out as


class _TooLong(Exception):
    """More nodes or products than matrices by hand are made of."""


def common(matrices: Sequence[Node]) -> tuple[Combination, list[Polynomial]] | None:
    """The matrix that all of these are multiples of, and by what; None if none is found."""
    try:
        return _common([*map(_Reader().matrix, matrices)])
    except _TooLong:
        return None


def _common(each: Sequence[Combination]) -> tuple[Combination, list[Polynomial]] | None:
    shortest = min(each, key=lambda one: sum(map(len, one.values())))
    factors = [Counter(m) for polynomial in shortest.values() for m in polynomial]
    if not factors or any(one.keys() != shortest.keys() for one in each):
        return None
    content = {_ordered(reduce(Counter.__and__, factors).elements()): ONE}
    matrix = {node: _divided(p, content) or {} for node, p in shortest.items()}
    multiples = [found for one in each if (found := _multiple(one, matrix)) is not None]
    return (matrix, multiples) if len(multiples) == len(each) else None


def as_matrix(graph: Graph, matrix: Combination) -> Node:
    """A combination as a node."""
    shape = next(iter(matrix)).shape
    parts = [(1, graph.mul(as_number(graph, p), node), 0, 0) for node, p in matrix.items()]
    return graph.total(*shape, parts)


def as_number(graph: Graph, polynomial: Polynomial) -> Node:
    """A polynomial as a node."""
    one = graph.const(identity(1))
    parts = [
        (1 if c > 0 else -1, graph.scale(abs(c), reduce(graph.mul, m, one)), 0, 0)
        for m, c in polynomial.items()
    ]
    return graph.total(1, 1, parts)


# -- from nodes -----------------------------------------------------------------------------------
class _Reader:
    """Writes nodes out."""

    def __init__(self) -> None:
        self._left = MOST

    def matrix(self, x: Node) -> Combination:
        """A matrix as a sum of multiples of matrices."""
        self._look()
        if x.op == "sum" and all(arg.shape == x.shape for arg in x.args):
            total: Combination = {}
            for arg, (sign, _, _) in zip(x.args, x.data[2], strict=True):
                for node, p in self.matrix(arg).items():
                    total[node] = _sum(total.get(node, {}), _product(p, {(): Fraction(sign)}))
            return {node: p for node, p in total.items() if p}
        by, of = self._multiplier(x)
        if by is None:
            return {x: {(): ONE}}
        return {node: _product(p, by) for node, p in self.matrix(of).items()}

    def number(self, x: Node) -> Polynomial:
        """A number as a polynomial in others."""
        self._look()
        if x.op == "const":
            value = exact(x.data.entries()[0, 0])
            return {(): value} if value else {}
        if x.op == "sum":
            total: Polynomial = {}
            for arg, (sign, _, _) in zip(x.args, x.data[2], strict=True):
                total = _sum(total, _product(self.number(arg), {(): Fraction(sign)}))
            return total
        by, of = self._multiplier(x)
        return {(x,): ONE} if by is None else _product(self.number(of), by)

    def _look(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooLong

    def _multiplier(self, x: Node) -> tuple[Polynomial | None, Node]:
        """What a value is multiplied by, if it is, and the value."""
        if x.op == "scale":
            return {(): x.data}, x.args[0]
        if x.op == "mul" and x.args[0].is_scalar:
            return self.number(x.args[0]), x.args[1]
        return None, x


# -- polynomials ----------------------------------------------------------------------------------
def _ordered(numbers: Iterable[Node]) -> Monomial:
    return tuple(sorted(numbers, key=lambda x: x.order))


def _sum(p: Polynomial, q: Polynomial) -> Polynomial:
    total = {m: p.get(m, Fraction(0)) + q.get(m, Fraction(0)) for m in (*p, *q)}
    return {m: c for m, c in total.items() if c}


def _product(p: Polynomial, q: Polynomial) -> Polynomial:
    if len(p) * len(q) > MOST:
        raise _TooLong
    out: Polynomial = {}
    for m, c in p.items():
        out = _sum(out, {_ordered((*m, *n)): c * d for n, d in q.items()})
    return out


def _leading(p: Polynomial) -> Monomial:
    """The monomial that comes first: so does the product of two polynomials' first ones."""
    return min(p, key=lambda m: (-len(m), [x.order for x in m]))


def _divided(p: Polynomial, by: Polynomial) -> Polynomial | None:
    """`p / by`, if that is a polynomial."""
    first, quotient = _leading(by), dict[Monomial, Fraction]()
    while p:
        top = _leading(p)
        if Counter(first) - Counter(top):
            return None
        term = {_ordered((Counter(top) - Counter(first)).elements()): p[top] / by[first]}
        quotient = _sum(quotient, term)
        p = _sum(p, _product(term, {m: -c for m, c in by.items()}))
    return quotient


def _multiple(x: Combination, of: Combination) -> Polynomial | None:
    """What a combination is times another, if it is."""
    found = [_divided(p, of[node]) for node, p in x.items()]
    return found[0] if found and all(p == found[0] for p in found) else None
