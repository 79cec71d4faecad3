"""Steps that are affine in what their loop carries, taken apart.

A step is affine if each of its products has one factor that the loop changes: it is the sum of a
constant part and of `L x_j R` or `L x_jᵀ R`, with L and R fixed during the loop (`sandwiched`).
Where no R is needed, it is `x ← Σ_j A_j x_j + c`, which `collapse` makes short and `gather`
computes before the loop (`affine_step`). A factor of one entry may stand anywhere in a product, so
whatever has one column needs no R: `v − a (cᵀ v)`, `q b` for a carried number q, and `a * w` entry
by entry, which is `Σ_j e_j (e_jᵀ a) e_jᵀ w`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from inweave.compiler.forms import (
    ONE,
    CarriedLeaf,
    DefinedLeaf,
    Form,
    Forms,
    LoopForm,
    Product,
    Term,
    Value,
)
from inweave.exact.constants import Shift

Parts = dict[int, Form]  # place of a carried value (-1: the constant part) -> left factor
MOST = 256  # places of a step, more than which are not looked at


class Place(NamedTuple):
    """Where a carried value stands: the how manieth, if transposed, and what is right of it."""

    value: int
    turned: bool = False
    right: Form | None = None


FIXED = Place(-1)
Places = dict[Place, Form]  # what is left of each; at FIXED, the constant part


class NotAffine(Exception):
    """A step is no affine one, or one of too many places."""


def affine_step(loop: LoopForm, forms: Forms, row: bool = False) -> list[Parts] | None:
    """Every step of a loop as {j: A_j, -1: c}; None if one of them is not affine.

    With `row`, `xᵀ ← Σ_j A_j x_jᵀ + c`: the transposed steps in the transposed values.
    """
    step = [forms.transpose(f) for f in loop.step] if row else loop.step
    found = sandwiched(loop, forms, step)
    if found is None:
        return None
    parts = [_one_sided(places, loop, forms, row) for places in found]
    return None if None in parts else [each for each in parts if each is not None]


def sandwiched(
    loop: LoopForm, forms: Forms, step: Sequence[Form] | None = None
) -> list[Places] | None:
    """Every step of a loop by the places of what it carries; None if one is not affine."""
    step = loop.step if step is None else step
    known: dict[Form, Places] = {}
    stack = list(step)
    try:
        while stack:  # not recursive: steps may be deep
            f = stack[-1]
            missing = [g for v in f.terms for g in _moving(v, loop, forms) if g not in known]
            if missing:
                stack += missing
            else:
                known[stack.pop()] = _places(f, loop, forms, known)
    except NotAffine:
        return None
    return [known[f] for f in step]


def _moving(term: Term, loop: LoopForm, forms: Forms) -> list[Form]:
    """What has to be known of a term before its places are."""
    value, turned, _ = term
    if isinstance(value, Product):
        factors = (*value.scalars, *forms.factors(value, turned))
        found = [g for g in factors if loop.scope in g.loops]
        if len(found) > 1:
            raise NotAffine
        return found
    opened = _opened(value, loop)
    return [] if opened is None else [opened]


def _opened(value: Value, loop: LoopForm) -> Form | None:
    """What a stored value is, if a loop changes it: what is affine may be multiplied out."""
    moves = type(value) is DefinedLeaf and loop.scope in value.loops
    return value.definition if moves else None  # type: ignore[union-attr]


def _places(f: Form, loop: LoopForm, forms: Forms, known: dict[Form, Places]) -> Places:
    out: dict[Place, list[tuple[Fraction, Form]]] = {}
    for v, t, c in f.terms:
        if loop.scope not in v.loops:
            found = {FIXED: forms.form(f.rows, f.cols, [(v, t, ONE)])}
        elif isinstance(v, Product):
            found = _product(v, t, loop, forms, known)
        elif v in loop.carried:
            assert isinstance(v, CarriedLeaf)
            found = {Place(loop.carried.index(v), t): forms.identity(f.rows)}
        elif (opened := _opened(v, loop)) is not None:
            found = _transposed(known[opened], f.rows, forms) if t else known[opened]
        else:
            raise NotAffine
        for place, left in found.items():
            out.setdefault(place, []).append((c, left))
    if f.constants:
        out.setdefault(FIXED, []).append((ONE, forms.form(f.rows, f.cols, consts=f.constants)))
    if len(out) > MOST:
        raise NotAffine
    return {place: forms.combine(terms) for place, terms in out.items()}


def _transposed(places: Places, rows: int, forms: Forms) -> Places:
    """The places in a transposed value, of so many rows: `(L x R)ᵀ = Rᵀ xᵀ Lᵀ`."""
    out: dict[Place, list[tuple[Fraction, Form]]] = {}
    for place, left in places.items():
        turned, right = forms.transpose(left), place.right
        if place == FIXED:
            out.setdefault(FIXED, []).append((ONE, turned))
            continue
        ahead = forms.identity(rows) if right is None else forms.transpose(right)
        new = Place(place.value, not place.turned, None if turned.is_identity else turned)
        out.setdefault(new, []).append((ONE, ahead))
    return {place: forms.combine(terms) for place, terms in out.items()}


def _product(
    p: Product, turned: bool, loop: LoopForm, forms: Forms, known: dict[Form, Places]
) -> Places:
    """The places of a product one factor of which moves with a loop."""
    chain = list(forms.factors(p, turned))
    scalars = [s for s in p.scalars if loop.scope not in s.loops]
    out: dict[Place, list[tuple[Fraction, Form]]] = {}
    for front, moving, back in _cut(chain, p, loop, forms):
        for place, left in known[moving].items():
            if place == FIXED:
                whole = forms.product(scalars, [*front, left, *back])
                out.setdefault(FIXED, []).append((ONE, whole))
                continue
            behind = ([] if place.right is None else [place.right]) + back
            if turned and behind and behind[0].rows == behind[-1].cols == 1:
                # a number is its own transpose, and heads like some ways round better than others
                behind = list(forms.mirrored(behind))
            right = forms.product((), behind) if behind else None
            ahead = forms.product(scalars, [*front, left])
            key = Place(place.value, place.turned, None if right and right.is_identity else right)
            out.setdefault(key, []).append((ONE, ahead))
    return {place: forms.combine(terms) for place, terms in out.items()}


def _cut(
    chain: list[Form], p: Product, loop: LoopForm, forms: Forms
) -> Iterator[tuple[list[Form], Form, list[Form]]]:
    """A chain before, at and after what moves.

    A number may stand wherever a chain has one column or row; beside a matrix M that has neither,
    it is `Σ_k M e_k s e_kᵀ`.
    """
    for i, f in enumerate(chain):
        if loop.scope in f.loops:
            yield chain[:i], f, chain[i + 1 :]
            return
    (moving,) = [s for s in p.scalars if loop.scope in s.loops]
    rows, cols = (chain[0].rows, chain[-1].cols) if chain else (1, 1)
    if cols == 1:
        yield chain, moving, []
    elif rows == 1:
        yield [], moving, chain
    else:
        for k in range(cols):
            unit = forms.constant(Shift(cols, 1, k, 0, 1))
            yield [*chain, unit], moving, [forms.transpose(unit)]


def _one_sided(places: Places, loop: LoopForm, forms: Forms, row: bool) -> Parts | None:
    """What is left of each carried value if nothing has to be right of any; else None."""
    out: dict[int, list[tuple[Fraction, Form]]] = {}
    for place, left in places.items():
        if place == FIXED:
            out.setdefault(-1, []).append((ONE, left))
            continue
        alone = _alone(place, left, loop.carried[place.value], forms, row)
        if alone is None:
            return None
        out.setdefault(place.value, []).append((ONE, alone))
    return {j: forms.combine(terms) for j, terms in out.items()}


def _alone(place: Place, left: Form, leaf: CarriedLeaf, forms: Forms, row: bool) -> Form | None:
    """A for which `L x R = A x`, if x or what comes out has one column; else None."""
    rows, cols = (leaf.cols, leaf.rows) if row else (leaf.rows, leaf.cols)
    right = place.right
    if place.turned == row or leaf.family is not None:
        if right is None:
            return left
        if cols > 1 or right.cols > 1:
            return None
        return _scaled(left, right, rows, forms)
    if cols > 1 or (rows if right is None else right.cols) > 1:
        return None
    # L xᵀ R has one column: the number xᵀ R is Rᵀ x
    return forms.product((), [left, forms.transpose(right or forms.identity(1))])


def _scaled(left: Form, number: Form, cols: int, forms: Forms) -> Form:
    """A number times a matrix, put where the matrix has one column or row."""
    if cols == 1:
        return forms.product((), [left, number])
    if left.rows == 1:
        return forms.product((), [number, left])
    if left.is_constant and len(left.constants) == 1:
        ((unit, c),) = left.constants
        if isinstance(unit, Shift) and unit.size == 1:
            ahead = forms.constant(Shift(unit.rows, 1, unit.row, 0, 1), c)
            behind = forms.constant(Shift(1, unit.cols, 0, unit.col, 1))
            return forms.product((), [ahead, number, behind])
    return forms.product([number], [left])
