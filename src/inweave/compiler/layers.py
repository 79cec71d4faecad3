"""What a schedule is made of: stored values, what heads read, layers and loops of heads.

Plain data between the stages: the scheduler writes it, the allocator gives every key a block, and
the emitter turns it into projections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from inweave.compiler.forms import Form, Leaf, LoopItem
from inweave.exact.constants import Constant


@dataclass(frozen=True)
class Key:
    """A stored matrix: a leaf or a sum of products, plain or transposed, in a region."""

    value: Leaf | Form
    flipped: bool
    home: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = self.value.rows, self.value.cols
        return (cols, rows) if self.flipped else (rows, cols)


@dataclass(frozen=True)
class Item:
    """A summand of what a head reads: coefficient x stored matrix x constant, or a constant.

    `spread = q` reads a scalar as `s I_q`.
    """

    coefficient: Fraction
    key: Key | None
    constant: Constant | None = None
    spread: int = 0

    def scaled(self, c: Fraction) -> Item:
        return Item(self.coefficient * c, self.key, self.constant, self.spread)


Read = tuple[Item, ...]


@dataclass(frozen=True)
class HeadSpec:
    """`dest += query key.T value`, each an affine read."""

    query: Read
    key: Read
    value: Read
    dest: Key


@dataclass(frozen=True)
class LinearSpec:
    """`dest += read`."""

    read: Read
    dest: Key


@dataclass
class LayerSpec:
    """What one attention layer does, and the pointwise functions applied right after it."""

    heads: list[HeadSpec] = field(default_factory=list)
    linear: list[LinearSpec] = field(default_factory=list)
    pointwise: list[tuple[Key, Any]] = field(default_factory=list)


@dataclass
class LoopSpec:
    """A repeated body, and the keys under which each carried value is stored."""

    item: LoopItem
    body: list[LayerSpec | LoopSpec]
    carried: list[tuple[Key, ...]]


@dataclass
class Schedule:
    """Everything the allocator needs."""

    parts: list[LayerSpec | LoopSpec]
    outputs: dict[str, tuple[Key, bool]]  # where each answer stands, and whether transposed
    inits: list[tuple[Key, Form]]  # carried values that the prompt itself can hold at the start
    cost: tuple[int, int, float]
