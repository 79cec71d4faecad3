"""Forms to layers: which heads compute what, in which layer, from values stored which way round.

`Costs` knows the cheapest way to every value; here it is taken. Values that a loop does not change
are stored outside it (except in faithful mode); what a loop carries is updated in its last layer,
so that every head of a step still sees the old values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from inweave.compiler.costs import MOST_HEADS, Costs, Region, Segment, storage
from inweave.compiler.forms import (
    MANY,
    ONE,
    AnswerLeaf,
    AppliedLeaf,
    CarriedLeaf,
    DefinedLeaf,
    Form,
    GivenLeaf,
    InputLeaf,
    Leaf,
    LoopForm,
    Product,
    Scope,
)
from inweave.compiler.layers import (
    DiagonalLeaf,
    HeadSpec,
    Item,
    Key,
    LinearSpec,
    LoopSpec,
    Part,
    Read,
    Schedule,
    layers,
)
from inweave.compiler.readings import Readings
from inweave.compiler.units import READ
from inweave.errors import CompileError
from inweave.exact.constants import Constant, Dense, added, identity, select, zeros


@dataclass(frozen=True)
class Needs:
    """What of a program its answers need."""

    outputs: Mapping[str, Form]
    loops: Sequence[LoopForm]
    carried: frozenset[CarriedLeaf] = frozenset()
    movable: frozenset[Leaf] = frozenset()  # starts of loops that are read nowhere else


class Scheduler(Costs):
    """Schedules one program under a choice of how leaves are stored (`flipped`)."""

    def __init__(
        self,
        needs: Needs,
        readings: Readings,
        hoist: bool,
        flipped: Mapping[Leaf, bool],
        narrow: bool,
        least_work: bool,
        long: int,
    ) -> None:
        super().__init__(readings, hoist, flipped, least_work, long)
        self.needs, self.narrow = needs, narrow
        self.root = Region(None, None, 0)
        self.regions: dict[Scope | None, Region] = {None: self.root}
        self.leaves: dict[Key, int] = {}  # leaf keys in use -> largest q of an s I_q
        self.pending: list[Key] = []
        self.starts: list[tuple[Key, Form]] = []
        self.flops = 0.0

    def run(self) -> Schedule:
        for number, loop in enumerate(self.needs.loops, 1):
            self.regions[loop.scope] = Region(loop, None, number)
        for loop in self.needs.loops:
            self.regions[loop.scope].parent = self.regions[loop.parent]
        self._region(self.root)
        outputs = {
            name: self.walk(self._output, name, form) for name, form in self.needs.outputs.items()
        }
        self._drain()
        parts = tuple(self._parts(self.root))
        cost = self._cost(_tallest_constant(parts))
        return Schedule(
            parts, outputs, tuple(self.starts), dict(self.leaves), dict(self.flipped), cost
        )

    def _region(self, region: Region) -> None:
        for loop in self.needs.loops:
            if loop.parent is region.scope:
                inner = self.regions[loop.scope]
                inner.position = region.current.index
                self._region(inner)
                inner.ready = True
                for leaf in loop.carried:
                    if leaf in self.needs.carried:
                        self.use(Key(leaf, self.flipped.get(leaf, False)))
                self._drain()
                region.loops.append(inner)
                region.segments.append(Segment(region, len(region.segments)))

    # -- doing it ---------------------------------------------------------------------------------
    def use(self, key: Key, diagonal: int = 0) -> None:
        """Note that a leaf is read in an orientation, and see to its storage."""
        if key not in self.leaves:
            self.leaves[key] = 1
            if isinstance(key.value, CarriedLeaf):
                self.pending.append(key)
        self.leaves[key] = max(self.leaves[key], diagonal, 1)

    def _drain(self) -> None:
        """Give every carried value in use its start and its step."""
        while ready := [key for key in self.pending if self._region_of(key).ready]:
            self.pending.remove(ready[0])
            self._carry(ready[0], self._region_of(ready[0]))

    def _region_of(self, key: Key) -> Region:
        assert isinstance(key.value, CarriedLeaf)
        return self.regions[key.value.scope]

    def _carry(self, key: Key, region: Region) -> None:
        leaf, loop, parent = key.value, region.loop, region.parent
        assert isinstance(leaf, CarriedLeaf)
        assert loop is not None
        assert parent is not None
        init = loop.init[leaf.index]
        if parent is self.root and (fillable(init) or self._in_place(key, init)):
            self.starts.append((key, init))
        elif not init.is_zero:
            self.walk(self._sink, key, init, parent.segments[region.position], True)
        change = self.forms.combine([(ONE, loop.step[leaf.index]), (-ONE, self.forms.of(leaf))])
        self.walk(self._sink, key, change, region.current, True)

    def _in_place(self, key: Key, init: Form) -> bool:
        """Whether a loop may start from a user's block by updating that very block."""
        if init.sole is None:
            return False
        leaf, turned, c = init.sole
        given = isinstance(leaf, GivenLeaf) and not leaf.is_scalar
        return given and leaf in self.needs.movable and turned == key.flipped and c == 1

    def _sink(self, key: Key, form: Form, seg: Segment, last: bool) -> int:
        """Write a form under a key; `last` leaves it to the segment's last layer."""
        level, flops = 1, 0.0
        specs: list[HeadSpec | LinearSpec] = []
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
                specs.append(HeadSpec(eye, (item,), ((key, Item(ONE, None, identity(cols))),)))
        for k, c in form.constants:
            copies.append(Item(c, None, k.T if key.flipped else k))
        for p, t, c in form.products:
            flip = t != key.flipped
            known = self._known(p, flip, seg)
            if known is not None and (last or known[1] < level):
                copies.append(Item(c * known[2], known[0]))
                level = max(level, known[1] + 1)
                continue
            found, at, work = self._head(p, flip, c, key, seg)
            level, flops = max(level, at), flops + work
            specs.append(found)
        if not specs and not copies and not last:  # it was found to be zero, and is read
            copies.append(Item(ONE, None, zeros(*key.shape)))
        if copies:
            specs.append(LinearSpec(tuple(copies), key))
        self.flops += flops  # nothing is written before all that it reads is there
        for spec in specs:
            if last:
                seg.final.append((level, spec))
            else:
                seg.layer(level).add(spec)
        return level

    def _known(self, p: Product, flip: bool, seg: Segment) -> tuple[Key, int, Fraction] | None:
        """A product that is stored already, where a copy of it costs no further layer.

        With the number of times that it is to be taken.
        """
        group, _, times = self.readings.group(self.forms.of(p), False, ONE)
        home = self._home(group.loops, seg) if self.hoist else seg
        key = self._group_key(group, flip and p.family is None, home)
        if home is not seg and seg.region is not self.root:
            return *self._store(group, flip, seg), times
        if key in self.stored and self.stored[key][0] is not seg:
            return key, 0, times
        return None

    def _head(
        self, p: Product, flip: bool, c: Fraction, dest: Key, seg: Segment
    ) -> tuple[HeadSpec, int, float]:
        """The head that adds `c p` (or its transpose) to a stored value, its level and flops."""
        flip = flip and p.family is None
        (_, _, flops), (parts, roles) = self.best(p, flip, seg)
        reads, level = [], 0
        for part, role in zip(parts, roles, strict=True):
            read, at = self.read(part, role, seg)
            scale = self.readings.units.scale(part, READ)
            reads.append(read if scale == 1 else tuple(item.scaled(scale) for item in read))
            c, level = c / scale, max(level, at)
        if flip:
            reads, parts, roles = reads[::-1], parts[::-1], roles[::-1]
        # What stands on the outside is read as it is needed, what stands inside is read turned.
        rows, cols = (p.cols, p.rows) if flip else (p.rows, p.cols)
        if len(parts) == 3:
            query, key, value = reads
        elif len(parts) == 1:
            outside = roles[0] == flip
            query, key = _eye(rows), _eye(rows) if outside else reads[0]
            value = reads[0] if outside else _eye(cols)
        elif roles == (flip, flip):
            query, value = reads
            key = _eye(parts[0].rows if flip else parts[0].cols)
        elif roles[0] != flip:
            query, key, value = _eye(rows), *reads
        else:
            query, key, value = *reads, _eye(cols)
        put = tuple((dest, item.scaled(c)) for item in value)
        return HeadSpec(query, key, put), level + 1, flops

    def read(self, f: Form, flip: bool, seg: Segment) -> tuple[Read, int]:
        """What a head reads to get a form, and the level from which it can."""
        items: list[Item] = []
        level, summed = 0, False
        for leaf, t, c in f.leaves:
            item, at = self._read_leaf(leaf, t != flip, c, seg, f.diagonal)
            items.append(item)
            level = max(level, at)
        light, groups = self.readings.split(f, flip)
        for factor, constant, turned, c in light:
            inner, at = self.read(factor, turned, seg)
            level = max(level, at)
            for item in inner:
                if constant is None:
                    items.append(item.scaled(c))
                    continue
                behind = constant
                if item.key is None and self._is_summed(item, constant):
                    behind, summed = self.forms.total(constant), True
                for k, d in behind.constants:
                    items.append(self._times_constant(item, k, c * d))
        for group, t, c in groups:
            key, at = self._store(group, t != flip, seg)
            if f.diagonal > 1:
                key, at = self._diagonal(key, f.diagonal, at, seg)
            items.append(Item(c, key))
            level = max(level, at)
        for k, c in f.constants:
            items.append(Item(c, None, k.T if flip else k))
        many = summed or len(items) > MANY
        return _gathered(items, summed) if many else tuple(items), level

    def _is_summed(self, item: Item, constant: Form) -> bool:
        """Whether the products of numbers and the parts of a constant are many, and added up.

        Then one product with the sum of the parts is less work.
        """
        products = (self._times_constant(item, k, ONE) for k, _ in constant.constants)
        return len(constant.constants) > MANY and _is_dense(products)

    def _times_constant(self, item: Item, k: Constant, c: Fraction) -> Item:
        if item.constant is None:
            behind = None if k.is_identity() else k
            return Item(item.coefficient * c, item.key, behind, item.diagonal)
        extra, both = self.forms.multiplied(item.constant, k)
        return Item(item.coefficient * c * extra, item.key, both, item.diagonal)

    def _read_leaf(
        self, leaf: Leaf, flip: bool, c: Fraction, seg: Segment, diagonal: int
    ) -> tuple[Item, int]:
        store = storage(leaf)
        if isinstance(store, CarriedLeaf) and leaf.family is None:
            leaf = leaf if flip == self.flipped.get(store, False) else self._turned(leaf)
        key = self._leaf_key(leaf, flip)
        level = 0
        if isinstance(leaf, DefinedLeaf):
            if key not in self.stored:
                self._down(self._read_leaf, leaf, flip, c, seg, diagonal)
                home = self._home(leaf.loops, seg)
                at = self._sink(key, leaf.definition, home, last=False)
                self.stored[key] = (home, at)
                if isinstance(leaf, AppliedLeaf):
                    home.layer(at).pointwise.append((key, leaf.function))
                self._up()
            level = self._level_from(key, seg)
        elif isinstance(leaf, (InputLeaf, GivenLeaf)):
            self.use(key, diagonal)
            return Item(c, key, None, diagonal), level
        else:
            self.use(key)
        if diagonal > 1:
            key, level = self._diagonal(key, diagonal, level, seg)
            return Item(c, key), level
        return Item(c, key, None, diagonal), level

    def _store(self, group: Form, flip: bool, seg: Segment) -> tuple[Key, int]:
        """Have a sum of products stored; its key and the level from which it can be read."""
        home = self._home(group.loops, seg) if self.hoist else seg
        key = self._group_key(group, flip, home)
        if key in self.stored and not self._reachable(key, seg):
            key = Key(key.value, key.flipped, -len(self.stored))
        if key not in self.stored:
            self._down(self._store, group, flip, seg)
            assert isinstance(key.value, Form)
            heads, level, flops = [], 0, 0.0
            for p, t, c in key.value.products:
                head, at, work = self._head(p, t != key.flipped, c, key, home)
                heads.append(head)
                level, flops = max(level, at), flops + work
            self.flops += flops
            home.layer(level).heads.extend(heads)
            self.stored[key] = (home, level)
            self._up()
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

    def _diagonal(self, key: Key, q: int, level: int, seg: Segment) -> tuple[Key, int]:
        """`s I_q` from a computed scalar: one head per diagonal entry."""
        if q > MOST_HEADS:
            raise CompileError(
                f"a computed scalar times a matrix needs {q} heads here; multiply it into a "
                "vector, or give it as an input"
            )
        leaf = DiagonalLeaf(f"{key.value!r}·I", q, q, key)
        made: Key = seg.memo.setdefault(("diagonal", key, q), Key(leaf, False))
        if made not in self.stored:
            for i in range(q):
                column = select(q, i, i + 1)
                put = (made, Item(ONE, None, column.T))
                head = HeadSpec((Item(ONE, None, column),), (Item(ONE, key),), (put,))
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
        title = name if name.strip("0123456789") else f"answer{name}"
        leaf = self.forms.intern(AnswerLeaf, title, form.rows, form.cols, form, None)
        if form.is_constant:
            key = Key(leaf, False)
            self.leaves[key] = 1
            self.starts.append((key, form))
            return key, False
        costs = [self._sink_cost(form, flip, seg) for flip in (False, True)]
        key = Key(leaf, costs[1] < costs[0])
        level = self._sink(key, form, seg, last=True)
        self.stored[key] = (seg, level)
        return key, False

    # -- the result -------------------------------------------------------------------------------
    def _parts(self, region: Region) -> list[Part]:
        out: list[Part] = []
        for segment in region.segments:
            out += segment.close()
            for inner in region.loops:
                if inner.position == segment.index:
                    assert inner.loop is not None
                    keys = tuple(
                        tuple(k for k in self.leaves if k.value is leaf)
                        for leaf in inner.loop.carried
                    )
                    if any(keys):
                        out.append(LoopSpec(inner.loop, tuple(self._parts(inner)), keys))
        return out

    def _cost(self, tallest: int) -> tuple[int, int, float]:
        """(depth, area of the prompt, flops): what the search over orientations minimises."""

        def depth(region: Region) -> int:
            own = sum(segment.depth for segment in region.segments)
            inner = [x.loop.times * depth(x) for x in region.loops if x.loop is not None]
            return own + sum(inner)

        sizes = [key.shape for key in self.stored]
        sizes += [(q, q) if key.value.is_scalar else key.shape for key, q in self.leaves.items()]
        tokens = 1 if self.narrow else max([tallest, *(rows for rows, _ in sizes)])
        return depth(self.root), tokens * sum(cols for _, cols in sizes), self.flops


