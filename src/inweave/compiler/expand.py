"""Pass: products are multiplied out over sums where that saves a layer.

`Xᵀ (X w − y)` is two layers as written and one when multiplied out, because `Xᵀ X w` is a single
head. The decision needs depths only, so it is taken once, before orientations are searched. So it
is not known yet whether a head can read what a constant picks of a value, such as a row of X, or
whether that has to be computed first: it can if the value stands the right way round.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from inweave.compiler.forms import (
    ONE,
    DefinedLeaf,
    Form,
    Forms,
    Leaf,
    Node,
    Product,
    Scope,
    Value,
    Written,
    innermost,
)
from inweave.compiler.options import Options
from inweave.compiler.rewrite import Rewriter
from inweave.compiler.store import PRODUCTS, TRIED


def expand(written: Written, options: Options) -> Written:
    return Expander(options.forms, options.hoists, options.picks).written(written)


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


class Expander(Rewriter):
    """Multiplies out; `hoist` says whether loop-invariant products leave their loop.

    And `picks` whether what constants pick of a value is read as it is.
    """

    def __init__(self, forms: Forms, hoist: bool, picks: bool = False) -> None:
        super().__init__(forms)
        self.hoist, self.picks = hoist, picks
        self._levels: dict[Value, int] = {}

    # -- estimated depth --------------------------------------------------------------------------
    def depth(self, form: Form) -> int:
        """The estimated depth of a form that is multiplied out where that saves a layer."""
        return self.level(self(form), innermost(form.loops))

    def level(self, form: Form, loop: Scope | None) -> int:
        """The estimated depth of a form as it is, seen from inside a loop."""
        return max((self._value(v, loop) for v, _, _ in form.terms), default=0)

    def _value(self, v: Value, loop: Scope | None) -> int:
        elsewhere = innermost(v.loops) is not loop
        if isinstance(v, Leaf) and (elsewhere or not isinstance(v, DefinedLeaf)):
            return 0
        if self.hoist and elsewhere:
            return 0
        if v not in self._levels:
            self._levels[v] = self._product(v) if isinstance(v, Product) else self._leaf(v)
        return self._levels[v]

    def _leaf(self, leaf: Leaf) -> int:
        assert isinstance(leaf, DefinedLeaf)
        loop = innermost(leaf.loops)
        found = [self._value(v, loop) + (0 if isinstance(v, Product) else 1)
                 for v, _, _ in leaf.definition.terms]  # fmt: skip
        return max([*found, 1])

    def _product(self, p: Product) -> int:
        loop = innermost(p.loops)
        key = tuple(
            (self.level(f, loop), self.hoist and loop is not None and loop not in f.loops)
            for f in (*p.chain, *p.scalars)
            if not f.is_constant
        )
        if self.picks and len(key) == 1:
            return key[0][0]
        return max(tree_depth(key), 1 if not self.hoist or loop is None else 0) if key else 1

    # -- rewriting --------------------------------------------------------------------------------
    def _one(self, x: Node) -> Form | None:
        new = super()._one(x)
        if isinstance(x, Value):  # levels are known from below, so that asking never goes deep
            for v in (new or self.forms.of(x)).parts:
                self._value(v, innermost(v.loops))
        return new

    def product(self, p: Product, scalars: list[Form], chain: list[Form]) -> Form | None:
        best = self.forms.product(scalars, chain)
        while True:
            loop = innermost(best.loops)
            options = [g for g in self._expansions(best) if len(g.products) <= PRODUCTS]
            better = min(
                options, key=lambda g: (self.level(g, loop), len(g.products)), default=None
            )
            if better is None or self.level(better, loop) >= self.level(best, loop):
                return None if best is self.forms.of(p) else best
            best = better

    def _expansions(self, f: Form) -> list[Form]:
        """The form with one sum inside one of its products multiplied out, or all of them."""
        out, everything = [], f
        for p, t, _ in f.products:
            wide = [i for i, g in enumerate(p.chain) if g.is_sum and not g.diagonal and g.products]
            for i in wide:
                if _made(p, [i]) <= TRIED:
                    out.append(self._replace(f, p, t, self._distribute(p, [i])))
            if not wide or _made(p, wide) > TRIED:
                continue
            if len(wide) > 1:
                out.append(self._replace(f, p, t, self._distribute(p, wide)))
            everything = self._replace(everything, p, t, self._distribute(p, wide))
        if len(f.products) > 1 and everything is not f:
            out.append(everything)
        return out

    def _replace(self, f: Form, p: Product, t: bool, new: Form) -> Form:
        """The form with another one in place of a product, which may be gone by now."""
        rest = [term for term in f.terms if term[:2] != (p, t)]
        if len(rest) == len(f.terms):
            return f
        c = next(c for v, s, c in f.terms if (v, s) == (p, t))
        kept = self.forms.form(f.rows, f.cols, rest, f.constants)
        return self.forms.combine([(ONE, kept), (c, self.forms.transpose(new) if t else new)])

    def _distribute(self, p: Product, where: list[int]) -> Form:
        parts: list[tuple[Fraction, list[Form]]] = [(ONE, [])]
        for i, f in enumerate(p.chain):
            options = self.forms.apart(f) if i in where else [(ONE, f)]
            parts = [(a * c, [*chain, g]) for a, chain in parts for c, g in options]
        return self.forms.combine([(a, self.forms.product(p.scalars, chain)) for a, chain in parts])


def _made(p: Product, where: list[int]) -> int:
    """How many products there are when the sums at these places are multiplied out."""
    return math.prod(len(p.chain[i].terms) + len(p.chain[i].constants) for i in where)
