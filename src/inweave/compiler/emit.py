"""Pass: heads over blocks become a Network: projections, layers, modules.

Projections are written as what they are: which block, which constant, which coefficient, which
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inweave.compiler.forms import ONE
from inweave.compiler.layers import Allocation, HeadSpec, Item, LayerSpec, Part, layers
from inweave.compiler.options import Options
from inweave.errors import CompileError
from inweave.exact.constants import Constant, identity, product, select
from inweave.model import modules
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import Piece, Projection
from inweave.model.prompt import Output, rooted


def emit(allocation: Allocation, options: Options) -> Network:
    if options.given is None:
        layout = _layout(allocation, options.tokens)
    else:
        layout = options.given.layout
        if options.tokens not in (None, layout.tokens):
            raise CompileError(
                f"tokens={options.tokens}, but the given layout has {layout.tokens} tokens"
            )
    roots = rooted(allocation.fills)
    inputs = tuple(
        replace(spec, sign="nonnegative") if spec.name in roots else spec for spec in options.inputs
    )
    outputs = tuple(
        Output(name, allocation.place(key, turned), options.kinds[name])
        for name, (key, turned) in allocation.outputs.items()
    )
    made = Emitter(allocation, layout).modules(allocation.parts)
    return Network(layout, tuple(made), inputs, allocation.fills, outputs)


def _layout(allocation: Allocation, tokens: int | None) -> Layout:
    """Blocks side by side, as many columns as the widest product inside a head, enough tokens."""
    shapes = {name: (slot.rows, slot.cols) for name, slot in allocation.blocks.items()}
    if not shapes:
        raise CompileError("the program has nothing to compute")
    heads = [head for layer in layers(allocation.parts) for head in layer.heads]
    widest = max((item.cols for h in heads for item in (*h.query, *h.key)), default=0)
    width = sum(cols for _, cols in shapes.values())
    if widest > width:
        shapes["pad"] = (1, widest - width)
    biases = [i.constant for h in heads for i in h.items if i.key is None and i.constant]
    tallest = max((k.rows for k in biases), default=0)
    needed = max(rows for rows, _ in shapes.values())
    if tokens is not None and tokens < max(needed, tallest):
        tall = max(shapes, key=lambda name: shapes[name][0])
        what = f"block {tall!r} has {needed} rows"
        if needed < tallest:
            what = f"an identity in the weights has {tallest} rows"
        raise CompileError(f"tokens={tokens} is too few: {what}")
    return Layout.of(shapes, tokens or max(needed, tallest))


class Emitter:
    """Writes the modules of one allocation."""

    def __init__(self, allocation: Allocation, layout: Layout) -> None:
        self.allocation, self.layout = allocation, layout

    def modules(self, parts: Sequence[Part]) -> list[Module]:
        out: list[Module] = []
        run: list[Layer] = []
        for part in parts:
            if isinstance(part, LayerSpec):
                run += self._layer(part)
                continue
            if run:
                out.append(Module(tuple(run)))
                run = []
            inner: list[modules.Part] = []
            for module in self.modules(part.body):
                inner += [module] if module.repeat != 1 or module.carries else list(module.body)
            place = self.allocation.place
            carries = tuple(tuple(place(key) for key in keys) for keys in part.carried)
            out.append(Module(tuple(inner), part.loop.times, carries=carries))
        if run:
            out.append(Module(tuple(run)))
        return out

    def _layer(self, layer: LayerSpec) -> list[Layer]:
        heads = tuple(self._head(head) for head in layer.heads)
        # An argument that stands where its function is applied needs no head to bring it there.
        out: list[Layer] = [AttentionLayer(heads)] if heads or not layer.pointwise else []
        if layer.pointwise:
            place = self.allocation.place
            applied = tuple((place(key), function) for key, function in layer.pointwise)
            out.append(BlockPointwiseLayer(applied))
        return out

    def _head(self, head: HeadSpec) -> Head:
        query = tuple(self._piece(item, 0) for item in head.query)
        key = tuple(self._piece(item, 0) for item in head.key)
        value = tuple(
            self._piece(item, self.layout[self.allocation.where[dest]].start)
            for dest, item in head.values
        )
        return Head(Projection(query), Projection(key), Projection(value))

    def _piece(self, item: Item, at: int) -> Piece:
        if item.key is None:
            assert item.constant is not None
            return Piece(item.constant, at, item.coefficient)
        slot = self.allocation.slot(item.key)
        matrix: Constant = identity(slot.cols)
        if item.key.value.is_scalar and slot.diagonal > 1:
            matrix = select(slot.cols, 0, max(item.diagonal, 1))
        c = ONE
        if item.constant is not None:
            c, matrix = product(matrix, item.constant)
        return Piece(matrix, at, item.coefficient * c, self.allocation.where[item.key])
