"""Following a repeated module: what must a loop carry from step to step?

The body is followed with every span assumed unchanged by it. Spans that turn out to change become
carried values, in the narrowest frame that holds them before and after, until the assumption agrees
with what happens. So scratch that is zero before and after a step is not carried, and constants
stay constants inside loops. A value that the network stores twice, perhaps once transposed, is
carried once: values that begin alike are assumed to stay alike, and parted where they do not. And a
unit vector that every step moves on by a row is not carried at all: it says which row it is now, so
that what is multiplied by it is read, and written, one row at a time. So does an identity that
every step moves on by as many rows as it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from inweave.run.values.graph import Graph
from inweave.run.values.node import PRODUCTS, LoopBody, Node, cost
from inweave.run.values.term import Box, Matrix, State, Term, bounding
from inweave.run.values.terms import assemble, on_diagonal, same_diagonal, standing, transposed


class Frame(NamedTuple):
    """How a span is carried: as the matrix inside a box, or as the scalar of a diagonal."""

    box: Box
    diagonal: bool
    turned: bool = False  # the matrix is carried as its transpose

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = (1, 1) if self.diagonal else (self.box.rows, self.box.cols)
        return (cols, rows) if self.turned else (rows, cols)

    def node(self, graph: Graph, matrix: Matrix) -> Node:
        """What is carried of a matrix."""
        node = on_diagonal(graph, matrix) if self.diagonal else assemble(graph, matrix, self.box)
        return graph.flip(node) if self.turned else node

    def term(self, graph: Graph, node: Node) -> Term:
        """The matrix of what is carried."""
        upright = graph.flip(node) if self.turned else node
        place = standing(graph, upright, self.box.top, self.box.left)
        return place._replace(core=self.box.rows) if self.diagonal else place


class Selector(NamedTuple):
    """A span that holds an identity, which goes through rows, `height` of them in every step."""

    row: int
    col: int
    rows: int
    height: int
    backward: bool
    flip: bool  # the identity goes through columns

    def matrix(self, graph: Graph) -> Matrix:
        """What the span holds in any one step."""
        return self._standing(graph, graph.unit(self.rows, self.backward, self.height), 0)

    def last(self, graph: Graph, moved: Matrix) -> Matrix | None:
        """What the span holds after the loop, given what it holds after a step; None if no unit.

        A shift may end with these rows, or within the next step's, so that after the last step only
        some rows of the identity are left, or none.
        """
        unit = graph.unit(self.rows, self.backward, self.height)
        for left in range(self.height, -1, -1):
            gone = self.height - left
            top, down = (gone, -left) if self.backward else (0, self.height)
            rest = graph.view(unit, top, 0, self.rows - gone, self.height)
            if moved == self._standing(graph, rest, down):
                end = Term(-left, gone, left) if self.backward else Term(self.rows, 0, left)
                return self._placed(graph, end) if left else ()
        return None

    def _standing(self, graph: Graph, node: Node, down: int) -> Matrix:
        return self._placed(graph, standing(graph, node, down, 0))

    def _placed(self, graph: Graph, term: Term) -> Matrix:
        (term,) = transposed(graph, (term,)) if self.flip else (term,)
        return (term.moved(self.row, self.col),)


def _selector(before: Matrix, after: Matrix, repeat: int) -> Selector | None:
    """The selector that a span seems to be, from what it holds before and after the first step."""
    if len(before) != 1 or before[0].scalars or before[0].coefficient != 1:
        return None
    term = before[0]
    height = term.core
    if not isinstance(height, int):
        return None
    for backward in (False, True):
        step = -height if backward else height
        back = (repeat - 1) * height if backward else 0
        rows = repeat * height
        if after == (term.moved(step, 0),) and term.row >= back:
            return Selector(term.row - back, term.col, rows, height, backward, flip=False)
        if after == (term.moved(0, step),) and term.col >= back:
            return Selector(term.row, term.col - back, rows, height, backward, flip=True)
    return None


def follow_loop(
    graph: Graph,
    repeat: int,
    body: Callable[[State], State],
    name: Callable[[int, Node], Node],
    state: State,
) -> State:
    """The state after a body that is repeated; `name` labels what a span carries.

    Matrices are carried as their transposes if less stands transposed then, for no more work.
    """
    mark = graph.mark()
    after, loop = _followed(graph, repeat, body, name, state, turned=False)
    across, work = _across(loop)
    if across:
        graph.rollback(mark)
        after, loop = _followed(graph, repeat, body, name, state, turned=True)
        less, other = _across(loop)
        if less >= across or other > work:
            graph.rollback(mark)
            after, _ = _followed(graph, repeat, body, name, state, turned=False)
    return after


def _across(loop: LoopBody | None) -> tuple[int, float]:
    """How many entries of matrices a loop begins with, or a step reads one by one, transposed.

    And what a step costs.
    """
    if loop is None or all(1 in phi.shape for phi in loop.phis):
        return 0, 0.0
    inside, stack, read = set(loop.nodes), list(loop.nexts), list(loop.inits)
    costs = list[float]()
    while stack:
        node = stack.pop()
        if node in inside:
            inside.remove(node)
            stack += node.args
            read += node.args if node.op not in (*PRODUCTS, "view") else ()
            costs.append(cost(node))
    return sum(x.size for x in read if x.flipped and 1 not in x.shape), math.fsum(costs)


def _followed(
    graph: Graph,
    repeat: int,
    body: Callable[[State], State],
    name: Callable[[int, Node], Node],
    state: State,
    turned: bool,
) -> tuple[State, LoopBody | None]:
    """The state after a body that is repeated, and the loop, if it changes anything."""
    frames: dict[int, Frame] = {}
    selectors: dict[int, Selector] | None = None  # not looked for yet
    twins = _Twins(graph)
    while True:
        mark = graph.mark()
        graph.open(repeat)
        inside, phis = list(state), dict[int, Node]()
        for i, selector in (selectors or {}).items():
            inside[i] = selector.matrix(graph)
        for i, frame in frames.items():
            if twins.of(i) == (i, False):
                phi = graph.phi(*frame.shape)
                phis[i] = phi if frame.turned else name(i, phi)
            inside[i] = (frame.term(graph, twins.value(i, phis)),)
        end = body(tuple(inside))
        if selectors is None:
            pairs = enumerate(zip(state, end, strict=True))
            found = {i: _selector(before, after, repeat) for i, (before, after) in pairs}
            selectors = {i: selector for i, selector in found.items() if selector is not None}
            if selectors:
                graph.abandon(mark)
                continue
        lasts = {i: selector.last(graph, end[i]) for i, selector in selectors.items()}
        if None in lasts.values():
            selectors = {i: selector for i, selector in selectors.items() if lasts[i] is not None}
            graph.abandon(mark)
            continue
        wider = {
            i: frame
            for i in range(len(state))
            if i not in selectors
            and end[i] != inside[i]
            and (frame := _wide_enough(frames.get(i), (*state[i], *end[i]), turned))
            != frames.get(i)
        }
        inits = {i: frame.node(graph, state[i]) for i, frame in (frames | wider).items()}
        if wider:
            frames = dict(sorted((frames | wider).items()))
            twins = _Twins(graph)
        else:
            nexts = {i: frame.node(graph, end[i]) for i, frame in frames.items()}
            if twins.settled(inits, nexts):
                break
        graph.abandon(mark)
    if not (frames or selectors):
        graph.abandon(mark)
        return state, None
    loop = graph.scopes[-1]
    results = graph.close([inits[i] for i in phis], [nexts[i] for i in phis])
    last = {
        i: node if frames[i].turned else name(i, node)
        for i, node in zip(phis, results, strict=True)
    }
    after = list(state)
    for i, end_of_rows in lasts.items():
        after[i] = end_of_rows or ()
    for i, frame in frames.items():
        after[i] = (frame.term(graph, twins.value(i, last)),)
    return tuple(after), loop


def _wide_enough(frame: Frame | None, terms: Matrix, turned: bool) -> Frame:
    """The narrowest frame that holds these terms and what the frame before held."""
    if frame is not None and not terms:
        return frame
    box = bounding(terms)
    if same_diagonal(terms) and (frame is None or frame == Frame(box, True)):
        return Frame(box, True)
    box = box if frame is None else box.join(frame.box)
    return Frame(box, False, turned and min(box.rows, box.cols) > 1)


Twin = tuple[int, bool]
"""The span that a span is equal to, and whether transposed; its own number if it stands alone."""


class _Twins:
    """Which carried spans are assumed to hold the same value.

    First nothing is assumed; then that spans which begin alike stay alike; those which do not are
    parted. Square values that begin symmetric, such as zero, may be alike either way round, so
    those left alone are tried once more as transposes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.assumed: dict[int, Twin] = {}
        self._tries = 0
        self._turned = False

    def of(self, span: int) -> Twin:
        return self.assumed.get(span, (span, False))

    def value(self, span: int, values: dict[int, Node]) -> Node:
        """A span's value, given those of the spans that stand for themselves."""
        first, flip = self.of(span)
        return self.graph.flip(values[first]) if flip else values[first]

    def settled(self, inits: dict[int, Node], nexts: dict[int, Node]) -> bool:
        """Whether the values after a step are alike where assumed; if not, assume otherwise."""
        alone = {i: (i, False) for i in inits}
        if not self.assumed:
            found = self._alike(inits, inits, dict.fromkeys(inits, (0, False)))
            self.assumed = alone if found == alone else found
            return found == alone
        found = self._alike(inits, nexts, self.assumed)
        self._tries += 1
        if found != self.assumed:
            self.assumed = found if self._tries <= len(inits) + 2 else alone
            return False
        if not self._turned:
            self._turned = True
            self.assumed = self._as_transposes(inits, found)
        return found == self.assumed

    def _alike(
        self, inits: dict[int, Node], values: dict[int, Node], before: dict[int, Twin]
    ) -> dict[int, Twin]:
        """The spans that were alike before, begin alike and have alike values."""
        found: dict[int, Twin] = {}
        turned = {i: _upright(self.graph, value) for i, value in values.items()}
        for i, (node, flip) in turned.items():
            found[i] = (i, False)
            for j in [j for j, twin in found.items() if twin == (j, False) and j != i]:
                differ = flip != turned[j][1]
                start = self.graph.flip(inits[j]) if differ else inits[j]
                if turned[j][0] is node and before[i][0] == before[j][0] and start is inits[i]:
                    found[i] = (j, differ)
                    break
        return found

    def _as_transposes(self, inits: dict[int, Node], found: dict[int, Twin]) -> dict[int, Twin]:
        """The same, with spans on their own as transposes of the first that begins like them."""
        firsts: dict[Node, int] = {}
        for i, twin in found.items():
            if twin == (i, False):
                firsts.setdefault(inits[i], i)
        return {
            i: (firsts[inits[first]], flip != (firsts[inits[first]] != first))
            if inits[first].symmetric
            else (first, flip)
            for i, (first, flip) in found.items()
        }


def _upright(graph: Graph, node: Node) -> tuple[Node, bool]:
    """A node as one that is the same for it and its transpose, and whether that is transposed."""
    lying = node.turns and node.rows < node.cols
    return (graph.flip(node), True) if node.flipped or lying else (node, False)
