"""Projections: the affine images `H W + B` that a head multiplies.

A compiled projection is a list of pieces, each saying which block is read, through which constant
matrix, with which exact coefficient, and into which columns; or which constant is put there (the
bias). Its size does not depend on the size of the blocks. A trained projection is held densely, as
the arrays `W` and `B`. Either gives `W` and `B` on request.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from inweave.errors import ShapeError
from inweave.exact.arithmetic import Arithmetic, Floats, assemble
from inweave.exact.constants import Array, ByContent, Constant, Dense, exact, identity, real_array
from inweave.exact.schema import Coefficient, Count, Stored, rational_text
from inweave.model.layout import Layout

ONE = Fraction(1)


@dataclass(frozen=True)
class Piece:
    """`coefficient * (block @ matrix)` added from column `at` on; without a block, a bias.

    `matrix` has as many rows as the block has columns; a bias starts at row 0.
    """

    matrix: Constant
    at: Count
    coefficient: Coefficient = ONE
    block: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficient", exact(self.coefficient))

    @property
    def stop(self) -> int:
        return self.at + self.matrix.cols

    def __repr__(self) -> str:
        what = repr(self.matrix)
        if self.block is not None:
            what = self.block if self.matrix.is_identity() else f"{self.block} {what}"
        times = "" if self.coefficient == 1 else f"{rational_text(self.coefficient)} "
        return f"{times}{what} @ {self.at}:{self.stop}"


@dataclass(frozen=True)
class Projection:
    """`H W + B` as a sum of pieces."""

    pieces: tuple[Piece, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", tuple(self.pieces))

    @cached_property
    def _hash(self) -> int:
        return hash(self.pieces)

    def __hash__(self) -> int:  # asked for at every step of a loop
        return self._hash

    def check(self, layout: Layout, what: str) -> None:
        """Refuse pieces that do not fit the layout."""
        for piece in self.pieces:
            if piece.at < 0 or piece.stop > layout.width:
                raise ShapeError(
                    f"{what}: piece {piece!r} needs columns {piece.at}:{piece.stop}, "
                    f"the prompt has {layout.width}"
                )
            rows = layout.tokens if piece.block is None else layout[piece.block].cols
            if piece.block is None and piece.matrix.rows > rows:
                raise ShapeError(
                    f"{what}: bias {piece!r} has {piece.matrix.rows} rows, "
                    f"the prompt has {rows} tokens"
                )
            if piece.block is not None and piece.matrix.rows != rows:
                raise ShapeError(
                    f"{what}: piece {piece!r} multiplies block {piece.block!r} of {rows} columns "
                    f"by a matrix of {piece.matrix.rows} rows"
                )

    @property
    def has_bias(self) -> bool:
        return any(piece.block is None for piece in self.pieces)

    def weight(self, layout: Layout, arithmetic: Arithmetic | None = None) -> Array:
        """`W`, width x width."""
        read = [(layout[p.block].start, p) for p in self.pieces if p.block is not None]
        return _assembled(read, layout.width, layout, arithmetic)

    def bias(self, layout: Layout, arithmetic: Arithmetic | None = None) -> Array:
        """`B`, tokens x width."""
        biases = [(0, p) for p in self.pieces if p.block is None]
        return _assembled(biases, layout.tokens, layout, arithmetic)

    def stored_numbers(self) -> int:
        """How many numbers it takes to write this projection down."""
        return sum(p.matrix.array.size if isinstance(p.matrix, Dense) else 1 for p in self.pieces)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.pieces)) or "0"


def _assembled(
    pieces: list[tuple[int, Piece]], rows: int, layout: Layout, arithmetic: Arithmetic | None
) -> Array:
    """The sum of pieces, each from a row on."""
    placed = [(row, p.at, p.coefficient, p.matrix) for row, p in pieces]
    return assemble(arithmetic or Floats(), rows, layout.width, placed)


@dataclass(frozen=True, eq=False)
class DenseProjection(ByContent):
    """`H W + B` with `W` and `B` as arrays; `B` may be None (LSA)."""

    W: Stored
    B: Stored | None = None

    def __post_init__(self) -> None:
        W = real_array("W", self.W)
        object.__setattr__(self, "W", W)
        if W.ndim != 2 or W.shape[0] != W.shape[1]:
            raise ShapeError(f"W must be width x width, got shape {W.shape}")
        if self.B is not None:
            object.__setattr__(self, "B", real_array("B", self.B))
            if self.B.ndim != 2 or self.B.shape[1] != W.shape[0]:
                raise ShapeError(f"B must be tokens x {W.shape[0]}, got shape {self.B.shape}")

    def check(self, layout: Layout, what: str) -> None:
        if self.W.shape[0] != layout.width:
            raise ShapeError(f"{what}: W is {self.W.shape}, the prompt's width is {layout.width}")
        if self.B is not None and self.B.shape[0] != layout.tokens:
            raise ShapeError(f"{what}: B is {self.B.shape}, the prompt has {layout.tokens} tokens")

    @property
    def has_bias(self) -> bool:
        return self.B is not None

    def weight(self, layout: Layout, arithmetic: Arithmetic | None = None) -> Array:
        return (arithmetic or Floats()).array(self.W)

    def bias(self, layout: Layout, arithmetic: Arithmetic | None = None) -> Array:
        B = np.zeros((layout.tokens, layout.width)) if self.B is None else self.B
        return (arithmetic or Floats()).array(B)

    def stored_numbers(self) -> int:
        return int(self.W.size + (0 if self.B is None else self.B.size))

    def __repr__(self) -> str:
        return f"dense W {self.W.shape}" + ("" if self.B is None else f" + B {self.B.shape}")


AnyProjection = Projection | DenseProjection


def read(layout: Layout, block: str, at: int = 0, coefficient: Any = ONE) -> Piece:
    """The piece that copies a whole block to the columns from `at` on."""
    return Piece(identity(layout[block].cols), at, exact(coefficient), block)
