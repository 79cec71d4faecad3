"""Terms that are alike: the same operation on neighbouring slices, in neighbouring places.

A network multiplies entry by entry with one head for each entry, masks a matrix row by row, and
lays out diagonals one number at a time. Each of these is one operation on whole matrices. So before
terms are added up, those that do the same with slices of the same values are looked at together: if
every slice moves with the place where its term stands, down with its rows or across with its
columns, or does not move at all, the terms are the entries of one value, computed from the wider
slices. What they leave out, or weigh differently, is a mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from inweave.exact.constants import Ones, simplest
from inweave.run.graph import ONE, Graph
from inweave.run.node import Node
from inweave.run.term import Term

DEEP = 8  # operations inside each other that are looked into
WIDE = 64  # slices of one term, after which no further operation is: sums of sums have very many
FEWEST = 3  # terms that a mask replaces
WHOLE = 1 << 31  # coefficients below which whole weights are multiplied as such

ROWS, COLS, INNER = 0, 1, 2  # what an axis stands for or moves with: those of a term, or neither
PRODUCTS = ((ROWS, COLS), (COLS, ROWS), (ROWS, ROWS), (COLS, COLS))  # what a product's may be
Axes = tuple[int, int]
Pattern = tuple[Any, ...]
"""What is done with slices, wherever they begin: (operation, data, patterns of the operands...), or
for a slice (None, base, transposed, axes, sizes of inner axes)."""

Slice = tuple[int, int, int, int]
"""The row and column where a slice begins, its rows and columns."""


Member = tuple[Term, list[Slice]]


class Unlike(Exception):
    """The slices do not move with the places."""


def fused(graph: Graph, terms: Sequence[Term]) -> list[Term]:
    """The same sum, with terms that are alike as one."""
    if len(terms) < 2:
        return list(terms)
    rest = [term for term in terms if _is_identity(term)]
    families = _families(term for term in terms if not _is_identity(term))
    _join(graph, families)
    _look_deeper(families)
    masked: dict[Mask, list[tuple[Fraction, Node]]] = {}
    waiting = [(pattern, members, True) for pattern, members in families.items()]
    for pattern, members, whole in waiting:
        value = None if len(members) == 1 else _Family(graph, members).value(pattern)
        if value is not None:
            mask, coefficient, node = value
            masked.setdefault(mask, []).append((coefficient, node))
        elif whole and len(members) > 1:
            waiting += [(pattern, part, False) for part in _by_diagonal(members)]
        else:
            rest += [term for term, _ in members]
    return rest + [_standing(graph, terms[0], mask, parts) for mask, parts in masked.items()]


def _is_identity(term: Term) -> bool:
    return isinstance(term.core, int) and (term.core > 1 or not term.scalars)


def _families(terms: Iterable[Term], named: bool = False) -> dict[Pattern, list[Member]]:
    families: dict[Pattern, list[Member]] = {}
    for term in terms:
        slices: list[Slice] = []
        families.setdefault(_of_term(term, slices, named), []).append((term, slices))
    return families


def _look_deeper(families: dict[Pattern, list[Member]]) -> None:
    """Let single terms join whose values have names of their own, but are made alike."""
    single = {pattern: members[0][0] for pattern, members in families.items() if len(members) == 1}
    if len(single) < FEWEST:
        return
    for pattern, members in _families(single.values(), named=True).items():
        if len(members) >= FEWEST:
            joined = {term for term, _ in members}
            for other in [other for other, term in single.items() if term in joined]:
                del families[other]
            families.setdefault(pattern, []).extend(members)  # some may be alike without names


def _join(graph: Graph, families: dict[Pattern, list[Member]]) -> None:
    """Let a single entry, a row times a column, join those that are written another way round."""
    for pattern, members in list(families.items()):
        term = members[0][0]
        if len(members) > 1 or term.core != 1:
            continue
        for other, slices in _ways(graph, term):
            if other != pattern and other in families:
                families[other].append((term, slices))
                del families[pattern]
                break


def _ways(graph: Graph, term: Term) -> Iterator[tuple[Pattern, list[Slice]]]:
    """Of a number with one product in it, all ways to write it: as an entry, or a transposed one.

    Each with either factor on the left, for a number is its own transpose.
    """
    products = [x for x in term.scalars if x.op == "matmul"]
    if len(products) != 1:
        return
    a, b = products[0].args
    others = term._replace(scalars=tuple(x for x in term.scalars if x is not products[0]))
    for left, right in ((a, b), (graph.flip(b), graph.flip(a))):
        for rows, cols in ((COLS, ROWS), (ROWS, COLS)):
            slices: list[Slice] = []
            parts = _of_term(others, slices)
            factors = [
                _pattern(left, (rows, INNER), slices),
                _pattern(right, (INNER, cols), slices),
            ]
            product = ("matmul", None, *factors)
            yield (*parts, ("flip", None, product) if rows == COLS else product), slices


def _by_diagonal(members: Sequence[Member]) -> list[list[Member]]:
    """Terms apart by the diagonal on which they stand."""
    found: dict[int, list[Member]] = {}
    for member in members:
        found.setdefault(member[0].col - member[0].row, []).append(member)
    return list(found.values())


# -- what a term does ------------------------------------------------------------------------------
def _of_term(term: Term, slices: list[Slice], named: bool = False) -> Pattern:
    """The product of a term's scalars and core; scalars in the order of the values they are of."""
    scalars = [(node, (ROWS, COLS)) for node in term.scalars]
    parts = [pattern for pattern, _ in _sorted(scalars, slices, named, 0)]
    if not isinstance(term.core, int):
        parts.append(_pattern(term.core, (ROWS, COLS), slices, named))
    return ("mul", None, *parts)


