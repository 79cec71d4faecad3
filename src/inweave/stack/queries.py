"""Tokens that only ask, written without a mask.

In-context learning is often studied with the query token masked out of keys and values; a network
of inweave has no masks. It needs none: give the asking tokens columns of their own. Where the
prompt was `H`, its first tokens now stand in the left half of a prompt twice as wide and the asking
ones in the right half, so a key or value projection that reads the left half is zero for them. A
head becomes two that share keys and values, one asked from the left and one from the right, each
writing to its own half. A mask therefore costs one more head for each and twice the width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from inweave.errors import ProgramError
from inweave.model.layers import AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import DenseProjection
from inweave.model.prompt import Place

Array = np.ndarray[Any, Any]
LEFT, RIGHT = 0, 1


def split_queries(network: Network, queries: int) -> Network:
    """The network without masks that computes what `network` does if its last tokens only ask."""
    if network.embedding is not None:
        raise ProgramError("tokens that only ask stand apart: take a network without an embedding")
    old = network.layout
    seen = old.tokens - queries
    shapes = {b.name: (min(b.rows, seen), b.cols) for b in old.blocks}
    shapes |= {_right(b.name): (old.tokens, b.cols) for b in old.blocks}
    layout = Layout.of(shapes)

    def place(of: Place) -> Place:
        bottom = of.row + of.extent[0]
        if of.row < seen < bottom:
            raise ProgramError(
                f"block {of.block!r}: rows {of.row} to {bottom} belong to tokens on both sides of "
                f"row {seen}, where the {queries} that only ask begin"
            )
        return of if bottom <= seen else replace(of, block=_right(of.block))

    def convert(part: Layer | Module) -> Layer | Module:
        if isinstance(part, Module):
            return replace(part, body=tuple(convert(p) for p in part.body))
        if isinstance(part, AttentionLayer):
            halves = [_halves(head, old, seen) for head in part.heads]
            return replace(part, heads=tuple(h for pair in halves for h in pair))
        if isinstance(part, PointwiseLayer):
            V, W, B, C = (_apart(getattr(part, name), seen) for name in "VWBC")
            return PointwiseLayer(V, W, B, C, part.activation, part.skip)
        raise ProgramError("a pointwise layer by blocks has no counterpart with split queries")

    return Network(
        layout,
        tuple(convert(m) for m in network.modules),  # type: ignore[misc]
        network.inputs,
        tuple(replace(fill, place=place(fill.place)) for fill in network.fills),
        tuple(replace(output, place=place(output.place)) for output in network.outputs),
    )


def _right(name: str) -> str:
    return f"{name}, query"


def _halves(head: Head, layout: Layout, seen: int) -> tuple[Head, Head]:
    """The head asked from the left half and the one asked from the right."""
    q, k, v = ((p.weight(layout), p.bias(layout)) for p in head.projections)
    first, last = slice(0, seen), slice(seen, None)
    key = _projection(*k, first, LEFT, LEFT)
    return (
        Head(_projection(*q, first, LEFT, LEFT), key, _projection(*v, first, LEFT, LEFT)),
        Head(_projection(*q, last, RIGHT, LEFT), key, _projection(*v, first, LEFT, RIGHT)),
    )


def _projection(W: Array, B: Array, rows: slice, read: int, write: int) -> DenseProjection:
    """A projection of one half into one half, with the biases of those rows only."""
    tokens, f = B.shape
    wide, bias = np.zeros((2 * f, 2 * f)), np.zeros((tokens, 2 * f))
    wide[read * f : (read + 1) * f, write * f : (write + 1) * f] = W
    bias[rows, write * f : (write + 1) * f] = B[rows]
    return DenseProjection(wide, bias if bias.any() else None)


def _apart(array: Array, seen: int) -> Array:
    """(units, tokens, f) with the first tokens in the left half of the columns."""
    units, tokens, f = array.shape
    wide = np.zeros((units, tokens, 2 * f))
    wide[:, :seen, :f], wide[:, seen:, f:] = array[:, :seen], array[:, seen:]
    return wide