def _tallest_constant(parts: Sequence[Part]) -> int:
    """Rows of the tallest constant that a head adds to what it reads: so many tokens it takes."""
    items = (item for layer in layers(parts) for head in layer.heads for item in head.items)
    return max(
        (item.constant.rows for item in items if item.key is None and item.constant), default=1
    )


def _eye(size: int) -> Read:
    return (Item(ONE, None, identity(size)),)


def _gathered(items: Sequence[Item], summed: bool) -> Read:
    """The same items, where many matrices of numbers behind one value are added up.

    Those behind none are many, too, where one of them is `summed`.
    """
    alike: dict[tuple[Key | None, int], list[Item]] = {}
    for item in items:
        alike.setdefault((item.key, item.diagonal), []).append(item)
    return tuple(
        one
        for group in alike.values()
        for one in ([_added(group)] if _is_many(group, summed) and _is_dense(group) else group)
    )


def _is_many(items: Sequence[Item], summed: bool) -> bool:
    return len(items) > MANY or (summed and items[0].key is None)


def _is_dense(items: Iterable[Item]) -> bool:
    return any(isinstance(item.constant, Dense) for item in items)


def _added(items: Sequence[Item]) -> Item:
    """Items of one value as one."""
    size = next(item.constant.rows for item in items if item.constant is not None)
    parts = [(item.coefficient, item.constant or identity(size)) for item in items]
    return Item(ONE, items[0].key, added(parts), items[0].diagonal)


def fillable(form: Form) -> bool:
    """Whether the prompt can hold a loop's start: zero, a constant, or an input as it is."""
    plain = all(isinstance(leaf, InputLeaf) and c == 1 for leaf, _, c in form.leaves)
    return plain and not form.products
