"""Terms that are alike: the same operation on neighbouring slices, in neighbouring places.

A network multiplies entry by entry with one head for each entry, masks a matrix row by row, and
lays out diagonals one number at a time. Each of these is one operation on whole matrices. So before
terms are added up, those that do the same with slices of the same values are looked at together: if
every slice moves with the place where its term stands, down with its rows or across with its
columns, or does not move at all, the terms are the entries of one value, computed from the wider
slices. What they leave out, or weigh differently, is a mask. And where such terms stand on top of
each other, they are the rows of one value, added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, reduce
from itertools import chain, islice, product
from typing import Any, NamedTuple

import numpy as np

from inweave.exact.constants import Array, Ones, fractions, identity, simplest
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import ONE, is_constant, is_near
from inweave.run.values.node import Node
from inweave.run.values.term import Term

DEEP = 8  # operations inside each other that are looked into
WIDE = 64  # slices of one term, after which no further operation is: sums of sums have very many
FLIPPED = 3  # numbers of one term that are looked at both ways round
FEWEST = 3  # terms that a mask replaces
SPARSE = 2  # rows for each term that is one of them, above which they are not a matrix
MODERATE = 64  # powers of two from one, within which weights are multiplied by coefficients
WHOLE = 1 << 31  # coefficients below which whole weights are multiplied as such

ROWS, COLS, INNER = 0, 1, 2  # what an axis stands for or moves with: those of a term, or neither
PRODUCTS = ((ROWS, COLS), (COLS, ROWS), (ROWS, ROWS), (COLS, COLS))  # what a product's may be
Axes = tuple[int, int]
Pattern = tuple[Any, ...]
"""What is done with slices, wherever they begin: (operation, data, patterns of the operands...), or
for a slice (None, base, transposed, axes, sizes of inner axes), where the base is None of constants
that are pieces of a wider one."""

Slice = tuple[int, int, int, int]
"""The row and column where a slice begins, its rows and columns."""


class Made(NamedTuple):
    """What is done, with which slices, the values that they are of, and constant weights."""

    pattern: Pattern
    slices: tuple[Slice, ...]
    bases: tuple[Node, ...]
    weights: tuple[Node, ...] = ()

    @property
    def ages(self) -> list[int]:
        """How old the values are; constants are as old as each other, wherever they are written."""
        return [-1 if is_constant(base) else base.order for base in self.bases]


Member = tuple[Term, Made]
Known = dict[tuple[Any, ...], Made]
"""What nodes do, by all that a look at them depends on."""


Masked = dict[tuple[Any, ...], list[tuple[Fraction, Node]]]
"""Multiples of values, by their mask and what else tells whether they are added up before it."""


class Unlike(Exception):
    """The slices do not move with the places."""


def fused(graph: Graph, terms: Sequence[Term]) -> list[Term]:
    """The same sum, with terms that are alike as one."""
    if len(terms) < 2:
        return list(terms)
    apart = [(term, _numbers(term)) for term in terms]
    others = [term for term, numbers in apart if not numbers]
    rest = [term for term in others if _is_identity(term)]
    known: Known = {}
    families = _families(known, (term for term in others if not _is_identity(term)))
    _look_deeper(known, families)
    _join(known, families)
    masked: Masked = {}
    waiting = [(pattern, members, True) for pattern, members in families.items()]
    for pattern, members, whole in waiting:
        value = None
        if len(members) > 1:
            family = _Family(graph, members)
            value = family.value(pattern) or family.summed(pattern)
        if value is not None:
            mask, coefficient, node = value
            key = _added_first(mask, node) or (mask, len(masked))
            masked.setdefault(key, []).append((coefficient, node))
        elif whole and len(members) > 1:
            waiting += [(pattern, part, False) for part in _by_diagonal(members)]
        else:
            rest += [term for term, _ in members]
    rest += _outside(graph, masked, [(term, numbers) for term, numbers in apart if numbers])
    return rest + [_standing(graph, terms[0], mask, parts) for (mask, *_), parts in masked.items()]


def _is_identity(term: Term) -> bool:
    return isinstance(term.core, int) and (term.core > 1 or not term.scalars)


def _numbers(term: Term) -> list[Term]:
    """A number, or a line of a constant with few that are not zero, as numbers at their places."""
    if term.core == 1 and not term.scalars:
        return [term]
    cores = term.scalars if term.core == 1 else (*term.scalars, term.core)
    core = cores[0]
    if len(cores) > 1 or isinstance(core, int) or min(core.shape) > 1 or not is_constant(core):
        return []
    entries = _entries(core)
    where = np.argwhere(entries)
    if len(where) > 1 and SPARSE * len(where) > core.size:
        return []
    values = fractions(entries[entries != 0]) * term.coefficient
    places = (where + np.array([term.row, term.col])).tolist()
    found = zip(places, values, strict=True)
    return [Term(row, col, 1, value) for (row, col), value in found]


def _families(
    known: Known, terms: Iterable[Term], named: bool = False
) -> dict[Pattern, list[Member]]:
    families: dict[Pattern, list[Member]] = {}
    for term in terms:
        made = _Look(known, named).term(term)
        families.setdefault(made.pattern, []).append((term, made))
    return families


def _look_deeper(known: Known, families: dict[Pattern, list[Member]]) -> None:
    """Let single terms join whose values have names of their own, but are made alike."""
    single = {pattern: members[0][0] for pattern, members in families.items() if len(members) == 1}
    if len(single) < FEWEST:
        return
    for pattern, members in _families(known, single.values(), named=True).items():
        if len(members) >= FEWEST:
            joined = {term for term, _ in members}
            for other in [other for other, term in single.items() if term in joined]:
                del families[other]
            families.setdefault(pattern, []).extend(members)  # some may be alike without names


def _join(known: Known, families: dict[Pattern, list[Member]]) -> None:
    """Let single terms, or numbers, join those that are written another way round, or not named."""
    for pattern, members in list(families.items()):
        terms = [term for term, _ in members]
        if len(terms) > 1 and any(term.core != 1 for term in terms):
            continue
        for made in _ways(known, terms[0]):
            if made.pattern != pattern and made.pattern in families:
                ways = [(t, way) for t in terms for way in _written(known, t, made.pattern)]
                if len(ways) == len(terms):
                    families[made.pattern] += ways
                    del families[pattern]
                    break


def _written(known: Known, term: Term, pattern: Pattern) -> Iterable[Made]:
    """A term written like others, if it can be."""
    return islice((made for made in _ways(known, term) if made.pattern == pattern), 1)


def _ways(known: Known, term: Term) -> Iterator[Made]:
    """Ways to write a term; numbers are their own transposes."""
    numbers = min(len(term.scalars), FLIPPED) if term.core == 1 else 0
    for named in (False, True):
        for flips in product((False, True), repeat=numbers):
            yield _Look(known, named).term(term, flips)


def _by_diagonal(members: Sequence[Member]) -> list[list[Member]]:
    """Terms apart by the diagonal on which they stand."""
    found: dict[int, list[Member]] = {}
    for member in members:
        found.setdefault(member[0].col - member[0].row, []).append(member)
    return list(found.values())


# -- what a term does ------------------------------------------------------------------------------
class _Look:
    """One look at a term, which ends after so many slices.

    Only slices are transposed, and what may stand in any order stands by age: a graph writes one
    value and the next in different ways. Named values are stored anyway, so they are taken as they
    are, unless `named` ones count too. Constants may be any.
    """

    def __init__(self, known: Known, named: bool) -> None:
        self.known, self.named, self._slices = known, named, 0

    def term(self, term: Term, flips: Sequence[bool] = ()) -> Made:
        """The product of a term's scalars and core; the first products among those may turn."""
        cores = () if isinstance(term.core, int) else (term.core,)
        factors = list(self._factors((*term.scalars, *cores), 0))
        weights = tuple(filter(is_constant, factors))
        if len(weights) != 1 or len(factors) == 1:  # as several may not be multiplied beforehand
            weights = ()
        turned = iter(flips)
        parts = [
            self._turned(x) if x.is_scalar and next(turned, False) else self.node(x, (ROWS, COLS))
            for x in factors
            if x not in weights
        ]
        return _joined("mul", None, _ordered(parts))._replace(weights=weights)

    def _turned(self, number: Node) -> Made:
        """A number that is written as a transpose."""
        made = self.node(number, (ROWS, COLS), flip=True)
        if made.pattern[0] is not None:
            return made
        return made._replace(pattern=(*made.pattern[:2], True, *made.pattern[3:]))

    def _factors(self, nodes: Iterable[Node], depth: int) -> Iterator[Node]:
        """Nodes, and instead of products entry by entry what they multiply."""
        for node in nodes:
            opened = node.op == "mul" and depth < DEEP and (self.named or not node.label)
            yield from self._factors(node.args, depth + 1) if opened else (node,)

    def product(self, node: Node, axes: Axes, depth: int = 0, flip: bool = False) -> Made:
        """A matrix product, or its transpose."""
        left, right = node.args[::-1] if flip else node.args
        parts = [
            self.node(left, (axes[0], INNER), depth + 1, flip),
            self.node(right, (INNER, axes[1]), depth + 1, flip),
        ]
        return _joined("matmul", None, parts)

    def node(self, node: Node, axes: Axes, depth: int = 0, flip: bool = False) -> Made:
        """What a node does, or its transpose, whose rows and columns stand for `axes`.

        That is as another look has found it, if both have seen all of it or end at one place.
        """
        whole: tuple[Any, ...] = (node, axes, depth, flip, self.named)
        start, found = self._slices, self.known.get(whole)
        if found is None or start + len(found.slices) > WIDE:
            part = (*whole, min(start, WIDE))
            found = self.known.get(part)
            if found is None:
                found = self._looked(node, axes, depth, flip)
                self.known[whole if self._slices <= WIDE else part] = found
        self._slices = start + len(found.slices)
        return found

    def _looked(self, node: Node, axes: Axes, depth: int, flip: bool) -> Made:
        written = is_constant(node) and (self.named or node.op != "view")
        if written and INNER not in axes:
            self._slices += 1
            return Made((None, None, flip, axes, ()), ((0, 0, *node.shape),), (node,))
        base, place = node, (0, 0, node.rows, node.cols)
        if node.op == "view":
            base, place, flip = node.args[0], node.data[:4], flip != node.data[4]
        looked = depth < DEEP and self._slices < WIDE and (self.named or not base.label)
        if looked and place == (0, 0, base.rows, base.cols):
            if base.op == "matmul":
                return self.product(base, axes, depth, flip)
            sums = base.op == "sum" and all(_fills(base, x) for x in base.args)
            if sums or base.op in ("mul", "scale"):
                args = self._factors([base], depth) if base.op == "mul" else base.args
                parts = [self.node(x, axes, depth + 1, flip) for x in args]
                return _sum(base, parts) if sums else _joined(base.op, base.data, _ordered(parts))
        if self.named and looked and base.op == "matmul" and not flip:
            return self._part(base, place, axes)
        return self._slice(base, place, axes, flip)

    def _part(self, product: Node, place: Slice, axes: Axes) -> Made:
        """A slice of a matrix product: a product of slices."""
        (a, b), (row, col, rows, cols) = product.args, place
        left = self._slice(a, (row, 0, rows, a.cols), (axes[0], INNER))
        right = self._slice(b, (0, col, b.rows, cols), (INNER, axes[1]))
        return _joined("matmul", None, [left, right])

    def _slice(self, node: Node, place: Slice, axes: Axes, flip: bool = False) -> Made:
        """A slice as it is: of what a view is of."""
        if node.op == "view":
            up, left, *_, turned = node.data
            row, col, rows, cols = (*place[1::-1], *place[:1:-1]) if turned else place
            node, place, flip = node.args[0], (up + row, left + col, rows, cols), flip != turned
        self._slices += 1
        flip = flip and place[2:] != (1, 1)
        sizes = place[:1:-1] if flip else place[2:]
        inner_sizes = tuple(n for n, axis in zip(sizes, axes, strict=True) if axis == INNER)
        return Made((None, node, flip, axes, inner_sizes), (place,), (node,))


