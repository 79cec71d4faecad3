"""Which columns of the prompt belong together.

A block may hold several values side by side, each read and written on its own. Kept as one array,
they would be copied together whenever one of them changes; kept column by column, a matrix would
fall apart. A span is the middle way: columns that some head multiplies, with a value or a matrix of
numbers, or some input or answer takes up, as one. Heads that only move things do not tie columns
together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from inweave.exact.constants import Dense, Shift
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, DenseProjection, Piece
from inweave.model.prompt import Place

Range = tuple[int, int]


class Pieces:
    """The pieces of any projection; a dense one is cut into one piece per block and a bias."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._cut: dict[DenseProjection, tuple[Piece, ...]] = {}

    def of(self, projection: AnyProjection) -> tuple[Piece, ...]:
        if not isinstance(projection, DenseProjection):
            return projection.pieces
        if projection not in self._cut:
            W, B = projection.W, projection.B
            rows = [(block.name, W[block.columns]) for block in self.layout]
            pieces = [Piece(Dense(part), 0, block=name) for name, part in rows if (part != 0).any()]
            if B is not None and np.any(B != 0):
                pieces.append(Piece(Dense(B), 0))
            self._cut[projection] = tuple(pieces)
        return self._cut[projection]


def spans(network: Network, pieces: Pieces) -> list[Range]:
    """The column ranges that the network treats as one value each, in order."""
    layout = network.layout
    ranges = [_columns(layout, fill.place) for fill in network.fills]
    ranges += [_columns(layout, output.place) for output in network.outputs]
    heads = [
        head
        for layer in network.layers
        if isinstance(layer, AttentionLayer)
        for head in layer.heads
    ]
    fixed = _fixed_blocks(network, heads, pieces)
    ranges += [span for layer in network.layers if isinstance(layer, AttentionLayer)
               for span in _swept(layout, layer, pieces)]  # fmt: skip
    for head in heads:
        reads = [[p for p in pieces.of(part) if p.block not in fixed] for part in head.projections]
        if sum(map(bool, reads)) > 1:
            ranges += [columns_read(layout, piece) for part in reads for piece in part]
            ranges += [_written(piece) for piece in pieces.of(head.value)]
        elif not any(isinstance(part, DenseProjection) for part in head.projections):
            ranges += [columns_read(layout, p) for p in itertools.chain(*reads) if _mixes(p)]
    return list(_merged(layout, ranges))


def _mixes(piece: Piece) -> bool:
    """Whether a piece multiplies what it reads by a matrix of numbers."""
    return not isinstance(piece.matrix, Shift)


def _swept(layout: Layout, layer: AttentionLayer, pieces: Pieces) -> Iterator[Range]:
    """Columns that the heads of a layer read one after the other: the entries of one value."""
    singles: dict[int, set[int]] = {}
    for head in layer.heads:
        for slot, projection in enumerate(head.projections):
            for piece in pieces.of(projection):
                if piece.block is not None:
                    start, stop = columns_read(layout, piece)
                    if stop == start + 1:
                        singles.setdefault(slot, set()).add(start)
    for columns in singles.values():
        for column in columns:
            if column + 1 in columns:
                yield column, column + 2


def _fixed_blocks(network: Network, heads: Iterable[Head], pieces: Pieces) -> set[str | None]:
    """Blocks that hold a constant from beginning to end, and None, the block of a bias."""
    changing = {fill.place.block for fill in network.fills if fill.source is not None}
    for head in heads:
        for piece in pieces.of(head.value):
            changing |= {block.name for block in network.layout.over(*_written(piece))}
    filled = {fill.place.block for fill in network.fills}
    return {None} | (filled - changing)


def _columns(layout: Layout, place: Place) -> Range:
    _, cols = place.region(layout)
    return cols.start, cols.stop


def columns_read(layout: Layout, piece: Piece) -> Range:
    """The columns of the prompt that a piece reads."""
    block = layout[str(piece.block)]
    if isinstance(piece.matrix, Shift):
        start = block.start + piece.matrix.row
        return start, start + piece.matrix.size
    return block.start, block.stop


def _written(piece: Piece) -> Range:
    if isinstance(piece.matrix, Shift):
        start = piece.at + piece.matrix.col
        return start, start + piece.matrix.size
    return piece.at, piece.stop


def _merged(layout: Layout, ranges: Iterable[Range]) -> Iterator[Range]:
    """Ranges that overlap become one; a block's border always separates, gaps stand alone."""
    inside: dict[str, list[Range]] = {block.name: [] for block in layout}
    for start, stop in sorted(r for r in set(ranges) if r[0] < r[1]):
        for block in layout.over(start, stop):
            inside[block.name].append((max(start, block.start), min(stop, block.stop)))
    for block in layout:
        merged: list[Range] = []
        for start, stop in inside[block.name]:
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        at = block.start
        for start, stop in [*merged, (block.stop, block.stop)]:
            if at < start:
                yield at, start
            if start < stop:
                yield start, stop
            at = stop
