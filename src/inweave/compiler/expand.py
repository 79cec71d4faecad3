"""Expand a product over a sum where that saves a layer.

`Xᵀ (X w − y)` is two layers as written and one when expanded, because `Xᵀ X w` is a single head.
The decision needs depths only, so it is taken once, before orientations are searched.
"""

from __future__ import annotations

import math
from functools import lru_cache

from inweave.compiler.forms import ONE, Form, Forms, Leaf, LoopItem, Product
from inweave.compiler.storing import PRODUCTS, TRIED


def innermost(loops: frozenset[LoopItem]) -> LoopItem | None:
    return max(loops, key=lambda loop: loop.serial, default=None)


@lru_cache(maxsize=65536)
def tree_depth(levels: tuple[tuple[int, bool], ...]) -> int:
    """Layers until a chain is one value, from each factor's (level, is loop-invariant)."""
    if all(fixed for _, fixed in levels):
        return 0
    if len(levels) == 1:
        return levels[0][0]
    if len(levels) > 12:
        total, depth = sum(3**level for level, _ in levels), 0
        while 3**depth < total:
            depth += 1
        return depth
    best = 10**9
    for i in range(1, len(levels)):
        left, right = tree_depth(levels[:i]), levels[i:]
        best = min(best, 1 + max(left, tree_depth(right)))
        for j in range(1, len(right)):
            best = min(best, 1 + max(left, tree_depth(right[:j]), tree_depth(right[j:])))
    return best


class Expander:
    """Rewrites forms; `hoist` says whether loop-invariant products leave their loop."""

    def __init__(self, forms: Forms, hoist: bool) -> None:
        self.forms, self.hoist = forms, hoist
        self._levels: dict[Product | Leaf, int] = {}
        self._done: dict[Product, Form] = {}
        self._seen: set[int] = set()

    # -- estimated depth --------------------------------------------------------------------------
    def level(self, form: Form, loop: LoopItem | None) -> int:
        return max((self._value(v, loop) for v, _ in form.terms), default=0)

    def _value(self, v: Leaf | Product, loop: LoopItem | None) -> int:
        if isinstance(v, Leaf):
            if v.definition is None or innermost(v.loops) is not loop:
                return 0
            if v not in self._levels:
                levels = [self._value(w, loop) + (0 if isinstance(w, Product) else 1)
                          for w, _ in v.definition.terms]  # fmt: skip
                self._levels[v] = max([*levels, 1])
            return self._levels[v]
        if self.hoist and innermost(v.loops) is not loop:
            return 0
        if v not in self._levels:
            self._levels[v] = self._product(v)
        return self._levels[v]

    def _product(self, p: Product) -> int:
        loop = innermost(p.loops)
        factors = [f for f in (*p.chain, *p.scalars) if not f.is_constant]
        key = tuple(
            (self.level(f, loop), self.hoist and loop is not None and loop not in f.loops)
            for f in factors
        )
        return max(tree_depth(key), 1 if not self.hoist or loop is None else 0) if key else 1

    # -- rewriting --------------------------------------------------------------------------------
    def form(self, f: Form) -> Form:
        """The form with every product in it expanded where that saves a layer."""
        self._definitions(f)
        if not f.products or f.spread:
            return f
        parts = [(c, self.forms.form(f.rows, f.cols, [(ONE, v, t)]))
                 for (v, t), c in f.terms.items() if isinstance(v, Leaf)]  # fmt: skip
        for p, t, c in f.products:
            new = self.product(p)
            parts.append((c, self.forms.transpose(new) if t else new))
        if f.constants:
            fixed = [(c, k) for k, c in f.constants.items()]
            parts.append((ONE, self.forms.form(f.rows, f.cols, consts=fixed)))
        return self.forms.combine(parts)

    def _definitions(self, f: Form) -> None:
        for leaf, _, _ in f.leaves:
            if id(leaf) in self._seen:
                continue
            self._seen.add(id(leaf))
            if leaf.definition is not None:
                leaf.definition = self.form(leaf.definition)
            if leaf.item is not None and leaf.item.step:
                item, i = leaf.item, leaf.index
                item.init = (*item.init[:i], self.form(item.init[i]), *item.init[i + 1 :])
                item.step = (*item.step[:i], self.form(item.step[i]), *item.step[i + 1 :])

    def product(self, p: Product) -> Form:
        if p in self._done:
            return self._done[p]
        scalars = [self.form(s) for s in p.scalars]
        chain = [self.form(f) for f in p.chain]
        rows, cols = p.rows, p.cols
        best = self.forms.product(scalars, chain)
        while True:
            loop = innermost(best.loops)
            level = self.level(best, loop)
            options = [g for g in self._expansions(best) if len(g.products) <= PRODUCTS]
            better = min(
                options, key=lambda g: (self.level(g, loop), len(g.products)), default=None
            )
            if better is None or self.level(better, loop) >= level:
                break
            best = better
        assert (best.rows, best.cols) == (rows, cols)
        self._done[p] = best
        return best

    def _expansions(self, f: Form) -> list[Form]:
        """The form with one sum inside one of its products multiplied out, or all of them."""
        out, everything = [], f
        for p, t, _ in f.products:
            wide = [i for i, g in enumerate(p.chain) if g.is_sum and not g.spread and g.products]
            for i in wide:
                if _made(p, [i]) <= TRIED:
                    out.append(self._replace(f, p, t, self._distribute(p, (i,))))
            if not wide or _made(p, wide) > TRIED:
                continue
            if len(wide) > 1:
                out.append(self._replace(f, p, t, self._distribute(p, tuple(wide))))
            everything = self._replace(everything, p, t, self._distribute(p, tuple(wide)))
        if len(f.products) > 1 and everything is not f:
            out.append(everything)
        return out

    def _replace(self, f: Form, p: Product, t: bool, new: Form) -> Form:
        """The form with another one in place of a product, which may be gone by now."""
        c = f.terms.get((p, t))
        if c is None:
            return f
        rest = [(a, v, s) for (v, s), a in f.terms.items() if (v, s) != (p, t)]
        fixed = [(a, k) for k, a in f.constants.items()]
        kept = self.forms.form(f.rows, f.cols, rest, fixed)
        new = self.forms.transpose(new) if t else new
        return self.forms.combine([(ONE, kept), (c, new)])

    def _distribute(self, p: Product, where: tuple[int, ...]) -> Form:
        parts = [(ONE, [])]  # type: ignore[var-annotated]
        for i, f in enumerate(p.chain):
            options = [(ONE, f)]
            if i in where:
                options = [
                    (c, self.forms.form(f.rows, f.cols, [(ONE, v, t)]))
                    for (v, t), c in f.terms.items()
                ] + [(c, self.forms.constant(k)) for k, c in f.constants.items()]
            parts = [(a * c, [*chain, g]) for a, chain in parts for c, g in options]
        return self.forms.combine([(a, self.forms.product(p.scalars, chain)) for a, chain in parts])


def _made(p: Product, where: list[int]) -> int:
    """How many products there are when the sums at these places are multiplied out."""
    return math.prod(len(p.chain[i].terms) + len(p.chain[i].constants) for i in where)
