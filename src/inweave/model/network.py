"""A network: a layout, modules, how inputs fill the prompt and where the answers are read.

Plain immutable data. `inweave.model.dense` says what it computes, and every other room reads it;
none of them is known here. Shapes are checked when a network is built, equal networks are equal,
and `fingerprint` is the same in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from inweave.errors import BlockError
from inweave.exact.arithmetic import Arithmetic, Floats
from inweave.exact.constants import Array
from inweave.exact.schema import LATER, fingerprint, write
from inweave.model.embedding import Embedding, plain_module
from inweave.model.inputs import accept
from inweave.model.layers import (
    AttentionLayer,
    BlockPointwiseLayer,
    Layer,
    heads_of,
    written_blocks,
)
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.projection import AnyProjection
from inweave.model.prompt import Fill, Input, Output, as_answer, fill_prompt, of_kind


def _check_names(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BlockError(f"{what} {name!r} is named twice; the {what}s are {', '.join(names)}")


@dataclass(frozen=True, eq=False)
class Network:
    """A layout, modules, how inputs fill the prompt and where the answers are read."""

    layout: Layout
    modules: tuple[Module, ...]
    inputs: tuple[Input, ...] = ()
    fills: tuple[Fill, ...] = ()
    outputs: tuple[Output, ...] = ()
    embedding: Embedding | None = field(default=None, metadata=LATER)
    """The basis in which its prompt stands, if not the one of its blocks."""

    kept: ClassVar[WeakValueDictionary[int, Network]] = WeakValueDictionary()

    def __post_init__(self) -> None:
        for name in ("modules", "inputs", "fills", "outputs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for i, module in enumerate(self.modules):
            module.check(self.layout, f"module {i}")
        _check_names("input", [spec.name for spec in self.inputs])
        for fill in self.fills:
            fill.check(self.layout, self.inputs)
        _check_names("output", [output.name for output in self.outputs])
        for output in self.outputs:
            output.place.check(self.layout, f"output {output.name!r}")
        if self.embedding is not None:
            self.embedding.check(self.layout, self.modules)

    # -- sizes ------------------------------------------------------------------------------------
    @property
    def tokens(self) -> int:
        """Rows of the prompt."""
        return self.layout.tokens

    @property
    def width(self) -> int:
        """Columns of the prompt."""
        return self.layout.width

    @cached_property
    def depth(self) -> int:
        """Attention layers executed."""
        return sum(module.executed() for module in self.modules)

    @cached_property
    def heads(self) -> int:
        """Heads stored; those of a tied module count once."""
        return len(heads_of(self.layers))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers as stored, those of a tied module once."""
        return tuple(layer for module in self.modules for layer in module.layers)

    @cached_property
    def stored_numbers(self) -> int:
        """How many numbers it takes to write the weights down."""
        total = sum(p.stored_numbers() for p in self._projections)
        for layer in self.layers:
            if isinstance(layer, BlockPointwiseLayer):
                total += sum(3 * f.net.units + 1 for _, f in layer.applied)
            elif not isinstance(layer, AttentionLayer):
                total += 4 * int(layer.V.size)
        return total

    @property
    def _projections(self) -> list[AnyProjection]:
        return [p for head in heads_of(self.layers) for p in head.projections]

    @cached_property
    def used_blocks(self) -> frozenset[str]:
        """The blocks that are filled, read or written; others only make the prompt wide enough."""
        places = [fill.place for fill in self.fills] + [output.place for output in self.outputs]
        used = {place.block for place in places}
        for layer in self.layers:
            heads = heads_of([layer])
            if not isinstance(layer, BlockPointwiseLayer) and not heads:
                return frozenset(self.layout.names)
            for head in heads:
                if head.pieces is None:
                    return frozenset(self.layout.names)
                used |= {str(piece.block) for part in head.pieces for piece in part}
            used |= written_blocks(layer, self.layout)
        return frozenset(used)

    @property
    def is_polynomial(self) -> bool:
        """Whether the answers are polynomials: attention alone, no pointwise function."""
        return all(isinstance(layer, AttentionLayer) for layer in self.layers)

    @property
    def target(self) -> str:
        """'lsa' if no head has a bias, otherwise 'elsa'."""
        return "elsa" if any(p.has_bias for p in self._projections) else "lsa"

    # -- the prompt -------------------------------------------------------------------------------
    def prompt(self, **inputs: Any) -> Array:
        """The prompt H that holds these inputs."""
        return self.filled(*accept(self.inputs, inputs))

    def filled(self, inputs: Mapping[str, Array], arithmetic: Arithmetic) -> Array:
        """The prompt that holds lifted inputs (..., rows, cols), in any arithmetic."""
        H = fill_prompt(self.layout, self.fills, inputs, arithmetic)
        return H if self.embedding is None else self.embedding.apply(H, arithmetic)

    def in_blocks(self, H: Array, arithmetic: Arithmetic | None = None) -> Array:
        """A state in the basis of its blocks, where each owns columns: what an embedding hides."""
        self.layout.check(H)
        if self.embedding is None:
            return H
        return self.embedding.inverse.apply(H, arithmetic or Floats.like(H))

    def readout(self, H: Array, arithmetic: Arithmetic | None = None) -> Any:
        """The answers that stand in a state: one value, or a dict of named ones."""
        H = self.in_blocks(H, arithmetic)
        answers = {o.name: of_kind(o.place.read(self.layout, H), o.kind) for o in self.outputs}
        return as_answer(answers)

    @cached_property
    def plain(self) -> Network:
        """The network without an embedding that gives the same answers, exactly."""
        if self.embedding is None:
            return self
        modules = tuple(plain_module(m, self.embedding, self.layout) for m in self.modules)
        return Network(self.layout, modules, self.inputs, self.fills, self.outputs)

    def keep(self) -> int:
        """Its `id`, by which `kept` has it while it is in use; for `inweave.run.torch`."""
        Network.kept[id(self)] = self
        return id(self)

    # -- identity ---------------------------------------------------------------------------------
    def describe(self) -> dict[str, Any]:
        """All that makes this network what it is, as JSON data; arrays by their content."""
        described: dict[str, Any] = write(Network, self)
        return described

    @cached_property
    def fingerprint(self) -> str:
        """A content hash, the same for equal networks in every process."""
        return fingerprint(Network, self)

    def __eq__(self, other: object) -> bool:
        """Equal data; what else is known of one of them (see `inweave.network`) does not count."""
        return isinstance(other, Network) and all(
            getattr(self, name) == getattr(other, name)
            for name in ("layout", "modules", "inputs", "fills", "outputs", "embedding")
        )

    def __hash__(self) -> int:
        return int(self.fingerprint[:15], 16)

    def __repr__(self) -> str:
        return (
            f"Network({self.target}: {self.depth} attention layers, {self.heads} heads, "
            f"{self.tokens} tokens x {self.width} columns)"
        )
