"""A network's layers in the order in which they run, and what each of them reads a sum of.

Wherever a state stands, it is a sum of what nodes before have written: the prompt, heads, pointwise
layers. A skip keeps the sum and adds to it; a layer without one starts it anew; a skip around a
module adds the sum from before the module. How often a node counts is its multiplicity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from inweave.circuit.graph import INPUT, head_name, pointwise_name
from inweave.model.cost import check_layers
from inweave.model.layers import AttentionLayer, Layer
from inweave.model.modules import Module
from inweave.model.network import Network

Step = int | Literal["open", "close"]  # an executed layer, or where a skip around several begins


@dataclass(frozen=True)
class Executed:
    """One executed layer: the layer, its number as stored, its nodes, what it reads a sum of."""

    layer: Layer
    stored: int
    nodes: tuple[str, ...]
    stream: Counter[str]

    @property
    def adds(self) -> bool:
        """Whether what was before stays; of a pointwise layer, a node is what it changes."""
        return self.layer.skip or not isinstance(self.layer, AttentionLayer)


@dataclass(frozen=True)
class Unrolled:
    """Executed layers, the order of layers and skips, and what the answer is a sum of."""

    layers: tuple[Executed, ...]
    order: tuple[Step, ...]
    final: Counter[str]


def unrolled(network: Network) -> Unrolled:
    """Every layer as often as it runs."""
    check_layers(network, "a circuit")
    stored, first = network.layers, 0
    layers, order, opened = list[Executed](), list[Step](), list[Counter[str]]()
    stream = Counter([INPUT])
    for module in network.modules:
        for step in _steps(module, first):
            if step == "open":
                opened.append(stream)
                order.append("open")
            elif step == "close":
                stream = stream + opened.pop()
                order.append("close")
            else:
                at = int(step)
                done = Executed(stored[at], at, _nodes(stored[at], len(layers)), stream)
                order.append(len(layers))
                layers.append(done)
                stream = (stream if done.adds else Counter()) + Counter(done.nodes)
        first += len(module.layers)
    return Unrolled(tuple(layers), tuple(order), stream)


def _steps(module: Module, first: int) -> Iterator[Step]:
    """Stored layers in the order in which they run, and skips around several."""
    for _ in range(module.repeat):
        if module.skip:
            yield "open"
        at = first
        for part in module.body:
            if isinstance(part, Module):
                yield from _steps(part, at)
                at += len(part.layers)
            else:
                yield at
                at += 1
        if module.skip:
            yield "close"


def _nodes(layer: Layer, at: int) -> tuple[str, ...]:
    if isinstance(layer, AttentionLayer):
        return tuple(head_name(at, k) for k in range(len(layer.heads)))
    return (pointwise_name(at),)
