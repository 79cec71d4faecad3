"""Loops that carry numbers which are known beforehand, such as the coefficients of a method.

What starts as a constant and is made of constants and of its like is a constant in every step. With
it put in, a step that multiplies by it may be affine in the rest, another one each time: so
Chebyshev's semi-iteration is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from inweave.compiler.affine import Parts, affine_step
from inweave.compiler.forms import CarriedLeaf, Form, Forms, Leaf, LoopForm, ordered
from inweave.compiler.rewrite import Rewriter

MOST = 1000  # steps, each of which has heads of its own


class Varying(NamedTuple):
    """A loop whose steps are affine in some of its values, and different; the others are known."""

    rest: list[int]
    steps: list[list[Parts]]  # of the rest, in the order in which they are taken
    ends: dict[int, Form]  # what is known, at the end


def varying(loop: LoopForm, forms: Forms, row: bool) -> Varying | None:
    """A loop with what is known of it put in; None if nothing is, or its steps are not affine."""
    known = _known(loop)
    rest = [j for j in range(len(loop.carried)) if j not in known]
    if not known or not rest or loop.times > MOST:
        return None
    carried, init = (tuple(of[j] for j in rest) for of in (loop.carried, loop.init))
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