def _sorted(
    operands: Iterable[tuple[Node, Axes]], slices: list[Slice], named: bool, depth: int
) -> list[tuple[Pattern, int]]:
    """What operands do that may stand in any order, in that of the values they are of.

    Each with the number of the operand. Their slices are appended.
    """
    found, begin = list[tuple[Pattern, list[Slice], int]](), len(slices)
    for i, (node, axes) in enumerate(operands):
        at = len(slices)
        pattern = _pattern(node, axes, slices, named, depth)
        found.append((pattern, slices[at:], i))
    found.sort(key=lambda part: (_age(part[0]), part[1]))
    slices[begin:] = [place for _, own, _ in found for place in own]
    return [(pattern, i) for pattern, _, i in found]


def _age(pattern: Pattern) -> tuple[int, ...]:
    if pattern[0] is None:
        return (pattern[1].order,)
    return tuple(order for part in pattern[2:] for order in _age(part))


def _pattern(
    node: Node, axes: Axes, slices: list[Slice], named: bool = False, depth: int = 0
) -> Pattern:
    """What a node does whose rows and columns stand for `axes`; its slices are appended.

    Named values are stored anyway, so they are taken as they are, unless `named` ones count too.
    """
    base, place, flip = node, (0, 0, node.rows, node.cols), False
    if node.op == "view":
        base, place, flip = node.args[0], node.data[:4], node.data[4]
    looked = depth < DEEP and len(slices) < WIDE and (named or not base.label)
    if looked and place == (0, 0, base.rows, base.cols):
        inner = _operands(base, axes[::-1] if flip else axes)
        if inner is not None:
            operands, data = zip(base.args, inner, strict=True), base.data
            if base.op in ("sum", "mul"):
                parts = _sorted(operands, slices, named, depth + 1)
                data = tuple(data[2][i][0] for _, i in parts) if base.op == "sum" else data
                found = (base.op, data, *(pattern for pattern, _ in parts))
            else:
                inside = [_pattern(x, own, slices, named, depth + 1) for x, own in operands]
                found = (base.op, data, *inside)
            return ("flip", None, found) if flip else found
    slices.append(place)
    sizes = place[:1:-1] if flip else place[2:]
    inner_sizes = tuple(n for n, axis in zip(sizes, axes, strict=True) if axis == INNER)
    return (None, base, flip, axes, inner_sizes)