def _sum(node: Node, parts: Sequence[Made]) -> Made:
    """A sum: first what is added, then what is taken away."""
    signs: dict[int, list[Made]] = {1: [], -1: []}
    for (sign, _, _), part in zip(node.data[2], parts, strict=True):
        signs[sign].append(part)
    data = (1,) * len(signs[1]) + (-1,) * len(signs[-1])
    return _joined("sum", data, [*_ordered(signs[1]), *_ordered(signs[-1])])


def _ordered(parts: Iterable[Made]) -> list[Made]:
    """Parts by the age of the values they are of."""
    return sorted(parts, key=lambda part: (part.ages, part.slices))


def _joined(op: str, data: Any, parts: Sequence[Made]) -> Made:
    return Made(
        (op, data, *(part.pattern for part in parts)),
        tuple(x for part in parts for x in part.slices),
        tuple(base for part in parts for base in part.bases),
    )


def _fills(node: Node, part: Node) -> bool:
    return (part.rows, part.cols) == (node.rows, node.cols)


# -- what many of them do --------------------------------------------------------------------------
class Mask(NamedTuple):
    """Where a value stands, and what its entries are multiplied by; None if all count alike.

    The value itself may be one row or column for all. What stands on a `diagonal` is a column, and
    so are its weights.
    """

    top: int
    left: int
    rows: int
    cols: int
    weights: tuple[Any, ...] | None
    diagonal: bool = False

    @property
    def is_unit(self) -> bool:
        """Whether this leaves the diagonal of a square as it is, and nothing else."""
        return self.diagonal and self.weights is None


