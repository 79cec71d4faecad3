"""Loops as simpler ones: several in place of one, one in place of two, affine ones.

**Numbers that are known beforehand**, such as the coefficients of a method: what starts as a
constant and is made of constants and of its like is a constant in every step. With it put in, a
step that multiplies by it may be affine in the rest, another one each time: so Chebyshev's
semi-iteration is.

**Geometric sums**: Newton–Schulz and its relatives. `M ← Σ_{j<p} (I − M F)^j M` is 2M − MFM for
p = 2 and 3M − 3MFM + MFMFM for p = 3. It takes a geometric sum of so many terms to one of p times
as many: after T steps from M₀ it is `Σ_{j<p^T} (I − M₀ F)^j M₀`, what `x ← (I − M₀ F) x + M₀` comes
to in p^T steps from zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import NamedTuple, TypeVar

from inweave.compiler.affine import Parts, affine_step
from inweave.compiler.forms import (
    ONE,
    CarriedLeaf,
    DefinedLeaf,
    Form,
    Forms,
    Leaf,
    LoopForm,
    Product,
    ResultLeaf,
    ordered,
)
from inweave.compiler.rewrite import Rewriter

MOST_STEPS = 1000  # with numbers that are known, each of which has heads of its own
MOST_WORDS = 64  # of a step

T = TypeVar("T")
Chain = tuple[Form | None, ...]  # None is what the loop carries
Words = dict[tuple[tuple[Form, ...], Chain], Fraction]


def apart(loop: LoopForm) -> list[LoopForm]:
    """A loop as several, if some of the values that it carries have nothing to do with others."""
    groups: list[set[int]] = []
    for i, step in enumerate(loop.step):
        met = set(ordered([step]))
        group = {i} | {j for j, leaf in enumerate(loop.carried) if leaf in met}
        joined = [other for other in groups if other & group]
        groups = [other for other in groups if not other & group]
        groups.append(group.union(*joined))
    if len(groups) == 1:
        return [loop]

    def only(values: tuple[T, ...], group: set[int]) -> tuple[T, ...]:
        return tuple(x for i, x in enumerate(values) if i in group)

    return [
        LoopForm(
            loop.scope, loop.times, only(loop.carried, g), only(loop.init, g), only(loop.step, g)
        )
        for g in sorted(groups, key=min)
    ]


def flattened(loop: LoopForm, forms: Forms) -> LoopForm | None:
    """A loop that does nothing but run another one, as that one, run more often; else None."""
    first = loop.step[0].sole[0] if loop.step[0].sole else None
    if not isinstance(first, ResultLeaf) or len(first.loop.carried) != len(loop.carried):
        return None
    inner = flattened(first.loop, forms) or first.loop
    begins = [forms.of(leaf) for leaf in loop.carried]
    results = [forms.result(first.loop, i) for i in range(len(begins))]
    moves = any(loop.scope in f.loops for f in inner.step)
    if list(loop.step) != results or list(inner.init) != begins or moves:
        return None
    times = loop.times * inner.times
    return forms.intern(LoopForm, inner.scope, times, inner.carried, loop.init, inner.step)


# -- numbers that are known -----------------------------------------------------------------------
class Varying(NamedTuple):
    """A loop whose steps are affine in some of its values, and different; the others are known."""

    rest: list[int]
    steps: list[list[Parts]]  # of the rest, in the order in which they are taken
    ends: dict[int, Form]  # what is known, at the end


def varying(loop: LoopForm, forms: Forms, row: bool) -> Varying | None:
    """A loop with what is known of it put in; None if nothing is, or its steps are not affine."""
    known = _known(loop)
    rest = [j for j in range(len(loop.carried)) if j not in known]
    if not known or not rest or loop.times > MOST_STEPS:
        return None
    carried, init = tuple(loop.carried[j] for j in rest), tuple(loop.init[j] for j in rest)
    now = {j: loop.init[j] for j in known}
    steps = []
    for _ in range(loop.times):
        put = Rewriter(forms)
        for j, form in now.items():
            put.become(forms.of(loop.carried[j]), form)
        step = tuple(put(loop.step[j]) for j in rest)
        parts = affine_step(LoopForm(loop.scope, 1, carried, init, step), forms, row)
        if parts is None:
            return None
        steps.append(parts)
        after = {j: put(loop.step[j]) for j in known}  # as one constant: a sum would get longer
        now = {j: forms.total(f) if f.is_sum else f for j, f in after.items()}
    return Varying(rest, steps, now)


def _known(loop: LoopForm) -> set[int]:
    """The carried values that are constants in every step."""
    found = {j for j, form in enumerate(loop.init) if form.is_constant}
    while True:
        fine = {j for j in found if _made_of(loop.step[j], {loop.carried[k] for k in found})}
        if fine == found:
            return found
        found = fine


def _made_of(form: Form, leaves: Collection[CarriedLeaf]) -> bool:
    """Whether nothing but these values and constants is in a form."""
    return not any(isinstance(x, Leaf) and not x.parts for x in ordered([form], leaves))


# -- geometric sums -------------------------------------------------------------------------------
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
        if len(power) * len(inner) > MOST_WORDS:
            return None
        step = {(s, (None, *chain)): c for (s, chain), c in inner.items()}
        power = _times(step, power)
    return out


def _times(left: Mapping[tuple[tuple[Form, ...], Chain], Fraction], right: Words) -> Words:
    if len(left) * len(right) > MOST_WORDS:
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
