"""Forms to layers: which heads compute what, in which layer, from values stored which way round.

A head computes `L Cᵀ R`: L and R are read as stored, C is read transposed. A chain of factors
becomes a tree of two- and three-way products by dynamic programming over (chain, orientation),
least depth first, then fewest extra copies, then fewest flops. Reading an affine form is free; what
must be stored is a sum of products, in the orientations that its readers ask for. Values that a
loop does not change are stored outside it (except in faithful mode); what a loop carries is updated
in its last layer, so that every head of a step still sees the old values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from weft.compiler.expand import innermost
from weft.compiler.forms import ONE, Form, Forms, Leaf, LoopItem, Product
from weft.constants import Constant, Shift, identity, select
from weft.errors import CompileError

Cost = tuple[int, int, float]  # level, entries of extra copies, flops


@dataclass(frozen=True)
class Key:
    """A stored matrix: a leaf or a sum of products, plain or transposed, in a region."""

    value: Leaf | Form
    flipped: bool
    home: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = self.value.rows, self.value.cols
        return (cols, rows) if self.flipped else (rows, cols)


@dataclass(frozen=True)
class Item:
    """A summand of what a head reads: coefficient x stored matrix x constant, or a constant.

    `spread = q` reads a scalar as `s I_q`.
    """

    coefficient: Fraction
    key: Key | None
    constant: Constant | None = None
    spread: int = 0

    def scaled(self, c: Fraction) -> Item:
        return Item(self.coefficient * c, self.key, self.constant, self.spread)


Read = tuple[Item, ...]


@dataclass(frozen=True)
class HeadSpec:
    """`dest += query key.T value`, each an affine read."""

    query: Read
    key: Read
    value: Read
    dest: Key


@dataclass(frozen=True)
class LinearSpec:
    """`dest += read`."""

    read: Read
    dest: Key


@dataclass
class LayerSpec:
    """What one attention layer does, and the pointwise functions applied right after it."""

    heads: list[HeadSpec] = field(default_factory=list)
    linear: list[LinearSpec] = field(default_factory=list)
    pointwise: list[tuple[Key, Any]] = field(default_factory=list)


@dataclass
class LoopSpec:
    """A repeated body, and the keys under which each carried value is stored."""

    item: LoopItem
    body: list[LayerSpec | LoopSpec]
    carried: list[tuple[Key, ...]]


@dataclass
class Schedule:
    """Everything the allocator needs."""

    parts: list[LayerSpec | LoopSpec]
    outputs: dict[str, tuple[Key, bool]]  # where each answer stands, and whether transposed
    inits: list[tuple[Key, Form]]  # carried values that the prompt itself can hold at the start
    cost: tuple[int, int, float]


class Segment:
    """Straight-line code between two loops of a region."""

    def __init__(self, region: Region, index: int) -> None:
        self.region, self.index = region, index
        self.layers: dict[int, LayerSpec] = {}
        self.final: list[tuple[int, HeadSpec | LinearSpec]] = []
        self.memo: dict[Any, Any] = {}

    def layer(self, level: int) -> LayerSpec:
        return self.layers.setdefault(level, LayerSpec())

    def close(self) -> list[LayerSpec]:
        """The layers in order; what was kept for the end goes into the last."""
        last = max([*self.layers, *(level for level, _ in self.final)], default=0)
        for _, spec in self.final:
            layer = self.layer(last)
            (layer.heads if isinstance(spec, HeadSpec) else layer.linear).append(spec)  # type: ignore[arg-type]
        return [self.layer(level) for level in range(1, last + 1)]


class Region:
    """The whole program, or the body of one loop."""

    def __init__(self, item: LoopItem | None, parent: Region | None, number: int) -> None:
        self.item, self.parent, self.number = item, parent, number
        self.segments = [Segment(self, 0)]
        self.loops: list[Region] = []
        self.position = 0  # the parent's segment that runs just before this loop
        self.ready = False  # all inner loops are in place, so the last segment is known

    @property
    def current(self) -> Segment:
        return self.segments[-1]


class Scheduler:
    """Schedules one program under a choice of how leaves are stored (`flipped`)."""

    def __init__(
        self, forms: Forms, mode: str, flipped: dict[Leaf, bool], shared: set[Product]
    ) -> None:
        self.forms, self.hoist = forms, mode != "faithful"
        self.flipped, self.shared = flipped, shared
        self.root = Region(None, None, 0)
        self.regions: dict[LoopItem | None, Region] = {None: self.root}
        self.stored: dict[Key, tuple[Segment, int]] = {}
        self.leaves: dict[Key, int] = {}  # leaf keys in use -> largest spread
        self.pending: list[Key] = []
        self.inits: list[tuple[Key, Form]] = []
        self.flops = 0.0
        self.movable: set[Leaf] = set()
        self.turned: dict[Leaf, Leaf] = {}
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

    # -- what costs how much ----------------------------------------------------------------------
    def read_cost(self, f: Form, flip: bool, seg: Segment) -> Cost:
        """The level at which a form can be read, and what it takes to have it there."""
        memo_key = (f, flip and f.family is None)
        found = seg.memo.get(memo_key)
        if found is None:
            level, copies, flops = 0, 0, 0.0
            for leaf, t, _ in f.leaves:
                a, b, c = self.leaf_cost(leaf, t != flip, seg, f.spread)
                level, copies, flops = max(level, a), copies + b, flops + c
            for light, rest in [self._split(f, flip)]:
                for factor, _, turned, _ in light:
                    a, b, c = self.read_cost(factor, turned, seg)
                    level, copies, flops = max(level, a), copies + b, flops + c
                for group, t, _ in rest:
                    a, b, c = self.group_cost(group, t != flip, seg)
                    level, copies, flops = max(level, a), copies + b, flops + c
                    if f.spread > 1:
                        level, copies = level + 1, copies + f.spread
            found = seg.memo[memo_key] = (level, copies, flops)
        return found

    def leaf_cost(self, leaf: Leaf, flip: bool, seg: Segment, spread: int = 0) -> Cost:
        if leaf.definition is not None:
            return self._bound_cost(leaf, flip, seg)
        if leaf.is_scalar:
            computed = spread > 1 and leaf.role != "input"
            return int(computed), (spread * spread if spread > 1 else 0), 0.0
        wrong = leaf.family is None and flip != self.flipped.get(self._storage(leaf), False)
        size = leaf.rows * leaf.cols
        if wrong and self._storage(leaf).role == "carried":
            # Two copies that are updated side by side drift apart in floating point, so a carried
            # value is stored once; the other way round it is copied anew, a layer later.
            return 1, size, 0.0
        size = size if leaf.block is None else 10**9  # a user's block stands one way round only
        return 0, (size if wrong else 0), 0.0

    def _turned(self, leaf: Leaf) -> Leaf:
        """A carried value as it stands the other way round: a copy, made where it is read."""
        if leaf not in self.turned:
            self.turned[leaf] = Leaf(
                leaf.name,
                leaf.rows,
                leaf.cols,
                role="bound",
                loops=leaf.loops,
                definition=self.forms.leaf(leaf),
            )
        return self.turned[leaf]

    def _bound_cost(self, leaf: Leaf, flip: bool, seg: Segment) -> Cost:
        home = self._home(leaf.loops, seg)
        key = self._leaf_key(leaf, flip)
        if key in self.stored:
            return self._level_from(key, seg), 0, 0.0
        cost = self._sink_cost(leaf.definition, key.flipped, home)  # type: ignore[arg-type]
        return (cost[0] if home is seg else 0), cost[1], cost[2]

    def _sink_cost(self, form: Form, flip: bool, seg: Segment) -> Cost:
        level, copies, flops = 0, 0, 0.0
        for leaf, _, _ in form.leaves:
            # A copy may be turned on the way, so either stored orientation will do.
            a, b, c = min(self.leaf_cost(leaf, o, seg) for o in (False, True))
            level, copies, flops = max(level, a + 1), copies + b, flops + c
        for p, t, _ in form.products:
            a, b, c = self.best(p, t != flip, seg)[0]
            level, copies, flops = max(level, a), copies + b, flops + c
        return max(level, 1), copies, flops

    def group_cost(self, group: Form, flip: bool, seg: Segment) -> Cost:
        """A stored sum of products."""
        home = self._home(group.loops, seg) if self.hoist else seg
        key = self._group_key(group, flip, home)
        if key in self.stored:
            return self._level_from(key, seg), 0, 0.0
        level, copies, flops = 0, 0, 2.0 * group.rows * group.cols  # to store it
        for p, t, _ in group.products:
            a, b, c = self.best(p, t != key.flipped, home)[0]
            level, copies, flops = max(level, a), copies + b, flops + c
        if home is not seg:
            return 0, copies, flops / self._times(home.region, seg.region)
        return level, copies, flops

    def best(self, p: Product, flip: bool, seg: Segment) -> tuple[Cost, Any]:
        """The cheapest way to write a product in an orientation: (cost, (parts, roles))."""
        flip = flip and p.family is None
        memo_key = (p, flip)
        if memo_key not in seg.memo:
            seg.memo[memo_key] = min(
                (self._best_chain(chain, flip, seg) for chain in self._placements(p)),
                key=lambda found: found[0],
            )
        return seg.memo[memo_key]  # type: ignore[no-any-return]

    def _best_chain(self, chain: tuple[Form, ...], flip: bool, seg: Segment) -> tuple[Cost, Any]:
        memo_key = ("chain", chain, flip)
        if memo_key in seg.memo:
            return seg.memo[memo_key]  # type: ignore[no-any-return]
        if len(chain) == 1:
            f = chain[0]
            cost, roles = min((self.read_cost(f, flip, seg), (flip, None)),
                              (self.read_cost(f, not flip, seg), (not flip, None)),
                              key=lambda found: found[0])  # fmt: skip
            best: tuple[Cost, Any] = (cost[0] + 1, cost[1], cost[2]), ((f,), roles)
        else:
            best = min(self._splits(chain, flip, seg), key=lambda found: found[0])
        seg.memo[memo_key] = best
        return best

    def _splits(
        self, chain: tuple[Form, ...], flip: bool, seg: Segment
    ) -> Iterable[tuple[Cost, Any]]:
        cuts = range(1, len(chain))
        if len(chain) > 14:  # long chains: near the thirds and the ends only
            third = len(chain) // 3
            near = {1, 2, third, third + 1, len(chain) - third, len(chain) - 1, len(chain) - 2}
            cuts = [i for i in cuts if i in near]  # type: ignore[assignment]
        for i in cuts:
            a, b = self.forms.part(chain[:i]), self.forms.part(chain[i:])
            size = 2.0 * a.rows * a.cols * b.cols
            for first, second in ((flip, flip), (not flip, flip), (flip, not flip)):
                # read(first part) and read(last part): 'flip' is the outer role, 'not flip' is C
                left, right = (first, second) if not flip else (second, first)
                yield self._total([(a, left), (b, right)], size, seg), ((a, b), (left, right))
        for i, j in itertools.combinations(cuts, 2):
            a, b, c = (
                self.forms.part(chain[:i]),
                self.forms.part(chain[i:j]),
                self.forms.part(chain[j:]),
            )
            ab = a.rows * a.cols * b.cols + a.rows * b.cols * c.cols
            bc = b.rows * b.cols * c.cols + a.rows * a.cols * c.cols
            reads = [(a, flip), (b, not flip), (c, flip)]
            yield (
                self._total(reads, 2.0 * min(ab, bc), seg),
                ((a, b, c), (flip, not flip, flip)),
            )

    def _total(self, reads: Sequence[tuple[Form, bool]], flops: float, seg: Segment) -> Cost:
        level, copies = 0, 0
        for f, flip in reads:
            a, b, c = self.read_cost(f, flip, seg)
            level, copies, flops = max(level, a), copies + b, flops + c
        return level + 1, copies, flops

    def _placements(self, p: Product) -> list[tuple[Form, ...]]:
        """The chain with its scalars put in: where they are smallest, and the other places."""
        found = self.forms.placements.get(p)
        if found is None:
            found = self.forms.placements[p] = self._place_scalars(p)
        return found

    def _place_scalars(self, p: Product) -> list[tuple[Form, ...]]:
        if not p.scalars:
            return [p.chain]
        if not p.chain:
            return [p.scalars]
        sizes = [f.rows for f in p.chain] + [p.chain[-1].cols]
        smallest = min(sizes)
        options = []
        for s in p.scalars:
            spots = list(range(len(sizes)))
            if s.products or len(p.scalars) > 2 or len(p.chain) > 4:
                spots = [i for i in spots if sizes[i] == smallest]
                spots = spots[:1] if smallest > 1 else spots
            options.append(spots)
        out = []
        for choice in itertools.islice(itertools.product(*options), 64):
            chain: list[Form] = []
            for i in range(len(sizes)):
                for s, spot in zip(p.scalars, choice, strict=True):
                    if spot == i:
                        chain += self._spread(s, sizes[i])
                if i < len(p.chain):
                    chain.append(p.chain[i])
            kept = [f for f in chain if not (f.is_constant and _identity_form(f))]
            out.append(tuple(kept) if kept else tuple(chain))
        return list(dict.fromkeys(out))

    def _spread(self, s: Form, q: int) -> tuple[Form, ...]:
        """A scalar as factors at a place of size q; a contraction is spliced in where q = 1."""
        sole = s.sole
        if q == 1 and sole and isinstance(sole[0], Product) and sole[0].chain:
            return self._placements(sole[0])[0]
        return (self.forms.spread(s, q),)

    # -- grouping ---------------------------------------------------------------------------------
    def _split(
        self, f: Form, flip: bool
    ) -> tuple[list[tuple[Form, Form | None, bool, Fraction]], list[tuple[Form, bool, Fraction]]]:
        """A form's products: those free to read (factor, constant, turned) and stored groups.

        A product of one factor and a constant is free where the constant acts on columns.
        """
        key = (f, flip)
        found = self.forms.splits.get(key)
        if found is None:
            found = self.forms.splits[key] = self._divide(f, flip)
        return found  # type: ignore[no-any-return]

    def _divide(self, f: Form, flip: bool) -> Any:
        light: list[tuple[Form, Form | None, bool, Fraction]] = []
        alone, together = [], []
        for p, t, c in f.products:
            free = None if f.spread > 1 else self._light(p, t != flip)  # s I_q is stored
            if free is not None:
                light.append((free[0], free[1], free[2], c))
            elif p in self.shared or len(f.products) == 1:
                alone.append((self.forms.form(p.rows, p.cols, [(ONE, p, False)]), t, c))
            else:
                together.append((c, p, t))
        if len(together) == 1:
            c, p, t = together[0]
            alone.append((self.forms.form(p.rows, p.cols, [(ONE, p, False)]), t, c))
        elif together:
            alone.append((self.forms.form(f.rows, f.cols, together), False, ONE))
        return light, alone

    def _light(self, p: Product, flip: bool) -> tuple[Form, Form | None, bool] | None:
        """(factor, constant on its right, flipped): p read in an orientation without storing it.

        A constant on the left is free too if it only puts zeros below: blocks start at row 0, and
        the prompt holds zeros under them.
        """
        if p.scalars or len(p.chain) != 2:
            return None
        a, b = p.chain
        if not a.is_constant and b.is_constant:
            if not flip:
                return a, b, False
            return (a, None, True) if _embeds(self.forms.transpose(b)) else None
        if a.is_constant and not b.is_constant:
            if flip:
                return b, self.forms.transpose(a), True
            return (b, None, False) if _embeds(a) else None
        return None

    # -- keys and homes ---------------------------------------------------------------------------
    def _storage(self, leaf: Leaf) -> Leaf:
        """A loop's result stands where its carried value stood."""
        return leaf.item.carried[leaf.index] if leaf.role == "result" and leaf.item else leaf

    def _leaf_key(self, leaf: Leaf, flip: bool) -> Key:
        leaf = self._storage(leaf)
        if leaf.family is not None:
            flip = leaf.definition is None and self.flipped.get(leaf, False)
        return Key(leaf, flip)

    def _group_key(self, group: Form, flip: bool, home: Segment) -> Key:
        if group.family is not None:
            return Key(group, False, home.region.number)
        twin = group.twin
        if twin is not group and any(
            Key(twin, f, home.region.number) in self.stored for f in (False, True)
        ):
            return Key(twin, not flip, home.region.number)
        return Key(group, flip, home.region.number)

    def _home(self, loops: frozenset[LoopItem], seg: Segment) -> Segment:
        """The segment in which a value is stored that depends on just these loops."""
        region, wanted = seg.region, innermost(loops)
        while region.item is not wanted and region.parent is not None:
            if region.item in loops:
                break
            seg = region.parent.segments[min(region.position, len(region.parent.segments) - 1)]
            region = region.parent
        return seg

    def _level_from(self, key: Key, seg: Segment) -> int:
        home, level = self.stored[key]
        return level if home is seg else 0

    def _times(self, outer: Region, inner: Region) -> float:
        times = 1.0
        while inner is not outer and inner.parent is not None:
            times *= inner.item.times if inner.item else 1
            inner = inner.parent
        return times

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
    from weft.constants import product

    if item.constant is None:
        return Item(item.coefficient * c, item.key, None if k.is_identity() else k, item.spread)
    extra, both = product(item.constant, k)
    return Item(item.coefficient * c * extra, item.key, both, item.spread)


def _embeds(f: Form) -> bool:
    """Whether a constant form is [I; 0]: it adds rows of zeros below and nothing else."""
    if len(f.constants) != 1:
        return False
    ((k, c),) = f.constants.items()
    return isinstance(k, Shift) and c == 1 and k.row == k.col == 0 and k.size == k.cols


def _identity_form(f: Form) -> bool:
    return len(f.constants) == 1 and all(k.is_identity() and c == 1 for k, c in f.constants.items())


def fillable(form: Form) -> bool:
    """Whether the prompt can hold a loop's start: zero, a constant, or an input as it is."""
    inputs = [(leaf, c) for leaf, _, c in form.leaves]
    plain = all(leaf.role == "input" and leaf.block is None and c == 1 for leaf, c in inputs)
    return not form.products and plain