def _added_first(mask: Mask, node: Node) -> tuple[Any, ...] | None:
    """What values have in common that are added up before they are masked, or spread."""
    if mask.weights is not None or mask.diagonal:
        return (mask,)
    return (mask, node.shape) if node.shape != (mask.rows, mask.cols) else None


def _outside(graph: Graph, masked: Masked, apart: Sequence[tuple[Term, list[Term]]]) -> list[Term]:
    """The terms whose numbers do not stand on diagonals; those of others join what stands there.

    So their sum is a diagonal matrix, too, and what it multiplies is multiplied entry by entry.
    """
    units = [(mask, parts) for (mask, *_), parts in masked.items() if mask.is_unit]
    columns = [fractions(np.zeros((mask.rows, 1))) for mask, _ in units]
    places = {
        (mask.top + i, mask.left + i): column[i]
        for (mask, _), column in zip(units, columns, strict=True)
        for i in range(mask.rows)
    }
    rest = []
    for term, numbers in apart:
        if any((number.row, number.col) not in places for number in numbers):
            rest.append(term)
            continue
        for number in numbers:
            places[number.row, number.col] += number.coefficient
    for (_, parts), column in zip(units, columns, strict=True):
        if column.any():
            common = column[0, 0] if _constant(column) else ONE
            parts.append((common, graph.const(simplest(column / common))))
    return rest


