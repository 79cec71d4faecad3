"""What a schedule is made of: stored values, what heads read, layers and loops of heads.

Plain data between the passes: `schedule` writes it, `allocate` gives every stored value a block,
`merge` and `constants` rewrite its heads, and `emit` turns them into projections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from inweave.compiler.forms import ANY, Family, Form, Leaf, LoopForm, Scopes
from inweave.exact.constants import Constant
from inweave.model.prompt import Fill, Place


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

    @property
    def label(self) -> str:
        """A name for the value as it stands."""
        text = repr(self.value)
        if not self.flipped:
            return text
        return f"{text}ᵀ" if isinstance(self.value, Leaf) else f"({text})ᵀ"


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalLeaf(Leaf):
    """`s I_q`, made from a computed scalar."""

    scalar: Key

    @cached_property
    def loops(self) -> Scopes:
        return self.scalar.value.loops

    @cached_property
    def family(self) -> Family:
        return ANY


@dataclass(frozen=True, eq=False, repr=False)
class ConstantLeaf(Leaf):
    """A constant that stands in the prompt."""

    constant: Constant


@dataclass(frozen=True)
class Item:
    """A summand of what a head reads: coefficient x stored matrix x constant, or a constant.

    `diagonal = q` reads a scalar as `s I_q`.
    """

    coefficient: Fraction
    key: Key | None
    constant: Constant | None = None
    diagonal: int = 0

    def scaled(self, c: Fraction) -> Item:
        if c == 1:
            return self
        return Item(self.coefficient * c, self.key, self.constant, self.diagonal)

    @property
    def cols(self) -> int:
        if self.constant is not None:
            return self.constant.cols
        assert self.key is not None
        return self.diagonal if self.diagonal > 1 else self.key.shape[1]


Read = tuple[Item, ...]
Placed = tuple[Key, Item]  # a summand of what a head writes, and where to


@dataclass(frozen=True)
class HeadSpec:
    """`dest += query key.T item` for each of its values."""

    query: Read
    key: Read
    values: tuple[Placed, ...]

    @property
    def items(self) -> Read:
        return (*self.query, *self.key, *(item for _, item in self.values))


@dataclass(frozen=True)
class LinearSpec:
    """`dest += read`."""

    read: Read
    dest: Key


@dataclass(frozen=True)
class LayerSpec:
    """What one attention layer does, and the pointwise functions applied right after it."""

    heads: tuple[HeadSpec, ...] = ()
    linear: tuple[LinearSpec, ...] = ()
    pointwise: tuple[tuple[Key, Any], ...] = ()

    @property
    def read(self) -> list[Key]:
        items = [item for head in self.heads for item in head.items]
        items += [item for linear in self.linear for item in linear.read]
        return [item.key for item in items if item.key is not None]

    @property
    def written(self) -> list[Key]:
        keys = [dest for head in self.heads for dest, _ in head.values]
        return list(dict.fromkeys([*keys, *(linear.dest for linear in self.linear)]))


@dataclass(frozen=True)
class LoopSpec:
    """A repeated body, and the keys under which each carried value is stored."""

    loop: LoopForm
    body: tuple[Part, ...]
    carried: tuple[tuple[Key, ...], ...]


Part = LayerSpec | LoopSpec


def layers(parts: Sequence[Part]) -> Iterator[LayerSpec]:
    """Every layer, those of a loop once."""
    for part in parts:
        if isinstance(part, LoopSpec):
            yield from layers(part.body)
        else:
            yield part


def rewritten(parts: Sequence[Part], each: Callable[[LayerSpec], LayerSpec]) -> tuple[Part, ...]:
    """The same loops, with every layer become another."""
    return tuple(
        replace(part, body=rewritten(part.body, each)) if isinstance(part, LoopSpec) else each(part)
        for part in parts
    )


@dataclass(frozen=True)
class Schedule:
    """Layers of heads over stored values; where those stand is not said yet."""

    parts: tuple[Part, ...]
    outputs: Mapping[str, tuple[Key, bool]]  # where each answer stands, and whether transposed
    starts: tuple[tuple[Key, Form], ...]  # carried values that the prompt itself holds at first
    leaves: Mapping[Key, int]  # what stands for good, and the q of scalars that are read as s I_q
    flipped: Mapping[Leaf, bool]  # which inputs and carried values stand transposed
    cost: tuple[int, int, float] = field(compare=False)  # depth, area of the prompt, flops


@dataclass(frozen=True)
class Slot:
    """A block to be, and the values that stand in it over time; `diagonal` of one s I_q."""

    rows: int
    cols: int
    keys: tuple[Key, ...] = ()
    diagonal: int = 1


@dataclass(frozen=True)
class Allocation:
    """Layers of heads over blocks."""

    parts: tuple[Part, ...]
    outputs: Mapping[str, tuple[Key, bool]]
    blocks: Mapping[str, Slot]
    where: Mapping[Key, str]  # the block of every stored value
    fills: tuple[Fill, ...]
    added: tuple[str, ...] = ()  # what was put into the prompt for LSA, in words

    def slot(self, key: Key) -> Slot:
        return self.blocks[self.where[key]]

    def place(self, key: Key, turned: bool = False) -> Place:
        """Where a value, or its transpose, stands."""
        name, rows, cols = self.where[key], key.value.rows, key.value.cols
        if rows == cols == 1:
            q = self.blocks[name].diagonal
            return Place(name, 1, 1, diagonal=q if q > 1 else 0)
        if turned:
            rows, cols = cols, rows
        return Place(name, rows, cols, transpose=key.flipped != turned)
