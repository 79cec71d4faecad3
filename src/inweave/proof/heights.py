"""Bounds on degrees, from above and without any arrays.

A height bounds the degrees of numerator and denominator of a value's entries, as rational functions
of what is drawn at random. `Heights` computes with them instead of numbers; `state_heights` follows
a network block by block. How likely a wrong network passes a check is bounded from these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.language import evaluate
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.prompt import rooted
from inweave.proof.field_check import Pairs

Height = tuple[int, int]
ZERO: Height = (-1, 0)  # the zero polynomial: absorbed by sums, kept by products


def plus(a: Height, b: Height) -> Height:
    if a[0] < 0 or b[0] < 0:
        return b if a[0] < 0 else a
    if a[1] == b[1] == 0:
        return max(a[0], b[0]), 0
    return max(a[0] + b[1], b[0] + a[1]), a[1] + b[1]


def multiplied(a: Height, b: Height) -> Height:
    return ZERO if a[0] < 0 or b[0] < 0 else (a[0] + b[0], a[1] + b[1])


class Bounded:
    """A matrix of which only the shape and a bound on the height of its entries is known."""

    def __init__(self, shape: Sequence[int], height: Height) -> None:
        self.shape, self.height = tuple(shape), height

    @property
    def mT(self) -> Bounded:
        return Bounded((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.height)

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(self.shape, plus(self.height, other.height))

    __sub__ = __add__

    def __mul__(self, other: Any) -> Bounded:
        if isinstance(other, Bounded):
            return Bounded(other.shape, multiplied(self.height, other.height))
        return self

    def __matmul__(self, other: Bounded) -> Bounded:
        shape = (*self.shape[:-1], other.shape[-1])
        height = multiplied(self.height, other.height)
        if height[1]:  # a sum of fractions
            height = (height[0] + (self.shape[-1] - 1) * height[1], height[1] * self.shape[-1])
        return Bounded(shape, height)


class Heights(Arithmetic):
    """The arithmetic of bounds.

    A keyed random function gives a fresh variable. Two different arguments meet the same one only
    by chance, with a probability that `arguments`, the sum of their degrees, bounds.
    """

    def __init__(self, opaque: bool = False) -> None:
        self.opaque, self.arguments = opaque, 0

    def applied(self, function: Any, height: Height, entries: int) -> Height:
        if getattr(function, "is_reciprocal", False) and not self.opaque:
            return height[1], max(height[0], 0)
        self.arguments += entries * (max(height[0], 0) + height[1])
        return 1, 0

    def number(self, value: Fraction) -> int:
        return 1

    def zeros(self, shape: Sequence[int]) -> Bounded:
        return Bounded(shape, ZERO)

    def array(self, entries: np.ndarray[Any, Any]) -> Bounded:
        return Bounded(entries.shape, (0, 0) if np.any(entries != 0) else ZERO)

    def concat(self, arrays: Sequence[Bounded], axis: int) -> Bounded:
        raise NotImplementedError

    def pointwise(self, function: Any, x: Bounded) -> Bounded:
        return Bounded(x.shape, self.applied(function, x.height, math.prod(x.shape)))

    def root(self, x: Bounded) -> Bounded:
        return Bounded(x.shape, (1, 0))


def state_heights(
    network: Network,
    parts: Sequence[Part],
    start: Mapping[str, Height],
    heights: Heights | None = None,
) -> dict[str, Height]:
    """A bound for every block after some parts of a network."""
    state, heights = dict(start), heights or Heights()
    for part in parts:
        _advance(network, part, state, heights)
    return state


def _advance(network: Network, part: Part, state: dict[str, Height], heights: Heights) -> None:
    if isinstance(part, Module):
        for _ in range(part.repeat):
            before = dict(state)
            for inner in part.body:
                _advance(network, inner, state, heights)
            if part.skip:
                for name in state:
                    state[name] = plus(state[name], before[name])
        return
    if isinstance(part, BlockPointwiseLayer):
        for place, function in part.applied:
            entries = place.rows * place.cols
            state[place.block] = heights.applied(function, state[place.block], entries)
        return
    out = dict.fromkeys(state, ZERO)
    if isinstance(part, AttentionLayer):
        for head in part.heads:
            q, k = (_height(p, state) for p in (head.query, head.key))
            scores = multiplied(q, k)
            for name, height in _written(network, head.value, state).items():
                out[name] = plus(out[name], multiplied(scores, height))
    else:
        for name in part.touched(network.layout):
            out[name] = (1, 0)
    for name, height in out.items():
        state[name] = plus(state[name], height) if part.skip else height


def _height(projection: AnyProjection, state: Mapping[str, Height]) -> Height:
    if not isinstance(projection, Projection):
        total = (0, 0)
        for height in state.values():
            total = plus(total, height)
        return total
    total = ZERO
    for piece in projection.pieces:
        total = plus(total, (0, 0) if piece.block is None else state[piece.block])
    return total


def _written(
    network: Network, projection: AnyProjection, state: Mapping[str, Height]
) -> dict[str, Height]:
    if not isinstance(projection, Projection):
        height = _height(projection, state)
        return {block.name: height for block in network.layout}
    out: dict[str, Height] = {}
    for piece in projection.pieces:
        height = (0, 0) if piece.block is None else state[piece.block]
        for block in network.layout:
            if block.start < piece.stop and piece.at < block.stop:
                out[block.name] = plus(out.get(block.name, ZERO), height)
    return out


def checked_height(
    traced: Traced,
    network: Network,
    pairs: Pairs | None,
    opaque: bool = False,
) -> int:
    """A bound on the degree of every polynomial that was compared, arguments of functions too."""
    heights = Heights(opaque)
    inputs: dict[str, Array] = {s.name: Bounded((s.rows, s.cols), (1, 0)) for s in traced.inputs}
    start = {block.name: (-1, 0) for block in network.layout}
    for fill in network.fills:
        own = (0, 0) if fill.source is None else (1, 0)
        own = (own[0] + len(fill.scale), 0)
        start[fill.place.block] = max(start[fill.place.block], own)
    factor = 2 if rooted(network.fills) else 1
    worst, at, state = 0, 0, start
    known: evaluate.Known = {}
    order = ex.ordered(traced.outputs.values())
    for x in order:
        if isinstance(x, ex.InputExpr):
            known[x] = inputs[x.name]
    for loop, index in pairs or ():
        module = network.modules[index]
        state = state_heights(network, network.modules[at:index], state, heights)
        free = [Bounded(x.shape, (1, 0)) for x in loop.carried]
        evaluate.fill(
            [x for x in ex.ordered([*loop.init, *loop.outer]) if x not in known],
            known,
            heights,
        )
        worst = max([worst, *(_total(known[x].height) for x in loop.init)])
        worst = max(
            [worst, *(_total(x.height) for x in evaluate.run(loop, free, known, heights, 1))]
        )
        for places in module.carries:
            for place in places:
                worst = max(worst, _total(state[place.block]))
                state[place.block] = (1, 0)
        after = state_heights(network, [Module(module.body, 1, module.skip)], state, heights)
        worst = max([worst, *(_total(h) for h in after.values())])
        known[loop] = free
        at = index + 1
    state = state_heights(network, network.modules[at:], state, heights)
    evaluate.fill([x for x in order if x not in known], known, heights)
    worst = max([worst, *(_total(known[x].height) for x in traced.outputs.values())])
    worst = max([worst, *(_total(state[o.place.block]) for o in network.outputs)])
    return factor * (worst + heights.arguments)


def _total(height: tuple[int, int]) -> int:
    return max(height[0], 0) + height[1]
