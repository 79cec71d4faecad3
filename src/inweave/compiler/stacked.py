"""Affine loops over several values as one recurrence: the values stand on top of one another.

Matrices stand as vectors, all columns under one another: `vec(L X R) = (Rᵀ ⊗ I)(I ⊗ L) vec(X)`, and
`vec(Xᵀ)` is vec(X) in another order. So whatever is affine in the entries that a loop carries is
`x ← A x + c` for the vector of all of them: sums of products on different sides, transposes,
matrices beside numbers. To write a matrix as `I ⊗ L` takes a layer of its own, and so does putting
the columns of the answer beside one another again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from inweave.compiler.affine import FIXED, Parts, Place, Places
from inweave.compiler.entrywise import entries
from inweave.compiler.forms import ONE, Form, Forms, LoopForm
from inweave.compiler.naming import Names
from inweave.compiler.recurrence import Entrywise, Recurrence, diagonal, is_written_out
from inweave.exact.constants import Array, Shift, exact, select, simplest

MOST = 100  # entries of all matrices that a loop carries: it takes the square of that

Reader = Callable[[Sequence[Form]], Form]  # factors in front of what a loop ends with -> all that
Terms = list[tuple[Fraction, Form]]


def together(carried: Sequence[str]) -> str:
    """The name of values that stand on top of one another."""
    return f"[{','.join(carried)}]"


def stacked(
    loop: LoopForm, found: Sequence[Parts], init: Sequence[Form], called: Names, forms: Forms
) -> tuple[Recurrence, list[Reader]]:
    """The results of an affine loop, cut between steps: what it carries is one stacked value.

    With the recurrence that they are read from.
    """
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
    if matrix.is_constant and len(matrix.constants) > 1 and is_written_out(matrix, loop.times):
        matrix = forms.total(matrix)  # or all its powers are long sums
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

    return made, [reader(i) for i in range(len(rows))]


# -- matrices as vectors ---------------------------------------------------------------------------
class Stretch(NamedTuple):
    """Where the columns of a rows x cols matrix stand in a vector, from `at` on.

    Seen `turned`, it is the transposed matrix: its columns are rows of what stands there.
    """

    total: int
    at: int
    rows: int
    cols: int
    turned: bool = False

    def column(self, k: int, forms: Forms) -> Form:
        """What puts a column where the k-th one stands."""
        if not self.turned:
            begin = self.at + k * self.rows
            return forms.constant(select(self.total, begin, begin + self.rows))
        units = np.zeros((self.total, self.cols))
        units[self.at + k + self.rows * np.arange(self.cols), np.arange(self.cols)] = 1
        return forms.constant(simplest(units))

    @property
    def transposed(self) -> Stretch:
        return self._replace(turned=not self.turned)

    def put(self, f: Form, forms: Forms) -> Terms:
        """A matrix at its place, zero elsewhere."""
        units = [forms.constant(Shift(self.cols, 1, k, 0, 1)) for k in range(self.cols)]
        return [
            term
            for k, unit in enumerate(units)
            for term in _between(ONE, self.column(k, forms), f, unit, forms)
        ]

    def taken(self, f: Form, forms: Forms) -> Form:
        """The matrix that stands here in a vector."""
        out = [(ONE, forms.form(self.rows, self.cols))]
        for k in range(self.cols):
            unit = forms.constant(Shift(1, self.cols, 0, k, 1))
            out += _between(ONE, forms.transpose(self.column(k, forms)), f, unit, forms)
        return forms.combine(out)


def vectors(
    loop: LoopForm, places: Sequence[Places], forms: Forms
) -> tuple[list[Stretch], Parts, Form] | None:
    """A loop over the entries of what it carries, and its start; None if they are too many."""
    sizes = [leaf.rows * leaf.cols for leaf in loop.carried]
    total = sum(sizes)
    if total > MOST:
        return None
    where = [
        Stretch(total, sum(sizes[:i]), leaf.rows, leaf.cols) for i, leaf in enumerate(loop.carried)
    ]
    constant: Terms = [(ONE, forms.form(total, 1))]
    start: Terms = [(ONE, forms.form(total, 1))]
    laid: Terms = [(ONE, forms.form(total, total))]
    long: Terms = []
    for to, each, init in zip(where, places, loop.init, strict=True):
        start += to.put(init, forms)
        for place, left in each.items():
            if place == FIXED:
                constant += to.put(left, forms)
            else:
                chain = _kronecker(to, where[place.value], place, left, forms)
                kept = laid if len(chain) == 1 else long
                kept.append((ONE, forms.product((), chain)))
    matrix = forms.combine([(ONE, _stored(laid, forms)), *long])
    parts = {0: matrix, -1: _stored(constant, forms)}
    return where, {j: f for j, f in parts.items() if not f.is_zero}, _stored(start, forms)


def _stored(terms: Terms, forms: Forms) -> Form:
    made = forms.combine(terms)
    return forms.bind(made) if made.products else made


def _kronecker(to: Stretch, of: Stretch, place: Place, left: Form, forms: Forms) -> list[Form]:
    """`Rᵀ ⊗ L` as a sum of products with constants, or as a product of two such sums, stored."""
    of = of.transposed if place.turned else of
    across = of.rows if of.turned else of.cols
    right = forms.identity(across) if place.right is None else place.right
    if right.is_constant:
        return [_left(to, of, left, entries(right), forms)]
    if left.is_constant:
        return [_right(to, of, entries(left), right, forms)]
    between = Stretch(left.rows * across, 0, left.rows, across)  # L X
    first = _left(between, of, left, np.eye(across), forms)
    second = _right(to, between, np.eye(left.rows), right, forms)
    return [forms.bind(second), forms.bind(first)]


def _left(to: Stretch, of: Stretch, left: Form, right: Array, forms: Forms) -> Form:
    """`Rᵀ ⊗ L` for a constant R."""
    out: Terms = [(ONE, forms.form(to.total, of.total))]
    for k, i in zip(*np.nonzero(right), strict=True):
        ahead, behind = to.column(int(i), forms), of.column(int(k), forms)
        out += _between(exact(right[k, i]), ahead, left, forms.transpose(behind), forms)
    return forms.combine(out)


def _right(to: Stretch, of: Stretch, left: Array, right: Form, forms: Forms) -> Form:
    """`Rᵀ ⊗ L` for a constant L, by rows: `Lᵀ ⊗ Rᵀ` of the transposed matrices."""
    return _left(to.transposed, of.transposed, forms.transpose(right), left.T, forms)


def _between(times: Fraction, ahead: Form, f: Form, behind: Form, forms: Forms) -> Terms:
    """Term by term: around a sum of products, constants would need it to be stored."""
    return [(times * c, forms.product((), [ahead, g, behind])) for c, g in forms.apart(f)]
