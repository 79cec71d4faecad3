"""From a network to a graph: the network is run once on terms instead of numbers.

The state is kept per span, a range of columns that the network always treats as one value. A layer
reads all its heads from the old state and adds their outputs; each span is then settled into one
term, so that a copy stays a reference, a clear leaves nothing, and an update is one sum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import partial

import numpy as np

from inweave.exact.names import FACTOR
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, PointwiseLayer
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import AnyProjection
from inweave.run.values.graph import Graph
from inweave.run.values.loops import follow_loop
from inweave.run.values.names import Labels
from inweave.run.values.node import ALONE, Node, Price
from inweave.run.values.spans import Pieces, columns_read, spans
from inweave.run.values.term import Box, Matrix, State, Term, bounding
from inweave.run.values.terms import (
    around,
    assemble,
    behind,
    clip,
    clip_cols,
    collect,
    in_range,
    may_wait,
    on_diagonal,
    same_diagonal,
    scalar_product,
    scaled,
    standing,
    transposed,
    triple,
    weighted,
    written,
)


class Builder:
    """Follows a network on terms. `spans` are column ranges (start, stop) in order."""

    def __init__(self, network: Network, price: Price = ALONE) -> None:
        self.network, self.layout = network, network.layout
        self.graph = Graph(price)
        self._pieces = Pieces(network.layout)
        self.spans = spans(network, self._pieces)
        self._starts = [start for start, _ in self.spans]
        self.labels = Labels()

    # -- states -----------------------------------------------------------------------------------
    def state(self, terms: Iterable[Term]) -> State:
        """A settled state from terms anywhere in the prompt."""
        return tuple(map(self.settle, range(len(self.spans)), self.cut(terms)))

    def cut(self, terms: Iterable[Term]) -> list[list[Term]]:
        """Terms cut up along the spans."""
        out: list[list[Term]] = [[] for _ in self.spans]
        for term in terms:
            i = bisect_right(self._starts, term.col) - 1
            while i < len(self.spans) and self.spans[i][0] < term.col + term.cols:
                part = clip_cols(self.graph, term, *self.spans[i])
                if part is not None:
                    out[i].append(part)
                i += 1
        return out

    def within(self, state: State, box: Box) -> list[Term]:
        """The terms of a state inside a box."""
        found = []
        i = bisect_right(self._starts, box.left) - 1
        while i < len(self.spans) and self.spans[i][0] < box.right:
            parts = (clip(self.graph, term, box) for term in state[i])
            found += [part for part in parts if part is not None]
            i += 1
        return found

    def value(self, state: State, box: Box) -> Node:
        """The node that holds what stands inside a box."""
        return assemble(self.graph, self.within(state, box), box)

    def settle(self, span: int, terms: Iterable[Term]) -> Matrix:
        """The same matrix as at most one term, with at most one scalar."""
        graph, matrix = self.graph, collect(terms)
        if not matrix:
            return ()
        first = matrix[0]
        if same_diagonal(matrix):
            if len(matrix) == 1 and len(first.scalars) < 2 and may_wait(first.coefficient):
                return matrix
            scalar = self.name(span, on_diagonal(graph, matrix))
            place = standing(graph, scalar, first.row, first.col)
            return (place._replace(core=first.core),)
        if len(matrix) == 1:
            if not may_wait(first.coefficient):
                node = weighted(graph, first)
                return (standing(graph, node, first.row, first.col),)
            if len(first.scalars) > 1:
                return (first._replace(scalars=(scalar_product(graph, first.scalars),)),)
            if isinstance(first.core, Node):
                self.name(span, first.core, factor=bool(first.scalars) or first.coefficient != 1)
            return matrix
        box = bounding(matrix)
        node = self.name(span, assemble(graph, matrix, box))
        return (standing(graph, node, box.top, box.left),)

    def name(self, span: int, node: Node, factor: bool = False) -> Node:
        """The node, named after the columns it stands in if it has no name yet."""
        named = bool(node.label) and (factor or not node.label.startswith(FACTOR))
        if not named and node.op not in ("view", "const"):
            start, stop = self.spans[span]
            block = self.layout.at(start)
            whole = (start, stop) == (block.start, block.stop)
            part = "" if whole else f"[:,{start - block.start}:{stop - block.start}]"
            self.labels.give(node, block, part, factor)
        return node

    # -- the parts of a network -------------------------------------------------------------------
    def run(self, state: State) -> State:
        """The state after the last module."""
        for module in self.network.modules:
            state = self.module(module, state)
        self.labels.settle()
        return state

    def module(self, module: Module, state: State) -> State:
        if module.repeat == 0:
            return state
        if module.repeat == 1:
            return self.body(module, state)
        body = partial(self.body, module)
        return follow_loop(self.graph, module.repeat, body, self.name, state)

    def body(self, module: Module, state: State) -> State:
        start = state
        for part in module.body:
            if isinstance(part, Module):
                state = self.module(part, state)
            elif isinstance(part, AttentionLayer):
                state = self.attention(part, state)
            elif isinstance(part, PointwiseLayer):
                state = self.pointwise(part, state)
            else:
                state = self.applied(part, state)
        return self.plus(start, state) if module.skip else state

    def plus(self, a: State, b: State) -> State:
        """The sum of two states."""
        return tuple(self.settle(i, (*x, *y)) for i, (x, y) in enumerate(zip(a, b, strict=True)))

    def attention(self, layer: AttentionLayer, state: State) -> State:
        """A layer reads the old state everywhere before anything is written."""
        added = self.cut(term for head in layer.heads for term in self.head(head, state))
        self.labels.layer = layer
        after = tuple(
            (old if not new else self.settle(i, (*old, *new)))
            if layer.skip
            else self.settle(i, new)
            for i, (old, new) in enumerate(zip(state, added, strict=True))
        )
        for (start, _), new, matrix in zip(self.spans, added, after, strict=True):
            if new and matrix:
                self.labels.left(self.layout.at(start))
        return after

    def head(self, head: Head, state: State) -> Matrix:
        """`Q Kᵀ V`."""
        parts = [self.project(p, state) for p in head.projections]
        query, key, value = in_range(self.graph, parts)
        return triple(self.graph, query, transposed(self.graph, key), value)

    def project(self, projection: AnyProjection, state: State) -> Matrix:
        """`H W + B`."""
        terms: list[Term] = []
        for piece in self._pieces.of(projection):
            if piece.block is None:
                image = written(self.graph, piece.matrix)
            else:
                block = self.layout[piece.block]
                start, stop = columns_read(self.layout, piece)
                box = Box(0, start, self.layout.tokens, stop)
                read = tuple(t.moved(0, -block.start) for t in self.within(state, box))
                image = behind(self.graph, read, piece.matrix)
            by = Term(0, 0, 1, piece.coefficient)
            terms += [scaled(t.moved(0, piece.at), by) for t in image]
        return collect(terms)

    def pointwise(self, layer: PointwiseLayer, state: State) -> State:
        """Entry by entry, where the layer has an effect at all."""
        out = []
        for i, (start, stop) in enumerate(self.spans):
            here = [array[:, :, start:stop] for array in (layer.V, layer.W, layer.B, layer.C)]
            rows, cols = np.nonzero(((here[0] != 0) | (here[3] != 0)).any(axis=0))
            terms = list(state[i]) if layer.skip else []
            if rows.size:
                top, bottom = int(rows.min()), int(rows.max()) + 1
                left, right = int(cols.min()), int(cols.max()) + 1
                V, W, B, C = (array[:, top:bottom, left:right] for array in here)
                part = PointwiseLayer(V, W, B, C, activation=layer.activation)
                box = Box(top, start + left, bottom, start + right)
                x = self.value(state, box)
                node = self.graph.make("pointwise", (x,), part, box.rows, box.cols)
                terms.append(standing(self.graph, node, box.top, box.left))
            out.append(self.settle(i, terms))
        return tuple(out)

    def applied(self, layer: BlockPointwiseLayer, state: State) -> State:
        """A function at each place, everything else as it was."""
        terms = [term for matrix in state for term in matrix]
        for place, function in layer.applied:
            box = Box.of(*place.region(self.layout))
            node = self.graph.apply(function, self.value(state, box))
            terms = [part for term in terms for part in around(self.graph, term, box)]
            terms.append(standing(self.graph, node, box.top, box.left))
        return self.state(terms)
