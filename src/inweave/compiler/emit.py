"""Layers of specs to a Network: pieces, heads, modules.

Heads that share two of their three parts are merged, all linear updates of a layer become one head,
and for LSA every constant becomes a block of the prompt. Projections are written as what they are:
which block, which constant, which coefficient, which columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from inweave.compiler.allocate import Allocation, Slot
from inweave.compiler.forms import ONE, Form
from inweave.compiler.given import Given
from inweave.compiler.layers import (
    HeadSpec,
    Item,
    Key,
    LayerSpec,
    LinearSpec,
    LoopSpec,
    Read,
    Schedule,
)
from inweave.errors import CompileError
from inweave.exact.constants import Constant, Ones, Shift, identity, select
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.layout import Layout
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import Piece, Projection
from inweave.model.prompt import Fill, Input, Output, Place, rooted

Written = tuple[Key, Item]


@dataclass
class Merged:
    """A head after merging: what it reads and, for each destination, the value it puts there."""

    query: Read
    key: Read
    values: tuple[Written, ...]

    def parts(self) -> list[frozenset[Item] | frozenset[Written]]:
        """What two heads are compared by: the order of summands does not matter."""
        return [frozenset(self.query), frozenset(self.key), frozenset(self.values)]


def collect(items: Read) -> Read:
    """A read with equal summands added up, in a fixed order."""
    total: dict[Item, Fraction] = {}
    for item in items:
        unit = Item(ONE, item.key, item.constant, item.spread)
        total[unit] = total.get(unit, Fraction(0)) + item.coefficient
    return tuple(unit.scaled(c) for unit, c in total.items() if c)


def added(values: tuple[Written, ...]) -> tuple[Written, ...]:
    """Values with equal summands of one destination added up: as a set they must be all there is.

    Heads are compared by sets of summands, and a set forgets that one stands in it twice.
    """
    reads: dict[Key, list[Item]] = {}
    for dest, item in values:
        reads.setdefault(dest, []).append(item)
    return tuple((dest, item) for dest, read in reads.items() for item in collect(tuple(read)))


def merge(heads: list[HeadSpec]) -> list[Merged]:
    """Merge heads that share two of query, key and values."""
    merged = []
    for head in heads:
        query, key, value = collect(head.query), collect(head.key), collect(head.value)
        if not (query and key and value):
            continue
        c = query[0].coefficient * key[0].coefficient
        query = tuple(i.scaled(1 / query[0].coefficient) for i in query)
        key = tuple(i.scaled(1 / key[0].coefficient) for i in key)
        merged.append(Merged(query, key, tuple((head.dest, i.scaled(c)) for i in value)))
    numbers: dict[frozenset[Item] | frozenset[Written], int] = {}  # equal parts, equal numbers

    def numbered(head: Merged) -> list[int]:
        return [numbers.setdefault(part, len(numbers)) for part in head.parts()]

    known = [numbered(head) for head in merged]
    changed = True
    while changed:
        changed = False
        for i, a in enumerate(merged):
            for j in range(len(merged) - 1, i, -1):
                same = [x == y for x, y in zip(known[i], known[j], strict=True)]
                if sum(same) < 2:
                    continue
                b = merged[j]
                if not same[2]:
                    a.values = added((*a.values, *b.values))
                elif not same[0]:
                    a.query = collect((*a.query, *b.query))
                elif not same[1]:
                    a.key = collect((*a.key, *b.key))
                else:
                    a.values = tuple((d, item.scaled(Fraction(2))) for d, item in a.values)
                del merged[j], known[j]
                known[i] = numbered(a)
                changed = True
    return merged


@dataclass
class Emitter:
    """Writes the network of one schedule and allocation."""

    schedule: Schedule
    allocation: Allocation
    target: str
    tokens: int | None = None
    given: Given | None = None
    fills: list[Fill] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    _merged: dict[int, list[Merged]] = field(default_factory=dict)  # by layer

    def network(self, inputs: tuple[Input, ...], kinds: dict[str, str]) -> Network:
        slots = self.allocation.slots
        if self.target == "lsa":
            self._constants(slots)
        if self.given is not None:
            return self._given(inputs, kinds)
        shapes = {slot.name: (slot.rows, slot.cols) for slot in slots}
        if not shapes:
            raise CompileError("the program has nothing to compute")
        widest = max([self._inner(layer) for layer in self._layers(self.schedule.parts)], default=0)
        width = sum(cols for _, cols in shapes.values())
        if widest > width:
            shapes["pad"] = (1, widest - width)
        needed = max(rows for rows, _ in shapes.values())
        tallest = max(
            [self._tallest(layer) for layer in self._layers(self.schedule.parts)], default=0
        )
        if self.tokens is not None and self.tokens < max(needed, tallest):
            tall = max(shapes, key=lambda name: shapes[name][0])
            what = f"block {tall!r} has {needed} rows"
            if needed < tallest:
                what = f"an identity in the weights has {tallest} rows"
            raise CompileError(f"tokens={self.tokens} is too few: {what}")
        self.layout = Layout.of(shapes, self.tokens or max(needed, tallest))
        self._fill()
        return self._network(inputs, tuple(self.fills), kinds)

    def _network(
        self, inputs: tuple[Input, ...], fills: tuple[Fill, ...], kinds: dict[str, str]
    ) -> Network:
        modules = self._modules(self.schedule.parts)
        outputs = tuple(
            Output(name, self._place(key, turned), kinds[name])  # type: ignore[arg-type]
            for name, (key, turned) in self.schedule.outputs.items()
        )
        return Network(self.layout, tuple(modules), inputs, fills, outputs)

    def _given(self, inputs: tuple[Input, ...], kinds: dict[str, str]) -> Network:
        """The network over a user's own layout."""
        assert self.given is not None
        self.layout = self.given.layout
        if self.tokens not in (None, self.layout.tokens):
            raise CompileError(
                f"tokens={self.tokens}, but the given layout has {self.layout.tokens} tokens"
            )
        roots = rooted(self.given.fills)
        specs = tuple(
            replace(spec, sign="nonnegative") if spec.name in roots else spec for spec in inputs
        )
        for key, form in self.schedule.inits:
            if form.constants and not form.is_zero:
                raise self.given.missing("a constant start", *key.shape)
        return self._network(specs, self.given.fills, kinds)

    # -- constants of LSA -------------------------------------------------------------------------
    def _constants(self, slots: list[Slot]) -> None:
        """Blocks for the constants that ELSA would keep in its biases."""
        wanted: dict[object, tuple[Constant, list[str]]] = {}
        size = 0
        for layer in self._layers(self.schedule.parts):
            for merged in self._heads(layer, final=False):
                reads = [*merged.query, *merged.key, *(item for _, item in merged.values)]
                for item in reads:
                    k = item.constant
                    if item.key is not None or k is None:
                        continue
                    if isinstance(k, Shift):
                        size = max(size, k.row + k.size)
                    elif isinstance(k, Ones):
                        wanted["ones", k.rows] = (Ones(k.rows, 1), [])
                    else:
                        wanted[k] = (k, [])
        self._fixed: dict[object, Slot] = {}
        if size:
            self._fixed["identity"] = self._fixed_slot(slots, identity(size), "I")
        for name, (k, _) in wanted.items():
            self._fixed[name] = self._fixed_slot(slots, k, "1" if isinstance(k, Ones) else "F")

    def _fixed_slot(self, slots: list[Slot], k: Constant, name: str) -> Slot:
        if self.given is not None:
            for fill in self.given.fills:
                held = fill.constant
                if held is None or fill.scale or (fill.place.row, fill.place.col) != (0, 0):
                    continue
                larger = k.is_identity() and held.is_identity() and held.rows >= k.rows
                if held == k or larger:
                    return Slot(held.cols, held.rows, [], fill.place.block)
            raise self.given.missing(f"the constant {k!r}", k.rows, k.cols)
        used = {slot.name for slot in slots}
        base, n = name, 2
        while name in used:
            name, n = f"{base}{n}", n + 1
        slot = Slot(k.cols, k.rows, [], name)
        slots.append(slot)
        self.fills.append(Fill(Place(name, k.rows, k.cols), constant=k))
        why = {"I": "an identity, to copy, transpose and multiply two matrices"}
        text = why.get(base, "ones" if isinstance(k, Ones) else "a constant of the program")
        self.added.append(f"{name} ({k.rows} x {k.cols}): {text}")
        return slot

    # -- heads ------------------------------------------------------------------------------------
    def _layers(self, parts: list[LayerSpec | LoopSpec]) -> list[LayerSpec]:
        out = []
        for part in parts:
            out += self._layers(part.body) if isinstance(part, LoopSpec) else [part]
        return out

    def _heads(self, layer: LayerSpec, final: bool = True) -> list[Merged]:
        if id(layer) not in self._merged:
            self._merged[id(layer)] = merge(layer.heads)
        heads = list(self._merged[id(layer)])
        linear: dict[Key, Read] = {}
        first: dict[int, Key] = {}  # the values that share a block over time share its updates
        for spec in layer.linear:
            dest = first.setdefault(id(self.allocation.where[spec.dest]), spec.dest)
            linear[dest] = collect((*linear.get(dest, ()), *spec.read))
        linear = {key: read for key, read in linear.items() if read}
        if linear:
            heads.append(self._linear(linear))
        return heads

    def _linear(self, updates: dict[Key, Read]) -> Merged:
        """All linear updates as one head, (I, I, H W) or (H W, I, I), whichever is narrower."""
        rows = max(self.allocation.where[key].rows for key in updates)
        cols = sum(self.allocation.where[key].cols for key in updates)
        if cols <= rows:
            query: list[Item] = []
            values: list[Written] = []
            at = 0
            for dest, read in updates.items():
                width = self.allocation.where[dest].cols
                move = select(cols, at, at + width)
                for item in read:
                    query.append(_moved(item, move.T))
                values.append((dest, Item(ONE, None, move)))
                at += width
            return Merged(tuple(query), (Item(ONE, None, identity(cols)),), tuple(values))
        eye = (Item(ONE, None, identity(rows)),)
        written = tuple((dest, item) for dest, read in updates.items() for item in read)
        return Merged(eye, eye, written)

    def _cols(self, item: Item) -> int:
        if item.constant is not None:
            return item.constant.cols
        if item.spread > 1:
            return item.spread
        assert item.key is not None
        return item.key.shape[1]

    def _inner(self, layer: LayerSpec) -> int:
        return max(
            (self._cols(i) for m in self._heads(layer) for i in (*m.query, *m.key)), default=0
        )

    def _tallest(self, layer: LayerSpec) -> int:
        """Rows of the tallest bias; constants of LSA stand in blocks instead."""
        if self.target == "lsa":
            return 0
        reads = [
            item
            for m in self._heads(layer)
            for item in (*m.query, *m.key, *(item for _, item in m.values))
        ]
        return max((i.constant.rows for i in reads if i.key is None and i.constant), default=0)

    def _piece(self, item: Item, at: int) -> Piece:
        if item.key is None:
            k = item.constant
            assert k is not None
            if self.target != "lsa":
                return Piece(k, at, item.coefficient)
            if isinstance(k, Shift):
                slot = self._fixed["identity"]
                turned = Shift(slot.cols, k.cols, k.row, k.col, k.size)
                return Piece(turned, at, item.coefficient, slot.name)
            if isinstance(k, Ones):
                return Piece(
                    Ones(1, k.cols), at, item.coefficient, self._fixed["ones", k.rows].name
                )
            return Piece(identity(k.cols), at, item.coefficient, self._fixed[k].name)
        slot = self.allocation.where[item.key]
        matrix: Constant = identity(slot.cols)
        scalar = item.key.value.rows == item.key.value.cols == 1
        if scalar and slot.spread > 1:
            matrix = select(slot.cols, 0, max(item.spread, 1))
        if item.constant is not None:
            from inweave.exact.constants import product

            c, matrix = product(matrix, item.constant)
            return Piece(matrix, at, item.coefficient * c, slot.name)
        return Piece(matrix, at, item.coefficient, slot.name)

    def _layer(self, layer: LayerSpec) -> list[Layer]:
        heads = []
        for merged in self._heads(layer):
            query = tuple(self._piece(item, 0) for item in merged.query)
            key = tuple(self._piece(item, 0) for item in merged.key)
            value = tuple(
                self._piece(item, self.layout[self.allocation.where[dest].name].start)
                for dest, item in merged.values
            )
            heads.append(Head(Projection(query), Projection(key), Projection(value)))
        layers: list[Layer] = [AttentionLayer(tuple(heads))]
        if layer.pointwise:
            applied = tuple((self._place(key), function) for key, function in layer.pointwise)
            layers.append(BlockPointwiseLayer(applied))
        return layers

    def _modules(self, parts: list[LayerSpec | LoopSpec]) -> list[Module]:
        modules: list[Module] = []
        run: list[Layer] = []
        for part in parts:
            if isinstance(part, LayerSpec):
                run += self._layer(part)
                continue
            if run:
                modules.append(Module(tuple(run)))
                run = []
            inner: list[Part] = []
            for module in self._modules(part.body):
                inner += [module] if module.repeat != 1 or module.carries else list(module.body)
            carries = tuple(tuple(self._place(k) for k in keys) for keys in part.carried)
            modules.append(Module(tuple(inner), part.item.times, carries=carries))
        if run:
            modules.append(Module(tuple(run)))
        return modules

    # -- the prompt -------------------------------------------------------------------------------
    def _place(self, key: Key, turned: bool = False) -> Place:
        """Where a value, or its transpose, stands."""
        slot = self.allocation.where[key]
        rows, cols = key.value.rows, key.value.cols
        if rows == cols == 1:
            return Place(slot.name, 1, 1, diagonal=slot.spread if slot.spread > 1 else 0)
        if turned:
            rows, cols = cols, rows
        return Place(slot.name, rows, cols, transpose=key.flipped != turned)

    def _fill(self) -> None:
        fills = []
        for slot in self.allocation.slots:
            for key in slot.keys:
                if getattr(key.value, "role", "") == "input":
                    fills.append(Fill(self._place(key), source=key.value.name))  # type: ignore[union-attr]
        for key, form in self.schedule.inits:
            fills += self._start(key, form)
        self.fills = fills + self.fills

    def _start(self, key: Key, form: Form) -> list[Fill]:
        place = self._place(key)
        out = []
        for leaf, t, c in form.leaves:
            shape = (leaf.rows, leaf.cols)
            turned = place.transpose != t
            at = Place(place.block, *shape, transpose=turned, diagonal=place.diagonal)
            out.append(Fill(at, source=leaf.name, coefficient=c))
        for k, c in form.constants.items():
            out.append(Fill(place, constant=k, coefficient=c))
        return out


def _moved(item: Item, move: Constant) -> Item:
    """An item whose columns go where `move` (cols x total) puts them."""
    from inweave.exact.constants import product

    matrix = item.constant
    if item.key is None:
        assert matrix is not None
        c, both = product(matrix, move)
        return Item(item.coefficient * c, None, both)
    c, both = (ONE, move) if matrix is None else product(matrix, move)
    return Item(item.coefficient * c, item.key, both, item.spread)


__all__ = ["Emitter", "LinearSpec", "merge"]
