"""Matrices as sums of placed terms, so that zeros and identities never become arrays.

A matrix of a network is almost everywhere zero. Here it is a tuple of terms, each a coefficient,
times some 1 x 1 nodes, times an identity or a node, standing at (row, col). Products distribute
over terms: an identity times a term is a slice of that term, and only two nodes that meet make a
product. Whatever a head does with selections, identities and copies is done before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from inweave.exact.constants import (
    Constant,
    Dense,
    Ones,
    Shift,
    exact,
    fractions,
    identity,
    simplest,
    zeros,
)
from inweave.run.values import kinds
from inweave.run.values.alike import fused
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import ONE, is_near, parts_of
from inweave.run.values.node import Node, Part
from inweave.run.values.term import Box, Matrix, Term, bounding

MOST_RUNS, LARGE = 3, 16  # pieces of identities that a constant is taken apart into, and from where


def standing(
    graph: Graph,
    node: Node,
    row: int,
    col: int,
    coefficient: Fraction = ONE,
    scalars: tuple[Node, ...] = (),
) -> Term:
    """A node as a term; a scaled node is a term with a scalar, so that equal terms look equal."""
    if not node.is_scalar:
        base = node.args[0] if node.op == "view" else node
        if base.op == "mul" and base.args[0].is_scalar:
            scalar, core = base.args
            core = graph.view(core, *node.data) if node.op == "view" else core
            if scalar.op == "scale" and may_wait(scalar.data):
                coefficient, (scalar,) = coefficient * scalar.data, scalar.args
            return standing(graph, core, row, col, coefficient, (*scalars, scalar))
        if base.op == "scale" and may_wait(base.data):
            core = graph.view(base.args[0], *node.data) if node.op == "view" else base.args[0]
            return standing(graph, core, row, col, coefficient * base.data, scalars)
        return Term(row, col, node, coefficient, _sorted(scalars))
    if node.op == "const":
        return Term(row, col, 1, coefficient * exact(node.data.entries()[0, 0]), scalars)
    return Term(row, col, 1, coefficient, _sorted((*scalars, node)))


def _sorted(scalars: tuple[Node, ...]) -> tuple[Node, ...]:
    """Fixed scalars first, so that their product can leave a loop."""
    return tuple(sorted(scalars, key=lambda node: (node.level, node.order)))


def may_wait(c: Fraction) -> bool:
    """Whether a value may be kept without its coefficient.

    Left alone, coefficients would triple in length in every layer; and a value that the network
    scales because it would leave the range of floats is scaled where the network does so.
    """
    above, below = c.numerator.bit_length(), c.denominator.bit_length()
    return above + below <= 512 and is_near(c)


def in_range(graph: Graph, parts: Sequence[Matrix]) -> list[Matrix]:
    """The parts of a product; what scales them against each other does not wait.

    Other coefficients do: a head that takes a block's old value away is -1 times what stands there,
    and only as such it cancels without rounding.
    """
    return [tuple(_in_range(graph, term) for term in part) for part in parts]


def _in_range(graph: Graph, term: Term) -> Term:
    if isinstance(term.core, int) or is_near(term.coefficient):
        return term
    return term._replace(core=graph.scale(term.coefficient, term.core), coefficient=ONE)


def scaled(term: Term, factor: Term) -> Term:
    """A term times the coefficient and scalars of another."""
    if factor.coefficient == 1 and not factor.scalars:
        return term
    return term._replace(
        coefficient=term.coefficient * factor.coefficient,
        scalars=_sorted(term.scalars + factor.scalars),
    )


def written(graph: Graph, constant: Constant) -> Matrix:
    """A constant as terms: pieces of identities stay what they are, borders of zeros go."""
    row = col = 0
    if isinstance(constant, Dense):
        if constant not in graph.trimmed:
            graph.trimmed[constant] = _trimmed(constant)
        row, col, constant = graph.trimmed[constant]
    if isinstance(constant, Shift):
        size = constant.size
        return (Term(row + constant.row, col + constant.col, size),) if size else ()
    if isinstance(constant, Dense):
        parts = _runs(constant) or _with_ones(graph, constant)
        if parts:
            return tuple(part.moved(row, col) for part in parts)
    return collect([standing(graph, graph.const(constant), row, col)])


def behind(graph: Graph, matrix: Matrix, constant: Constant) -> Matrix:
    """`matrix @ constant`, the columns of zeros of the constant left out and put back."""
    if isinstance(constant, Dense):
        some = np.flatnonzero((constant.array != 0).any(axis=0))
        if len(some) and 3 * len(some) <= 2 * (int(np.ptp(some)) + 1):
            product = behind(graph, matrix, simplest(constant.array[:, some]))
            return times(graph, product, tuple(Term(i, j, 1) for i, j in enumerate(some.tolist())))
        parts = _with_ones(graph, constant)
        if parts:
            return times(graph, matrix, parts)
    return times(graph, matrix, written(graph, constant))


def _with_ones(graph: Graph, constant: Dense) -> Matrix:
    """A large constant as a multiple of ones and few pieces of identities, as one that centers."""
    entries = constant.array
    if min(entries.shape) < LARGE or not entries[0, -1]:
        return ()
    if np.count_nonzero(entries[:3] != entries[0, -1]) > min(entries.shape):
        return ()  # most are not, which three rows show
    some = entries != entries[0, -1]
    if np.count_nonzero(some) > min(entries.shape):
        return ()
    rest = fractions(np.zeros(entries.shape))  # as a difference of floats is rounded
    rest[some] = fractions(entries[some]) - exact(entries[0, -1])
    runs = _runs(Dense(rest))
    ones = standing(graph, graph.const(Ones(*entries.shape)), 0, 0, exact(entries[0, -1]))
    return (*runs, ones) if runs else ()


def _runs(constant: Dense) -> list[Term]:
    """A constant as pieces of identities, if it is a few of them: a multiple of one, a rotation.

    Several pieces are copied one by one, which is less work than a product only in large matrices.
    """
    entries = constant.array
    rows, cols = np.nonzero(entries)
    if len(rows) < 2 or len(np.unique(rows)) < len(rows) or len(np.unique(cols)) < len(cols):
        return []
    values = entries[rows, cols]
    breaks = (np.diff(cols) != 1) | (np.diff(rows) != 1) | (values[1:] != values[:-1])
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(rows)]
    pieces = len(starts) - 1
    if pieces > MOST_RUNS or (pieces > 1 and min(entries.shape) < LARGE):
        return []
    return [Term(int(rows[i]), int(cols[i]), j - i, exact(values[i])) for i, j in pairwise(starts)]


def _trimmed(constant: Dense) -> tuple[int, int, Constant]:
    entries = constant.array
    rows, cols = (np.flatnonzero((entries != 0).any(axis=axis)) for axis in (1, 0))
    if not rows.size:
        return 0, 0, zeros(*constant.shape)
    top, left = int(rows[0]), int(cols[0])
    inner = entries[top : int(rows[-1]) + 1, left : int(cols[-1]) + 1]
    return top, left, simplest(inner)


def clip(graph: Graph, term: Term, box: Box) -> Term | None:
    """The part of a term inside a box, standing where it stood."""
    top, bottom = max(term.row, box.top), min(term.row + term.rows, box.bottom)
    left, right = max(term.col, box.left), min(term.col + term.cols, box.right)
    if isinstance(term.core, int):
        start = max(top - term.row, left - term.col)
        size = min(bottom - term.row, right - term.col) - start
        if size <= 0:
            return None
        return term._replace(row=term.row + start, col=term.col + start, core=size)
    if top >= bottom or left >= right:
        return None
    if (top, left, bottom, right) == term.box:
        return term
    part = _slice(graph, term.core, top - term.row, left - term.col, bottom - top, right - left)
    sign, part, down, across = _without_zeros(graph, part)
    return standing(graph, part, top + down, left + across, sign * term.coefficient, term.scalars)


def _without_zeros(graph: Graph, x: Node) -> Part:
    """What stands in a slice of a diagonal matrix, or of a sum where it meets one part, and where.

    Elsewhere in the slice are zeros.
    """
    if x.op != "view" or x.is_scalar:
        return 1, x, 0, 0
    row, col, rows, cols, flip = x.data
    column, parts = kinds.on_diagonal(x.args[0]), parts_of(x.args[0], row, col, rows, cols)
    if column is not None and max(row, col) < min(row + rows, col + cols):
        top = start = max(row, col)
        size = min(row + rows, col + cols) - start
        some = column if column.is_scalar else graph.view(column, start, 0, size, 1)
        sign, inside = 1, graph.entrywise(some, graph.const(identity(size)))
    elif parts is not None and len(parts) == 1:
        sign, part, up, left = parts[0]
        top, start = max(row, up), max(col, left)
        bottom, stop = min(row + rows, up + part.rows), min(col + cols, left + part.cols)
        some = graph.view(part, top - up, start - left, bottom - top, stop - start)
        again, inside, down, across = _without_zeros(graph, some)
        sign, top, start = sign * again, top + down, start + across
    else:
        return 1, x, 0, 0
    if flip:
        return sign, graph.flip(inside), start - col, top - row
    return sign, inside, top - row, start - col


def around(graph: Graph, term: Term, box: Box) -> list[Term]:
    """A term without what stands inside a box."""
    sides = [
        Box(0, 0, box.top, EVERYWHERE),
        Box(box.bottom, 0, EVERYWHERE, EVERYWHERE),
        Box(box.top, 0, box.bottom, box.left),
        Box(box.top, box.right, box.bottom, EVERYWHERE),
    ]
    parts = (clip(graph, term, side) for side in sides)
    return [part for part in parts if part is not None] if term.box.meets(box) else [term]


def _slice(graph: Graph, node: Node, row: int, col: int, rows: int, cols: int) -> Node:
    """A slice of a value; of numbers that stand on a diagonal there, the diagonal matrix."""
    part = graph.view(node, row, col, rows, cols)
    if part.op != "view" or rows != cols or rows == 1:
        return part
    row, col, *_ = part.data
    numbers = parts_of(part.args[0], row, col, rows, cols) or []
    places = {(up - row, left - col) for *_, up, left in numbers}
    if places != {(i, i) for i in range(rows)} or len(numbers) > rows:
        return part
    if not all(number.is_scalar for _, number, *_ in numbers):
        return part
    terms = [
        standing(graph, number, up - row, left - col, Fraction(sign))
        for sign, number, up, left in numbers
    ]
    mark = graph.mark()
    whole = assemble(graph, terms, Box(0, 0, rows, cols))
    if kinds.on_diagonal(whole) is None:
        graph.rollback(mark)
        return part
    return whole


EVERYWHERE = 1 << 62
Clip = Callable[[Graph, Term, int, int], Term | None]


def clip_rows(graph: Graph, term: Term, low: int, high: int) -> Term | None:
    return clip(graph, term, Box(low, 0, high, EVERYWHERE))


def clip_cols(graph: Graph, term: Term, low: int, high: int) -> Term | None:
    return clip(graph, term, Box(0, low, EVERYWHERE, high))


def transposed(graph: Graph, matrix: Matrix) -> Matrix:
    """The transpose, as views."""
    return tuple(
        t._replace(
            row=t.col, col=t.row, core=t.core if isinstance(t.core, int) else graph.flip(t.core)
        )
        for t in matrix
    )


def collect(terms: Iterable[Term]) -> Matrix:
    """Equal terms added up; what cancels is gone."""
    found: dict[tuple[Any, ...], Fraction] = {}  # without coefficients: those take long to hash
    for row, col, core, coefficient, scalars in terms:
        key = (row, col, core, scalars)
        found[key] = found[key] + coefficient if key in found else coefficient
    return tuple(
        Term(row, col, core, c, scalars) for (row, col, core, scalars), c in found.items() if c
    )


# -- products -----------------------------------------------------------------------------------
def times(graph: Graph, left: Matrix, right: Matrix) -> Matrix:
    """`left @ right`, term by term; nodes that overlap are added up before they meet nodes."""
    left, right = _summed(graph, left, right), _summed(graph, right, left)
    lefts, rights = _nodes(left), _nodes(right)
    ones, others = (tuple(filter(_is_identity, matrix)) for matrix in (left, right))
    pairs = [(a, b) for a in ones for b in _met(graph, rights, a, clip_rows, a.col, a.cols)]
    pairs += [(a, b) for b in others for a in _met(graph, lefts, b, clip_cols, b.row, b.rows)]
    pairs += [(a, b) for a in ones for b in others]
    if lefts and rights:
        gathered = gather(graph, rights)
        pairs += [(a, b) for a in gather(graph, lefts) for b in gathered]
    products = (_pair(graph, a, b) for a, b in pairs)
    return collect(term for term in products if term is not None)


def _summed(graph: Graph, matrix: Matrix, other: Matrix) -> Matrix:
    """The same matrix, the numbers on one diagonal added up where they meet other than numbers.

    `(s - t) x` is so what it says, and no difference of two large products.
    """
    if len(matrix) < 2 or all(isinstance(t.core, int) and not t.scalars for t in other):
        return matrix
    places: dict[tuple[int, int, Any], list[Term]] = {}
    for term in matrix:
        if _is_identity(term):
            places.setdefault((term.row, term.col, term.core), []).append(term)
    if all(len(terms) == 1 for terms in places.values()):
        return matrix
    out = _nodes(matrix)
    for (row, col, core), terms in places.items():
        if len(terms) == 1:
            out += terms
        else:
            common = _common(terms)
            number = on_diagonal(graph, _divided(terms, common))
            out.append(standing(graph, number, row, col, common)._replace(core=core))
    return tuple(out)


def _met(
    graph: Graph, nodes: Sequence[Term], by: Term, clipped: Clip, start: int, size: int
) -> Sequence[Term]:
    """What an identity meets between two rows, or columns; terms that a number multiplies are one.

    They overlap, and `s (x - y)` is so what it says.
    """
    if len(nodes) < 2 or not by.scalars:
        return nodes
    parts = (clipped(graph, term, start, start + size) for term in nodes)
    return gather(graph, [part for part in parts if part is not None])


def _is_identity(term: Term) -> bool:
    return isinstance(term.core, int)


def _nodes(matrix: Matrix) -> list[Term]:
    return [term for term in matrix if not _is_identity(term)]


def _pair(graph: Graph, a: Term, b: Term) -> Term | None:
    low, high = max(a.col, b.row), min(a.col + a.cols, b.row + b.rows)
    if low >= high:
        return None
    short, tall = clip_cols(graph, a, low, high), clip_rows(graph, b, low, high)
    if short is None or tall is None:
        return None
    if (short.col, short.cols) != (tall.row, tall.rows):  # zeros were left out of one
        return _pair(graph, short, tall)
    if isinstance(short.core, int):
        return scaled(tall.moved(short.row - short.col, 0), short)
    if isinstance(tall.core, int):
        return scaled(short.moved(0, tall.col - tall.row), tall)
    if short.scalars and tall.scalars:  # each multiplies its own factor, as the network has it
        left = graph.mul(scalar_product(graph, short.scalars), short.core)
        right = graph.mul(scalar_product(graph, tall.scalars), tall.core)
        coefficient = short.coefficient * tall.coefficient
        return standing(graph, graph.matmul(left, right), short.row, tall.col, coefficient)
    product = standing(graph, graph.matmul(short.core, tall.core), short.row, tall.col)
    return scaled(scaled(product, short), tall)


def triple(graph: Graph, left: Matrix, middle: Matrix, right: Matrix) -> Matrix:
    """`left @ middle @ right` in the cheapest order, counting what exists or leaves a loop.

    Of the middle no more is multiplied than the other two read, unless that is there already.
    """
    read = _read(graph, left, middle, right)
    ways: list[Callable[[], Matrix]] = [
        lambda: times(graph, left, times(graph, middle, right)),
        lambda: times(graph, left, times(graph, read, right)),
        lambda: times(graph, times(graph, left, read), right),
    ]
    if read == middle:
        del ways[0]
    mark, least, best = graph.mark(), math.inf, ways[0]
    for way in ways:
        out = way()
        cost = graph.cost_since(mark, _values(out))
        if cost == 0 or (way is ways[-1] and cost < least):
            return out
        if cost < least:
            least, best = cost, way
        graph.rollback(mark)
    return best()


def _read(graph: Graph, left: Matrix, middle: Matrix, right: Matrix) -> Matrix:
    """The part of a matrix between two others that they read."""
    if not (left and middle and right):
        return ()
    box = bounding(middle)
    before = [clip_cols(graph, term, box.top, box.bottom) for term in left]
    after = [clip_rows(graph, term, box.left, box.right) for term in right]
    some = [[term for term in terms if term is not None] for terms in (before, after)]
    if not all(some):
        return ()
    rows, cols = map(bounding, some)
    box = Box(rows.left, cols.top, rows.right, cols.bottom)
    parts = (clip(graph, term, box) for term in middle)
    return tuple(part for part in parts if part is not None)


def _values(matrix: Matrix) -> Iterator[Node]:
    for term in matrix:
        yield from term.scalars
        if isinstance(term.core, Node):
            yield term.core


def gather(graph: Graph, nodes: Sequence[Term]) -> list[Term]:
    """The same sum with terms that overlap added up: one product instead of several."""
    out: list[Term] = []
    for group in _overlapping(nodes):
        box = bounding(group)
        if len(group) == 1 or box.rows * box.cols > 2 * sum(t.rows * t.cols for t in group):
            out.extend(group)
        else:
            common = _common(group)
            whole = assemble(graph, _divided(group, common), box)
            out.append(standing(graph, whole, box.top, box.left, common))
    return out


def _overlapping(terms: Sequence[Term]) -> list[list[Term]]:
    """Terms in groups whose boxes overlap."""
    groups: list[tuple[Box, list[Term]]] = []
    for term in terms:
        box, members = term.box, [term]
        hit = True
        while hit:
            hit = False
            for other in groups:
                if other[0].meets(box):
                    groups.remove(other)
                    box, members = box.join(other[0]), other[1] + members
                    hit = True
                    break
        groups.append((box, members))
    return [members for _, members in groups]


# -- sums ---------------------------------------------------------------------------------------
def assemble(graph: Graph, terms: Iterable[Term], box: Box) -> Node:
    """The node that holds the sum of terms inside a box; all of them must lie in it."""

    # A sum begins with something positive, or with something that is multiplied anyway.
    def rank(t: Term) -> int:
        return 0 if t.coefficient > 0 else 2 - _is_multiple(t)

    ordered = sorted(fused(graph, _narrowed(graph, collect(terms))), key=rank)
    parts: list[Part] = []
    for term in ordered:
        sign, size = (1, term.coefficient) if term.coefficient > 0 else (-1, -term.coefficient)
        if not parts and sign < 0 and _is_multiple(term):
            sign, size = 1, -size
        node = weighted(graph, term._replace(coefficient=size))
        parts.append((sign, node, term.row - box.top, term.col - box.left))
    return graph.total(box.rows, box.cols, parts)


def _common(terms: Sequence[Term]) -> Fraction:
    """What multiplies all of a sum: `(x - y) / 3` is a difference first, which loses no digits."""
    sizes = {abs(t.coefficient) for t in terms}
    common = sizes.pop() if len(terms) > 1 and len(sizes) == 1 else ONE
    return common if is_near(common) and not _is_power(common) else ONE


def _is_power(number: Fraction) -> bool:
    """Whether a number is a power of two, by which nothing is rounded."""
    above, below = number.numerator, number.denominator
    return not (above & (above - 1) or below & (below - 1))


def _divided(terms: Sequence[Term], by: Fraction) -> Matrix:
    return tuple(t._replace(coefficient=t.coefficient / by) for t in terms)


def _narrowed(graph: Graph, terms: Matrix) -> Sequence[Term]:
    """The same sum; of terms with equal rows, or columns, in one place, one of them is added up."""
    lines: dict[tuple[Box, int], list[tuple[Term, Term]]] = {}
    for term in terms:
        for axis in (0, 1):
            line = graph.spread_from(term.core, axis) if isinstance(term.core, Node) else None
            if line is not None:
                one = standing(graph, line, 0, 0, term.coefficient, term.scalars)
                lines.setdefault((term.box, axis), []).append((term, one))
    left, made = set(terms), list[Term]()
    for (box, _), group in lines.items():
        inner = [one for term, one in group if term in left]  # it may have both, and goes with one
        if len(inner) > 1:
            line = assemble(graph, inner, bounding(inner))
            left -= {term for term, _ in group}
            whole = graph.spread(line, box.rows, box.cols)
            made.append(standing(graph, whole, box.top, box.left))
    return [*(term for term in terms if term in left), *made]


def _is_multiple(term: Term) -> bool:
    """Whether a term takes a multiplication, which a sign can join."""
    return bool(term.scalars) or abs(term.coefficient) != 1


def weighted(graph: Graph, term: Term) -> Node:
    """A term's value as a node."""
    if isinstance(term.core, Node):
        core = term.core
    elif term.core > 1 or not term.scalars:
        core = graph.const(identity(term.core))
    else:
        return graph.scale(term.coefficient, scalar_product(graph, term.scalars))
    if not term.scalars:
        return graph.scale(term.coefficient, core)
    return graph.mul(graph.scale(term.coefficient, scalar_product(graph, term.scalars)), core)


def scalar_product(graph: Graph, scalars: Sequence[Node]) -> Node:
    """The product of 1 x 1 nodes."""
    out = scalars[0]
    for scalar in scalars[1:]:
        out = graph.mul(out, scalar)
    return out


def on_diagonal(graph: Graph, terms: Iterable[Term]) -> Node:
    """The scalar s of terms that add up to `s I` at one place."""
    return assemble(
        graph, [Term(0, 0, 1, t.coefficient, t.scalars) for t in terms], Box(0, 0, 1, 1)
    )


def same_diagonal(terms: Sequence[Term]) -> bool:
    """Whether all terms are multiples of one identity at one place."""
    places = {(t.row, t.col, t.core) for t in terms}
    return len(places) == 1 and all(isinstance(t.core, int) for t in terms)
