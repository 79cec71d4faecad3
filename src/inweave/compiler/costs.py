"""What it costs to have a value: the choices of a schedule, before anything is written.

A head computes `L Cᵀ R`: L and R are read as stored, C is read transposed. A chain of factors
becomes a tree of two- and three-way products by dynamic programming over (chain, orientation),
least depth first, then fewest extra copies, then fewest flops; or, for least work, work first.
Reading an affine form is free; what must be stored is a sum of products, in the orientations that
its readers ask for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inweave.compiler.forms import (
    CarriedLeaf,
    DefinedLeaf,
    Form,
    GivenLeaf,
    InputLeaf,
    Leaf,
    LoopForm,
    Product,
    ResultLeaf,
    Scope,
    Scopes,
    innermost,
)
from inweave.compiler.layers import HeadSpec, Key, LayerSpec, LinearSpec
from inweave.compiler.readings import Readings

LONG = 14  # factors of a chain up to which every tree is tried
SHORT = 8  # the same in a draft: a product of two centred factors, squared, has as many
MOST_HEADS = 64  # that a computed scalar may take to stand as s I_q
NEVER = 10**6  # a level at which nothing is
ENTRY = 6  # flops of a large product that pass while an entry is read or written
DEEP = 40  # values that wait for one another before the innermost is asked for first
Cost = tuple[int, int, float]  # level, entries of extra copies, flops
Split = tuple[Cost, tuple[int, ...], tuple[bool, ...]]  # with where a chain is cut, and the roles


@dataclass(eq=False)
class Layer:
    """A layer that is being written."""

    heads: list[HeadSpec] = field(default_factory=list)
    linear: list[LinearSpec] = field(default_factory=list)
    pointwise: list[tuple[Key, Any]] = field(default_factory=list)

    def add(self, spec: HeadSpec | LinearSpec) -> None:
        if isinstance(spec, HeadSpec):
            self.heads.append(spec)
        else:
            self.linear.append(spec)


class Segment:
    """Straight-line code between two loops of a region."""

    def __init__(self, region: Region, index: int) -> None:
        self.region, self.index = region, index
        self.layers: dict[int, Layer] = {}
        self.final: list[tuple[int, HeadSpec | LinearSpec]] = []
        self.memo: dict[Any, Any] = {}

    def layer(self, level: int) -> Layer:
        return self.layers.setdefault(level, Layer())

    @property
    def depth(self) -> int:
        return max([*self.layers, *(level for level, _ in self.final)], default=0)

    def close(self) -> list[LayerSpec]:
        """The layers in order; what was kept for the end goes into the last."""
        last = self.depth
        for _, spec in self.final:
            self.layer(last).add(spec)
        found = [self.layer(level) for level in range(1, last + 1)]
        return [LayerSpec(tuple(x.heads), tuple(x.linear), tuple(x.pointwise)) for x in found]


class Region:
    """The whole program, or the body of one loop."""

    def __init__(self, loop: LoopForm | None, parent: Region | None, number: int) -> None:
        self.loop, self.parent, self.number = loop, parent, number
        self.segments = [Segment(self, 0)]
        self.loops: list[Region] = []
        self.position = 0  # the parent's segment that runs just before this loop
        self.ready = False  # all inner loops are in place, so the last segment is known

    @property
    def scope(self) -> Scope | None:
        return None if self.loop is None else self.loop.scope

    @property
    def current(self) -> Segment:
        return self.segments[-1]


class TooDeep(Exception):
    """A value lies too deep below the one that was asked for."""

    def __init__(self, ask: Callable[..., Any], *args: Any) -> None:
        super().__init__()
        self.ask, self.args = ask, args


class Costs:
    """Where values of one program stand, and what the cheapest way to each of them is."""

    def __init__(
        self,
        readings: Readings,
        hoist: bool,
        flipped: Mapping[Leaf, bool],
        least_work: bool,
        long: int,
    ) -> None:
        self.readings, self.forms = readings, readings.forms
        self.hoist, self.flipped, self.least_work, self.long = hoist, flipped, least_work, long
        self.stored: dict[Key, tuple[Segment, int]] = {}
        self._depth = 0

    def walk(self, ask: Callable[..., Any], *args: Any) -> Any:
        """Ask for a value below which others may lie as deep as the program is long.

        What lies too deep is asked for first, from the top again; it is known when it is met.
        """
        waiting: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [(ask, args)]
        while True:
            try:
                ask, args = waiting[-1]
                found = ask(*args)
                waiting.pop()
                if not waiting:
                    return found
            except TooDeep as deeper:
                waiting.append((deeper.ask, deeper.args))
                self._depth = 0

    def _down(self, ask: Callable[..., Any], *args: Any) -> None:
        """Note that a value waits for others below it."""
        if self._depth >= DEEP:
            raise TooDeep(ask, *args)
        self._depth += 1

    def _up(self) -> None:
        self._depth -= 1

    # -- what costs how much ----------------------------------------------------------------------
    def read_cost(self, f: Form, flip: bool, seg: Segment) -> Cost:
        """The level at which a form can be read, and what it takes to have it there."""
        found = seg.memo.get((f, flip))
        if found is None:
            level, copies, flops = 0, 0, 0.0
            for leaf, t, _ in f.leaves:
                a, b, c = self.leaf_cost(leaf, t != flip, seg, f.diagonal)
                level, copies, flops = max(level, a), copies + b, flops + c
            light, groups = self.readings.split(f, flip)
            for factor, _, turned, _ in light:
                a, b, c = self.read_cost(factor, turned, seg)
                level, copies, flops = max(level, a), copies + b, flops + c
            for group, t, _ in groups:
                a, b, c = self.group_cost(group, t != flip, seg)
                level, copies, flops = max(level, a), copies + b, flops + c
                if f.diagonal > 1:
                    level, copies = level + _diagonal_level(f.diagonal), copies + f.diagonal
            found = seg.memo[f, flip] = (level, copies, flops)
            if f.family is not None:  # it is its own transpose
                seg.memo[f, not flip] = found
        return found

    def leaf_cost(self, leaf: Leaf, flip: bool, seg: Segment, diagonal: int = 0) -> Cost:
        if leaf.is_scalar and diagonal > 1:
            level, copies, flops = 0, 0, 0.0
            if isinstance(leaf, DefinedLeaf):
                level, copies, flops = self._defined_cost(leaf, flip, seg)
            if not isinstance(leaf, (InputLeaf, GivenLeaf)):
                level += _diagonal_level(diagonal)
            size = 0 if isinstance(leaf, DefinedLeaf) else diagonal * diagonal
            return level, copies + size, flops
        if isinstance(leaf, DefinedLeaf):
            return self._defined_cost(leaf, flip, seg)
        if leaf.is_scalar:
            return 0, 0, 0.0
        wrong = leaf.family is None and flip != self.flipped.get(storage(leaf), False)
        size = leaf.rows * leaf.cols
        if wrong and isinstance(storage(leaf), CarriedLeaf):
            # Two copies that are updated side by side drift apart in floating point, so a carried
            # value is stored once; the other way round it is copied anew, a layer later.
            return 1, size, 0.0
        if isinstance(leaf, GivenLeaf):  # a user's block stands the way round that it does
            size = 0 if leaf.both_ways else 10**9
        return 0, (size if wrong else 0), 0.0

    def _turned(self, leaf: Leaf) -> DefinedLeaf:
        """A carried value as it stands the other way round: a copy, made where it is read."""
        fields = (leaf.name, leaf.rows, leaf.cols, self.forms.of(leaf), None)
        return self.forms.intern(DefinedLeaf, *fields)

    def _defined_cost(self, leaf: DefinedLeaf, flip: bool, seg: Segment) -> Cost:
        home = self._home(leaf.loops, seg)
        key = self._leaf_key(leaf, flip)
        if key in self.stored:
            return self._level_from(key, seg), 0, 0.0
        memo_key = ("defined", key)
        if memo_key not in home.memo:
            self._down(self._defined_cost, leaf, flip, seg)
            home.memo[memo_key] = self._sink_cost(leaf.definition, key.flipped, home)
            self._up()
        level, copies, flops = home.memo[memo_key]
        return (level if home is seg else 0), copies, flops

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
        memo_key = ("group", key)
        if memo_key not in home.memo:
            self._down(self.group_cost, group, flip, seg)
            level, copies, flops = 0, 0, 2.0 * group.rows * group.cols  # to store it
            for p, t, _ in group.products:
                a, b, c = self.best(p, t != key.flipped, home)[0]
                level, copies, flops = max(level, a), copies + b, flops + c
            home.memo[memo_key] = level, copies, flops
            self._up()
        level, copies, flops = home.memo[memo_key]
        if home is not seg:
            return 0, copies, flops / self._times(home.region, seg.region)
        return level, copies, flops

    def best(self, p: Product, flip: bool, seg: Segment) -> tuple[Cost, Any]:
        """The cheapest way to write a product in an orientation: (cost, (parts, roles))."""
        flip = flip and p.family is None
        memo_key = (p, flip)
        if memo_key not in seg.memo:
            seg.memo[memo_key] = min(
                (self._best_chain(chain, flip, seg) for chain in self.readings.placements(p)),
                key=self._rank,
            )
        return seg.memo[memo_key]  # type: ignore[no-any-return]

    def _best_chain(self, chain: tuple[Form, ...], flip: bool, seg: Segment) -> tuple[Cost, Any]:
        """The cheapest way to cut a chain in parts; chains that are alike are cut alike."""
        memo_key = ("chain", self.readings.pattern(chain), flip)
        if memo_key not in seg.memo:
            options = self._splits(chain, flip, seg) if chain[1:] else self._whole(chain, flip, seg)
            seg.memo[memo_key] = min(options, key=self._rank)
        cost, cuts, roles = seg.memo[memo_key]
        ends = itertools.pairwise((0, *cuts, len(chain)))
        return cost, (tuple(self.forms.part(chain[i:j]) for i, j in ends), roles)

    def _whole(self, chain: tuple[Form, ...], flip: bool, seg: Segment) -> Iterable[Split]:
        for role in (flip, not flip):
            yield self._total([(chain[0], role)], 0.0, seg), (), (role,)

    def _splits(self, chain: tuple[Form, ...], flip: bool, seg: Segment) -> Iterable[Split]:
        part, long = self.forms.part, len(chain) > self.long
        cuts: Sequence[int] = self._some(chain, seg) if long else range(1, len(chain))
        before, after = {i: part(chain[:i]) for i in cuts}, {i: part(chain[i:]) for i in cuts}
        for i in () if long and len(cuts) > 1 else cuts:
            a, b = before[i], after[i]
            flops = self._work((a.rows, a.cols, b.cols))
            for first, second in ((flip, flip), (not flip, flip), (flip, not flip)):
                # read(first part) and read(last part): 'flip' is the outer role, 'not flip' is C
                left, right = (first, second) if not flip else (second, first)
                yield self._total([(a, left), (b, right)], flops, seg), (i,), (left, right)
        for i, j in itertools.combinations(cuts, 2):
            a, b, c = before[i], part(chain[i:j]), after[j]
            ab = self._work((a.rows, a.cols, b.cols), (a.rows, b.cols, c.cols))
            bc = self._work((b.rows, b.cols, c.cols), (a.rows, a.cols, c.cols))
            reads = [(a, flip), (b, not flip), (c, flip)]
            yield self._total(reads, min(ab, bc), seg), (i, j), (flip, not flip, flip)

    def _some(self, chain: tuple[Form, ...], seg: Segment) -> tuple[int, ...]:
        """Where a long chain is cut: for least work so that what is narrow stays so.

        A vector is multiplied from its end on, by one factor at a time where others read it on the
        way, otherwise by two.
        """
        first, *inner, last = (*(f.rows for f in chain), chain[-1].cols)
        narrow, end = min(inner), len(chain)
        if not self.least_work or min(first, last) >= narrow == sorted(inner)[1]:
            return self._thirds(chain, seg)
        if narrow <= min(first, last):
            at = 1 + inner.index(narrow)
            return (at, end - 1) if at < end - 1 else (1, at)
        one, two = (1, 2) if last <= first else (end - 1, end - 2)
        rest = chain[1:] if last <= first else chain[:-1]
        return (one,) if self.readings.is_read(rest) else tuple(sorted((one, two)))

    def _thirds(self, chain: tuple[Form, ...], seg: Segment) -> tuple[int, int]:
        """Where a long chain is cut in three, each part with a third of the leaves of its tree.

        A factor that is read from level l on takes the place of 3^l leaves.
        """
        weights = [
            3 ** min(self.read_cost(f, flip, seg)[0] for flip in (False, True)) for f in chain
        ]
        ends = list(itertools.accumulate(weights, initial=0))
        total, places = ends[-1], range(1, len(chain))
        first = min(places[:-1], key=lambda i: abs(3 * ends[i] - total))
        second = min(places[first:], key=lambda i: abs(3 * ends[i] - 2 * total))
        return first, second

    def _total(self, reads: Sequence[tuple[Form, bool]], flops: float, seg: Segment) -> Cost:
        level, copies, known = 0, 0, seg.memo.get
        for read in reads:  # most are known: asked so often that a call would take longer
            a, b, c = known(read) or self.read_cost(*read, seg)
            level, copies, flops = max(level, a), copies + b, flops + c
        return level + 1, copies, flops

    def _rank(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """The order of costs: by depth, or by work where there is a choice at all."""
        level, copies, flops = cost = found[0]
        return (max(level, copies) >= NEVER, flops, level, copies) if self.least_work else cost

    def _work(self, *products: tuple[int, int, int]) -> float:
        """What products take, each of so many rows, terms and columns."""
        return sum(
            work(*shape) if self.least_work else 2.0 * math.prod(shape) for shape in products
        )

    # -- keys and homes ---------------------------------------------------------------------------
    def _leaf_key(self, leaf: Leaf, flip: bool) -> Key:
        leaf = storage(leaf)
        if leaf.family is not None:
            flip = not isinstance(leaf, DefinedLeaf) and self.flipped.get(leaf, False)
        return Key(leaf, flip)

    def _group_key(self, group: Form, flip: bool, home: Segment) -> Key:
        number = home.region.number
        if group.family is not None:
            return Key(group, False, number)
        twin = self.forms.transpose(group)
        if Key(twin, False, number) in self.stored or Key(twin, True, number) in self.stored:
            return Key(twin, not flip, number)
        return Key(group, flip, number)

    def _home(self, loops: Scopes, seg: Segment) -> Segment:
        """The segment in which a value is stored that depends on just these loops."""
        region, wanted = seg.region, innermost(loops)
        while region.scope is not wanted and region.parent is not None:
            if region.scope in loops:
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
            times *= inner.loop.times if inner.loop else 1
            inner = inner.parent
        return times


def work(rows: int, terms: int, cols: int) -> float:
    """The flops of a product, and what reading and writing it comes to in flops."""
    return 2.0 * rows * terms * cols + ENTRY * (rows * terms + terms * cols + rows * cols)


def _diagonal_level(q: int) -> int:
    """How much later `s I_q` can be read than the scalar s, which was computed."""
    return 1 if q <= MOST_HEADS else NEVER


def storage(leaf: Leaf) -> Leaf:
    """A loop's result stands where its carried value stood."""
    return leaf.carried if isinstance(leaf, ResultLeaf) else leaf