def _operands(node: Node, axes: Axes) -> list[Axes] | None:
    """What the axes of an operation's operands stand for; None if it is not looked into."""
    if node.op == "matmul":
        return [(axes[0], INNER), (INNER, axes[1])]
    if node.op in ("mul", "scale") or (
        node.op == "sum" and all(_fills(node, x) for x in node.args)
    ):
        return [axes for _ in node.args]
    return None


def _fills(node: Node, part: Node) -> bool:
    return (part.rows, part.cols) == (node.rows, node.cols)


# -- what many of them do --------------------------------------------------------------------------
class Mask(NamedTuple):
    """Where a value stands, and what its entries are multiplied by; None if all count alike."""

    top: int
    left: int
    rows: int
    cols: int
    weights: tuple[Any, ...] | None
    shape: tuple[int, int]  # of the value itself, which may be one row or column for all


class _Family:
    """Terms with one pattern, the slices of each beside it."""

    def __init__(self, graph: Graph, members: Sequence[Member]) -> None:
        self.graph = graph
        self.terms = [term for term, _ in members]
        boxes = np.array([(t.row, t.col, t.rows, t.cols) for t in self.terms])
        self.starts, self.sizes = boxes[:, :2].T, boxes[:, 2:].T  # by axis
        self.begin = self.starts.min(axis=1)
        self.length = (self.starts + self.sizes).max(axis=1) - self.begin
        self.slices = np.array([own for _, own in members])
        self._read = 0  # slices of the pattern so far
        self._inside: tuple[int, int, int] | None = None  # a product: what its axes stand for

    def value(self, pattern: Pattern) -> tuple[Mask, Fraction, Node] | None:
        """The value whose entries the terms are, its mask and a common factor; None if unlike."""
        first, few = self.terms[0].coefficient, len(self.terms) < FEWEST
        if few and any(t.coefficient != first for t in self.terms):
            return None
        weights = self._weights(first)
        if weights is not None and few:
            return None
        mark = self.graph.mark()
        try:
            node = self._computed(pattern)
        except Unlike:
            self.graph.rollback(mark)
            return None
        (top, left), (rows, cols) = self.begin.tolist(), self.length.tolist()
        return Mask(top, left, rows, cols, weights, (node.rows, node.cols)), first, node

    def _weights(self, first: Fraction) -> tuple[Any, ...] | None:
        """How much the entries count, relative to the first."""
        equal = all(t.coefficient == first for t in self.terms)
        weights = np.zeros(self.length, dtype=int if equal else object)
        for t in self.terms:
            row, col = t.row - self.begin[0], t.col - self.begin[1]
            added = 1 if equal else t.coefficient / first
            weights[row : row + t.rows, col : col + t.cols] += added
        return None if (weights == 1).all() else tuple(map(tuple, weights.tolist()))

    # -- the pattern on wide slices ---------------------------------------------------------------
    def _computed(self, pattern: Pattern) -> Node:
        op, data, *parts = pattern
        if op is None:
            return self._wide(data, *parts)
        if op == "matmul":
            return self._product(*parts)
        values = [self._computed(part) for part in parts]
        if op == "flip":
            return self.graph.flip(values[0])
        if op == "scale":
            return self.graph.scale(data, values[0])
        if op == "sum":
            return _added(self.graph, list(zip(data, values, strict=True)))
        value = values[0]
        for other in values[1:]:
            value = self.graph.entrywise(value, other)
        return value

    def _product(self, a: Pattern, b: Pattern) -> Node:
        """A matrix product; of single entries also one that stands transposed, or row by row."""
        if self._inside is not None:
            return self.graph.matmul(self._computed(a), self._computed(b))
        read = self._read
        for rows, cols in PRODUCTS if (self.sizes == 1).all() else PRODUCTS[:1]:
            self._read, self._inside = read, (rows, cols, INNER)
            try:
                left, right = self._computed(a), self._computed(b)
            except Unlike:
                continue
            finally:
                self._inside = None
            if rows == cols:
                products = self.graph.entrywise(left, self.graph.flip(right))
                found = self.graph.matmul(products, self.graph.const(Ones(products.cols, 1)))
            else:
                found = self.graph.matmul(left, right)
            return found if rows == ROWS else self.graph.flip(found)
        raise Unlike

    def _wide(self, base: Node, flip: bool, axes: Axes, _: Any) -> Node:
        """All that the terms read of a value, its axes standing for what they stand for there."""
        place = self.slices[:, self._read].T
        self._read += 1
        if self._inside is not None:
            axes = (self._inside[axes[0]], self._inside[axes[1]])
        moves = [self._move(axis, place[i], place[i + 2], INNER in axes)
                 for i, axis in enumerate(axes[::-1] if flip else axes)]  # fmt: skip
        (down, row, rows), (across, col, cols) = moves
        if down == across != INNER:
            found = self.graph.diagonal(self.graph.view(base, row, col, rows, cols))
            return found if axes[0] == down else self.graph.flip(found)
        turned = flip if INNER in axes else down == axes[1] or across == axes[0]
        return self.graph.view(base, row, col, rows, cols, turned)

    def _move(self, axis: int, starts: Any, sizes: Any, inside: bool) -> tuple[int, int, int]:
        """What an axis of the slices moves with, and where it begins and how long it is then.

        That is what the axis stands for; or neither, if there is nothing else to read; or for
        single entries, outside of a matrix product, what the other axis stands for.
        """
        single = bool((sizes == 1).all())
        if axis != INNER and (sizes == self.sizes[axis]).all():
            if _constant(starts - self.starts[axis]):
                return self._along(axis, starts)
        if _constant(starts) and _constant(sizes) and (single or axis == INNER):
            return INNER, int(starts[0]), int(sizes[0])
        other = 1 - axis
        if not inside and single and (self.sizes[other] == 1).all():
            if _constant(starts - self.starts[other]):
                return self._along(other, starts)
        raise Unlike

    def _along(self, axis: int, starts: Any) -> tuple[int, int, int]:
        begin = starts[0] - self.starts[axis][0] + self.begin[axis]
        return axis, int(begin), int(self.length[axis])


