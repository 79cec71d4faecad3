"""A network in disguise with its true circuit: what was known before stays known.

First baits are added, then everything is disguised (see `baits` and `disguise`). The circuit of the
result is found as any other is, from its weights; what its heads stand for, and which edges are
genuine, is told from the network before.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from fractions import Fraction

from inweave.circuit.graph import Circuit, Edge, Node, head_name
from inweave.circuit.unrolled import unrolled
from inweave.circuits.baits import baited
from inweave.circuits.disguise import At, Disguise
from inweave.network import Network

NOTHING = "nothing that stays"


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
