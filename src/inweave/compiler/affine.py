"""Steps that are affine in what their loop carries, taken apart.

`x ← Σ_j A_j x_j + c`, with every A_j and c fixed during the loop, is what `collapse` makes short.
What `gather` computes before the loop are these A_j and c.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from inweave.compiler.forms import ONE, CarriedLeaf, Form, Forms, LoopForm, Product

Parts = dict[int, Form]  # index of a carried value (-1: the constant part) -> left factor


class Ending(NamedTuple):
    """A product whose last factor alone moves with the loop."""

    coefficient: Fraction
    scalars: tuple[Form, ...]
    front: list[Form]
    end: Form


def affine_step(loop: LoopForm, forms: Forms, row: bool = False) -> list[Parts] | None:
    """Every step of a loop as {j: A_j, -1: c}; None if one of them is not affine.

    With `row`, `xᵀ ← Σ_j A_j x_jᵀ + c`: the transposed steps in the transposed values.
    """
    step = [forms.transpose(f) for f in loop.step] if row else loop.step
    known: dict[Form, Parts | None] = {}
    stack = list(step)
    while stack:  # not recursive: steps may be deep
        f = stack[-1]
        endings = _endings(f, loop, forms)
        missing = [e.end for e in endings or () if e.end not in known]
        if missing:
            stack += missing
            continue
        known[stack.pop()] = (
            None if endings is None else _parts(f, loop, forms, row, endings, known)
        )
    found = [known[f] for f in step]
    return None if None in found else [parts for parts in found if parts is not None]


def _endings(f: Form, loop: LoopForm, forms: Forms) -> list[Ending] | None:
    """The products of a form that move with a loop, or None if one of them moves elsewhere too."""
    out = []
    for p, t, c in f.products:
        if loop.scope not in p.loops:
            continue
        chain = [forms.transpose(g) for g in reversed(p.chain)] if t else list(p.chain)
        moving = [i for i, g in enumerate(chain) if loop.scope in g.loops]
        if moving != [len(chain) - 1] or any(loop.scope in s.loops for s in p.scalars):
            return None
        out.append(Ending(c, p.scalars, chain[:-1], chain[-1]))
    return out


def _parts(
    f: Form, loop: LoopForm, forms: Forms, row: bool, endings: Sequence[Ending],
    known: dict[Form, Parts | None],
) -> Parts | None:  # fmt: skip
    parts: dict[int, list[tuple[Fraction, Form]]] = {}
    ends = iter(endings)
    for v, t, c in f.terms:
        if loop.scope not in v.loops:
            one = forms.form(f.rows, f.cols, [(v, t, ONE)])
            parts.setdefault(-1, []).append((c, one))
        elif isinstance(v, Product):
            ending = next(ends)
            inner = known[ending.end]
            if inner is None:
                return None
            for j, a in inner.items():
                made = forms.product(ending.scalars, [*ending.front, a])
                parts.setdefault(j, []).append((c, made))
        elif v in loop.carried and (t == row or v.family is not None):
            assert isinstance(v, CarriedLeaf)
            one = forms.identity(v.cols if row else v.rows)
            parts.setdefault(v.index, []).append((c, one))
        else:
            return None
    if f.constants:
        parts.setdefault(-1, []).append((ONE, forms.form(f.rows, f.cols, consts=f.constants)))
    return {j: forms.combine(terms) for j, terms in parts.items()}