def _constant(numbers: Any) -> bool:
    return bool((numbers == numbers[0]).all())


def _added(graph: Graph, parts: Sequence[tuple[int, Node]]) -> Node:
    """A sum of values, where one row, one column or one number is added to all."""
    rows, cols = (max(node.shape[axis] for _, node in parts) for axis in (0, 1))
    each = [(sign, _spread(graph, node, rows, cols), 0, 0) for sign, node in parts]
    return graph.total(rows, cols, each)


def _spread(graph: Graph, node: Node, rows: int, cols: int) -> Node:
    """As many rows or columns as are needed of a value that has one."""
    if node.shape == (rows, cols):
        return node
    if node.op == "scale":
        return graph.scale(node.data, _spread(graph, node.args[0], rows, cols))
    return graph.entrywise(node, graph.const(Ones(rows, cols)))


def _standing(graph: Graph, like: Term, mask: Mask, parts: Sequence[tuple[Fraction, Node]]) -> Term:
    """The term of values that stand at one place with one mask."""
    coefficient, node = parts[0]
    if len(parts) > 1:
        ordered = sorted(parts, key=lambda part: part[0] < 0)
        signed = [(1 if c > 0 else -1, graph.scale(abs(c), part)) for c, part in ordered]
        coefficient, node = ONE, _added(graph, signed)
    if mask.weights is not None:
        whole = coefficient.denominator == 1 and abs(coefficient) < WHOLE
        times = int(coefficient) if whole else coefficient
        weights = np.array(mask.weights, dtype=None if whole else object) * times
        coefficient, node = ONE, graph.entrywise(node, graph.const(simplest(weights)))
    elif mask.shape != (mask.rows, mask.cols):
        node = graph.entrywise(node, graph.const(Ones(mask.rows, mask.cols)))
    return like._replace(
        row=mask.top, col=mask.left, core=node, coefficient=coefficient, scalars=()
    )
