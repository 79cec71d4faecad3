"""Exact path patching: another value of one node, on one edge alone.

A node is computed on two random prompts. On an edge to a later node, and nowhere else, its
contribution on the first prompt is replaced by that on the second; everything after is computed
anew. If an answer changes, the edge is functional: a fact, since nothing is rounded. Edges into
one layer are patched together, as a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from inweave.circuit.exact import Columns, nodes_of, put
from inweave.circuit.graph import INPUT, LOGITS, Edge
from inweave.circuit.unrolled import Unrolled
from inweave.exact.field import Field, FieldArray, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.model.network import Network
from inweave.model.prompt import drawn_inputs, fill_prompt, rooted

BATCH = 2**22  # numbers of the states that are patched at once

Wrote = Mapping[str, FieldArray]  # what nodes write, by name


def random_field(seed: int, point: int) -> Field:
    """The field of a point."""
    return Field(random_prime(np.random.default_rng([seed, point])))


def random_prompt(network: Network, field: Field, rng: np.random.Generator) -> FieldArray:
    """A prompt of random inputs; where it holds the root of one, the root is drawn."""
    fills, draw = network.fills, partial(field.random, rng=rng)
    inputs, roots = drawn_inputs(network.inputs, rooted(fills), draw)
    prompt: FieldArray = fill_prompt(network.layout, fills, inputs, FieldArithmetic(field), roots)
    return prompt


def marked(network: Network, regions: Iterable[tuple[slice, slice]]) -> npt.NDArray[np.bool_]:
    """Regions of the prompt as a mask."""
    mask = np.zeros((network.tokens, network.width), dtype=bool)
    for region in regions:
        mask[region] = True
    return mask


@dataclass
class Run:
    """One forward pass: the state before each layer, what each node wrote, the last state."""

    before: list[FieldArray]
    wrote: dict[str, FieldArray]
    final: FieldArray


class Patching:
    """Patches edges of one network at one point."""

    def __init__(self, network: Network, way: Unrolled, seed: int = 0, point: int = 0) -> None:
        self.network, self.way = network, way
        self.field = random_field(seed, point)
        self.nodes = nodes_of(way.layers, network.layout, self.field, key=point)
        layout = network.layout
        self.read = marked(network, (out.place.source(layout) for out in network.outputs))
        filled = marked(network, (fill.place.region(layout) for fill in network.fills))
        self.filled: Columns = np.flatnonzero(filled.any(0))
        rng = np.random.default_rng([seed, point, 1])
        self.prompts = [random_prompt(network, self.field, rng) for _ in range(2)]

    # -- structure --------------------------------------------------------------------------------
    def writes(self, node: str) -> Columns:
        """The columns that a node writes."""
        return self.filled if node == INPUT else self.nodes[node].writes

    def reads(self, node: str) -> dict[str, Columns]:
        """The columns that a node reads, by letter."""
        if node == LOGITS:
            return {"": np.flatnonzero(self.read.any(0))}
        return {} if node == INPUT else self.nodes[node].reads

    # -- running ----------------------------------------------------------------------------------
    def run(self, H: FieldArray) -> Run:
        before, wrote, opened = list[FieldArray](), dict[str, FieldArray](), list[FieldArray]()
        for step in self.way.order:
            if step == "open":
                opened.append(H)
            elif step == "close":
                H = H + opened.pop()
            else:
                done = self.way.layers[int(step)]
                before.append(H)
                after = H if done.adds else H - H
                for name in done.nodes:
                    node = self.nodes[name]
                    wrote[name] = node.output(node.parts(H))
                    after = put(after, node.writes, wrote[name])
                H = after
        return Run(before, wrote, H)

    def functional(self, edges: Sequence[Edge]) -> set[Edge]:
        """Those of some edges that change an answer."""
        clean, other = (self.run(H) for H in self.prompts)
        changes = {name: other.wrote[name] - x for name, x in clean.wrote.items()}
        by_target: dict[str, list[Edge]] = {}
        for edge in edges:
            by_target.setdefault(edge.target, []).append(edge)
        found = set[Edge]()
        for at, done in enumerate(self.way.layers):
            here = {name: by_target[name] for name in done.nodes if name in by_target}
            if here:
                found |= self._into_layer(at, here, clean, changes)
        for edge in by_target.get(LOGITS, ()):
            change = self._contribution(edge.source, self.way.final[edge.source], changes)
            if (change.values != 0)[self.read].any():
                found.add(edge)
        return found

    def _contribution(self, source: str, times: int, changes: Wrote) -> FieldArray:
        """What changes of a state, if a node's contribution to it is replaced."""
        if source == INPUT:
            return (self.prompts[1] - self.prompts[0]) * times
        return self._alone(source, changes[source] * times)

    def _alone(self, node: str, part: FieldArray) -> FieldArray:
        """A state that holds nothing but what a node writes."""
        nothing = self.field.zeros((self.network.tokens, self.network.width))
        return put(nothing, self.nodes[node].writes, part)

    def _into_layer(
        self, at: int, edges: Mapping[str, Sequence[Edge]], clean: Run, changes: Wrote
    ) -> set[Edge]:
        """The functional ones of edges into one layer."""
        kept, moves = list[Edge](), list[FieldArray]()
        stream = self.way.layers[at].stream
        for name, several in edges.items():
            node, parts = self.nodes[name], self.nodes[name].parts(clean.before[at])
            for edge in several:
                change = self._contribution(edge.source, stream[edge.source], changes)
                moved = node.output(node.moved(parts, edge.letter, change)) - clean.wrote[name]
                if (moved.values != 0).any():
                    kept.append(edge)
                    moves.append(self._alone(name, moved))
        found, many = set[Edge](), max(1, BATCH // (self.network.tokens * self.network.width))
        for first in range(0, len(kept), many):
            some = slice(first, first + many)
            batch = FieldArray(self.field, np.stack([move.values for move in moves[some]]))
            final = self._carried(at, batch, clean)
            seen = (final.values != 0)[:, self.read].any(1)
            found |= {edge for edge, changed in zip(kept[some], seen, strict=True) if changed}
        return found

    def _carried(self, at: int, change: FieldArray, clean: Run) -> FieldArray:
        """The change of the last state that changes of the state behind a layer lead to."""
        position = self.way.order.index(at)
        before = self.way.order[:position]
        depth = before.count("open") - before.count("close")
        opened = [change - change for _ in range(depth)]
        for step in self.way.order[position + 1 :]:
            if step == "open":
                opened.append(change)
            elif step == "close":
                change = change + opened.pop()
            else:
                change = self._behind(int(step), change, clean)
        return change

    def _behind(self, at: int, change: FieldArray, clean: Run) -> FieldArray:
        """The change behind a layer of changes before it."""
        done, touched = self.way.layers[at], (change.values != 0).any((0, 1))
        after, H = change if done.adds else change - change, clean.before[at] + change
        for name in done.nodes:
            node = self.nodes[name]
            if any(touched[columns].any() for columns in node.reads.values()):
                after = put(after, node.writes, node.output(node.parts(H)) - clean.wrote[name])
        return after