class _Family:
    """Terms with one pattern, the slices of each beside it."""

    def __init__(self, graph: Graph, members: Sequence[Member]) -> None:
        self.graph = graph
        self.terms = [term for term, _ in members]
        boxes = np.array([(t.row, t.col, t.rows, t.cols) for t in self.terms])
        self.starts, self.sizes = boxes[:, :2].T, boxes[:, 2:].T  # by axis
        self.begin = self.starts.min(axis=1)
        self.length = (self.starts + self.sizes).max(axis=1) - self.begin
        self.slices = np.array([made.slices for _, made in members])
        self._members = members
        self._read = 0  # slices of the pattern so far
        self._inside: tuple[int, int, int] | None = None  # a product: what its axes stand for

    def value(self, pattern: Pattern) -> tuple[Mask, Fraction, Node] | None:
        """The value whose entries the terms are, its mask and a common factor; None if unlike."""
        if self._strays:
            return None
        first = self.terms[0].coefficient
        equal = all(t.coefficient == first for t in self.terms)
        weighted = any(made.weights for _, made in self._members)
        few = len(self.terms) < FEWEST and not (weighted or self._is_diagonal)
        if few and not equal:
            return None
        weights = self._weights(first)
        if weights is not None and (few or not (equal or _is_moderate(weights))):
            return None
        mark = self.graph.mark()
        try:
            node = self._computed(pattern)
        except Unlike:
            self.graph.rollback(mark)
            return None
        (top, left), (rows, cols) = self.begin.tolist(), self.length.tolist()
        if node.rows == 1 and self._is_diagonal:
            node = self.graph.flip(node)
        return Mask(top, left, rows, cols, weights, self._is_diagonal), first, node

    @cached_property
    def _strays(self) -> int:
        """How many ways slices move in which no axis of the places does."""
        begin = self.slices[:, :, :2].reshape(len(self.terms), -1)
        moves = {move.tobytes() for move in (begin - begin[0]).T if move.any()}
        return len(moves - {(starts - starts[0]).tobytes() for starts in self.starts})

    @cached_property
    def _is_diagonal(self) -> bool:
        """Whether the terms are entries on a diagonal."""
        single = bool((self.sizes == 1).all()) and self.length[0] > 1
        return single and _constant(self.starts[0] - self.starts[1])

    def summed(self, pattern: Pattern) -> tuple[Mask, Fraction, Node] | None:
        """The value of terms that stand in one row or column, and are what is added up there.

        They are rows (or columns) of a matrix that is as high as there are slices, summed.
        """
        lines = [axis for axis in (ROWS, COLS)
                 if _constant(self.starts[axis]) and (self.sizes[axis] == 1).all()]  # fmt: skip
        if len(self.terms) < FEWEST or self._strays > len(lines) or self._is_scattered(pattern):
            return None
        for axis in lines:
            for starts in self._apart():
                moved, mark = self._moved(axis, starts), self.graph.mark()
                value = moved.value(pattern) or moved.summed(pattern)
                if value is not None:
                    return self._contracted(axis, *value)
                self.graph.rollback(mark)
        return None

    def _is_scattered(self, pattern: Pattern) -> bool:
        """Whether the terms are slices of one value, each at a place of its own: nothing to add."""
        places = len(set(zip(*self.starts.tolist(), strict=True)))
        return (
            pattern[:2] == ("mul", None)
            and len(pattern) == 3
            and pattern[2][0] is None
            and places == len(self.terms)
        )

    def _apart(self) -> list[Any]:
        """Where single slices begin, if that tells terms apart."""
        found: dict[bytes, Any] = {}
        for i, j in np.ndindex(self.slices.shape[1], 2):
            starts = self.slices[:, i, j]
            if np.ptp(starts) >= SPARSE * len(starts):
                continue
            if (self.slices[:, i, 2 + j] == 1).all() and not _constant(starts):
                found.setdefault((starts - starts.min()).tobytes(), starts)
        return list(found.values())

    def _moved(self, axis: int, starts: Any) -> _Family:
        """The same terms, each where the others are not."""
        name = ("row", "col")[axis]
        places = zip(self._members, starts.tolist(), strict=True)
        return _Family(
            self.graph, [(term._replace(**{name: at}), made) for (term, made), at in places]
        )

    def _contracted(
        self, axis: int, mask: Mask, coefficient: Fraction, node: Node
    ) -> tuple[Mask, Fraction, Node]:
        """A value added up along an axis."""
        coefficient, node = _masked(self.graph, mask, coefficient, node)
        ones = Ones(1, mask.rows) if axis == ROWS else Ones(mask.cols, 1)
        pair = (self.graph.const(ones), node) if axis == ROWS else (node, self.graph.const(ones))
        node = self.graph.matmul(*pair)
        (top, left), (rows, cols) = self.begin.tolist(), self.length.tolist()
        return Mask(top, left, rows, cols, None), coefficient, node

    def _weights(self, first: Fraction) -> tuple[Any, ...] | None:
        """How much the entries count, relative to the first."""
        equal = all(t.coefficient == first and not m.weights for t, m in self._members)
        rows, cols = self.length
        width = 1 if self._is_diagonal else cols
        weights = np.zeros((rows, width), dtype=int if equal else object)
        for t, made in self._members:
            row, col = t.row - self.begin[0], (t.col - self.begin[1]) % width
            added: Any = 1 if equal else t.coefficient / first
            for constant in made.weights:
                added = added * fractions(_entries(constant))
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
        if op == "scale":
            return self.graph.scale(data, values[0])
        if op == "sum":
            return _added(self.graph, list(zip(data, values, strict=True)))
        alike: dict[tuple[int, int], list[Node]] = {}  # rows meet rows before they meet columns
        for value in values:
            alike.setdefault(value.shape, []).append(value)
        products = (reduce(self.graph.entrywise, some) for some in alike.values())
        return reduce(self.graph.entrywise, sorted(products, key=lambda x: x.size))

    def _product(self, a: Pattern, b: Pattern) -> Node:
        """A matrix product; of single entries also one that stands transposed, or row by row."""
        if self._inside is not None:
            return self.graph.matmul(self._computed(a), self._computed(b))
        read = self._read
        for apart, (rows, cols) in product((False, True), PRODUCTS):
            self._read, self._inside = read, (rows, cols, INNER)
            lines: list[Node] = []
            try:
                left, right = (self._factor(x, lines if apart else None) for x in (a, b))
            except Unlike:
                continue
            finally:
                self._inside = None
            if rows == cols:
                products = self.graph.entrywise(left, self.graph.flip(right))
                found = self.graph.matmul(products, self.graph.const(Ones(products.cols, 1)))
            else:
                found = self.graph.matmul(left, right)
            found = found if rows == ROWS else self.graph.flip(found)
            return reduce(self.graph.entrywise, lines, found)
        raise Unlike

    def _factor(self, pattern: Pattern, lines: list[Node] | None) -> Node:
        """A factor of a product, perhaps without the `lines` that multiply its rows or columns.

        With c a column, `(c * A) B` is `c * (A B)`: there c may move with the columns of B.
        """
        op, _, *parts = pattern
        if lines is None or op != "mul":
            return self._computed(pattern)
        inside, kept = self._inside, []
        for part in parts:
            if not _is_line(part):
                kept.append(self._computed(part))
                continue
            self._inside = None
            _, base, flip, _, inner = part
            lines.append(self._wide(base, flip, (ROWS, COLS), inner))
            self._inside = inside
        if not kept:
            raise Unlike
        return reduce(self.graph.entrywise, kept)

    def _wide(self, base: Node | None, flip: bool, axes: Axes, _: Any) -> Node:
        """All that the terms read of a value, its axes standing for what they stand for there."""
        place = self.slices[:, self._read].T
        self._read += 1
        if base is None:
            pieces = [made.bases[self._read - 1] for _, made in self._members]
            if len(set(pieces)) > 1:
                return self._around(pieces, flip)
            base = pieces[0]
        if (place[2:] == 1).all():  # which may be the entries of a row as well as of a column
            with suppress(Unlike):
                return self._slice(base, flip, axes, place)
            flip = not flip
        return self._slice(base, flip, axes, place)

    def _around(self, pieces: Sequence[Node], flip: bool) -> Node:
        """The constant of which each term has a piece."""
        wide = fractions(np.zeros(self.length))
        each = [fractions(_entries(piece)) for piece in pieces]
        each = [entries.T if flip else entries for entries in each]
        starts, stops = self.starts.T - self.begin, (self.starts + self.sizes).T - self.begin
        places = [np.s_[a:b, c:d] for (a, c), (b, d) in zip(starts, stops, strict=True)]
        for place, entries in zip(places, each, strict=True):
            if entries.size > 1 and entries.shape != wide[place].shape:
                raise Unlike
            wide[place] = entries
        if any((wide[place] != entries).any() for place, entries in zip(places, each, strict=True)):
            raise Unlike
        return self.graph.const(simplest(wide))

    def _slice(self, base: Node, flip: bool, axes: Axes, place: Any) -> Node:
        if self._inside is not None:
            axes = self._turned(axes, place[:1:-1] if flip else place[2:])
        moves = [self._move(axis, place[i], place[i + 2], INNER in axes)
                 for i, axis in enumerate(axes[::-1] if flip else axes)]  # fmt: skip
        (down, row, rows), (across, col, cols) = moves
        if down == across != INNER:
            found = self.graph.diagonal(self.graph.view(base, row, col, rows, cols))
            return found if axes[0] == down else self.graph.flip(found)
        turned = flip if INNER in axes else down == axes[1] or across == axes[0]
        return self.graph.view(base, row, col, rows, cols, turned)

    def _turned(self, axes: Axes, sizes: Any) -> Axes:
        """What axes stand for inside a product: what is single may stand for another."""
        assert self._inside is not None
        found = (self._inside[axes[0]], self._inside[axes[1]])
        if any(a != b and (n > 1).any() for a, b, n in zip(axes, found, sizes, strict=True)):
            raise Unlike
        return found

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


