"""Heads that compute something which no answer is made of.

A decoy adds a product of inputs to columns of its own and, in a later layer, another head takes the
same product away: it is recomputed from inputs that still stand in the prompt, so nothing has to be
remembered. Inside a tied loop both stand in one step, in one layer where the step has only one, so
every step leaves what it found and is proved as before. An unused variable is never taken away: it
is carried on and updated, in every step of a loop too, and in the first layers outside of loops by
heads that read it (in a loop, or in many layers, it would grow without bound).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inweave.model.embedding import touched
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.layout import Block, Layout
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import DenseProjection

WIDTH = 2  # columns of decoys, and as many of unused variables
READING = 2  # slots after the first in which an unused variable is multiplied, not only added to


@dataclass(frozen=True)
class Added:
    """A head more in a layer (of `network.layers`); those of one decoy have its number."""

    layer: int
    head: Head
    decoy: int | None = None


@dataclass(frozen=True)
class Slot:
    """A layer, or a module that is repeated: one of several that run in turn."""

    layer: int | None  # its number, if it is attention
    keeps: bool  # columns that no head of it writes stay as they are
    module: int  # of the network


@dataclass
class Scopes:
    """The slots of the network itself, modules that run once written out, and of every other."""

    network: Network
    outermost: list[Slot] = field(default_factory=list)
    inner: list[list[Slot]] = field(default_factory=list)
    growing: list[list[Slot]] = field(default_factory=list)  # those with a skip around them

    def __post_init__(self) -> None:
        numbers = itertools.count()
        for i, module in enumerate(self.network.modules):
            self.outermost += self._slots([module], i, numbers)

    def _slots(self, parts: Sequence[Part], module: int, numbers: Iterator[int]) -> list[Slot]:
        found = []
        for part in parts:
            if not isinstance(part, Module):
                number = next(numbers)
                is_attention = isinstance(part, AttentionLayer)
                keeps = part.skip or isinstance(part, BlockPointwiseLayer)
                found.append(Slot(number if is_attention else None, keeps, module))
                continue
            slots = self._slots(part.body, module, numbers)
            if part.repeat == 1 and not part.skip:
                found += slots
            else:
                (self.growing if part.skip else self.inner).append(slots)
                keeps = not part.skip and all(slot.keeps for slot in slots)
                found.append(Slot(None, keeps, module))
        return found


def added(
    network: Network, layout: Layout, blocks: tuple[Block, Block], dial: float, seed: int
) -> list[Added]:
    """The heads of decoys and of unused variables, in a layout that has a block for each."""
    scopes, decoys, unused = Scopes(network), *blocks
    kept = still(network)
    rng, number = np.random.default_rng([seed, 1]), itertools.count()
    found = []
    for slots in [scopes.outermost, *scopes.inner, *scopes.growing]:
        for i, slot in enumerate(slots):
            chance, head = rng.random(), int(rng.integers(2**62))
            if slot.layer is None or not kept[slot.module]:
                continue
            later = list(_later(slots, i, [bool(columns) for columns in kept]))
            end = later[int(rng.integers(len(later)))] if later else slot
            if chance < dial and end.layer is not None:
                which = next(number)
                for at, sign in ((slot.layer, 1), (end.layer, -1)):
                    same = np.random.default_rng(head)
                    read = _drawn(kept[end.module], 5, same)
                    found.append(Added(at, _product(layout, read, decoys, sign, same), which))
    rng = np.random.default_rng([seed, 2])
    for slots in [scopes.outermost, *scopes.inner]:
        for i, slot in enumerate(slots):
            chance, own = rng.random(), np.random.default_rng(int(rng.integers(2**62)))
            if slot.layer is None or not kept[slot.module] or chance >= dial:
                continue
            read = _drawn(kept[slot.module], 5, own)
            if slots is scopes.outermost and 0 < i <= READING:
                read[4] = unused.start + int(own.integers(unused.cols))
            found.append(Added(slot.layer, _product(layout, read, unused, 1, own)))
    return found


def _later(slots: Sequence[Slot], start: int, open_: Sequence[bool]) -> Iterator[Slot]:
    """The layers in which what was added in one is still there, and can be computed again."""
    for slot in slots[start + 1 :]:
        if not slot.keeps:
            return
        if slot.layer is not None and open_[slot.module]:
            yield slot


def _drawn(columns: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    return [int(column) for column in rng.choice(list(columns), count)]


def _product(
    layout: Layout, read: Sequence[int], into: Block, sign: int, rng: np.random.Generator
) -> Head:
    """Two queries, two keys and a value, into columns of a block."""
    q, r, k, m, v = read
    parts = []
    for pair in ((q, r), (k, m)):
        W = np.zeros((layout.width, layout.width))
        for column, source in enumerate(pair):
            W[source, column] += 1
        parts.append(DenseProjection(W))
    W = np.zeros((layout.width, layout.width))
    W[v, into.columns] = (
        rng.choice([-1, 1], into.cols) * sign / 2 ** (1 + layout.tokens.bit_length())
    )
    query, key = parts
    return Head(query, key, DenseProjection(W))


def still(network: Network) -> list[list[int]]:
    """For each module: the columns that hold an input until it is done."""
    layout = network.layout
    holding: set[int] = set()
    for fill in network.fills:
        if fill.source is not None:
            _, cols = fill.place.region(layout)
            holding |= set(range(cols.start, cols.stop))
    found = []
    for module in network.modules:
        for layer in module.layers:
            holding -= written(layer, layout)
        found.append(sorted(holding))
    return found


def written(layer: Layer, layout: Layout) -> set[int]:
    """The columns that a layer may change."""
    if not layer.skip and not isinstance(layer, BlockPointwiseLayer):
        return set(range(layout.width))
    if not isinstance(layer, AttentionLayer):
        return touched(layer, layout)[1]
    found: set[Any] = set()
    for head in layer.heads:
        parts = (head.value.weight(layout), head.value.bias(layout))
        found |= {int(column) for part in parts for column in np.flatnonzero(part.any(axis=0))}
    return found
