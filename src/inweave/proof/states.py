"""A network's state in words, and what its layers do to it.

The definition of `inweave.model.dense` once more, over sums of words in place of arrays: what a
proof compares with a program, and what a program is read back from. A loop is whatever its reader
makes of it; here is only where its values stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from inweave.exact.constants import Constant, Shift, identity, select
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.prompt import HALF, Fill, Place, rooted
from inweave.model.relunet import Function
from inweave.proof.words import Alphabet, Words

State = dict[str, Words]  # every block as tokens x cols, zero below its own rows
Reads = dict[tuple[str | None, Constant, Fraction], Words]  # what heads of one layer read


class NotProved(Exception):
    """The algebra does not show equality; says why. It does not show a difference either."""


class States:
    """The states of one network, in the words of one alphabet."""

    def __init__(self, network: Network, alphabet: Alphabet) -> None:
        self.network, self.layout, self.alphabet = network, network.layout, alphabet

    def applied(self, function: Function, x: Words) -> Words:
        """A function of every entry."""
        raise NotImplementedError

    def same(self, got: Words, expected: Words, what: str) -> None:
        """Refuse two values that are not seen to be equal."""
        if got.shape != expected.shape or not (got - expected).is_zero():
            raise NotProved(f"{what} is written differently")

    def skipped(self, module: Module, before: State, after: State) -> State:
        """The state after a module, its skip included."""
        if not module.skip:
            return after
        return {name: before[name] + words for name, words in after.items()}

    # -- the prompt -------------------------------------------------------------------------------
    def given(self, name: str, rows: int, cols: int) -> Words:
        """An input; one whose root stands in the prompt is the square of that root."""
        if name in rooted(self.network.fills):
            root = self.alphabet.symbol(("root", name), rows, cols)
            return root @ root
        return self.alphabet.symbol(("input", name), rows, cols)

    def filled(self) -> State:
        tokens = self.layout.tokens
        state = {block.name: self.alphabet.zero(tokens, block.cols) for block in self.layout}
        for fill in self.network.fills:
            state = self.write(state, fill.place, self._value(fill))
        return state

    def _value(self, fill: Fill) -> Words:
        if fill.constant is not None:
            value = self.alphabet.constant(fill.constant)
        else:
            spec = next(spec for spec in self.network.inputs if spec.name == fill.source)
            value = self.given(spec.name, spec.rows, spec.cols)
        for name, power in fill.scale:
            scalar = self.given(name, 1, 1)
            if power == HALF:
                scalar = self.alphabet.symbol(("root", name), 1, 1)
            value = value.scaled(scalar)
        return value.times(fill.coefficient)

    def read(self, state: State, place: Place) -> Words:
        """The value that stands at a place."""
        rows, cols = (1, 1) if place.diagonal else place.extent
        part = self._rows(place.row, rows).T @ state[place.block]
        block = self.layout[place.block]
        part = part @ self.alphabet.constant(select(block.cols, place.col, place.col + cols))
        return part.T if place.transpose else part

    def write(self, state: State, place: Place, value: Words) -> State:
        """The state with a value added at a place."""
        value = self._spread(value, place.diagonal)
        if place.transpose and not place.diagonal:
            value = value.T
        block, (rows, cols) = self.layout[place.block], place.extent
        right = self.alphabet.constant(select(block.cols, place.col, place.col + cols).T)
        added = self._rows(place.row, rows) @ value @ right
        return {**state, place.block: state[place.block] + added}

    def _spread(self, value: Words, diagonal: int) -> Words:
        """A value as it stands: `s I_q` on a diagonal."""
        return self.alphabet.constant(identity(diagonal)).scaled(value) if diagonal else value

    def _rows(self, row: int, rows: int) -> Words:
        """The tokens x rows matrix that puts a value at a row of the prompt."""
        return self.alphabet.constant(Shift(self.layout.tokens, rows, row, 0, rows))

    def replaced(self, state: State, place: Place, value: Words) -> State:
        """The state with a value standing at a place instead of what stood there."""
        there = self.read(state, _whole(place)).times(Fraction(-1))
        return self.write(self.write(state, _whole(place), there), place, value)

    # -- layers -----------------------------------------------------------------------------------
    def layer(self, layer: Layer, state: State) -> State:
        if isinstance(layer, BlockPointwiseLayer):
            after = state
            for place, function in layer.applied:
                if place.diagonal:
                    raise NotProved("a function is applied to a diagonal")
                value = self.applied(function, self.read(state, place))
                after = self.replaced(after, place, value)
            return after
        if not isinstance(layer, AttentionLayer):
            raise NotProved("a dense pointwise layer has no words")
        written = {name: [value] if layer.skip else [] for name, value in state.items()}
        read: Reads = {}
        for head in layer.heads:
            for name, value in self.head(head, state, read):
                written[name].append(value)
        return {name: self.alphabet.sum(*state[name].shape, written[name]) for name in state}

    def head(self, head: Head, state: State, read: Reads) -> Iterator[tuple[str, Words]]:
        """`Q Kᵀ V`: its columns, each with the block in which they stand."""
        parts = (head.query, head.key, head.value)
        query, key, values = (self._project(part, state, read) for part in parts)
        scores = self.alphabet.zero(self.layout.tokens, self.layout.tokens)
        for at, q in query:
            for other, k in key:
                low, high = max(at, other), min(at + q.cols, other + k.cols)
                if low < high:
                    scores += (
                        self._columns(q, low - at, high - at)
                        @ self._columns(k, low - other, high - other).T
                    )
        for at, v in values:
            out = scores @ v
            for block in self.layout.over(at, at + v.cols):
                low, high = max(at, block.start), min(at + v.cols, block.stop)
                part = self._columns(out, low - at, high - at)
                put = select(block.cols, low - block.start, high - block.start).T
                yield block.name, part @ self.alphabet.constant(put)

    def _project(
        self, projection: AnyProjection, state: State, read: Reads
    ) -> list[tuple[int, Words]]:
        """The pieces of `H W + B`: from which column on, and what.

        What several heads of a layer read is computed once, and kept in `read`.
        """
        if not isinstance(projection, Projection):
            raise NotProved("a dense projection has no words")
        out = []
        for piece in projection.pieces:
            what = (piece.block, piece.matrix, piece.coefficient)
            if what not in read:
                matrix = self.alphabet.constant(piece.matrix)
                left = self._rows(0, matrix.rows) if piece.block is None else state[piece.block]
                read[what] = (left @ matrix).times(piece.coefficient)
            out.append((piece.at, read[what]))
        return out

    def _columns(self, x: Words, start: int, stop: int) -> Words:
        if (start, stop) == (0, x.cols):
            return x
        self.alphabet.fix(x.cols)  # which columns meet depends on how wide they are
        return x @ self.alphabet.constant(select(x.cols, start, stop))

    # -- what a loop carries ---------------------------------------------------------------------
    def carrying(self, state: State, module: Module, values: Sequence[Words]) -> State:
        for places, value in zip(module.carries, values, strict=True):
            for place in places:
                state = self.replaced(state, place, value)
        return state

    def stands(self, state: State, place: Place, value: Words, what: str) -> None:
        expected = self._spread(value, place.diagonal)
        self.same(self.read(state, _whole(place)), expected, f"{what}, block {place.block!r}")


def _whole(place: Place) -> Place:
    """All that a value takes up: of one on a diagonal, the square around it."""
    size = place.diagonal
    return Place(place.block, size, size, place.row, place.col) if size else place
