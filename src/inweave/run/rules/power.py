"""Loops whose step is affine, by powers of its matrix.

`x ← A x + c` T times is `Bᵀ` (x, 1) with B = [A c; 0 I], and B squared j times is 2ʲ steps at once.
That is more arithmetic in fewer calls, or less of both where T is large, so it depends on the price
of each, which differs for one prompt and for many. A network says what is computed, not how; here a
plan computes it in another way than a loop.

What a step does to the values that it carries, stacked, is found by following it once with the
identity in their place: everything that it multiplies from the left keeps its columns.

Only symmetric matrices are powered unseen: the powers of others, such as those of momentum, may be
large on the way where the values that a loop goes through are small, and their rounding errors then
too. Not even a square is safe in a loop: its error is the same in every step, and moves eigenvalues
that lie close together far more than errors of either sign. Where values can be looked at, powers
of others are `trusted` if they were small, for columns.
Beside values that a symmetric S multiplies there may be sums of them, `z ← z + L x`, as c is a sum:
the power of [S 0; L I] has L (I + S + S² + ...) below the power of S.

What a step does to each column by itself, as `X ← A X + X D` with D diagonal, is a loop for every
column, and each is powered.

Any matrix may multiply (x, 1) step by step: where values are small, one product with B is quicker
than the several operations of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from inweave.exact.constants import Shift, exact, zeros
from inweave.run.values.graph import Graph
from inweave.run.values.node import LOOK, LoopBody, Node, Powers, Price, Work, work
from inweave.run.values.term import Box, Matrix, Term, bounding
from inweave.run.values.terms import (
    assemble,
    clip,
    clip_cols,
    clip_rows,
    collect,
    scaled,
    standing,
    times,
    transposed,
    written,
)

MOST = 32  # products with a vector that are written out
TERMS = 16  # products and nodes in a value of a step, more of which are added up where it is made


class StaysALoop(Exception):
    """A step has a product of carried values, a function, or reads data row by row.

    Or powers of its matrix cannot be trusted, and one product is no quicker than a step.
    """


class Way(NamedTuple):
    """How loops are to be powered: by which price, and whether A and c may be one matrix.

    As one they take fewer calls; apart, a batch that shares A shares its powers.
    """

    price: Price
    joint: bool
    any_matrix: bool = False  # digits do not matter, as over a field
    looks: bool = False  # powers of any matrix may be computed and looked at: see `trusted`


class _Course(NamedTuple):
    """How often to square, A and c as one matrix or apart, and what that costs.

    Or a `loop` of which every step is one product.
    """

    cost: float
    squarings: int
    joint: bool
    loop: bool = False


def powered(
    graph: Graph, body: LoopBody, kept: Sequence[int], new: Mapping[Node, Node], way: Way
) -> list[Node] | None:
    """The last values of what is `kept` of a loop; None if it is not affine or powers cost more.

    `new` are the nodes of the graph for those outside of the loop.
    """
    loop = body.repeat * sum(way.price.of(work(node)) for node in body.nodes)
    phis = [body.phis[i] for i in kept]
    for width in dict.fromkeys(phis[0].shape[::-1]) if phis else ():
        if not all(width in phi.shape for phi in phis):
            continue
        size, all_columns = sum(phi.size for phi in phis) // width, range(width)
        apart = [range(j, j + 1) for j in all_columns] if 1 < width <= MOST else []
        for columns in filter(None, ([all_columns], apart)):
            courses = [*_courses(body.repeat, size, len(columns[0]), way)]
            courses = [c for c in courses if len(columns) * c.cost < loop]
            if not courses:
                continue
            mark = graph.mark()
            try:
                made = [StepMatrix(graph, body, kept, new, width, some) for some in columns]
                if len(made) > 1:
                    return _beside(graph, made, courses, way)
                trusted = way.any_matrix or made[0].is_symmetric
                looks = way.looks and width == 1 and len(graph.scopes) == 1
                if not trusted:
                    courses = [c for c in _looked_at(courses, size, way) if c.loop or looks]
                    courses = [course for course in courses if course.cost < loop]
                return made[0].last(_cheapest(courses), trusted)
            except StaysALoop:
                graph.rollback(mark)
    return None


def _beside(
    graph: Graph, made: Sequence[StepMatrix], courses: Sequence[_Course], way: Way
) -> list[Node]:
    """The last values of a loop that does not mix their columns: each by powers of its own."""
    course = _cheapest([course for course in courses if not course.loop])
    if not (way.any_matrix or all(powers.is_symmetric for powers in made)):
        raise StaysALoop
    each = zip(*(powers.last(course, trusted=True) for powers in made), strict=True)
    return [
        graph.total(
            phi.rows,
            phi.cols,
            [(1, x, j, 0) if flip else (1, x, 0, j) for j, x in enumerate(columns)],
        )
        for phi, flip, columns in zip(made[0].phis, made[0].flips, each, strict=True)
    ]


def _cheapest(courses: Sequence[_Course]) -> _Course:
    if not courses:
        raise StaysALoop
    return min(courses)


def _courses(repeat: int, size: int, width: int, way: Way) -> Iterator[_Course]:
    """What can be done: squares cost much, but each halves the products with vectors."""
    for joint in (True, False) if way.joint else (False,):
        side = size + width if joint else size
        square = Work(1, 3 * side**2, side**3)
        apply = Work(1, side**2 + 2 * side * width, side**2 * width)
        plus = Work(0, 0, 0) if joint else Work(1, 3 * size * width, 0)
        each = way.price.of(apply) + way.price.of(plus)
        doubled = way.price.of(square) + (0.0 if joint else each)
        for squarings in range(repeat.bit_length()):
            low = repeat & ((1 << squarings) - 1)
            products = (repeat >> squarings) + low.bit_count()
            if repeat >> squarings <= MOST:
                yield _Course(squarings * doubled + products * each, squarings, joint)
        if joint:
            yield _Course(repeat * each, 0, joint, loop=True)


def _looked_at(courses: Sequence[_Course], size: int, way: Way) -> Iterator[_Course]:
    """The same with the look that powers of any matrix need."""
    for course in courses:
        entries = 3 * (course.squarings + 1) * size**2
        look = 0.0 if course.loop else way.price.of(Work(LOOK[False], entries, 0))
        yield course._replace(cost=course.cost + look)


class _Wide(NamedTuple):
    """A value of a step as `[A c]`, which the carried values and the identity below are to meet."""

    matrix: Matrix
    flip: bool  # the value is the transpose


class StepMatrix:
    """The step of a loop as a matrix; each carried value has `across` columns, or so many rows.

    Of these some are followed: all, or one where a step multiplies each by a number of its own.
    """

    def __init__(
        self,
        graph: Graph,
        body: LoopBody,
        kept: Sequence[int],
        new: Mapping[Node, Node],
        across: int,
        columns: range,
    ) -> None:
        self.graph, self.body, self.new = graph, body, new
        self.across, self.columns, self.width = across, columns, len(columns)
        self.phis = phis = [body.phis[i] for i in kept]
        self.flips = [phi.cols != across for phi in phis]
        heights = [phi.size // across for phi in phis]
        *self.starts, self.rows = accumulate(heights, initial=0)
        self.kept, self.level = kept, phis[0].level
        self.wide: dict[Node, _Wide] = {
            phi: _Wide((Term(0, start, height),), flip)
            for phi, start, height, flip in zip(phis, self.starts, heights, self.flips, strict=True)
        }

    @cached_property
    def _step(self) -> Matrix:
        """`[A c]`."""
        return self._stacked([self._as(self.body.nexts[i], flip) for i, flip in self._carried()])

    @property
    def is_symmetric(self) -> bool:
        """Whether A is known to be its own transpose, but for values that only sum up others."""
        ends = [*self.starts[1:], self.rows]
        spans = [range(start, end) for start, end in zip(self.starts, ends, strict=True)]
        sums = [span for span in spans if self._sums_up(span)]
        rest = [span for span in spans if span not in sums]
        if not sums:
            return self._block(range(self.rows), range(self.rows)).symmetric
        # Of several values that are multiplied it is not known whether together they are symmetric.
        return len(rest) == 1 and self._block(rest[0], rest[0]).symmetric

    @property
    def matrix(self) -> Node:
        """A."""
        return self._block(range(self.rows), range(self.rows))

    @property
    def added(self) -> Node:
        """c."""
        return self._node(self._step, Box(0, self.rows, self.rows, self.rows + self.width))

    @property
    def start(self) -> Node:
        """What is carried into the first step."""
        return self._node(self._begun, Box(0, 0, self.rows, self.width))

    @property
    def _begun(self) -> Matrix:
        return self._stacked(
            [self._followed(self.body.inits[i], flip) for i, flip in self._carried()]
        )

    def ends(self, state: Matrix) -> list[Node]:
        """The carried values that stand in a state."""
        return [self._end(state, i) for i in range(len(self.kept))]

    def _sums_up(self, span: range) -> bool:
        """Whether a value is itself and something of others, and no other reads it."""
        own = self._block(span, span)
        if own.op != "const" or not own.data.is_identity():
            return False
        others = [range(span.start), range(span.stop, self.rows)]
        return all(is_nothing(self._block(other, span)) for other in others if other)

    def _block(self, rows: range, cols: range) -> Node:
        """A part of A."""
        return self._node(self._step, Box(rows.start, cols.start, rows.stop, cols.stop))

    # -- powers -----------------------------------------------------------------------------------
    def last(self, course: _Course, trusted: bool) -> list[Node]:
        """The carried values after all steps; powers that are not trusted are looked at."""
        step, joint = self._step, course.joint
        state = self._begun
        one: Matrix = ()
        if any(term.col + term.cols > self.rows for term in step):
            one = (Term(self.rows, self.rows, self.width),)
            state += (Term(self.rows, 0, self.width),)
        rows = self.rows + (self.width if one else 0)
        parts = [Box(0, 0, rows, rows)] if joint else self._sides(self.rows)
        ends = [Box(0, 0, rows if joint else self.rows, self.width)]
        rest = () if joint else one
        below = one
        if one and joint:
            unit = self.graph.const(Shift(self.width, rows, 0, self.rows, self.width))
            below = (standing(self.graph, unit, self.rows, 0),)
        power = self._settled((*step, *below), parts) + rest
        repeat = self.body.repeat
        if course.loop:
            state, repeat = self._repeated(power, state, rows), 0
        powers, states = [power], [state]
        for j in range(course.squarings):
            if repeat >> j & 1:
                states.append(self._applied(power, states[-1], ends))
            power = self._settled(times(self.graph, power, power), parts) + rest
            powers.append(power)
        for _ in range(repeat >> course.squarings):
            states.append(self._applied(power, states[-1], ends))
        state = states[-1]
        if not (trusted or course.loop):
            self._look_at(course, powers, states, parts, ends[0])
        return self.ends(state)

    def _look_at(
        self,
        course: _Course,
        powers: Sequence[Matrix],
        states: Sequence[Matrix],
        parts: Sequence[Box],
        end: Box,
    ) -> None:
        """Have it found out whether powers and states may have lost digits."""
        added = any(term.col + term.cols > self.rows for term in powers[0])
        start = self._node(states[0], Box(0, 0, self.rows, 1))
        args = [self._node(power, box) for box in parts[: 1 + added] for power in powers]
        args += [] if is_nothing(start) else [start]
        args += [self._node(state, end) for state in states[1:]]
        beside = course.joint and added
        values = len(self.kept)
        made = Powers(self.rows, self.body.repeat, course.squarings, beside, added, values)
        self.graph.make("grown", tuple(args), made, 1, 1)

    def _repeated(self, step: Matrix, state: Matrix, rows: int) -> Matrix:
        """The state after a loop whose every step is one product."""
        graph = self.graph
        matrix = self._node(step, Box(0, 0, rows, rows))
        start = self._node(state, Box(0, 0, rows, self.width))
        graph.open(self.body.repeat)
        (last,) = graph.close([start], [graph.matmul(matrix, graph.phi(rows, self.width))])
        return (standing(graph, last, 0, 0),)

    def _carried(self) -> zip[tuple[int, bool]]:
        return zip(self.kept, self.flips, strict=True)

    def _stacked(self, matrices: Sequence[Matrix]) -> Matrix:
        pairs = zip(self.starts, matrices, strict=True)
        return tuple(term.moved(start, 0) for start, matrix in pairs for term in matrix)

    def _applied(self, power: Matrix, state: Matrix, ends: Sequence[Box]) -> Matrix:
        state = times(self.graph, power, state)
        below = tuple(t for t in state if t.row >= ends[0].bottom)
        return self._settled(state, ends) + below

    def _settled(self, matrix: Matrix, boxes: Sequence[Box]) -> Matrix:
        """A matrix as one node for each box in which there is anything."""
        filled = self._filled(matrix, boxes)
        return tuple(standing(self.graph, node, box.top, box.left) for box, node in filled)

    def _filled(self, matrix: Matrix, boxes: Sequence[Box]) -> Iterator[tuple[Box, Node]]:
        for box in boxes:
            found = [part for term in matrix if (part := clip(self.graph, term, box)) is not None]
            if found:
                yield box, assemble(self.graph, found, box)

    def _sides(self, rows: int) -> list[Box]:
        """Where A and c stand in so many rows of `[A c]`."""
        return [Box(0, 0, rows, self.rows), Box(0, self.rows, rows, self.rows + self.width)]

    def _end(self, state: Matrix, i: int) -> Node:
        start, height = self.starts[i], self.phis[i].size // self.across
        node = self._node(state, Box(start, 0, start + height, self.width))
        return self.graph.flip(node) if self.flips[i] else node

    def _node(self, matrix: Matrix, box: Box) -> Node:
        """What stands in a box of a matrix."""
        found = [part for term in matrix if (part := clip(self.graph, term, box)) is not None]
        return assemble(self.graph, found, box)

    # -- what a step does -------------------------------------------------------------------------
    def _as(self, node: Node, flip: bool, col: int = 0) -> Matrix:
        """`[A c]` of a value, or of its transpose, that stands from some column on."""
        if node.level < self.level:
            return tuple(term.moved(0, self.rows) for term in self._followed(node, flip, col))
        found = self._found(node)
        if found.flip != flip and not node.is_scalar:
            raise StaysALoop
        return found.matrix

    def _fixed(self, node: Node, flip: bool) -> Matrix:
        made = self.new[node]
        matrix = (
            written(self.graph, made.data)
            if made.op == "const"
            else (standing(self.graph, made, 0, 0),)
        )
        return transposed(self.graph, matrix) if flip else matrix

    def _followed(self, node: Node, flip: bool, col: int = 0) -> Matrix:
        """Those columns that are followed of a value from outside, which stands at a column."""
        first = self.columns.start - col
        parts = [
            clip_cols(self.graph, term, first, first + self.width)
            for term in self._fixed(node, flip)
        ]
        return tuple(part.moved(0, -first) for part in parts if part is not None)

    def _found(self, node: Node) -> _Wide:
        """A value that the step changes; not recursive, for steps may be long."""
        stack = [node]
        while stack:
            top = stack[-1]
            left = [a for a in top.args if a.level >= self.level and a not in self.wide]
            if left:
                stack += left
                continue
            stack.pop()
            if top not in self.wide:
                matrix, flip = self._made(top)
                self.wide[top] = _Wide(self._short(matrix), flip)
        return self.wide[node]

    def _short(self, matrix: Matrix) -> Matrix:
        """The same with few terms: without this, row by row each may be all those before it.

        Identities stay, since what they meet is a slice.
        """
        kept, here, there = list[Term](), list[Term](), list[Term]()  # identities, in A, in c
        for term in matrix:
            plain = isinstance(term.core, int) and not term.scalars
            (kept if plain else here if term.col < self.rows else there).append(term)
        if len(here) + len(there) <= TERMS:
            return matrix
        boxes = [bounding(side) for side in (here, there) if side]
        return (*kept, *self._settled((*here, *there), boxes))

    def _made(self, node: Node) -> _Wide:
        makers: dict[str, Callable[[Node], _Wide]] = {
            "view": self._view, "scale": self._scale, "sum": self._sum,
            "matmul": self._matmul, "mul": self._mul,
        }  # fmt: skip
        if node.op not in makers:
            raise StaysALoop
        return makers[node.op](node)

    def _view(self, node: Node) -> _Wide:
        matrix, flipped = self.wide[node.args[0]]
        row, col, rows, cols, flip = node.data
        if flipped:
            row, col, rows, cols = col, row, cols, rows
        if (col, cols) != (0, self.across):
            raise StaysALoop
        parts = (clip_rows(self.graph, term, row, row + rows) for term in matrix)
        cut = tuple(part.moved(-row, 0) for part in parts if part is not None)
        return _Wide(cut, flipped != flip)

    def _scale(self, node: Node) -> _Wide:
        matrix, flip = self.wide[node.args[0]]
        by = Term(0, 0, 1, node.data)
        return _Wide(tuple(scaled(term, by) for term in matrix), flip)

    def _sum(self, node: Node) -> _Wide:
        flips = {
            self.wide[arg].flip
            for arg in node.args
            if arg.level >= self.level and not arg.is_scalar
        }
        flip = flips.pop() if flips else node.cols != self.across
        out: list[Term] = []
        for arg, (sign, row, col) in zip(node.args, node.data[2], strict=True):
            if flip:
                row, col = col, row
            if col and arg.level >= self.level:
                raise StaysALoop
            by = Term(0, 0, 1, Fraction(sign))
            out += [scaled(term.moved(row, 0), by) for term in self._as(arg, flip, col)]
        return _Wide(collect(out), flip)

    def _matmul(self, node: Node) -> _Wide:
        a, b = node.args
        for by, of, flip in ((a, b, False), (b, a, True)):
            if by.level < self.level <= of.level and self.wide[of].flip == flip:
                front = self._fixed(by, flip)
                return _Wide(times(self.graph, front, self.wide[of].matrix), flip)
            if by.level < self.level <= of.level and self.width < self.across:
                return self._multiple(self.wide[of], self._on_diagonal(by))
        raise StaysALoop

    def _multiple(self, wide: _Wide, number: Term) -> _Wide:
        return _Wide(
            tuple(scaled(term, number) for term in wide.matrix if number.coefficient), wide.flip
        )

    def _on_diagonal(self, by: Node) -> Term:
        """The number that multiplies the column followed, in a product with a diagonal matrix."""
        core, number = self.new[by], Term(0, 0, 1)
        while core.flipped or core.op == "scale" or (core.op == "mul" and core.args[0].is_scalar):
            if core.op == "mul":
                number = scaled(number, standing(self.graph, core.args[0], 0, 0))
            elif core.op == "scale":
                number = scaled(number, Term(0, 0, 1, core.data))
            core = self.graph.flip(core) if core.flipped else core.args[-1]
        if core.op != "const" or core.rows != core.cols:
            raise StaysALoop
        entries, j = core.data.entries(), self.columns.start
        if (entries != np.diag(entries.diagonal())).any():
            raise StaysALoop
        return scaled(number, Term(0, 0, 1, exact(entries[j, j])))

    def _mul(self, node: Node) -> _Wide:
        """A number times a value, or a column times a number or every column."""
        by, of = sorted(node.args, key=lambda arg: arg.level)
        if by.level >= self.level:
            raise StaysALoop
        matrix, flip = self.wide[of]
        number = None
        if by.is_scalar:
            number = self.new[by]
        elif self.width < self.across and by.shape == (1, self.across)[:: -1 if flip else 1]:
            row = self.graph.flip(self.new[by]) if flip else self.new[by]
            number = self.graph.view(row, 0, self.columns.start, 1, 1)
        if number is not None:
            return self._multiple(self.wide[of], standing(self.graph, number, 0, 0))
        flip = by.rows == 1 if of.is_scalar else flip
        if (by.rows if flip else by.cols) != 1:
            raise StaysALoop
        column = self._fixed(by, flip)
        if (of.cols if flip else of.rows) == 1:
            return _Wide(times(self.graph, column, matrix), flip)
        each = assemble(self.graph, column, Box(0, 0, by.size, 1))
        made = (
            standing(self.graph, self.graph.entrywise(each, node), 0, box.left)
            for box, node in self._filled(matrix, self._sides(by.size))
        )
        return _Wide(tuple(made), flip)


def is_nothing(node: Node) -> bool:
    return node.op == "const" and node.data == zeros(*node.shape)
