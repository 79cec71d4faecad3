"""Blocks and layouts: every column of the prompt has an owner with a name.

A prompt `H` has `tokens` rows and `width` columns. A block starts at row 0 and owns a range of
columns; below its own rows the prompt holds zeros. That one rule is what lets a head multiply
blocks of different heights without masks. A layout is the ordered blocks; it packs named arrays
into `H` and reads them back, with any leading batch axes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from inweave.errors import BlockError, DTypeError, ShapeError, missing_and_unknown
from inweave.exact.arithmetic import Arithmetic, Floats, bordered
from inweave.exact.constants import Array
from inweave.exact.names import check_line
from inweave.exact.schema import Count, Size
from inweave.exact.whole import whole


@dataclass(frozen=True)
class Block:
    """A named sub-matrix of the prompt: rows 0 to `rows`, columns `start` to `start + cols`."""

    name: str
    rows: Size
    cols: Size
    start: Count = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise BlockError(f"a block needs a name, got {self.name!r}")
        check_line("a block", self.name)
        for what in ("rows", "cols", "start"):
            size = whole(f"block {self.name!r}: {what}", getattr(self, what), error=ShapeError)
            object.__setattr__(self, what, size)
        if self.rows < 1 or self.cols < 1 or self.start < 0:
            raise ShapeError(
                f"block {self.name!r} needs at least one row and one column, "
                f"got {self.rows} x {self.cols} at column {self.start}"
            )

    @property
    def stop(self) -> int:
        return self.start + self.cols

    @property
    def columns(self) -> slice:
        return slice(self.start, self.stop)

    def __repr__(self) -> str:
        return f"{self.name}[{self.rows}x{self.cols} @ {self.start}:{self.stop}]"


@dataclass(frozen=True)
class Layout:
    """The ordered blocks of a prompt. Build one with `Layout.of`."""

    blocks: tuple[Block, ...]
    tokens: Size

    def __post_init__(self) -> None:
        if not self.blocks:
            raise BlockError("a layout needs at least one block")
        object.__setattr__(self, "tokens", whole("tokens", self.tokens, error=ShapeError))
        at, seen = 0, set[str]()
        for block in self.blocks:
            if block.name in seen:
                raise BlockError(f"block {block.name!r} stands twice in the layout")
            if block.start != at:
                raise ShapeError(
                    f"block {block.name!r} starts at column {block.start}, expected {at}: "
                    "blocks lie side by side (Layout.of places them)"
                )
            if block.rows > self.tokens:
                raise ShapeError(
                    f"block {block.name!r} has {block.rows} rows but the prompt has only "
                    f"{self.tokens} tokens"
                )
            seen.add(block.name)
            at = block.stop

    @classmethod
    def of(
        cls, shapes: Mapping[str, tuple[int, int]] | Iterable[Block], tokens: int | None = None
    ) -> Layout:
        """Blocks side by side from {name: (rows, cols)}; tokens default to the tallest block.

        >>> Layout.of({"Xᵀ": (3, 5), "w": (3, 1)})
        Layout(3 tokens x 6: Xᵀ 3x5, w 3x1)
        """
        pairs = (
            [(name, tuple(shape)) for name, shape in shapes.items()]
            if isinstance(shapes, Mapping)
            else [(block.name, (block.rows, block.cols)) for block in shapes]
        )
        blocks, at = [], 0
        for name, shape in pairs:
            if len(shape) != 2:
                raise ShapeError(f"block {name!r}: expected (rows, cols), got {shape!r}")
            blocks.append(Block(name, shape[0], shape[1], at))
            at += shape[1]
        tallest = max((b.rows for b in blocks), default=1)
        return cls(tuple(blocks), tallest if tokens is None else tokens)

    @cached_property
    def width(self) -> int:
        return self.blocks[-1].stop

    @cached_property
    def _by_name(self) -> dict[str, Block]:
        return {block.name: block for block in self.blocks}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def __getitem__(self, name: str) -> Block:
        try:
            return self._by_name[name]
        except KeyError:
            raise BlockError(
                f"no block {name!r} in this layout; its blocks are {', '.join(self.names)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    @cached_property
    def _starts(self) -> list[int]:
        return [block.start for block in self.blocks]

    def over(self, start: int, stop: int) -> tuple[Block, ...]:
        """The blocks that own some of these columns."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        return self.blocks[first : max(bisect_left(self._starts, stop), first)]

    def at(self, column: int) -> Block:
        """The block that owns a column."""
        if 0 <= column < self.width:
            return self.over(column, column + 1)[0]
        raise ShapeError(f"column {column} is outside the prompt's width {self.width}")

    def pack(self, arrays: Mapping[str, Array], arithmetic: Arithmetic | None = None) -> Array:
        """The prompt that holds the named arrays (..., rows, cols); library and dtype are kept."""
        if said := missing_and_unknown(self.names, arrays):
            raise BlockError(
                f"pack needs one array per block; {said}; the blocks are {', '.join(self.names)}"
            )
        for block in self.blocks:
            if arithmetic is None:
                _check_real(f"block {block.name!r}", arrays[block.name])
            shape = tuple(arrays[block.name].shape)
            if shape[-2:] != (block.rows, block.cols):
                raise ShapeError(
                    f"block {block.name!r}: got an array of shape {shape}, "
                    f"expected (..., {block.rows}, {block.cols})"
                )
        check_batch("block", {name: arrays[name] for name in self.names})
        if arithmetic is None:
            arithmetic = Floats.like(arrays[self.blocks[0].name])
        columns = [
            bordered(arithmetic, arrays[b.name], -2, 0, self.tokens - b.rows) for b in self.blocks
        ]
        return arithmetic.concat(columns, -1)

    def unpack(self, H: Array) -> dict[str, Array]:
        """Each block's own rows and columns of a prompt, as views where the library allows."""
        self.check(H)
        return {b.name: H[..., : b.rows, b.columns] for b in self.blocks}

    def check(self, H: Array) -> None:
        """Refuse a prompt of the wrong size."""
        if not hasattr(H, "shape"):
            raise DTypeError(f"a prompt must be an array, got {type(H).__name__}")
        if len(H.shape) < 2 or tuple(H.shape[-2:]) != (self.tokens, self.width):
            raise ShapeError(
                f"got a prompt of shape {tuple(H.shape)}, expected (..., {self.tokens}, "
                f"{self.width}): {self.tokens} tokens, {self.width} columns"
            )

    def __repr__(self) -> str:
        inner = ", ".join(f"{b.name} {b.rows}x{b.cols}" for b in self.blocks)
        return f"Layout({self.tokens} tokens x {self.width}: {inner})"


def check_batch(kind: str, arrays: Mapping[str, Array]) -> None:
    """Refuse arrays (..., rows, cols) whose batch axes do not go together; each is of a kind."""
    lead: tuple[int, ...] = ()
    for name, array in arrays.items():
        shape = tuple(array.shape[:-2])
        try:
            lead = np.broadcast_shapes(lead, shape)
        except ValueError:
            raise ShapeError(
                f"{kind} {name!r} has batch axes {shape}, the {kind}s before it have {lead}; "
                "batch axes must broadcast"
            ) from None


def _check_real(what: str, array: Any) -> None:
    """Refuse what floating point cannot hold, by name."""
    try:
        Floats.like(array)
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None
