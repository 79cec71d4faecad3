"""Random networks for property tests: everything the data model allows, at small sizes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from inweave import (
    AttentionLayer,
    DenseProjection,
    Fill,
    Head,
    Input,
    Layout,
    Module,
    Network,
    Output,
    Piece,
    Place,
    PointwiseLayer,
    Projection,
)
from inweave.exact.constants import Constant, Dense, Ones, Shift

COEFFICIENTS = [Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2), Fraction(1, 3)]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shapes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=4))
    tallest = max(rows for rows, _ in shapes)
    return Layout.of(dict(zip("ABCD", shapes, strict=False)), tallest + draw(st.integers(0, 1)))


@st.composite
def constants(draw: st.DrawFn, rows: int, cols: int) -> Constant:
    kind = draw(st.sampled_from(["shift", "shift", "shift", "ones", "dense"]))
    if kind == "ones":
        return Ones(rows, cols)
    if kind == "dense":
        entries = draw(st.lists(st.integers(-2, 2), min_size=rows * cols, max_size=rows * cols))
        return Dense(np.array(entries, dtype=float).reshape(rows, cols) / 2)
    size = draw(st.integers(0, min(rows, cols)))
    row, col = draw(st.integers(0, rows - size)), draw(st.integers(0, cols - size))
    return Shift(rows, cols, row, col, size)


@st.composite
def pieces(draw: st.DrawFn, layout: Layout) -> Piece:
    block = draw(st.sampled_from([None, *layout.names, *layout.names]))
    rows = draw(st.integers(1, layout.tokens)) if block is None else layout[block].cols
    cols = draw(st.integers(1, layout.width))
    at = draw(st.integers(0, layout.width - cols))
    return Piece(draw(constants(rows, cols)), at, draw(st.sampled_from(COEFFICIENTS)), block)


@st.composite
def projections(draw: st.DrawFn, layout: Layout) -> Projection | DenseProjection:
    if draw(st.integers(0, 9)) == 0:
        rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        W = rng.integers(-2, 3, (layout.width, layout.width)) / 2
        W = W * (rng.random(W.shape) < 0.4)
        B = rng.integers(-2, 3, (layout.tokens, layout.width)) / 2
        return DenseProjection(W, B if draw(st.booleans()) else None)
    return Projection(tuple(draw(st.lists(pieces(layout), max_size=3))))


@st.composite
def heads(draw: st.DrawFn, layout: Layout) -> Head:
    return Head(*(draw(projections(layout)) for _ in range(3)))


@st.composite
def pointwise_layers(draw: st.DrawFn, layout: Layout, activation: str) -> PointwiseLayer:
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = (draw(st.integers(0, 2)), layout.tokens, layout.width)
    some = (rng.random((4, *shape)) < 0.4) * rng.integers(-2, 3, (4, *shape)) / 2
    return PointwiseLayer(*some, activation=activation, skip=draw(st.booleans()))


@st.composite
def modules(
    draw: st.DrawFn, layout: Layout, repeats: int, activation: str | None, nested: bool = True
) -> Module:
    body: list[Any] = []
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.integers(0, 9))
        if kind == 0 and nested:
            body.append(draw(modules(layout, repeats, activation, nested=False)))
        elif kind == 1 and activation:
            body.append(draw(pointwise_layers(layout, activation)))
        else:
            some = tuple(draw(st.lists(heads(layout), max_size=3)))
            body.append(AttentionLayer(some, draw(st.sampled_from([True, True, False]))))
    return Module(tuple(body), draw(st.integers(0, repeats)), draw(st.booleans()))


@st.composite
def places(draw: st.DrawFn, layout: Layout) -> Place:
    block = layout[draw(st.sampled_from(layout.names))]
    rows, cols = draw(st.integers(1, block.rows)), draw(st.integers(1, block.cols))
    at = {"row": draw(st.integers(0, block.rows - rows)),
          "col": draw(st.integers(0, block.cols - cols))}  # fmt: skip
    if draw(st.integers(0, 3)) == 0:
        return Place(block.name, 1, 1, **at, diagonal=min(rows, cols))
    if draw(st.booleans()):
        return Place(block.name, cols, rows, **at, transpose=True)
    return Place(block.name, rows, cols, **at)


@st.composite
def networks(
    draw: st.DrawFn, repeats: int = 3, modules_at_most: int = 3, activation: str | None = "identity"
) -> Network:
    layout = draw(layouts())
    inputs, fills, outputs = [Input("s", kind="scalar")], [], []
    for place in draw(st.lists(places(layout), max_size=4)):
        scale = (("s", Fraction(1)),) if draw(st.integers(0, 3)) == 0 else ()
        if draw(st.booleans()):
            constant = draw(constants(place.rows, place.cols))
            fills.append(Fill(place, constant=constant, scale=scale))
        else:
            inputs.append(Input(f"x{len(inputs)}", place.rows, place.cols))
            fills.append(Fill(place, inputs[-1].name, scale=scale))
    fills = [replace(f, coefficient=draw(st.sampled_from(COEFFICIENTS))) for f in fills]
    for i, place in enumerate(draw(st.lists(places(layout), min_size=1, max_size=2))):
        outputs.append(Output(f"y{i}", place))
    some = st.lists(modules(layout, repeats, activation), min_size=1, max_size=modules_at_most)
    return Network(layout, tuple(draw(some)), tuple(inputs), tuple(fills), tuple(outputs))


def absolute(network: Network) -> Network:
    """The network with absolute values for all weights and fills: it bounds rounding errors.

    Fills too, because two of them may stand in one place and all but cancel.
    """

    def constant(c: Constant) -> Constant:
        return Dense(np.abs(c.array)) if isinstance(c, Dense) else c

    def projection(p: Any) -> Any:
        if isinstance(p, DenseProjection):
            return DenseProjection(abs(p.W), None if p.B is None else abs(p.B))
        return Projection(tuple(
            replace(q, matrix=constant(q.matrix), coefficient=abs(q.coefficient)) for q in p.pieces
        ))  # fmt: skip

    def part(p: Any) -> Any:
        if isinstance(p, Module):
            return replace(p, body=tuple(map(part, p.body)))
        if isinstance(p, PointwiseLayer):
            return PointwiseLayer(*(abs(x) for x in (p.V, p.W, p.B, p.C)), p.activation, p.skip)
        return replace(p, heads=tuple(Head(*map(projection, h.projections)) for h in p.heads))

    fills = tuple(
        replace(
            fill,
            coefficient=abs(fill.coefficient),
            constant=None if fill.constant is None else constant(fill.constant),
        )
        for fill in network.fills
    )
    return replace(network, modules=tuple(map(part, network.modules)), fills=fills)
