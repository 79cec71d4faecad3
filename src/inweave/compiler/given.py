"""A user's own input form: compile with the blocks that are there, the way round that they are.

Each block that an input fills becomes a leaf that is stored once, as it stands; inputs are written
in terms of these leaves (y is `Y₀ e_last` where the prompt holds `Y₀ = [O y]`, η is s² where it
holds `√η I`). Blocks that nothing fills are free: loops, scratch and answers go there. What does
not fit is refused with the block that is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from inweave.compiler.forms import Form, Forms, GivenLeaf
from inweave.errors import BlockError, CompileError, InputError
from inweave.exact.constants import select
from inweave.language.program import Traced
from inweave.model.layout import Block, Layout
from inweave.model.network import Network
from inweave.model.prompt import HALF, Fill, Place


@dataclass(frozen=True)
class Given:
    """A fixed layout, how inputs fill it, and each input as a form over its blocks."""

    layout: Layout
    fills: tuple[Fill, ...]
    inputs: Mapping[str, Form]
    turned: Mapping[str, Block]  # the block that holds transposed what stands in another
    refused: Mapping[str, str]  # why an input is not there

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


def input_form(layout: Any, traced: Traced) -> tuple[Layout, tuple[Fill, ...]]:
    """Blocks and how inputs fill them, of a Layout, a Network or a (layout, fills) pair."""
    if isinstance(layout, Network):
        if layout.embedding is not None:
            raise InputError(
                "this network's prompt stands in a basis of its own; use layout=net.plain, whose "
                "prompt is the same before it is embedded"
            )
        layout, fills = layout.layout, layout.fills
    elif isinstance(layout, Layout):
        fills = tuple(_named(layout, traced))
    elif isinstance(layout, tuple) and len(layout) == 2 and isinstance(layout[0], Layout):
        layout, fills = layout[0], tuple(layout[1])
    else:
        raise InputError(f"layout must be a Layout, a Network or (layout, fills), got {layout!r}")
    specs = {spec.name: spec for spec in traced.inputs}
    for fill in fills:
        if fill.source is not None and fill.source not in specs:
            raise BlockError(
                f"block {fill.place.block!r} is filled from {fill.source!r}, which is not an input "
                f"of the program ({', '.join(specs)})"
            )
    return layout, fills


def given_form(layout: Any, traced: Traced, forms: Forms) -> Given:
    """Read a Layout, a Network or a (layout, fills) pair as an input form."""
    layout, fills = input_form(layout, traced)
    counts = Counter(fill.place.block for fill in fills)
    alone = [fill for fill in fills if counts[fill.place.block] == 1]
    turned = _turned(layout, alone)
    inputs: dict[str, Form] = {}
    refused: dict[str, str] = {}
    for fill in alone:
        name, form = _input(fill, layout[fill.place.block], turned, forms)
        if form is None:
            for one in [n for n, _ in fill.scale] + ([fill.source] if fill.source else []):
                how = "only in a product" if fill.coefficient else "times zero"
                said = f"block {fill.place.block!r} holds it {how}"
                refused.setdefault(one, said)
        elif name not in inputs or 0 < _capacity(inputs[name]) < _capacity(form):
            inputs[name] = form  # of a scalar's blocks, the one that spreads it furthest
    return Given(layout, fills, inputs, turned, refused)


def _turned(layout: Layout, fills: Sequence[Fill]) -> dict[str, Block]:
    """Pairs of blocks that hold one input both ways round: read from there, not copied."""
    whole: dict[tuple[str, Fraction, bool], Block] = {}
    turned: dict[str, Block] = {}
    for fill in fills:
        place, block = fill.place, layout[fill.place.block]
        if fill.source is None or fill.scale or place.extent != (block.rows, block.cols):
            continue
        if not place.diagonal:
            what = fill.source, fill.coefficient
            first = whole.get((*what, not place.transpose))
            if first is not None:
                turned.setdefault(first.name, block)
                turned.setdefault(block.name, first)
            whole.setdefault((*what, place.transpose), block)
    return turned


def _input(
    fill: Fill, block: Block, turned: Mapping[str, Block], forms: Forms
) -> tuple[str, Form | None]:
    """The input that a fill gives, as a form over its block; None if it is not to be had."""
    place = fill.place
    if not fill.coefficient:
        return "", None

    def held(text: str, rows: int, cols: int, capacity: int, both: bool = False) -> Form:
        """What a block holds, without the fill's coefficient."""
        leaf = forms.leaf(GivenLeaf, text, rows, cols, block, fill, capacity, both)
        return forms.combine([(1 / fill.coefficient, leaf)])

    if fill.source is None:
        if not fill.constant or not fill.constant.is_identity() or len(fill.scale) != 1:
            return "", None
        ((name, power),) = fill.scale
        text = f"√{name}" if power == HALF else name
        form = held(text, 1, 1, place.rows)
        return name, forms.scale(form, form) if power == HALF else form
    if fill.scale:
        return "", None
    if place.diagonal:
        return fill.source, held(fill.source, 1, 1, place.diagonal)
    form = held(block.name, block.rows, block.cols, 1, block.name in turned)
    rows, cols = place.extent
    if block.rows != rows:
        form = forms.matmul(forms.constant(select(block.rows, place.row, place.row + rows).T), form)
    if block.cols != cols:
        form = forms.matmul(form, forms.constant(select(block.cols, place.col, place.col + cols)))
    return fill.source, forms.transpose(form) if place.transpose else form


def _capacity(form: Form) -> int:
    """How large an s I_q a scalar's block holds; 0 for what is no scalar."""
    leaf = form.sole[0] if form.sole is not None else None
    return leaf.capacity if isinstance(leaf, GivenLeaf) and leaf.is_scalar else 0


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
