"""Heads as pieces: which blocks they read, and how.

What came through another tool holds its weights densely, in the columns of the layout. Where blocks
are only moved and scaled, that is a few runs along diagonals, each a piece of an identity. Weights
that mix the entries of blocks are no such thing, and say nothing in the words of a program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np

from inweave.errors import DecompileError
from inweave.exact.constants import Dense, Shift, exact
from inweave.model.embedding import in_pieces
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.projection import AnyProjection, Piece, Projection

FEW = 2  # runs of one entry each that mix nothing


def piecewise(layer: AttentionLayer, layout: Layout, where: str) -> AttentionLayer:
    """A layer whose heads say which blocks they read, or DecompileError."""
    heads = (Head(*(_pieces(p, layout, where) for p in head.projections)) for head in layer.heads)
    return replace(layer, heads=tuple(heads))


def _pieces(projection: AnyProjection, layout: Layout, where: str) -> Projection:
    if isinstance(projection, Projection):
        return projection
    found: list[Piece] = []
    for piece in in_pieces(projection, layout).pieces:
        runs = list(_runs(piece)) if isinstance(piece.matrix, Dense) else [piece]
        if len(runs) > max(FEW, int(np.count_nonzero(piece.matrix.entries())) // 2):
            raise DecompileError(
                f"{where} has a head of dense weights, which mix the entries of blocks: a program "
                "is read from blocks, so this network lacks the embedding that says where they "
                "are. A trained network has none; inweave.lab.algorithm reads those of the lab, "
                "and says how far the program is from the network"
            )
        found += runs
    return Projection(tuple(found))


def _runs(piece: Piece) -> Iterator[Piece]:
    """A piece cut into runs of one number along diagonals."""
    entries = piece.matrix.entries()
    rows, cols = entries.shape
    for offset in range(1 - rows, cols):
        at = max(-offset, 0)
        for number, run in groupby(np.diagonal(entries, offset).tolist()):
            size = len(list(run))
            if number:
                part = Shift(rows, cols, at, at + offset, size)
                yield replace(piece, matrix=part, coefficient=piece.coefficient * exact(number))
            at += size
