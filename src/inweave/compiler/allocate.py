"""Stored values to blocks: who owns which columns, and for how long.

Inputs and carried values own their block for good. Every other value lives from the layer that
writes it to the last layer that reads it, a loop counting as a whole for what lives around it; a
block that falls free is given to the next value of the same width. The skip adds to what stands in
a column, so the layer that writes the new value also subtracts the old one. At the end of a loop's
body every scratch block is subtracted away, so that each repetition finds zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inweave.compiler.forms import ONE, Form, Leaf
from inweave.compiler.given import Given
from inweave.compiler.layers import Item, Key, LayerSpec, LinearSpec, LoopSpec, Schedule
from inweave.model.layout import Block

Part = LayerSpec | LoopSpec


@dataclass
class Slot:
    """A block to be: its width, the values that stand in it over time, its name."""

    cols: int
    rows: int
    keys: list[Key] = field(default_factory=list)
    name: str = ""
    spread: int = 1


@dataclass
class Life:
    """When a value is written and last read; `span` is the loop it lives in (None: the program)."""

    born: int
    dies: int
    span: tuple[int, int] | None


@dataclass
class Allocation:
    """Where every stored value stands."""

    slots: list[Slot]
    where: dict[Key, Slot]


class Allocator:
    """Allocates one schedule."""

    def __init__(
        self, schedule: Schedule, leaves: dict[Key, int], given: Given | None = None
    ) -> None:
        self.schedule, self.leaves, self.given = schedule, leaves, given
        self.layers: list[LayerSpec] = []
        self.spans: list[tuple[int, int]] = []
        self.lives: dict[Key, Life] = {}
        self.home: dict[Key, tuple[int, int] | None] = {}
        self._close_bodies(schedule.parts, inside=False)
        self._walk(schedule.parts, None)

    def _close_bodies(self, parts: list[Part], inside: bool) -> None:
        """A loop body must end in a layer, which clears its scratch."""
        for part in parts:
            if isinstance(part, LoopSpec):
                self._close_bodies(part.body, inside=True)
        if inside and (not parts or isinstance(parts[-1], LoopSpec)):
            parts.append(LayerSpec())

    def _walk(self, parts: list[Part], span: tuple[int, int] | None) -> None:
        for part in parts:
            if isinstance(part, LayerSpec):
                self._layer(part, span)
                continue
            start = len(self.layers)
            count = _count(part.body)
            inner = (start, start + count - 1)
            self.spans.append(inner)
            for keys in part.carried:
                for key in keys:
                    self.home[key] = span
            self._walk(part.body, inner)

    def _layer(self, layer: LayerSpec, span: tuple[int, int] | None) -> None:
        at = len(self.layers)
        self.layers.append(layer)
        for key in _read(layer):
            self._touch(key, at)
        for key in _written(layer):
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

    def run(self) -> Allocation:
        slots: list[Slot] = []
        where: dict[Key, Slot] = {}
        kept = {key for key, _ in self.schedule.outputs.values()}
        loops_over = {k for part in _loops(self.schedule.parts) for ks in part.carried for k in ks}
        spare = [] if self.given is None else self.given.free
        for key, spread in self.leaves.items():
            rows, cols = (spread, spread) if key.value.rows == key.value.cols == 1 else key.shape
            if self.given is None:
                slot = Slot(cols, rows, [key], spread=spread)
            else:
                slot = self._fixed(key, rows, cols, spread, spare)
            slots.append(slot)
            where[key] = slot
        free: list[tuple[Slot, Key]] = []
        alive: list[Key] = []
        for key, life in sorted(self.lives.items(), key=lambda kv: kv[1].born):
            if key in where:
                continue
            for old in list(alive):
                if self.lives[old].dies <= life.born and old not in kept:
                    alive.remove(old)
                    free.append((where[old], old))
            rows, cols = key.shape
            found, clean = self._spare(free, cols, life, keep=key in kept)
            if found is None and self.given is not None:
                slot = self._free(label(key), rows, cols, spare)
                slots.append(slot)
            elif found is None:
                slot = Slot(cols, rows, [])
                slots.append(slot)
            else:
                slot = found[0]
                free.remove(found)
                if not clean:
                    clear = LinearSpec((Item(-ONE, found[1]),), found[1])
                    self.layers[life.born].linear.append(clear)
            slot.rows = max(slot.rows, rows)
            slot.keys.append(key)
            where[key] = slot
            alive.append(key)
        last: dict[int, Key] = {}
        for key, slot in where.items():
            if key in self.lives and self.lives[key].span is not None:
                last[id(slot)] = key
        for key in last.values():
            span = self.lives[key].span
            assert span is not None
            if key not in loops_over or self.home.get(key) is not None:
                self.layers[span[1]].linear.append(LinearSpec((Item(-ONE, key),), key))
        if self.given is None:
            self._name(slots)
        return Allocation(slots, where)

    def _spare(
        self, free: list[tuple[Slot, Key]], cols: int, life: Life, keep: bool
    ) -> tuple[tuple[Slot, Key] | None, bool]:
        """A block that fell free, and whether it is zero already (a loop that ended cleared it)."""
        fitting = [(s, k) for s, k in free if s.cols == cols]
        for s, k in fitting:
            span = self.lives[k].span
            ended = life.span is None and span is not None and span[1] < life.born
            if ended and (not keep or self.given is not None):  # an answer has a name of its own
                return (s, k), True
        for s, k in fitting:
            if self.lives[k].span == life.span and not keep:  # for an answer it would cost a head
                return (s, k), False
        return None, False

    def _free(self, what: str, rows: int, cols: int, spare: list[Block]) -> Slot:
        """A free block of the user's layout."""
        assert self.given is not None
        for block in spare:
            if block.cols == cols and block.rows >= rows:
                spare.remove(block)
                return Slot(cols, block.rows, [], block.name)
        raise self.given.missing(what, rows, cols)

    def _fixed(self, key: Key, rows: int, cols: int, spread: int, spare: list[Block]) -> Slot:
        """The block of the user's layout in which a leaf stands."""
        leaf, given = key.value, self.given
        assert isinstance(leaf, Leaf)
        assert given is not None
        if leaf.block is not None:
            block = leaf.block
            if leaf.is_scalar and spread > leaf.capacity:
                raise given.missing(f"{leaf.name}·I", spread, spread)
            if key.flipped and leaf.family is None and block.name in given.turned:
                other = given.turned[block.name]
                return Slot(other.cols, other.rows, [key], other.name)
            if key.flipped and leaf.family is None:
                raise given.missing(f"{leaf.name} transposed", *key.shape)
            return Slot(block.cols, block.rows, [key], block.name, spread=max(leaf.capacity, 1))
        start = next((form for k, form in self.schedule.inits if k == key), None)
        if start is not None and start.sole is not None and isinstance(start.sole[0], Leaf):
            shared = start.sole[0].block
            if shared is not None:
                return Slot(shared.cols, shared.rows, [key], shared.name)
        slot = self._free(label(key), rows, cols, spare)
        slot.keys.append(key)
        return slot

    def _name(self, slots: list[Slot]) -> None:
        used: set[str] = set()
        count = 0
        for slot in slots:
            names = list(dict.fromkeys(label(key) for key in slot.keys))
            name = "|".join(names) if len("|".join(names)) <= 18 else ""
            if not name:
                count += 1
                name = names[0] if len(names) == 1 and len(names[0]) <= 18 else f"scratch{count}"
            if slot.spread > 1:
                name += "·I"
            base, n = name, 2
            while name in used:
                name, n = f"{base}′{n if n > 2 else ''}", n + 1
            used.add(name)
            slot.name = name


def label(key: Key) -> str:
    """A name for a stored value, as it stands in the prompt."""
    value = key.value
    text = value.name if isinstance(value, Leaf) and value.name else repr(value)
    if not isinstance(value, Leaf) and key.flipped:
        return f"({text})ᵀ"
    return f"{text}ᵀ" if key.flipped else text


def _count(parts: list[Part]) -> int:
    return sum(_count(p.body) if isinstance(p, LoopSpec) else 1 for p in parts)


def _loops(parts: list[Part]) -> list[LoopSpec]:
    out = []
    for part in parts:
        if isinstance(part, LoopSpec):
            out += [part, *_loops(part.body)]
    return out


def _read(layer: LayerSpec) -> list[Key]:
    items: list[Item] = []
    for head in layer.heads:
        items += [*head.query, *head.key, *head.value]
    for linear in layer.linear:
        items += linear.read
    return [item.key for item in items if item.key is not None]


def _written(layer: LayerSpec) -> list[Key]:
    keys = [head.dest for head in layer.heads] + [linear.dest for linear in layer.linear]
    return list(dict.fromkeys(keys))


__all__ = ["Allocation", "Allocator", "Form", "Slot", "label"]
