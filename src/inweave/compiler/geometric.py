"""Iterations for an inverse that are geometric sums: Newton–Schulz and its relatives.

`M ← Σ_{j<p} (I − M F)^j M` is 2M − MFM for p = 2 and 3M − 3MFM + MFMFM for p = 3. It takes a
geometric sum of so many terms to one of p times as many: after T steps from M₀ it is
`Σ_{j<p^T} (I − M₀ F)^j M₀`, what `x ← (I − M₀ F) x + M₀` comes to in p^T steps from zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from inweave.compiler.affine import Parts
from inweave.compiler.forms import ONE, DefinedLeaf, Form, Forms, LoopForm, Product

MOST = 64  # words of a step

Chain = tuple[Form | None, ...]  # None is what the loop carries
Words = dict[tuple[tuple[Form, ...], Chain], Fraction]


class Other(Exception):
    """It is not such a step."""


def geometric(loop: LoopForm, forms: Forms) -> tuple[Parts, int] | None:
    """The affine step from zero, and how often it is taken, that a loop comes to; or None."""
    if len(loop.carried) > 1:
        return None
    try:
        words = _Step(loop, forms).words(loop.step[0])
    except Other:
        return None
    order = max((chain.count(None) for _, chain in words), default=0)
    inner: Words = {
        (scalars, chain[1:-1]): -c / math.comb(order, 2)
        for (scalars, chain), c in words.items()
        if chain.count(None) == 2
    }
    ends = all(chain[:1] == chain[-1:] == (None,) for _, chain in words)
    if order < 2 or not ends or words != _sum(inner, order):
        return None
    between = [(c, forms.product(s, [f for f in chain if f])) for (s, chain), c in inner.items()]
    start = loop.init[0]
    back = [(-c, forms.matmul(start, f)) for c, f in between]
    matrix = forms.combine([(ONE, forms.identity(start.rows)), *back])
    return {0: matrix, -1: start}, order**loop.times


def _sum(inner: Words, order: int) -> Words | None:
    """`Σ_{j<order} (I − M F)^j M = Σ_i (−1)^i C(order, i+1) (M F)^i M`, for F the inner words."""
    out: Words = {}
    power: Words = {((), (None,)): ONE}
    for i in range(order):
        times = (-1) ** i * math.comb(order, i + 1)
        out |= {word: times * c for word, c in power.items()}
        if len(power) * len(inner) > MOST:
            return None
        step = {(s, (None, *chain)): c for (s, chain), c in inner.items()}
        power = _times(step, power)
    return out


def _times(left: Mapping[tuple[tuple[Form, ...], Chain], Fraction], right: Words) -> Words:
    if len(left) * len(right) > MOST:
        raise Other
    out: Words = {}
    for (s, a), c in left.items():
        for (t, b), d in right.items():
            word = tuple(sorted((*s, *t), key=lambda f: f.serial)), (*a, *b)
            out[word] = out.get(word, Fraction(0)) + c * d
    return {word: c for word, c in out.items() if c}


class _Step:
    """A step as a sum of words in what its loop carries and what is fixed."""

    def __init__(self, loop: LoopForm, forms: Forms) -> None:
        self.loop, self.forms = loop, forms

    def words(self, form: Form) -> Words:
        if self.loop.scope not in form.loops:
            return {((), () if form.is_identity else (form,)): ONE}
        out: Words = {}
        for c, f in self.forms.apart(form):
            for word, d in self._summand(f).items():
                out[word] = out.get(word, Fraction(0)) + c * d
        return {word: c for word, c in out.items() if c}

    def _summand(self, form: Form) -> Words:
        if self.loop.scope not in form.loops:
            if form.sole is not None and isinstance(value := form.sole[0], Product):
                return {(value.scalars, self.forms.factors(value, form.sole[1])): ONE}
            return self.words(form)
        assert form.sole is not None
        value, turned, _ = form.sole
        if value is self.loop.carried[0] and not turned:
            return {((), (None,)): ONE}
        if isinstance(value, Product):
            if any(self.loop.scope in s.loops for s in value.scalars):
                raise Other
            out: Words = {(value.scalars, ()): ONE}
            for f in self.forms.factors(value, turned):
                out = _times(out, self.words(f))
            return out
        if type(value) is DefinedLeaf:
            opened = value.definition
            return self.words(self.forms.transpose(opened) if turned else opened)
        raise Other