def _is_line(pattern: Pattern) -> bool:
    """Whether a slice of a factor is the same along what a product adds up."""
    op, *_, inner = pattern
    return op is None and inner == (1,)


def _entries(x: Node) -> Array:
    """The entries of a constant."""
    if x.op == "const":
        return x.data.entries()
    entries = _entries(x.args[0])
    if x.op == "scale":
        return fractions(entries) * x.data
    row, col, rows, cols, flip = x.data
    entries = entries[row : row + rows, col : col + cols]
    return entries.T if flip else entries


def _is_moderate(weights: Iterable[Iterable[Any]]) -> bool:
    """Whether no weight is so large or small that it is not to be multiplied by a coefficient."""
    return all(is_near(Fraction(x), MODERATE) for x in {*chain.from_iterable(weights)} if x)


def _constant(numbers: Any) -> bool:
    return bool((numbers == numbers[0]).all())


def _added(graph: Graph, parts: Sequence[tuple[int, Node]]) -> Node:
    """A sum of values; one row, or one column, stands for as many as are needed."""
    rows, cols = (max(size) for size in zip(*(node.shape for _, node in parts), strict=True))
    wide = [(sign, graph.spread(node, rows, cols), 0, 0) for sign, node in parts]
    return graph.total(rows, cols, wide)


