"""What happened in one forward pass, stored once per change instead of once per layer.

A layer of a compiled network writes a few blocks and leaves the rest of the prompt as it was. So a
recording is the input prompt and, for each position after it, the rectangles that changed. A
position is one executed layer, or the skip around a module where there is one.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array, Ones, Shift
from inweave.model.dense import DenseExecutor, HeadTrace, Step
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, DenseProjection

DENSE_BYTES = 2e8  # full W and B of every projection may take this much
DENSE_FLOPS = 2e10  # and running them this many operations; beyond either, pieces are used


@dataclass
class Recording:
    """The input prompt, and every change to it in order."""

    layout: Layout
    first: np.ndarray[Any, Any]
    positions: int = 1  # the input counts
    rectangles: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    values: list[np.ndarray[Any, Any]] = field(default_factory=list)
    ranges: dict[Layer, tuple[Array, Array]] = field(default_factory=dict)
    numbers: int = 0  # that the changes hold

    def add(self, before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> None:
        """One position more. Bits are compared, so that NaN and -0 are what they are."""
        bits = np.dtype(f"u{before.dtype.itemsize}")
        changed = np.ascontiguousarray(before).view(bits) != np.ascontiguousarray(after).view(bits)
        columns = changed.any(axis=0)
        for block in self.layout:
            touched = np.flatnonzero(columns[block.columns])
            if not len(touched):
                continue
            left, right = block.start + int(touched[0]), block.start + int(touched[-1]) + 1
            rows = np.flatnonzero(changed[:, left:right].any(axis=1))
            top, bottom = int(rows[0]), int(rows[-1]) + 1
            self.rectangles.append((self.positions, top, left, bottom - top, right - left))
            self.values.append(np.array(after[top:bottom, left:right]))
            self.numbers += self.values[-1].size
        self.positions += 1

    def seen(self, layer: Layer, before: Array) -> None:
        """Widen the range of entries that a pointwise layer has met."""
        low, high = self.ranges.get(layer, (before, before))
        self.ranges[layer] = np.fmin(low, before), np.fmax(high, before)

    def met(self, layer: Layer, at: tuple[slice, slice]) -> tuple[float, float]:
        """The range of entries that a pointwise layer has met at a place, a little widened."""
        found = self.ranges.get(layer)
        if found is None:
            return -1.0, 1.0
        low, high = float(np.min(found[0][at])), float(np.max(found[1][at]))
        if not (np.isfinite(low) and np.isfinite(high)):
            return -1.0, 1.0
        pad = 0.2 * (high / 2 - low / 2) or max(abs(high), 1.0)  # high - low may be no float
        largest = np.finfo(float).max
        return max(low - pad, -largest), min(high + pad, largest)


class Enough(Exception):
    """More has changed than a page can hold."""


def record(network: Network, H: np.ndarray[Any, Any], most: float = math.inf) -> Recording:
    """Run a network on one prompt and keep what changed, until that is more than `most` numbers."""
    network.layout.check(H)
    arithmetic = Floats.like(H)
    kind = DenseExecutor if _dense_is_cheap(network) else PieceExecutor
    kept = Recording(network.layout, np.array(H))
    last = [H]

    def note(_name: str, state: Array, step: Step | None) -> None:
        if step is None and state is last[0]:
            return  # the end of a module without a skip: nothing new
        if step is not None and not isinstance(step.layer, AttentionLayer):
            kept.seen(step.layer, step.before)
        kept.add(last[0], state)
        last[0] = state
        if kept.numbers > most:
            raise Enough

    with suppress(Enough), np.errstate(all="ignore"):  # what overflows is shown as it is
        kind(network.layout, arithmetic, note).run(network.modules, H)
    return kept


def _dense_is_cheap(network: Network) -> bool:
    """Whether the definition itself, with full matrices, is quick enough to run."""
    attention = [layer for layer in network.layers if isinstance(layer, AttentionLayer)]
    heads = max((len(layer.heads) for layer in attention), default=0)
    units = max((layer.units for layer in network.layers if isinstance(layer, BlockPointwiseLayer)),
                default=0)  # fmt: skip
    area, width = network.tokens * network.width, network.width
    memory = 8 * (3 * network.heads * (width * width + area) + 4 * units * area)
    flops = 2 * network.depth * heads * (3 * width + 2 * network.tokens) * area
    return memory < DENSE_BYTES and flops < DENSE_FLOPS


class PieceExecutor(DenseExecutor):
    """The same sums without the zeros: each piece of a projection is applied as what it is.

    Rounding may differ from the definition in the last digits, so only large prompts use it.
    """

    def project(self, projection: AnyProjection, H: Array) -> Array:
        if isinstance(projection, DenseProjection):
            return super().project(projection, H)
        out = np.zeros_like(H)
        for p in projection.pieces:
            c, m = float(p.coefficient), p.matrix
            if p.block is None:
                out[: m.rows, p.at : p.stop] += (c * m.entries().astype(float)).astype(H.dtype)
                continue
            source = H[:, self.layout[p.block].columns]
            if isinstance(m, Shift):
                left = p.at + m.col
                out[:, left : left + m.size] += c * source[:, m.row : m.row + m.size]
            elif isinstance(m, Ones):
                out[:, p.at : p.stop] += c * source.sum(axis=1, keepdims=True)
            else:
                out[:, p.at : p.stop] += c * (source @ m.entries().astype(H.dtype))
        return out

    def head(self, head: Head, H: Array) -> HeadTrace:
        q, k, v = (self.project(p, H) for p in head.projections)
        inner = np.flatnonzero(q.any(axis=0) & k.any(axis=0))
        dest = np.flatnonzero(v.any(axis=0))
        output = np.zeros_like(H)
        left, middle, right = q[:, inner], k[:, inner], v[:, dest]
        tokens = H.shape[0]
        if tokens * (len(inner) + len(dest)) < 2 * len(inner) * len(dest):
            output[:, dest] = (left @ middle.mT) @ right
        else:
            output[:, dest] = left @ (middle.mT @ right)
        return HeadTrace(q, k, v, output)

    def done(self, layer: Layer, H: Array, name: str) -> Step:
        if not isinstance(layer, BlockPointwiseLayer):
            return super().done(layer, H, name)
        output = H.copy()
        for place, function in layer.applied:
            at = place.region(self.layout)
            output[at] = function.net(H[at])
        return Step(name, layer, H, output, output)
