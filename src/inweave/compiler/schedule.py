"""Forms to layers: which heads compute what, in which layer, from values stored which way round.

`Costs` knows the cheapest way to every value; here it is taken. Values that a loop does not change
are stored outside it (except in faithful mode); what a loop carries is updated in its last layer,
so that every head of a step still sees the old values.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from inweave.compiler.costs import Costs, Region, Segment
from inweave.compiler.forms import ONE, Form, Forms, Leaf, LoopItem, Product
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
from inweave.exact.constants import Constant, identity, product, select, zeros


class Scheduler(Costs):
    """Schedules one program under a choice of how leaves are stored (`flipped`)."""

    def __init__(
        self, forms: Forms, mode: str, flipped: dict[Leaf, bool], shared: set[Product]
    ) -> None:
        super().__init__(forms, mode, flipped, shared)
        self.root = Region(None, None, 0)
        self.regions: dict[LoopItem | None, Region] = {None: self.root}
        self.leaves: dict[Key, int] = {}  # leaf keys in use -> largest spread
        self.pending: list[Key] = []
        self.inits: list[tuple[Key, Form]] = []
        self.flops = 0.0
        self.movable: set[Leaf] = set()
        self.live: set[Leaf] = set()  # carried values that some answer needs
        self.narrow = False  # tokens are free, columns are not

    def run(self, outputs: dict[str, Form], loops: Sequence[LoopItem]) -> Schedule:
        for number, item in enumerate(loops, 1):
            self.regions[item] = Region(item, None, number)
        for item in loops:
            region = self.regions[item]
            region.parent = self.regions[item.parent]
        self._region(self.root, loops)
        places = {name: self._output(name, form) for name, form in outputs.items()}
        self._drain()
        return Schedule(self._parts(self.root), places, self.inits, self._cost())

    def _region(self, region: Region, loops: Sequence[LoopItem]) -> None:
        for item in loops:
            if item.parent is region.item:
                inner = self.regions[item]
                inner.position = region.current.index
                self._region(inner, loops)
                inner.ready = True
                for leaf in item.carried:
                    if leaf in self.live:
                        self.use(Key(leaf, self.flipped.get(leaf, False)))
                self._drain()
                region.loops.append(inner)
                region.segments.append(Segment(region, len(region.segments)))

    # -- doing it ---------------------------------------------------------------------------------
    def use(self, key: Key, spread: int = 0) -> None:
        """Note that a leaf is read in an orientation, and see to its storage."""
        if key not in self.leaves:
            self.leaves[key] = 1
            if isinstance(key.value, Leaf) and key.value.role == "carried":
                self.pending.append(key)
        self.leaves[key] = max(self.leaves[key], spread, 1)

    def _drain(self) -> None:
        """Give every carried value in use its start and its step."""
        while ready := [k for k in self.pending if self.regions[k.value.item].ready]:  # type: ignore[union-attr]
            key = ready[0]
            self.pending.remove(key)
            leaf: Leaf = key.value  # type: ignore[assignment]
            item = leaf.item
            assert item is not None
            region = self.regions[item]
            before = region.parent.segments[region.position]  # type: ignore[union-attr]
            init = item.init[leaf.index]
            if region.parent is self.root and (fillable(init) or self._in_place(key, init)):
                self.inits.append((key, init))
            elif not init.is_zero:
                self._sink(key, init, before, last=True)
            change = self.forms.combine(
                [(ONE, item.step[leaf.index]), (-ONE, self.forms.leaf(leaf))]
            )
            self._sink(key, change, region.current, last=True)

    def _in_place(self, key: Key, init: Form) -> bool:
        """Whether a loop may start from a user's block by updating that very block."""
        sole = init.sole
        if sole is None or not isinstance(sole[0], Leaf) or sole[2] != 1 or sole[1] != key.flipped:
            return False
        return sole[0].role == "given" and sole[0] in self.movable

    def _sink(self, key: Key, form: Form, seg: Segment, last: bool) -> int:
        """Write a form under a key; `last` leaves it to the segment's last layer."""
        level, specs = 1, []
        copies: list[Item] = []
        for leaf, t, c in form.leaves:
            wanted = t != key.flipped
            straight = self.leaf_cost(leaf, wanted, seg)
            turned = self.leaf_cost(leaf, not wanted, seg)
            flip = wanted if straight <= turned else not wanted
            item, at = self._read_leaf(leaf, flip, c, seg, 0)
            level = max(level, at + 1)
            if flip == wanted or leaf.family is not None:
                copies.append(item)
            else:
                rows, cols = key.shape
                eye = (Item(ONE, None, identity(rows)),)
                specs.append(HeadSpec(eye, (item,), (Item(ONE, None, identity(cols)),), key))
        for k, c in form.constants.items():
            copies.append(Item(c, None, k.T if key.flipped else k))
        for p, t, c in form.products:
            flip = t != key.flipped
            known = self._known(p, flip, seg)
            if known is not None and (last or known[1] < level):
                copies.append(Item(c, known[0]))
                level = max(level, known[1] + 1)
                continue
            found, at = self._head(p, flip, c, key, seg)
            level = max(level, at)
            specs.append(found)
        entries: list[HeadSpec | LinearSpec] = list(specs)
        if not specs and not copies and not last:  # it was found to be zero, and is read
            copies.append(Item(ONE, None, zeros(*key.shape)))
        if copies:
            entries.append(LinearSpec(tuple(copies), key))
        for spec in entries:
            if last:
                seg.final.append((level, spec))
            else:
                layer = seg.layer(level)
                (layer.heads if isinstance(spec, HeadSpec) else layer.linear).append(spec)  # type: ignore[arg-type]
        return level

    def _known(self, p: Product, flip: bool, seg: Segment) -> tuple[Key, int] | None:
        """A product that is stored already, where a copy of it costs no further layer."""
        group = self.forms.form(p.rows, p.cols, [(ONE, p, False)])
        home = self._home(group.loops, seg) if self.hoist else seg
        key = self._group_key(group, flip and p.family is None, home)
        if home is not seg and seg.region is not self.root:
            return self._store(group, flip, seg)
        if key in self.stored and self.stored[key][0] is not seg:
            return key, 0
        return None

    def _head(
        self, p: Product, flip: bool, c: Fraction, dest: Key, seg: Segment
    ) -> tuple[HeadSpec, int]:
        """The head that adds `c p` (or its transpose) to a stored value, and its level."""
        flip = flip and p.family is None
        (_, _, flops), (parts, roles) = self.best(p, flip, seg)
        self.flops += flops
        reads, level = [], 0
        if len(parts) == 1:
            read, level = self.read(parts[0], roles[0], seg)
            rows, cols = (p.cols, p.rows) if flip else (p.rows, p.cols)
            eye = (Item(ONE, None, identity(rows)),)
            if roles[0] == flip:
                return HeadSpec(eye, eye, _scaled(read, c), dest), level + 1
            return HeadSpec(eye, read, (Item(c, None, identity(cols)),), dest), level + 1
        for part, role in zip(parts, roles, strict=True):
            read, at = self.read(part, role, seg)
            reads.append(read)
            level = max(level, at)
        if flip:
            reads, parts, roles = reads[::-1], parts[::-1], roles[::-1]
        if len(parts) == 3:
            query, key, value = reads
        elif roles == (flip, flip):
            inner = parts[0].cols if not flip else parts[0].rows
            query, key, value = reads[0], (Item(ONE, None, identity(inner)),), reads[1]
        elif roles[0] != flip:
            size = parts[0].rows if not flip else parts[0].cols
            query, key, value = (Item(ONE, None, identity(size)),), reads[0], reads[1]
        else:
            size = parts[1].cols if not flip else parts[1].rows
            query, key, value = reads[0], reads[1], (Item(ONE, None, identity(size)),)
        return HeadSpec(query, key, _scaled(value, c), dest), level + 1

    def read(self, f: Form, flip: bool, seg: Segment) -> tuple[Read, int]:
        """What a head reads to get a form, and the level from which it can."""
        items: list[Item] = []
        level = 0
        for leaf, t, c in f.leaves:
            item, at = self._read_leaf(leaf, t != flip, c, seg, f.spread)
            items.append(item)
            level = max(level, at)
        light, groups = self._split(f, flip)
        for factor, constant, turned, c in light:
            inner, at = self.read(factor, turned, seg)
            level = max(level, at)
            for item in inner:
                if constant is None:
                    items.append(item.scaled(c))
                    continue
                for k, d in constant.constants.items():
                    items.append(_times_constant(item, k, c * d))
        for group, t, c in groups:
            key, at = self._store(group, t != flip, seg)
            if f.spread > 1:
                key, at = self._lift(key, f.spread, at, seg)
            items.append(Item(c, key))
            level = max(level, at)
        for k, c in f.constants.items():
            items.append(Item(c, None, k.T if flip else k))
        return tuple(items), level

    def _read_leaf(
        self, leaf: Leaf, flip: bool, c: Fraction, seg: Segment, spread: int
    ) -> tuple[Item, int]:
        store = self._storage(leaf)
        if store.role == "carried" and leaf.family is None and not leaf.is_scalar:
            leaf = leaf if flip == self.flipped.get(store, False) else self._turned(leaf)
        key = self._leaf_key(leaf, flip)
        level = 0
        if leaf.definition is not None:
            if key not in self.stored:
                home = self._home(leaf.loops, seg)
                at = self._sink(key, leaf.definition, home, last=False)
                self.stored[key] = (home, at)
                if leaf.function is not None:
                    home.layer(at).pointwise.append((key, leaf.function))
            level = self._level_from(key, seg)
        else:
            self.use(key, spread if leaf.role == "input" else 0)
        if spread > 1 and leaf.role != "input":
            key, level = self._lift(key, spread, level, seg)
            return Item(c, key), level
        return Item(c, key, None, spread), level

    def _store(self, group: Form, flip: bool, seg: Segment) -> tuple[Key, int]:
        """Have a sum of products stored; its key and the level from which it can be read."""
        home = self._home(group.loops, seg) if self.hoist else seg
        key = self._group_key(group, flip, home)
        if key in self.stored and not self._reachable(key, seg):
            key = Key(key.value, key.flipped, -len(self.stored))
        if key not in self.stored:
            heads, level = [], 0
            for p, t, c in key.value.products:  # type: ignore[union-attr]
                head, at = self._head(p, t != key.flipped, c, key, home)
                heads.append(head)
                level = max(level, at)
            home.layer(level).heads.extend(heads)
            self.stored[key] = (home, level)
        return key, self._level_from(key, seg)

    def _reachable(self, key: Key, seg: Segment) -> bool:
        home = self.stored[key][0]
        region: Region | None = seg.region
        at = seg.index
        while region is not None:
            if region is home.region:
                return home.index <= at
            at, region = region.position, region.parent
        return False

    def _lift(self, key: Key, q: int, level: int, seg: Segment) -> tuple[Key, int]:
        """`s I_q` from a computed scalar: one head per diagonal entry."""
        if q > 64:
            raise CompileError(
                f"a computed scalar times a matrix needs {q} heads here; multiply it into a "
                "vector, or give it as an input"
            )
        leaf = Leaf(f"{key.value!r}·I", q, q, role="lifted", family="any", loops=key.value.loops)
        made = seg.memo.setdefault(("lift", key, q), Key(leaf, False))
        if made not in self.stored:
            for i in range(q):
                column = select(q, i, i + 1)
                head = HeadSpec((Item(ONE, None, column),), (Item(ONE, key),),
                                (Item(ONE, None, column.T),), made)  # fmt: skip
                seg.layer(level + 1).heads.append(head)
            self.stored[made] = (seg, level + 1)
        return made, self._level_from(made, seg)

    def _output(self, name: str, form: Form) -> tuple[Key, bool]:
        seg = self.root.current
        sole = form.sole
        if sole and isinstance(sole[0], Leaf) and sole[2] == 1:
            flips = (sole[1], not sole[1])
            _, flip = min((self.leaf_cost(sole[0], flip, seg), flip) for flip in flips)
            item, _ = self._read_leaf(sole[0], flip, ONE, seg, 0)
            assert item.key is not None
            return item.key, sole[1]
        leaf = Leaf(name or "answer", form.rows, form.cols, role="output", loops=frozenset(),
                    definition=form)  # fmt: skip
        if form.is_constant:
            key = Key(leaf, False)
            self.leaves[key] = 1
            self.inits.append((key, form))
            return key, False
        costs = [self._sink_cost(form, flip, seg) for flip in (False, True)]
        key = Key(leaf, costs[1] < costs[0])
        level = self._sink(key, form, seg, last=True)
        self.stored[key] = (seg, level)
        return key, False

    # -- the result -------------------------------------------------------------------------------
    def _parts(self, region: Region) -> list[LayerSpec | LoopSpec]:
        out: list[LayerSpec | LoopSpec] = []
        for segment in region.segments:
            out += segment.close()
            for inner in region.loops:
                if inner.position == segment.index:
                    assert inner.item is not None
                    body = self._parts(inner)
                    keys = [
                        tuple(k for k in self.leaves if k.value is leaf)
                        for leaf in inner.item.carried
                    ]
                    if any(keys):
                        out.append(LoopSpec(inner.item, body, keys))
        return out

    def _cost(self) -> tuple[int, int, float]:
        """(depth, area of the prompt, flops): what the search over orientations minimises."""

        def depth(region: Region) -> int:
            own = sum(max([*s.layers, *(level for level, _ in s.final)], default=0)
                      for s in region.segments)  # fmt: skip
            return own + sum(
                inner.item.times * depth(inner) for inner in region.loops if inner.item
            )

        sizes = []
        for key, spread in self.leaves.items():
            sizes.append((spread, spread) if key.value.rows == key.value.cols == 1 else key.shape)
        sizes += [key.shape for key in self.stored]
        tokens = 1 if self.narrow else max((rows for rows, _ in sizes), default=1)
        return depth(self.root), tokens * sum(cols for _, cols in sizes), self.flops


def _scaled(read: Read, c: Fraction) -> Read:
    return tuple(item.scaled(c) for item in read)


def _times_constant(item: Item, k: Constant, c: Fraction) -> Item:
    if item.constant is None:
        return Item(item.coefficient * c, item.key, None if k.is_identity() else k, item.spread)
    extra, both = product(item.constant, k)
    return Item(item.coefficient * c * extra, item.key, both, item.spread)


def fillable(form: Form) -> bool:
    """Whether the prompt can hold a loop's start: zero, a constant, or an input as it is."""
    inputs = [(leaf, c) for leaf, _, c in form.leaves]
    plain = all(leaf.role == "input" and leaf.block is None and c == 1 for leaf, c in inputs)
    return not form.products and plain
