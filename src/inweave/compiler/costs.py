"""What it costs to have a value: the choices of a schedule, before anything is written.

A head computes `L Cᵀ R`: L and R are read as stored, C is read transposed. A chain of factors
becomes a tree of two- and three-way products by dynamic programming over (chain, orientation),
least depth first, then fewest extra copies, then fewest flops. Reading an affine form is free; what
must be stored is a sum of products, in the orientations that its readers ask for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from inweave.compiler.expand import innermost
from inweave.compiler.forms import ONE, Form, Forms, Leaf, LoopItem, Product
from inweave.compiler.layers import HeadSpec, Key, LayerSpec, LinearSpec
from inweave.exact.constants import Shift

LONG = 14  # factors of a chain up to which every tree is tried
Cost = tuple[int, int, float]  # level, entries of extra copies, flops


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


class Costs:
    """Where values of one program stand, and what the cheapest way to each of them is."""

    def __init__(
        self, forms: Forms, mode: str, flipped: dict[Leaf, bool], shared: set[Product]
    ) -> None:
        self.forms, self.hoist = forms, mode != "faithful"
        self.flipped, self.shared = flipped, shared
        self.stored: dict[Key, tuple[Segment, int]] = {}
        self.turned: dict[Leaf, Leaf] = {}

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
        if leaf.block is not None:  # a user's block stands the way round that it does
            size = 0 if leaf.both_ways else 10**9
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
        memo_key = ("bound", key)
        if memo_key not in home.memo:
            assert leaf.definition is not None
            home.memo[memo_key] = self._sink_cost(leaf.definition, key.flipped, home)
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
        part, long = self.forms.part, len(chain) > LONG
        cuts: Sequence[int] = self._thirds(chain, seg) if long else range(1, len(chain))
        before, after = {i: part(chain[:i]) for i in cuts}, {i: part(chain[i:]) for i in cuts}
        for i in () if long else cuts:
            a, b = before[i], after[i]
            flops = 2.0 * a.rows * a.cols * b.cols
            for first, second in ((flip, flip), (not flip, flip), (flip, not flip)):
                # read(first part) and read(last part): 'flip' is the outer role, 'not flip' is C
                left, right = (first, second) if not flip else (second, first)
                yield self._total([(a, left), (b, right)], flops, seg), ((a, b), (left, right))
        for i, j in itertools.combinations(cuts, 2):
            a, b, c = before[i], part(chain[i:j]), after[j]
            ab = a.rows * a.cols * b.cols + a.rows * b.cols * c.cols
            bc = b.rows * b.cols * c.cols + a.rows * a.cols * c.cols
            reads = [(a, flip), (b, not flip), (c, flip)]
            yield (
                self._total(reads, 2.0 * min(ab, bc), seg),
                ((a, b, c), (flip, not flip, flip)),
            )

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


def _embeds(f: Form) -> bool:
    """Whether a constant form is [I; 0]: it adds rows of zeros below and nothing else."""
    if len(f.constants) != 1:
        return False
    ((k, c),) = f.constants.items()
    return isinstance(k, Shift) and c == 1 and k.row == k.col == 0 and k.size == k.cols


def _identity_form(f: Form) -> bool:
    return len(f.constants) == 1 and all(k.is_identity() and c == 1 for k, c in f.constants.items())
