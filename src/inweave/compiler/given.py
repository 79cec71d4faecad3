"""A user's own input form: compile with the blocks that are there, the way round that they are.

Each block that an input fills becomes a leaf that is stored once, as it stands; inputs are written
in terms of these leaves (y is `Y₀ e_last` where the prompt holds `Y₀ = [O y]`, η is s² where it
holds `√η I`). Blocks that nothing fills are free: loops, scratch and answers go there. What does
not fit is refused with the block that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inweave.compiler.forms import ONE, Form, Forms, Leaf
from inweave.errors import BlockError, CompileError, InputError
from inweave.exact.constants import select
from inweave.language.program import Traced
from inweave.model.layout import Block, Layout
from inweave.model.network import Network
from inweave.model.prompt import HALF, Fill, Place


@dataclass
class Given:
    """A fixed layout, how inputs fill it, and each input as a form over its blocks."""

    layout: Layout
    fills: tuple[Fill, ...]
    forms: Forms
    inputs: dict[str, Form] = field(default_factory=dict)
    blocks: dict[str, Leaf] = field(default_factory=dict)
    whole: dict[tuple[str, bool], Block] = field(default_factory=dict)  # by input and transpose
    turned: dict[str, Block] = field(default_factory=dict)  # what stands in a block, transposed
    refused: dict[str, str] = field(default_factory=dict)

    def input(self, name: str) -> Form:
        if name not in self.inputs:
            why = self.refused.get(name, "no block holds it")
            raise CompileError(
                f"the layout does not give the input {name!r}: {why}; add a block {name!r} "
                f"(blocks: {', '.join(self.layout.names)})"
            )
        return self.inputs[name]

    @property
    def free(self) -> list[Block]:
        filled = {fill.place.block for fill in self.fills}
        return [block for block in self.layout if block.name not in filled]

    def missing(self, what: str, rows: int, cols: int) -> CompileError:
        return CompileError(
            f"the layout has no free block for {what} ({rows} x {cols}): add a block of {cols} "
            f"column(s), such as Block('scratch', {rows}, {cols})"
        )


def given_form(layout: Any, traced: Traced, forms: Forms) -> Given:
    """Read a Layout, a Network or a (layout, fills) pair as an input form."""
    if isinstance(layout, Network):
        layout, fills = layout.layout, layout.fills
    elif isinstance(layout, Layout):
        fills = tuple(_named(layout, traced))
    elif isinstance(layout, tuple) and len(layout) == 2 and isinstance(layout[0], Layout):
        layout, fills = layout[0], tuple(layout[1])
    else:
        raise InputError(f"layout must be a Layout, a Network or (layout, fills), got {layout!r}")
    given = Given(layout, fills, forms)
    specs = {spec.name: spec for spec in traced.inputs}
    counts: dict[str, int] = {}
    for fill in fills:
        counts[fill.place.block] = counts.get(fill.place.block, 0) + 1
    for fill in fills:
        block = layout[fill.place.block]
        if fill.source is not None and fill.source not in specs:
            raise BlockError(
                f"block {block.name!r} is filled from {fill.source!r}, which is not an input of "
                f"the program ({', '.join(specs)})"
            )
        if counts[block.name] > 1:
            continue
        if fill.source is not None and not fill.scale:
            _matrix(given, fill, block)
        elif fill.constant is not None and fill.constant.is_identity() and len(fill.scale) == 1:
            _scalar(given, fill, block)
        else:
            for name in [n for n, _ in fill.scale] + ([fill.source] if fill.source else []):
                given.refused.setdefault(name, f"block {block.name!r} holds it only in a product")
    return given


def _matrix(given: Given, fill: Fill, block: Block) -> None:
    place, forms = fill.place, given.forms
    name = str(fill.source)
    if place.diagonal:
        leaf = Leaf(name, 1, 1, role="input", block=block, capacity=place.diagonal)
        given.blocks[block.name] = leaf
        _largest(given, name, leaf)
        return
    rows, cols = place.extent
    whole = (rows, cols) == (block.rows, block.cols)
    first = given.whole.get((name, not place.transpose))
    if whole and first is not None:  # the other way round: read from here, not copied
        given.turned.setdefault(first.name, block)
        given.turned.setdefault(block.name, first)
    if whole:
        given.whole.setdefault((name, place.transpose), block)
    role = "input" if whole and rows == cols == 1 else "given"
    leaf = Leaf(block.name, block.rows, block.cols, role=role, block=block, capacity=1)
    given.blocks[block.name] = leaf
    if block.name in given.turned:
        leaf.both_ways = given.blocks[given.turned[block.name].name].both_ways = True
    if leaf.is_scalar and whole:
        _largest(given, name, leaf)
        return
    form = forms.leaf(leaf)
    if block.rows != rows:
        form = forms.matmul(forms.constant(select(block.rows, place.row, place.row + rows).T), form)
    if block.cols != cols:
        form = forms.matmul(form, forms.constant(select(block.cols, place.col, place.col + cols)))
    given.inputs.setdefault(name, forms.transpose(form) if place.transpose else form)


def _largest(given: Given, name: str, leaf: Leaf) -> None:
    """A scalar that several blocks hold is read from the one that spreads it furthest."""
    sole = given.inputs[name].sole if name in given.inputs else None
    known = sole[0].capacity if sole is not None and isinstance(sole[0], Leaf) else 0
    if name not in given.inputs or 0 < known < leaf.capacity:
        given.inputs[name] = given.forms.leaf(leaf)


def _scalar(given: Given, fill: Fill, block: Block) -> None:
    (name, power) = fill.scale[0]
    text = f"√{name}" if power == HALF else name
    leaf = Leaf(text, 1, 1, role="input", block=block, capacity=fill.place.rows)
    given.blocks[block.name] = leaf
    form = given.forms.leaf(leaf)
    given.inputs.setdefault(name, given.forms.scale(form, form) if power == HALF else form)


def _named(layout: Layout, traced: Traced) -> list[Fill]:
    """Fills by name: 'X' or 'Xᵀ' ('X.T') for matrices, 's' or 's·I' for scalars."""
    specs = {spec.name: spec for spec in traced.inputs}
    fills = []
    for block in layout:
        base = block.name.removesuffix("ᵀ").removesuffix(".T").removesuffix("·I").removesuffix("*I")
        spec = specs.get(base)
        if spec is None:
            continue
        turned = block.name != base and not block.name.endswith("I")
        scalar = spec.rows == spec.cols == 1
        place = Place(block.name, spec.rows, spec.cols, transpose=turned,
                      diagonal=block.cols if scalar and block.cols > 1 else 0)  # fmt: skip
        rows, cols = place.extent
        if (rows, cols) != (block.rows, block.cols):
            raise BlockError(
                f"block {block.name!r} is {block.rows} x {block.cols}, but the input {base!r} "
                f"stands there as {rows} x {cols}"
            )
        fills.append(Fill(place, source=base))
    return fills


__all__ = ["ONE", "Given", "given_form"]
