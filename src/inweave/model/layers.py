"""Layers as plain immutable data: heads, sums of heads, and pointwise layers.

A layer says what is multiplied with what; what that means is computed by `inweave.model.dense`,
which is its definition. Shapes are checked against a layout when a network is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from inweave.errors import InputError, ShapeError
from inweave.exact.constants import ByContent, real_array
from inweave.exact.schema import Stored
from inweave.model.layout import Layout
from inweave.model.projection import AnyProjection, DenseProjection, Piece, Projection
from inweave.model.prompt import Place
from inweave.model.relunet import Function

PARTS = ("query", "key", "value")


@dataclass(frozen=True)
class Head:
    """`Q Kᵀ V` of three projections: the paper's (H W3 + B3)(H W1 + B1)ᵀ(H W2 + B2)."""

    query: AnyProjection
    key: AnyProjection
    value: AnyProjection

    @property
    def projections(self) -> tuple[AnyProjection, AnyProjection, AnyProjection]:
        return self.query, self.key, self.value

    @property
    def pieces(self) -> tuple[tuple[Piece, ...], ...] | None:
        """The pieces of query, key and value; None where one of them is dense."""
        found = [p.pieces for p in self.projections if isinstance(p, Projection)]
        return tuple(found) if len(found) == len(PARTS) else None

    def check(self, layout: Layout, what: str) -> None:
        for name, projection in zip(PARTS, self.projections, strict=True):
            projection.check(layout, f"{what}, {name}")


@dataclass(frozen=True)
class AttentionLayer:
    """A sum of heads; with `skip`, `H + sum`."""

    heads: tuple[Head, ...]
    skip: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(self.heads))

    def check(self, layout: Layout, what: str) -> None:
        for k, head in enumerate(self.heads):
            head.check(layout, f"{what}, head {k}")


@dataclass(frozen=True, eq=False)
class PointwiseLayer(ByContent):
    """The paper's network component, `Σ_k V_k ⊙ σ(W_k ⊙ H + B_k) + C_k`; with `skip`, `H + ...`.

    The arrays have the shape (units, tokens, width); σ is ReLU or the identity.
    """

    V: Stored
    W: Stored
    B: Stored
    C: Stored
    activation: str = "relu"
    skip: bool = False

    def __post_init__(self) -> None:
        if self.activation not in ("relu", "identity"):
            raise InputError(f"activation {self.activation!r} is not 'relu' or 'identity'")
        shape = np.shape(self.V)
        for name in "VWBC":
            array = real_array(f"pointwise layer: {name}", getattr(self, name))
            if array.ndim != 3 or array.shape != shape:
                raise ShapeError(
                    f"pointwise layer: {name} has shape {array.shape}, expected (units, tokens, "
                    f"width) like V, which is {shape}"
                )
            object.__setattr__(self, name, array)

    def check(self, layout: Layout, what: str) -> None:
        if self.V.shape[1:] != (layout.tokens, layout.width):
            raise ShapeError(
                f"{what}: its arrays are for prompts of {self.V.shape[1:]}, "
                f"this prompt is {layout.tokens} x {layout.width}"
            )

    def __repr__(self) -> str:
        units, tokens, width = self.V.shape
        around = ", skip" if self.skip else ""
        return f"PointwiseLayer({units} {self.activation} units on {tokens} x {width}{around})"


@dataclass(frozen=True)
class BlockPointwiseLayer:
    """A pointwise layer held as what it is: a function at each of some places, identity elsewhere.

    `dense(layout)` writes it as the paper's network component; the identity takes two ReLU units.
    """

    applied: tuple[tuple[Place, Function], ...]
    skip: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "applied", tuple(self.applied))
        if self.skip:
            raise InputError("a block pointwise layer keeps other blocks itself: no skip, please")

    def check(self, layout: Layout, what: str) -> None:
        for place, _ in self.applied:
            place.check(layout, what)

    @property
    def units(self) -> int:
        """Hidden units of one entry, for the widest function."""
        return max((function.net.units for _, function in self.applied), default=0)

    def dense(self, layout: Layout) -> PointwiseLayer:
        """`V`, `W`, `B`, `C` of shape (units, tokens, width)."""
        shape = (max(self.units, 2), layout.tokens, layout.width)
        V, W, B, C = (np.zeros(shape) for _ in range(4))
        V[0], W[0], V[1], W[1] = 1.0, 1.0, -1.0, -1.0
        for place, function in self.applied:
            at = place.region(layout)
            net = function.net
            for array, numbers in ((V, net.outputs), (W, net.weights), (B, net.biases)):
                array[(slice(None), *at)] = 0.0
                for k, number in enumerate(numbers):
                    array[(k, *at)] = number
            C[(0, *at)] = net.constant
        return PointwiseLayer(V, W, B, C)


Layer = AttentionLayer | PointwiseLayer | BlockPointwiseLayer


def written_blocks(layer: Layer, layout: Layout) -> set[str]:
    """The blocks that a layer may write to, by name."""
    if isinstance(layer, BlockPointwiseLayer):
        return {place.block for place, _ in layer.applied}
    found = set(layout.names) if isinstance(layer, PointwiseLayer) else set[str]()
    for head in heads_of([layer]):
        if isinstance(head.value, DenseProjection):
            return set(layout.names)
        found |= {b.name for p in head.value.pieces for b in layout.over(p.at, p.stop)}
    return found


def heads_of(layers: Iterable[Layer]) -> list[Head]:
    """The heads of attention layers among some layers."""
    return [h for layer in layers if isinstance(layer, AttentionLayer) for h in layer.heads]
