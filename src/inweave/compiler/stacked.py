"""Affine loops over several values as one recurrence: the values stand on top of one another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from inweave.compiler.affine import Parts
from inweave.compiler.forms import ONE, Form, Forms, LoopForm
from inweave.compiler.naming import Names
from inweave.compiler.recurrence import Entrywise, Recurrence, diagonal
from inweave.exact.constants import select

Reader = Callable[[Sequence[Form]], Form]  # factors in front of what a loop ends with -> all that


def together(carried: Sequence[str]) -> str:
    """The name of values that stand on top of one another."""
    return f"[{','.join(carried)}]"


def stacked(
    loop: LoopForm, found: Sequence[Parts], init: Sequence[Form], called: Names, forms: Forms
) -> list[Reader]:
    """The results of an affine loop, cut between steps: what it carries is one stacked value."""
    rows = [f.rows for f in init]
    total, starts = sum(rows), [0, *itertools.accumulate(rows)]

    def embed(i: int) -> Form:
        return forms.constant(select(total, starts[i], starts[i] + rows[i]))

    def on_top(parts: Sequence[Form]) -> Form:
        if len(parts) == 1:
            return parts[0]
        return forms.combine([(ONE, between(embed(i), f)) for i, f in enumerate(parts)])

    def between(front: Form, f: Form, *back: Form) -> Form:
        """A form between constants, term by term: around a sum they would need it to be stored.

        A number is its own transpose, and a constant behind a product costs less than before it.
        """
        number = front.rows == f.cols == 1 and not back

        def one(g: Form) -> Form:
            chain = [forms.transpose(g), forms.transpose(front)] if number else [front, g, *back]
            return forms.product((), chain)

        return forms.combine([(c, one(g)) for c, g in forms.apart(f) or [(ONE, f)]])

    zero = [forms.form(f.rows, f.cols) for f in init]
    constant = on_top([parts.get(-1, z) for parts, z in zip(found, zero, strict=True)])
    pieces = [
        (ONE, between(embed(i), a, forms.transpose(embed(j))) if len(rows) > 1 else a)
        for i, parts in enumerate(found)
        for j, a in parts.items()
        if j >= 0
    ]
    matrix = forms.combine(pieces) if pieces else forms.form(total, total)
    vector = diagonal(matrix, forms) if init[0].cols == len(rows) == 1 else None
    matrix = matrix if vector is None else vector
    if len(rows) > 1:
        called = replace(called, carried=(together(called.carried),))
    if loop.times > 1:  # what is affine in stored values can be read without being stored
        name = called.power(1) if vector is None else ""
        matrix = forms.bind(matrix, name) if matrix.products else matrix
        constant = forms.bind(constant, called.sum(1)) if constant.products else constant
    kind = Recurrence if vector is None else Entrywise
    made = kind(matrix, constant, on_top(init), called, forms)
    final = made.last(loop.times)

    def reader(i: int) -> Reader:
        def read(front: Sequence[Form]) -> Form:
            if len(rows) == 1:
                return made.read(forms.product((), front), loop.times) if front else final
            turned = forms.transpose(embed(i))
            if not front:
                return between(turned, final)
            return made.read(forms.product((), [*front, turned]), loop.times)

        return read

    return [reader(i) for i in range(len(rows))]
