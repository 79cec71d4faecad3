"""A network in disguise with its true circuit: what was known before stays known.

First baits are added, then everything is disguised (see `disguise`). The circuit of the result is
found as any other is, from its weights; what its heads stand for, and which edges are genuine, is
told from the network before.

Baits are pairs of heads in one layer that add up to nothing. A bait takes its query, key and value
from heads of the network, not all from one, and adds their product where the value's head writes;
its twin takes the same product away. The layer does what it did, so every proof stands. But each of
the two alone reads what true heads read and writes where they write: whoever changes one edge at a
time sees the answer change, and takes it for a part of the algorithm. Only both together show that
it is none.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from inweave.circuit.graph import Circuit, Edge, Node, head_name
from inweave.circuit.unrolled import unrolled
from inweave.circuits.disguise import At, Disguise
from inweave.model.layers import AttentionLayer, Head, Layer, heads_of
from inweave.model.layout import Layout
from inweave.model.projection import AnyProjection, DenseProjection, Projection
from inweave.network import Network

NOTHING = "nothing that stays"
SIZES = (Fraction(1), Fraction(2), Fraction(-1), Fraction(-2))
TRIES = 8


def hidden(network: Network, dial: Fraction, seed: int) -> tuple[Network, Circuit]:
    """The network in disguise, and its circuit."""
    true = network.circuit(seed=seed)
    if not dial:
        return network, true
    more, kept = baited(network, dial, seed)
    made = Disguise.make(more, float(dial), seed)
    found = made.network.circuit(seed=seed)
    stands = _stands_for(made, kept)
    nodes = tuple(_told(node, stands.get(node.name, node.name), true) for node in found.nodes)
    known = {edge.name for edge in true.functional}
    edges = tuple(replace(e, genuine=_is_genuine(e, stands, known)) for e in found.edges)
    return made.network, replace(found, nodes=nodes, edges=edges, variables=true.variables)


def _stands_for(made: Disguise, kept: Mapping[At, At]) -> dict[str, str | None]:
    """Every executed head, and the true head that it is or is a part of."""
    found: dict[str, str | None] = {}
    for i, done in enumerate(unrolled(made.network).layers):
        for k, name in enumerate(done.nodes):
            if name.startswith("a"):
                at = made.truth(At(done.stored, k))
                whose = None if at is None else kept.get(at)
                found[name] = None if whose is None else head_name(i, whose.head)
    return found


def _told(node: Node, stands: str | None, true: Circuit) -> Node:
    said = NOTHING if stands is None else true.node(stands).expression
    return replace(node, expression=said)


def _is_genuine(edge: Edge, stands: Mapping[str, str | None], known: Container[str]) -> bool:
    source, target = (stands.get(name, name) for name in (edge.source, edge.target))
    if source is None or target is None or not edge.functional:
        return False
    return Edge(source, target, edge.letter).name in known


# -- baits -----------------------------------------------------------------------------------------
def baited(network: Network, dial: Fraction, seed: int) -> tuple[Network, dict[At, At]]:
    """The network with a pair in some layers, and which of its heads stands for which true one.

    A layer has a pair with probability `dial`.
    """
    every = heads_of(network.layers)
    true: dict[At, At] = {}
    numbers = iter(range(len(network.layers)))

    def changed(layer: Layer, _: str) -> Layer:
        at = next(numbers)
        if not isinstance(layer, AttentionLayer):
            return layer
        true.update({At(at, k): At(at, k) for k in range(len(layer.heads))})
        rng = np.random.default_rng([seed, 7, at])
        pair = _pair(every, network.layout, rng) if rng.random() < dial else ()
        return replace(layer, heads=(*layer.heads, *pair))

    modules = tuple(module.map(changed) for module in network.modules)
    return replace(network, modules=modules), true


def _pair(every: list[Head], layout: Layout, rng: np.random.Generator) -> tuple[Head, ...]:
    """A head made of parts of others, and what takes it away; none if no product was found."""
    for _ in range(TRIES):
        i, j, k = (int(n) for n in rng.integers(len(every), size=3))
        query, key, value = every[i].query, every[j].key, every[k].value
        if i == j == k or not _meet(query, key, layout):
            continue
        size = SIZES[int(rng.integers(len(SIZES)))]
        return tuple(Head(query, key, times(value, c)) for c in (size, -size))
    return ()


def _meet(query: AnyProjection, key: AnyProjection, layout: Layout) -> bool:
    """Whether a query and a key have columns in common."""
    used = [np.any(p.weight(layout), 0) | np.any(p.bias(layout), 0) for p in (query, key)]
    return bool((used[0] & used[1]).any())


def times(projection: AnyProjection, number: Fraction) -> AnyProjection:
    """A multiple of a projection."""
    if isinstance(projection, Projection):
        pieces = (replace(p, coefficient=number * p.coefficient) for p in projection.pieces)
        return Projection(tuple(pieces))
    W, B, c = projection.W, projection.B, float(number)  # powers of two: floats are exact
    return DenseProjection(W * c, None if B is None else B * c)
