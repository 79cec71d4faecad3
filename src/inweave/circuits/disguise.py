"""Disguises: networks that hide their mechanism, and are proved to compute the same program.

A compiled network is easy to read: every variable has columns of its own, every head computes one
product. `disguise(network, dial, seed)` gives another network of the same program in which neither
holds. What it does is exact, in rational numbers, so `verify` proves the disguise as it proves the
network, against the same program; and because it was done here, the truth is known: `Disguise.of`
keeps which heads carry which, and in which subspace every variable stands.

One dial from 0, the network itself, to 1:

    basis      columns and tokens are rotated (`rotations`) by Cayley transforms of ±dial/3; those
               that a pointwise layer touches stay as they are, since functions of entries do not
               commute with rotations
    gauge      every head's queries and keys are rotated as much, against each other, and a share
               `dial` of their columns scaled by 2, 1 or 1/2
    splits     a head becomes a sum of two with probability `dial`, of three with `dial`/2
    decoys     each layer begins a decoy with probability `dial`: a head that adds something to
               columns of its own, and one in a later layer that takes it away
    variables  each layer updates, with probability `dial`, a variable that is carried on and that
               no answer is made of

Heads are shuffled within their layers, whose number stays as it is. The dial is counted in
sixteenths. What is drawn depends on the seed alone, so that a larger dial splits the heads that a
smaller one splits, and more, and has its decoys, and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from inweave.circuits.decoys import WIDTH, Added, added
from inweave.circuits.heads import gauged, split, widened
from inweave.circuits.rotations import rotation
from inweave.errors import InputError
from inweave.exact.whole import is_whole
from inweave.model.embedding import Embedding, touched
from inweave.model.layers import AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.network import Network

STEPS = 16  # of the dial


class At(NamedTuple):
    """A head: which of `network.layers`, those of a tied module once, and which of its heads."""

    layer: int
    head: int


@dataclass(frozen=True, eq=False)
class Disguise:
    """A disguised network, and the truth about it: what others may rely on."""

    network: Network  # disguised, with its embedding
    of: Network  # the one that was disguised
    dial: float
    seed: int
    heads: Mapping[At, tuple[At, ...]]  # of every head of `of`, those of `network` whose sum it is
    decoys: tuple[tuple[At, ...], ...] = ()  # of every decoy its heads, which add up to nothing
    unused: tuple[At, ...] = ()  # heads that only update unused variables
    blocks: tuple[str, ...] = ()  # that were added, the last ones of `network.layout`

    @property
    def embedding(self) -> Embedding | None:
        return self.network.embedding

    def subspace(self, block: str) -> np.ndarray[Any, Any]:
        """Where a block stands: one row of the network's columns for each column of the block.

        In the state `G = P H M` it contributes `P (block's columns of H) @ subspace(block)`.
        """
        layout, embedding = self.network.layout, self.embedding
        M = None if embedding is None else embedding.columns
        return (np.eye(layout.width) if M is None else M)[layout[block].columns]

    def truth(self, at: At) -> At | None:
        """The head of the true network that a head carries, alone or with others; None if none."""
        return next((true for true, parts in self.heads.items() if at in parts), None)

    def describe(self) -> dict[str, Any]:
        """What is known, as JSON data; heads as [layer, head]."""
        return {
            "dial": self.dial,
            "seed": self.seed,
            "of": self.of.fingerprint,
            "network": self.network.fingerprint,
            "heads": [[list(true), [*map(list, parts)]] for true, parts in self.heads.items()],
            "decoys": [[*map(list, parts)] for parts in self.decoys],
            "unused": [*map(list, self.unused)],
            "blocks": list(self.blocks),
        }

    @classmethod
    def make(cls, network: Network, dial: float, seed: int = 0) -> Disguise:
        """A network in disguise, with the truth about it."""
        if not isinstance(network, Network):
            kind = type(network).__name__
            raise InputError(f"a disguise is that of an inweave.Network, got {kind}")
        if not is_whole(seed, 0):
            raise InputError(f"the seed of a disguise is a whole number from 0 on, got {seed!r}")
        turned = in_steps(dial)
        if not turned:
            same = {at: (at,) for at in _all_heads(network)}
            return cls(network, network, 0.0, int(seed), same)
        return _Maker(network, turned, int(seed)).made()


def in_steps(dial: float | Fraction) -> Fraction:
    """A dial from 0 to 1 as it is counted: in sixteenths."""
    if isinstance(dial, bool) or not isinstance(dial, Real) or not 0 <= dial <= 1:
        raise InputError(f"the dial is a number from 0 to 1, got {dial!r}")
    return Fraction(round(dial * STEPS), STEPS)


def disguise(network: Network, dial: float, seed: int = 0) -> Network:
    """A network of the same program that hides how it computes it; `Disguise.make` tells.

    The dial goes from 0, the network itself, to 1.
    """
    return Disguise.make(network, dial, seed).network


def _all_heads(network: Network) -> list[At]:
    return [
        At(i, k)
        for i, layer in enumerate(network.layers)
        if isinstance(layer, AttentionLayer)
        for k in range(len(layer.heads))
    ]


class _Maker:
    """One disguise: what it adds, then every layer in turn, then the basis."""

    def __init__(self, network: Network, dial: Fraction, seed: int) -> None:
        self.network, self.dial, self.seed = network, dial, seed
        self.plain = network.plain
        self.before = self.plain.layout
        more = [_unused_name(self.before, name) for name in ("decoy", "unused")]
        shapes = [(b.name, (b.rows, b.cols)) for b in self.before]
        shapes += [(name, (self.before.tokens, WIDTH)) for name in more]
        self.layout = Layout.of(dict(shapes), self.before.tokens)
        blocks = (self.layout[more[0]], self.layout[more[1]])
        self.blocks = tuple(more)
        self.added = added(self.plain, self.layout, blocks, float(dial), seed)
        self.heads: dict[At, tuple[At, ...]] = {}
        self.decoys: dict[int, list[At]] = {}
        self.unused: list[At] = []
        self.layer_number = -1

    def made(self) -> Disguise:
        modules = tuple(module.map(self.layer) for module in self.plain.modules)
        embedding = self.embedding()
        if embedding is not None:
            modules = tuple(embedding.module(module, self.layout) for module in modules)
        network = replace(self.network, layout=self.layout, modules=modules, embedding=embedding)
        decoys = tuple(tuple(parts) for _, parts in sorted(self.decoys.items()))
        return Disguise(
            network, self.network, float(self.dial), self.seed,
            self.heads, decoys, tuple(self.unused), self.blocks,
        )  # fmt: skip

    # -- layers -----------------------------------------------------------------------------------
    def layer(self, layer: Layer, _: str) -> Layer:
        self.layer_number += 1
        if isinstance(layer, PointwiseLayer):
            more = ((0, 0), (0, 0), (0, self.layout.width - self.before.width))
            V, W, B, C = (np.pad(getattr(layer, name), more) for name in "VWBC")
            return PointwiseLayer(V, W, B, C, layer.activation, layer.skip)
        return self.attention(layer) if isinstance(layer, AttentionLayer) else layer

    def attention(self, layer: AttentionLayer) -> AttentionLayer:
        """The layer with other heads in another order; whose they are is noted."""
        at = self.layer_number
        rng = np.random.default_rng([self.seed, 3, at])
        owned: list[tuple[int | Added, Head]] = []
        for k, head in enumerate(layer.heads):
            self.heads[At(at, k)] = ()
            wide = widened(head, self.before, self.layout)
            drawn = np.random.default_rng([self.seed, 4, at, k])
            owned += [(k, part) for part in self.parts(wide, drawn)]
        owned += [(one, one.head) for one in self.added if one.layer == at]
        order = rng.permutation(len(owned))
        heads = []
        for new, old in enumerate(order):
            owner, head = owned[int(old)]
            gauge = np.random.default_rng([self.seed, 5, at, int(old)])
            heads.append(gauged(head, self.dial, gauge))
            self.note(owner, At(at, new))
        return replace(layer, heads=tuple(heads))

    def parts(self, head: Head, rng: np.random.Generator) -> list[Head]:
        """The heads that a head is split into."""
        parts = [head]
        for chance, likely in zip(rng.random(2), (self.dial, self.dial / 2), strict=True):
            if chance < likely:
                parts = [*split(parts[0], rng), *parts[1:]]
        return parts

    def note(self, owner: int | Added, new: At) -> None:
        if isinstance(owner, int):
            true = At(new.layer, owner)
            self.heads[true] = (*self.heads[true], new)
        elif owner.decoy is None:
            self.unused.append(new)
        else:
            self.decoys.setdefault(owner.decoy, []).append(new)

    # -- the basis --------------------------------------------------------------------------------
    def embedding(self) -> Embedding | None:
        """A rotation of all tokens and columns that no function reads."""
        rows, cols = set[int](), set[int]()
        for layer in self.plain.layers:
            there = touched(layer, self.before)
            rows, cols = rows | there[0], cols | there[1]
        rng = np.random.default_rng([self.seed, 6])
        free = [c for c in range(self.layout.width) if c not in cols]
        columns = rotation(self.layout.width, free, self.dial, rng)
        free = [r for r in range(self.layout.tokens) if r not in rows]
        tokens = rotation(self.layout.tokens, free, self.dial, rng)
        return None if columns is None and tokens is None else Embedding(columns, tokens)


def _unused_name(layout: Layout, name: str) -> str:
    while name in layout:
        name += "'"
    return name
