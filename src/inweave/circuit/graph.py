"""A circuit as data: variables, nodes and edges, and as the JSON that other tools read.

Nodes have the names of TransformerLens and EAP-IG: `input` is the prompt, `a2.h0` is head 0 of
executed layer 2, `m3` is a pointwise layer, `logits` is where the answers are read. An edge says
through which projection a head reads: `a0.h1->a2.h0<q>`. Layers of a tied loop are counted as they
run, so that `a7.h0` is head 0 of `blocks.7`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, TypeVar

from inweave.errors import InputError
from inweave.exact import schema
from inweave.exact.schema import Count, Line, Natural, Size

T = TypeVar("T")
INPUT, LOGITS = "input", "logits"
COMPUTES = re.compile(r"(a\d{1,9}\.h|m)\d{1,9}", re.ASCII)
Letter = Literal["q", "k", "v", ""]
"""Through which projection a head reads; other nodes have one way in."""


@dataclass(frozen=True)
class Variable:
    """What stands in a block after an executed layer, or (`layer` is None) in the prompt.

    `expression` is what the layer made it of; `hook` is where to find it.
    """

    name: Line
    block: Line
    layer: Count | None
    expression: Line

    @property
    def hook(self) -> str:
        """The activation that holds it."""
        return "hook_embed" if self.layer is None else f"blocks.{self.layer}.hook_resid_post"


@dataclass(frozen=True)
class Node:
    """A head, a pointwise layer, the prompt or the read-out, with the blocks that it touches."""

    name: Line
    expression: Line
    reads: dict[str, tuple[Line, ...]]
    """The blocks that are read, by letter; of a node with one way in, the letter is empty."""
    writes: tuple[Line, ...]


class Tap(NamedTuple):
    """An activation: the hook point that it passes, and which head of it."""

    hook: str
    head: int | None = None

    def of(self, cache: Mapping[str, Any]) -> Any:
        """The activation in a cache, (..., tokens, width)."""
        found = cache[self.hook]
        return found if self.head is None else found[..., self.head, :]


@dataclass(frozen=True)
class Edge:
    """One node reads what another one wrote.

    Every edge is structural: columns that the source writes are read by the target. It is
    functional if another value of the source on this edge alone changes the answer; None if nobody
    looked. Of a disguised network it is genuine if the network that was disguised has it, too, and
    it is functional in both: heads that only cancel each other have edges that are functional one
    by one, and none that is genuine.
    """

    source: Line
    target: Line
    letter: Letter = ""
    functional: bool | None = None
    genuine: bool | None = None

    @property
    def name(self) -> str:
        """As EAP-IG calls it."""
        return f"{self.source}->{self.target}" + (f"<{self.letter}>" if self.letter else "")

    @property
    def wrote(self) -> Tap:
        """Where to find what the source writes."""
        if self.source == INPUT:
            return Tap("hook_embed")
        layer, head = place_of(self.source)
        at = "hook_mlp_out" if head is None else "attn.hook_result"
        return Tap(f"blocks.{layer}.{at}", head)

    @property
    def read(self) -> Tap:
        """Where to find what the target reads through this edge, and others like it."""
        if self.target == LOGITS:
            return Tap("hook_final")
        layer, head = place_of(self.target)
        at = "hook_mlp_in" if head is None else f"hook_{self.letter}_input"
        return Tap(f"blocks.{layer}.{at}", head)


@dataclass(frozen=True)
class Points:
    """The data on which edges were patched: random prompts, in exact numbers modulo primes.

    At each point two prompts are drawn, and a contribution on the one is replaced by that on the
    other. What changes the answer at one point is functional; no change is as sure as two random
    points of a field make it. A pointwise function is there one that tells all arguments apart.
    """

    seed: Natural
    primes: tuple[Size, ...]


@dataclass(frozen=True)
class Circuit:
    """Everything that is known of how a network computes its answer."""

    fingerprint: Line
    """Of the network."""
    layers: Count
    heads: Count
    """The most heads of one layer."""
    width: Size
    variables: tuple[Variable, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    points: Points | None = None

    def __post_init__(self) -> None:
        for wrong in _wrong(self):
            raise InputError(wrong)

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _edges(self) -> dict[str, Edge]:
        return {edge.name: edge for edge in self.edges}

    def node(self, name: str) -> Node:
        """A node by its name."""
        return _found("node", name, self._nodes)

    def edge(self, name: str) -> Edge:
        """An edge by its name."""
        return _found("edge", name, self._edges)

    @property
    def functional(self) -> tuple[Edge, ...]:
        """The edges that the answer depends on."""
        return tuple(edge for edge in self.edges if edge.functional)

    @property
    def genuine(self) -> tuple[Edge, ...]:
        """The edges of the algorithm: the functional ones, if nothing is disguised."""
        return tuple(e for e in self.edges if (e.functional if e.genuine is None else e.genuine))

    def possible(self) -> tuple[Edge, ...]:
        """Every edge from an earlier node to a later one: what a method has to choose from."""
        found, before = list[Edge](), list[str]()
        at, waiting = -1, list[str]()
        for node in self.nodes:
            if layer_of(node.name) != at:
                before, waiting, at = [*before, *waiting], [], layer_of(node.name)
            ends = [(source, node.name, letter) for letter in node.reads for source in before]
            found += [Edge(*end) for end in ends]  # type: ignore[arg-type]
            waiting.append(node.name)
        return tuple(self._edges.get(edge.name, edge) for edge in found)

    # -- as JSON ----------------------------------------------------------------------------------
    def to_data(self) -> dict[str, Any]:
        """This circuit as JSON data, which `from_data` reads."""
        data: dict[str, Any] = schema.write(Circuit, self)
        return data

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """The circuit that JSON data stand for, or FileFormatError."""
        return schema.read(cls, data)

    def to_eap(self) -> dict[str, Any]:
        """The genuine edges as `Graph.from_json` of EAP-IG reads them.

        Its graph has in each layer as many heads as the layer with most has, and a pointwise node;
        those that this network lacks are not in the circuit.
        """
        genuine = {e.name for e in self.genuine}
        kept = {name for e in self.genuine for name in (e.source, e.target)}
        every = [INPUT]
        for i in range(self.layers):
            every += [*(head_name(i, k) for k in range(self.heads)), pointwise_name(i)]
        cfg = {"n_layers": self.layers, "n_heads": self.heads, "parallel_attn_mlp": False}
        chosen = {e.name: e.name in genuine for e in self.edges}
        return {
            "cfg": {**cfg, "d_model": self.width},
            "nodes": {name: {"in_graph": name in kept} for name in (*every, LOGITS)},
            "edges": {x: {"score": float(yes), "in_graph": yes} for x, yes in chosen.items()},
        }

    def __str__(self) -> str:
        heads = [node for node in self.nodes if node.name not in (INPUT, LOGITS)]
        said = "" if self.points is None else f", {len(self.functional)} of them functional"
        lines = [f"{len(heads)} nodes, {len(self.edges)} edges{said}"]
        wide = max((len(node.name) for node in heads), default=0)
        return "\n".join([*lines, *(f"{node.name:>{wide}}  {node.expression}" for node in heads)])

    def __repr__(self) -> str:
        return f"Circuit({len(self.nodes)} nodes, {len(self.edges)} edges)"


def _wrong(circuit: Circuit) -> Iterator[str]:
    """What keeps data from being a circuit, in words."""
    names = [node.name for node in circuit.nodes]
    if names[:1] != [INPUT] or names[-1:] != [LOGITS]:
        yield f"the first node of a circuit is {INPUT!r} and the last one {LOGITS!r}"
    for name in names[1:-1]:
        if not COMPUTES.fullmatch(name):
            yield f"a node is called as 'a2.h0' or 'm3' are, got {name!r}"
        layer, head = place_of(name)
        if layer >= circuit.layers or (head or 0) >= max(circuit.heads, 1):
            yield (
                f"node {name!r}: there are {circuit.layers} layers of at most {circuit.heads} heads"
            )
    at = [layer_of(name) for name in names]
    if at != sorted(at) or len(set(names)) < len(names):
        yield "the nodes of a circuit are listed once each, layer by layer"
    for variable in circuit.variables:
        if variable.layer is not None and variable.layer >= circuit.layers:
            yield f"variable {variable.name!r} stands behind layer {variable.layer}, after the last"
    for edge in circuit.edges:
        source, target = (circuit._nodes.get(name) for name in (edge.source, edge.target))
        if source is None or target is None or layer_of(source.name) >= layer_of(target.name):
            yield f"edge {edge.name!r} does not lead from a node to a later one"
        elif edge.letter not in target.reads:
            yield f"edge {edge.name!r}: {target.name!r} reads through {', '.join(target.reads)}"
        elif (edge.functional is None) != (circuit.points is None):
            yield f"edge {edge.name!r}: whether it is functional is known of all edges or of none"
        elif edge.genuine and not edge.functional:
            yield f"edge {edge.name!r} is genuine but not functional"
    if len(circuit._edges) < len(circuit.edges):
        yield "the edges of a circuit are listed once each"


def head_name(layer: int, head: int) -> str:
    return f"a{layer}.h{head}"


def pointwise_name(layer: int) -> str:
    return f"m{layer}"


def layer_of(name: str) -> int:
    """The executed layer that a node belongs to; the read-out comes after all, the prompt before.

    >>> [layer_of(name) for name in ("input", "a2.h0", "m3")]
    [-1, 2, 3]
    """
    if name in (INPUT, LOGITS):
        return -1 if name == INPUT else schema.LARGEST
    return place_of(name)[0]


def place_of(name: str) -> tuple[int, int | None]:
    """The layer of a node that computes, and of a head its number there.

    >>> place_of("a2.h0"), place_of("m3")
    ((2, 0), (3, None))
    """
    layer, dot, head = name[1:].partition(".h")
    return int(layer), int(head) if dot else None


def _found(what: str, name: str, known: dict[str, T]) -> T:
    if name not in known:
        some = ", ".join(list(known)[:8])
        raise InputError(f"no {what} {name!r} in this circuit; there are {len(known)}: {some} ...")
    return known[name]
