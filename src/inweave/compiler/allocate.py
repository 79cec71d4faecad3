"""Pass: stored values get blocks: who owns which columns, and for how long.

Inputs and carried values own their block for good. Every other value lives from the layer that
writes it to the last layer that reads it, a loop counting as a whole for what lives around it; a
block that falls free is given to the next value of the same width. The skip adds to what stands in
a column, so the layer that writes the new value also subtracts the old one. At the end of a loop's
body every scratch block is subtracted away, so that each repetition finds zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inweave.compiler.forms import ONE, CarriedLeaf, Form, GivenLeaf, InputLeaf
from inweave.compiler.given import Given
from inweave.compiler.layers import (
    Allocation,
    Item,
    Key,
    LayerSpec,
    LinearSpec,
    LoopSpec,
    Part,
    Schedule,
    Slot,
    layers,
)
from inweave.compiler.names import block_name, unused
from inweave.compiler.options import Options
from inweave.model.layout import Block
from inweave.model.prompt import Fill, Place


def allocate(schedule: Schedule, options: Options) -> Allocation:
    return Allocator(schedule, options.given, options.forms.called).run()


@dataclass(eq=False)
class Space:
    """A block in the making."""

    cols: int
    rows: int
    keys: list[Key] = field(default_factory=list)
    name: str = ""
    diagonal: int = 1


@dataclass
class Life:
    """When a value is written and last read; `span` is the loop it lives in (None: the program)."""

    born: int
    dies: int
    span: tuple[int, int] | None


class Allocator:
    """Allocates one schedule; layers are known by their numbers, those of a loop counted once."""

    def __init__(self, schedule: Schedule, given: Given | None, called: Mapping[str, str]) -> None:
        self.schedule, self.given, self.called = schedule, given, called
        self.layers: list[LayerSpec] = []
        self.spans: list[tuple[int, int]] = []
        self.lives: dict[Key, Life] = {}
        self.home: dict[Key, tuple[int, int] | None] = {}  # of carried values
        self.clears: dict[int, list[LinearSpec]] = {}  # by layer
        self.parts = _closed(schedule.parts)
        self._walk(self.parts, None)

    # -- lives ------------------------------------------------------------------------------------
    def _walk(self, parts: Sequence[Part], span: tuple[int, int] | None) -> None:
        for part in parts:
            if isinstance(part, LayerSpec):
                self._layer(part, span)
                continue
            start = len(self.layers)
            inner = (start, start + sum(1 for _ in layers(part.body)) - 1)
            self.spans.append(inner)
            self.home |= {key: span for keys in part.carried for key in keys}
            self._walk(part.body, inner)

    def _layer(self, layer: LayerSpec, span: tuple[int, int] | None) -> None:
        at = len(self.layers)
        self.layers.append(layer)
        for key in layer.read:
            self._touch(key, at)
        for key in layer.written:
            if key not in self.lives:
                self.lives[key] = Life(at, at, self.home.get(key, span))
            self._touch(key, at)

    def _touch(self, key: Key, at: int) -> None:
        life = self.lives.get(key)
        if life is None:
            return
        life.dies = max(life.dies, at)
        for start, stop in self.spans:
            if start <= at <= stop and not (start <= life.born <= stop):
                life.dies = max(life.dies, stop)

    # -- blocks -----------------------------------------------------------------------------------
    def run(self) -> Allocation:
        where: dict[Key, Space] = {}
        spare = [] if self.given is None else self.given.free
        for key, q in self.schedule.leaves.items():
            where[key] = self._owned(key, q, spare)
        kept = {key for key, _ in self.schedule.outputs.values()}
        free: list[tuple[Space, Key]] = []
        alive: list[Key] = []
        for key, life in sorted(self.lives.items(), key=lambda kv: kv[1].born):
            if key in where:
                continue
            for old in list(alive):
                if self.lives[old].dies <= life.born and old not in kept:
                    alive.remove(old)
                    free.append((where[old], old))
            where[key] = space = self._reused(key, life, free, key in kept) or self._new(key, spare)
            space.rows = max(space.rows, key.shape[0])
            space.keys.append(key)
            alive.append(key)
        self._clear_bodies(where)
        spaces = list(dict.fromkeys(where.values()))
        if self.given is None:
            _name(spaces, self.called)
        made = Allocation(
            tuple(self._with_clears(self.parts, itertools.count())),
            self.schedule.outputs,
            {s.name: Slot(s.rows, s.cols, tuple(s.keys), s.diagonal) for s in spaces},
            {key: space.name for key, space in where.items()},
            () if self.given is None else self.given.fills,
        )
        return made if self.given is not None else replace(made, fills=self._fills(made))

    def _owned(self, key: Key, q: int, spare: list[Block]) -> Space:
        """The block in which a leaf stands for good."""
        leaf, given = key.value, self.given
        rows, cols = (q, q) if leaf.is_scalar else key.shape
        if given is None:
            return Space(cols, rows, [key], diagonal=q)
        if isinstance(leaf, GivenLeaf):
            if leaf.is_scalar and q > leaf.capacity:
                raise given.missing(f"{leaf.name}·I", q, q)
            block = leaf.block
            if key.flipped and leaf.family is None:
                if block.name not in given.turned:
                    raise given.missing(f"{leaf.name} transposed", *key.shape)
                block = given.turned[block.name]
                return Space(block.cols, block.rows, [key], block.name)
            return Space(block.cols, block.rows, [key], block.name, max(leaf.capacity, 1))
        start = dict(self.schedule.starts).get(key)
        if start is not None and start.constants:
            raise given.missing("a constant start", *key.shape)
        if start is not None and start.sole is not None and isinstance(start.sole[0], GivenLeaf):
            block = start.sole[0].block
            return Space(block.cols, block.rows, [key], block.name)
        space = self._new(key, spare)
        space.keys.append(key)
        return space

    def _new(self, key: Key, spare: list[Block]) -> Space:
        """A new block, or a free one of the user's layout."""
        rows, cols = key.shape
        if self.given is None:
            return Space(cols, rows)
        for block in spare:
            if block.cols == cols and block.rows >= rows:
                spare.remove(block)
                return Space(cols, block.rows, [], block.name)
        raise self.given.missing(key.label, rows, cols)

    def _reused(
        self, key: Key, life: Life, free: list[tuple[Space, Key]], keep: bool
    ) -> Space | None:
        """A block that fell free; what stands in it is subtracted, unless a loop's end did so."""
        fitting = [(space, old) for space, old in free if space.cols == key.shape[1]]
        for space, old in fitting:
            span = self.lives[old].span
            ended = life.span is None and span is not None and span[1] < life.born
            if ended and (not keep or self.given is not None):  # an answer has a name of its own
                free.remove((space, old))
                return space
        for space, old in fitting:
            if self.lives[old].span == life.span and not keep:  # for an answer it would cost a head
                free.remove((space, old))
                self._clear(old, life.born)
                return space
        return None

    # -- clearing ---------------------------------------------------------------------------------
    def _clear(self, key: Key, at: int) -> None:
        self.clears.setdefault(at, []).append(LinearSpec((Item(-ONE, key),), key))

    def _clear_bodies(self, where: dict[Key, Space]) -> None:
        """Leave zeros in every scratch block at the end of a loop's body."""
        carried = {k for part in _loops(self.parts) for keys in part.carried for k in keys}
        last: dict[Space, Key] = {}
        for key, space in where.items():
            if key in self.lives and self.lives[key].span is not None:
                last[space] = key
        for key in last.values():
            span = self.lives[key].span
            assert span is not None
            if key not in carried or self.home.get(key) is not None:
                self._clear(key, span[1])

    def _with_clears(self, parts: Sequence[Part], numbers: Iterator[int]) -> Iterator[Part]:
        for part in parts:
            if isinstance(part, LoopSpec):
                yield replace(part, body=tuple(self._with_clears(part.body, numbers)))
            else:
                clears = self.clears.get(next(numbers), ())
                yield replace(part, linear=(*part.linear, *clears)) if clears else part

    # -- the prompt -------------------------------------------------------------------------------
    def _fills(self, made: Allocation) -> tuple[Fill, ...]:
        fills = []
        for slot in made.blocks.values():
            for key in slot.keys:
                if isinstance(key.value, InputLeaf):
                    fills.append(Fill(made.place(key), source=key.value.name))
        for key, form in self.schedule.starts:
            fills += _start(made.place(key), form)
        return tuple(fills)


