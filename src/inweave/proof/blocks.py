"""How large the blocks of a network become, read off its heads.

A plan would tell more exactly, but takes longer to make than a comparison in words, which needs no
plan. Heads that read and write entries of the same height are many, and are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from inweave.exact.constants import Constant, Ones, Shift
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.modules import Module, Part
from inweave.model.projection import Piece, Projection
from inweave.proof.heights import ZERO, Height, Heights

State = Mapping[str, Height]  # of the entries of every block


class Blocks:
    """The blocks of a network of attention layers, given in pieces."""

    def __init__(self, layout: Layout, arithmetic: Heights) -> None:
        self.layout, self.arithmetic = layout, arithmetic
        self._constants: dict[tuple[Constant, Fraction], tuple[Height, int]] = {}

    def after(self, parts: Sequence[Part], state: State) -> State:
        """The blocks after some parts."""
        for part in parts:
            if isinstance(part, Module):
                for _ in range(part.repeat):
                    after = self.after(part.body, state)
                    state = {b: after[b] + state[b] for b in state} if part.skip else after
            else:
                assert isinstance(part, AttentionLayer)
                state = self._layer(part, state)
        return state

    def _layer(self, layer: AttentionLayer, state: State) -> State:
        found = Counter(written for head in layer.heads for written in self._written(head, state))
        after = dict(state) if layer.skip else dict.fromkeys(state, ZERO)
        for (block, query, key, inner, value), count in found.items():
            scores = (query * key).summed(inner)
            after[block] += (scores * value).summed(self.layout.tokens).summed(count)
        return after

    def _written(self, head: Head, state: State) -> list[tuple[str, Height, Height, int, Height]]:
        """The blocks that a head writes into, and of what."""
        query, key = (self._projected(part, state) for part in (head.query, head.key))
        inner = min(query[1], key[1])
        return [
            (block.name, query[0], key[0], inner, self._read(piece, state))
            for piece in _pieces(head.value)
            for block in self.layout.over(piece.at, piece.stop)
        ]

    def _projected(self, projection: object, state: State) -> tuple[Height, int]:
        """The entries of `H W + B`, and in how many columns they stand."""
        height, pieces = ZERO, _pieces(projection)
        for piece in pieces:
            height += self._read(piece, state)
        return height, sum(piece.matrix.cols for piece in pieces)

    def _read(self, piece: Piece, state: State) -> Height:
        what = piece.matrix, piece.coefficient
        if what not in self._constants:
            height, terms = self._constant(piece.matrix)
            number = self.arithmetic.number(piece.coefficient).height
            self._constants[what] = height * number, terms
        height, terms = self._constants[what]
        return height if piece.block is None else (state[piece.block] * height).summed(terms)

    def _constant(self, matrix: Constant) -> tuple[Height, int]:
        """The entries of a constant, and of how many terms its products are sums."""
        if isinstance(matrix, Shift | Ones):
            return Height(), 1 if isinstance(matrix, Shift) else matrix.rows
        entries = matrix.entries()
        terms = int(np.count_nonzero(entries, axis=0).max(initial=0))
        return self.arithmetic.array(entries).height, terms


def _pieces(projection: object) -> tuple[Piece, ...]:
    assert isinstance(projection, Projection)
    return projection.pieces
