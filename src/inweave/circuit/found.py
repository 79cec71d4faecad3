"""The circuit of a network, read off its weights and made sure of by patching."""

from __future__ import annotations

import numpy as np

from inweave.circuit.exact import Columns
from inweave.circuit.graph import INPUT, LOGITS, Circuit, Edge, Node, Points, Variable
from inweave.circuit.patching import Patching
from inweave.circuit.unrolled import Executed, Unrolled, unrolled
from inweave.errors import InputError
from inweave.exact.field import FieldArray
from inweave.exact.whole import whole
from inweave.model.layers import AttentionLayer, Layer
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.prompt import Fill
from inweave.text.network import Words, pretty

POINTS = 2
MOST = 500_000_000  # nodes that are computed for all edges together: some minutes


def circuit_of(network: Network, *, seed: int = 0, functional: bool = True) -> Circuit:
    """The circuit of a network; which edges are functional is looked at only if wanted.

    A network that stands in another basis is seen in that of its blocks: heads, edges and what
    changes the answer are the same in both.
    """
    seed, plain = whole("seed", seed, 0), network.plain
    way = unrolled(plain)
    first = Patching(plain, way, seed)
    edges = structural(way, first)
    points = None
    if functional:
        _check_work(way, edges)
        patched = [first, *(Patching(plain, way, seed, k) for k in range(1, POINTS))]
        found, rest = set[Edge](), list(edges)
        for point in patched:
            found |= point.functional(rest)
            rest = [edge for edge in rest if edge not in found]
        edges = [Edge(e.source, e.target, e.letter, e in found) for e in edges]
        points = Points(seed, tuple(point.field.prime for point in patched))
    spoken = Spoken(plain, way, first)
    heads = [len(d.nodes) for d in way.layers if isinstance(d.layer, AttentionLayer)]
    sizes = (len(way.layers), max(heads, default=0), network.width)
    parts = (tuple(spoken.variables), tuple(spoken.nodes), tuple(edges))
    return Circuit(network.fingerprint, *sizes, *parts, points)


def structural(way: Unrolled, exact: Patching) -> list[Edge]:
    """The edges of which the target reads columns that the source writes."""
    targets = [(name, done.stream) for done in way.layers for name in done.nodes]
    found, written = list[Edge](), dict[str, set[int]]()
    for target, stream in [*targets, (LOGITS, way.final)]:
        for source in stream:
            if source not in written:
                written[source] = set(exact.writes(source).tolist())
        for letter, columns in exact.reads(target).items():
            read = columns.tolist()
            found += [
                Edge(source, target, letter)  # type: ignore[arg-type]
                for source in stream
                if not written[source].isdisjoint(read)
            ]
    return found


def _check_work(way: Unrolled, edges: list[Edge]) -> None:
    """Refuse what would take hours."""
    at = {name: i for i, done in enumerate(way.layers) for name in done.nodes}
    behind = [0] * (len(way.layers) + 1)
    for i in reversed(range(len(way.layers))):
        behind[i] = behind[i + 1] + len(way.layers[i].nodes)
    work = sum(behind[at[e.target]] for e in edges if e.target != LOGITS)
    if work > MOST:
        raise InputError(
            f"this network has {len(way.layers):,} layers and {len(edges):,} edges; to patch each "
            f"of them takes {work:,} heads, at most {MOST:,} are allowed: ask for "
            "circuit(functional=False), or compile it with fewer steps"
        )


class Spoken:
    """Nodes and variables in words, layer by layer."""

    def __init__(self, network: Network, way: Unrolled, exact: Patching) -> None:
        self.network, self.exact = network, exact
        self.words = Words(network)
        self.variables: list[Variable] = [
            Variable(pretty(name), name, None, text) for name, text in prompt_text(network).items()
        ]
        run = exact.run(exact.prompts[0])
        states = [*run.before, run.final]
        self.nodes = [Node(INPUT, "the prompt", {}, tuple(v.block for v in self.variables))]
        for i, done in enumerate(way.layers):
            held = self._held(states[i])
            self.words.layer(done.stored)
            self._layer(i, done, held, self._held(states[i + 1]))
        reads = tuple(dict.fromkeys(o.place.block for o in network.outputs))
        said = ", ".join(pretty(self.words.name(block, then=True)) for block in reads)
        self.nodes.append(Node(LOGITS, said, {"": reads}, ()))

    def _held(self, state: FieldArray) -> set[str]:
        """The blocks in which anything stands."""
        return set(self._blocks(np.flatnonzero((state.values != 0).any(0))))

    def _layer(self, i: int, done: Executed, before: set[str], after: set[str]) -> None:
        made = self.words.made(done.layer, before if done.adds else ())
        for k, name in enumerate(done.nodes):
            reads = {x: self._blocks(columns) for x, columns in self.exact.reads(name).items()}
            writes = self._blocks(self.exact.writes(name))
            self.nodes.append(Node(name, self._said(done.layer, k), reads, writes))
        for block, text in made.items():
            if block in after:
                name = pretty(self.words.name(block, then=True))
                self.variables.append(Variable(name, block, i, text))

    def _said(self, layer: Layer, head: int) -> str:
        if isinstance(layer, AttentionLayer):
            return self.words.line(layer.heads[head]) or "nothing"
        return "; ".join(f"{text} → {pretty(at)}" for at, text in self.words.made(layer).items())

    def _blocks(self, columns: Columns) -> tuple[str, ...]:
        return blocks_of(self.network.layout, columns)


def blocks_of(layout: Layout, columns: Columns) -> tuple[str, ...]:
    """The blocks that own some columns."""
    owned = set(columns.tolist())
    return tuple(b.name for b in layout if not owned.isdisjoint(range(b.start, b.stop)))


def prompt_text(network: Network) -> dict[str, str]:
    """What each filled block of the prompt holds, in words."""
    said: dict[str, list[str]] = {}
    for fill in network.fills:
        said.setdefault(fill.place.block, []).append(_fill_text(fill))
    return {block: " | ".join(texts) for block, texts in said.items()}


def _fill_text(fill: Fill) -> str:
    text = repr(fill.constant) if fill.source is None else pretty(fill.source)
    if fill.source is not None and fill.place.transpose:
        text += "ᵀ"
    scale = "".join(f"{'' if power == 1 else '√'}{pretty(name)} " for name, power in fill.scale)
    times = "" if fill.coefficient == 1 else f"{fill.coefficient} "
    return f"{times}{scale}{text}" + (" I" if fill.place.diagonal else "")