def _start(place: Place, form: Form) -> list[Fill]:
    """How the prompt holds the start of a loop: inputs and constants."""
    out = []
    for leaf, t, c in form.leaves:
        at = replace(place, rows=leaf.rows, cols=leaf.cols, transpose=place.transpose != t)
        out.append(Fill(at, source=leaf.name, coefficient=c))
    return out + [Fill(place, constant=k, coefficient=c) for k, c in form.constants]


def _closed(parts: Sequence[Part], inside: bool = False) -> tuple[Part, ...]:
    """Parts whose loops end in a layer, which clears their scratch."""
    out = [
        replace(part, body=_closed(part.body, inside=True)) if isinstance(part, LoopSpec) else part
        for part in parts
    ]
    if inside and (not out or isinstance(out[-1], LoopSpec)):
        out.append(LayerSpec())
    return tuple(out)


def _loops(parts: Sequence[Part]) -> Iterator[LoopSpec]:
    for part in parts:
        if isinstance(part, LoopSpec):
            yield part
            yield from _loops(part.body)


def _name(spaces: Sequence[Space], called: Mapping[str, str]) -> None:
    """Name blocks after what stands in them."""
    used: set[str] = set()
    for space in spaces:
        first = space.keys[0]
        if isinstance(first.value, (InputLeaf, CarriedLeaf)):
            space.name = unused(first.label + "·I" * (space.diagonal > 1), used)
        else:
            space.name = block_name(space.keys, used, called)
        used.add(space.name)
