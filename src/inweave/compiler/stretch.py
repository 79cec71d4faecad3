"""The same weights at other sizes: what was n rows high becomes as high as is wanted.

A network whose weights do not hold a size serves any value of it; only the heights of blocks
change. Those that inputs fill are known, and a head writes as many rows as its query has, so the
others follow. What comes out is to be verified against the program like any other network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inweave.compiler.held import held_sizes
from inweave.compiler.origin import Compiled
from inweave.errors import InweaveError
from inweave.exact.constants import Constant, Ones, Shift
from inweave.language.program import Traced
from inweave.model.layers import Head, heads_of
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Piece, Projection
from inweave.model.prompt import Fill, Output, Place

Tops = dict[str, int]  # how many rows of each block may hold something


class Differs(Exception):
    """More than the heights of blocks would have to change."""


def stretched(base: Compiled, wanted: Mapping[str, Any]) -> Compiled | None:
    """A network at other sizes, if its weights do not hold them; not verified."""
    origin, made = base.origin, base.origin.sizes
    changed = {name for name in origin.program.size_names if wanted[name] != made[name]}
    if changed & set(held_sizes(base.network, origin.program, made)):
        return None
    there = origin.at(wanted, made)
    moved = {made[name]: wanted[name] for name in changed}
    asked = origin.tokens if isinstance(origin.tokens, int) else 0
    try:
        return Compiled(_stretched(base.network, there.traced, moved, asked), there)
    except (Differs, InweaveError):
        return None


def _stretched(network: Network, traced: Traced, moved: Mapping[int, int], asked: int) -> Network:
    """A network as high as a program that was recorded at other sizes."""
    specs = {spec.name: spec for spec in traced.inputs}
    inputs = tuple(replace(specs[spec.name], sign=spec.sign) for spec in network.inputs)
    fills = tuple(_filled(fill, specs, moved) for fill in network.fills)
    outputs = tuple(
        replace(one, place=_shaped(one.place, traced.outputs[one.name].shape))
        for one in network.outputs
    )
    before = _tops(network, network.fills, network.outputs)
    after = _tops(network, fills, outputs)
    blocks = []
    for block in network.layout:
        old, new = before[block.name], after[block.name]
        if old != new and old != block.rows:
            raise Differs
        blocks.append(block if old == new else replace(block, rows=new))
    modules = tuple(_carrying(module, before, after) for module in network.modules)
    least = max(asked, _tallest_bias(modules), *(block.rows for block in blocks))
    if asked and least > asked:
        raise Differs
    return Network(Layout(tuple(blocks), least), modules, inputs, fills, outputs)


def _shaped(place: Place, shape: tuple[int, int]) -> Place:
    return place if place.diagonal else replace(place, rows=shape[0], cols=shape[1])


def _filled(fill: Fill, specs: Mapping[str, Any], moved: Mapping[int, int]) -> Fill:
    if fill.source is not None:
        spec = specs[fill.source]
        return replace(fill, place=_shaped(fill.place, (spec.rows, spec.cols)))
    assert fill.constant is not None
    constant = _higher(fill.constant, moved) if not fill.place.transpose else fill.constant
    return replace(fill, constant=constant, place=_shaped(fill.place, constant.shape))


def _higher(constant: Constant, moved: Mapping[int, int]) -> Constant:
    """A constant with so many more rows, if that is clear."""
    rows = moved.get(constant.rows, constant.rows)
    if rows == constant.rows:
        return constant
    if isinstance(constant, Ones):
        return replace(constant, rows=rows)
    if isinstance(constant, Shift) and constant.row + constant.size < constant.rows:
        return replace(constant, rows=rows)
    raise Differs


def _carrying(module: Module, before: Tops, after: Tops) -> Module:
    """A module whose carried values are as high as the blocks in which they stand."""

    def moved(place: Place) -> Place:
        rows, cols = place.extent
        if place.diagonal or before[place.block] != place.row + rows:
            return place
        rows = after[place.block] - place.row
        return _shaped(place, (cols, rows) if place.transpose else (rows, cols))

    body = tuple(
        _carrying(part, before, after) if isinstance(part, Module) else part for part in module.body
    )
    carries = tuple(tuple(map(moved, places)) for places in module.carries)
    return replace(module, body=body, carries=carries)


# -- heights --------------------------------------------------------------------------------------
def _tops(network: Network, fills: Sequence[Fill], outputs: Sequence[Output]) -> Tops:
    """Rows of every block that may hold something: what is filled, read, and written by heads."""
    tops = {block.name: 1 for block in network.layout}
    for place in (*(fill.place for fill in fills), *(output.place for output in outputs)):
        tops[place.block] = max(tops[place.block], place.row + place.extent[0])
    heads = heads_of(network.layers)
    seen: Tops = {}
    while tops != seen:
        seen = dict(tops)
        for head in heads:
            _write(head, network.layout, tops)
    return tops


def _write(head: Head, layout: Layout, tops: Tops) -> None:
    """Raise the blocks that a head writes: `Q Kᵀ V` is as high as Q, or as V if Q Kᵀ copies."""
    query, key, value = map(_pieces, head.projections)
    plain = len(key) == 1 and _is_identity(key[0])
    copies = plain and len(query) == 1 and _is_identity(query[0])
    for piece in value:
        read = [q for q in query if not plain or _is_read(q, piece)]
        rows = max((_rows(q, tops) for q in read), default=0)
        if copies:
            rows = min(rows, _rows(piece, tops))
        for block in layout.over(piece.at, piece.stop):
            tops[block.name] = max(tops[block.name], rows)


def _is_identity(piece: Piece) -> bool:
    return piece.block is None and piece.at == 0 and piece.matrix.is_identity()


def _is_read(query: Piece, value: Piece) -> bool:
    """Whether `Q V` is made of a piece of Q, as far as a bias V says which columns it reads."""
    if value.block is not None or not isinstance(value.matrix, Shift):
        return True
    low, size = query.at, query.matrix.cols
    if isinstance(query.matrix, Shift):
        low, size = low + query.matrix.col, query.matrix.size
    return low < value.matrix.row + value.matrix.size and value.matrix.row < low + size


def _rows(piece: Piece, tops: Mapping[str, int]) -> int:
    return piece.matrix.rows if piece.block is None else tops[piece.block]


def _pieces(projection: AnyProjection) -> tuple[Piece, ...]:
    if not isinstance(projection, Projection):
        raise Differs
    return projection.pieces


def _tallest_bias(modules: Sequence[Module]) -> int:
    heads = heads_of(layer for module in modules for layer in module.layers)
    pieces = [piece for head in heads for read in head.projections for piece in _pieces(read)]
    return max((piece.matrix.rows for piece in pieces if piece.block is None), default=0)