def _standing(graph: Graph, like: Term, mask: Mask, parts: Sequence[tuple[Fraction, Node]]) -> Term:
    """The term of values that stand at one place with one mask."""
    coefficient, node = parts[0]
    if len(parts) > 1:
        ordered = sorted(parts, key=lambda part: part[0] < 0)
        signed = [(1 if c > 0 else -1, graph.scale(abs(c), part)) for c, part in ordered]
        coefficient, node = ONE, _added(graph, signed)
    coefficient, node = _masked(graph, mask, coefficient, node)
    return like._replace(
        row=mask.top, col=mask.left, core=node, coefficient=coefficient, scalars=()
    )


def _masked(graph: Graph, mask: Mask, coefficient: Fraction, node: Node) -> tuple[Fraction, Node]:
    """A value as large as its mask, weighted by it."""
    if mask.diagonal:  # it is known for what it is as long as its identity has no multiple
        if mask.weights is not None:
            column = mask._replace(cols=1, diagonal=False)
            coefficient, node = _masked(graph, column, coefficient, node)
        return ONE, graph.entrywise(
            graph.scale(coefficient, node), graph.const(identity(mask.rows))
        )
    if mask.weights is not None:
        times, later = (coefficient, ONE) if _is_moderate(mask.weights) else (ONE, coefficient)
        whole = times.denominator == 1 and abs(times) < WHOLE
        weights = np.array(mask.weights, dtype=None if whole else object)
        weights = weights * (int(times) if whole else times)
        return later, graph.entrywise(node, graph.const(simplest(weights)))
    return coefficient, graph.spread(node, mask.rows, mask.cols)
