"""Products entry by entry, written as matrix products with constants.

Let A and B be r x c, eᵢ unit vectors, Eᵢᵢ = eᵢeᵢᵀ, and Fⱼ the matrix that picks the j-th r of r c
columns. A value is laid out as D(A) = [diag(A e₀) ... diag(A e_(c−1))], r heads:

    D(A) = Σᵢ Eᵢᵢ A Gᵢ,   Gᵢ = Σⱼ eⱼ e_(j r + i)ᵀ.

Then the product is c heads, each of which has room for a third factor that is laid out as well:

    A ∘ B = Σⱼ (D(A) Fⱼ) B Eⱼⱼ,   D(A ∘ B) = Σⱼ (D(A) Fⱼ) (D(B) Fⱼ) Fⱼᵀ.

For one row (r = 1) D(A) is A and nothing has to be laid out: vectors are multiplied in one layer,
n heads. So a value that is higher than wide is multiplied transposed. Many factors are grouped in
threes: k of them take ⌈log₃ k⌉ layers, and one more where r > 1.

A constant mask is linear: rows that are equal are one head (`inweave.exact.masks`). In a product of
two values or more it costs nothing: what is laid out first is laid out masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from inweave.compiler.forms import ONE, Form, Forms, Product, innermost
from inweave.exact.constants import Array, Ones, Shift, exact, fractions, select, simplest
from inweave.exact.masks import diagonal, separated

SLOTS = 3  # what a head multiplies
FEW = 100_000  # numbers that are written out in heads to save a layer


def entrywise(forms: Forms, factors: Sequence[Form], least_depth: bool = False) -> Form:
    """The product of forms of one size, entry by entry."""
    values = [f for f in factors if not f.is_constant]
    mask = _mask([f for f in factors if f.is_constant], factors[0].rows, factors[0].cols)
    if not values or not mask.any():
        return forms.constant(simplest(mask))
    if len(values) == 1:
        return _masked(forms, mask, values[0], least_depth)
    in_every_head = mask.size**2 + max(mask.shape) ** 3
    few = least_depth and in_every_head <= FEW
    along = _along(forms, values, mask, few)
    if along is not None:
        return along
    if not few:
        values = [forms.bind(x) if _is_mixed(x) else x for x in values]
    if len(mask) <= len(mask.T):
        return _product(forms, values, mask)
    return forms.transpose(_product(forms, [forms.transpose(f) for f in values], mask.T))


def _along(forms: Forms, values: Sequence[Form], mask: Array, least_depth: bool) -> Form | None:
    """A product with columns or rows that were spread over a matrix: with diagonal matrices.

    `u[:, None] * K * v` is diag(u) K diag(v), which has two numbers for each head of a diagonal.
    """
    if min(mask.shape) == 1:
        return None
    spread = [(x, _spread(forms, x)) for x in values]
    others = [x for x, line in spread if line is None]
    columns, rows = (
        [line for _, line in spread if line is not None and (line.cols == 1) == upright]
        for upright in (True, False)
    )
    if len(others) == len(values) or not others:
        return None
    if least_depth and len(others) > 1 and _threes(len(others)) == _threes(len(values)):
        return None  # the diagonals would take a layer more
    inside = others[0]
    if len(others) > 1 or not (mask == 1).all():
        masked = [*others, forms.constant(simplest(mask))]
        inside = forms.bind(entrywise(forms, masked, least_depth))
    left, right = (
        [_on_diagonal(forms, lines)] if lines else []
        for lines in (columns, [forms.transpose(x) for x in rows])
    )
    return forms.product((), [*left, inside, *right])


def _spread(forms: Forms, x: Form) -> Form | None:
    """The column that stands in every column of a value, or the row that stands in every row."""
    if x.sole is None:
        return None
    product, turned, c = x.sole
    if not isinstance(product, Product) or len(product.chain) < 2:
        return None
    *left, last = first, *right = forms.factors(product, turned)
    if last.rows == 1 and _is_ones(last):
        chain = left
    elif first.cols == 1 and _is_ones(first):
        chain = right
    else:
        return None
    return forms.combine([(c, forms.product(product.scalars, chain))])


def _is_ones(x: Form) -> bool:
    return [(type(k), c) for k, c in x.constants] == [(Ones, ONE)] and x.is_constant


def _on_diagonal(forms: Forms, columns: Sequence[Form]) -> Form:
    """The square with the product of columns on its diagonal, stored."""
    size = columns[0].rows
    column = columns[0] if len(columns) == 1 else entrywise(forms, columns)
    spread = forms.product((), [column, forms.constant(Ones(1, size))])
    return forms.bind(_masked(forms, np.eye(size), spread, least_depth=True))


def _is_mixed(x: Form) -> bool:
    """Whether a matrix of numbers is part of a value, as in `x - x.mean(axis=0)`.

    Multiplied by what picks the row or column of a head, it would be written out in each of them.
    """
    ends = [f for p, _, _ in x.products if p.chain for f in (p.chain[0], p.chain[-1])]
    return any(map(is_full, (x, *ends)))


def is_full(x: Form) -> bool:
    """Whether the constants of a form have more numbers than a row or a column."""
    return min(x.rows, x.cols) > 1 and any(not isinstance(k, Shift) for k, _ in x.constants)


def _mask(factors: Sequence[Form], rows: int, cols: int) -> Array:
    """The entries of a product of constants, exactly."""
    if not factors:
        return np.ones((rows, cols))
    if len(factors) == 1 and [c for _, c in factors[0].constants] == [ONE]:
        return factors[0].constants[0][0].entries()
    return prod(map(entries, factors))


def entries(f: Form) -> Array:
    """The entries of a constant form, exactly."""
    total = fractions(np.zeros((f.rows, f.cols)))
    for constant, c in f.constants:
        total = total + c * fractions(constant.entries())
    return total


def _masked(forms: Forms, mask: Array, x: Form, least_depth: bool) -> Form:
    """A mask times a value."""
    pairs, total = separated(mask), [(ONE, forms.form(x.rows, x.cols))]
    if len(pairs) > 1 and _is_mixed(x) and not (least_depth and len(pairs) * mask.size <= FEW):
        x = forms.bind(x)
    for pair in pairs:
        left, right = (forms.form(n, n, consts=d) for d, n in zip(pair, mask.shape, strict=True))
        total.append((ONE, forms.product((), [left, x, right])))
    return forms.combine(total)


def _product(forms: Forms, values: Sequence[Form], mask: Array) -> Form:
    """The product of values; what a loop changes or is long comes last and is not laid out."""
    rows, cols = mask.shape
    *others, last = _thirds(sorted(values, key=_weight))
    ones = np.ones_like(mask)
    laid = [_laid(forms, group, ones if i else mask) for i, group in enumerate(others)]
    weights = mask if rows == 1 else ones
    if len(last) > 1:
        last = [_product(forms, last, ones)]
    if len(last[0].products) > 1 or sum(map(_factors, (*laid, *last))) > SLOTS:
        laid, last = [forms.bind(x) for x in laid], [forms.bind(x) for x in last]
    heads = []
    for j in np.flatnonzero(mask.any(axis=0)).tolist():
        kept = forms.form(rows, rows, consts=diagonal(weights[:, j]))
        unit = forms.constant(Shift(cols, cols, j, j, 1))
        heads.append([*_columns(forms, laid, j), kept, *last, unit])
    return _sum(forms, heads)


def _factors(f: Form) -> int:
    """How many factors the longest product of a form has."""
    return max((p.factors for p, _, _ in f.products), default=1)


def _weight(f: Form) -> tuple[int, int]:
    scope = innermost(f.loops)
    return (0 if scope is None else scope.serial, f.factors)


def _laid(forms: Forms, values: Sequence[Form], mask: Array) -> Form:
    """The masked product of values, laid out by diagonals and stored."""
    rows, cols = values[0].rows, values[0].cols
    if len(values) > 1:
        first, *others = _thirds(values)
        ones = np.ones_like(mask)
        laid = [_laid(forms, first, mask), *(_laid(forms, group, ones) for group in others)]
        heads = [
            [*_columns(forms, laid, j), forms.constant(_pick(rows, cols, j).T)] for j in range(cols)
        ]
    elif rows > 1:
        heads = [_row(forms, values[0], i, row) for i, row in enumerate(mask) if row.any()]
    else:
        return values[0]
    return forms.bind(_sum(forms, heads))


def _row(forms: Forms, x: Form, i: int, mask: Array) -> list[Form]:
    """Row i of a value, masked and spread over the diagonals."""
    unit = forms.constant(Shift(x.rows, x.rows, i, i, 1))
    places = [
        (Shift(x.cols, x.rows * x.cols, j, j * x.rows + i, 1), exact(mask[j]))
        for j in np.flatnonzero(mask).tolist()
    ]
    return [unit, x, forms.form(x.cols, x.rows * x.cols, consts=places)]


def _columns(forms: Forms, laid: Sequence[Form], j: int) -> list[Form]:
    """The diagonal matrix of column j of every value, the middle one of a head transposed."""
    chain: list[Form] = []
    for i, x in enumerate(laid):
        pick = forms.constant(_pick(x.rows, x.cols // x.rows, j))
        chain += forms.mirrored([x, pick]) if i == 1 else [x, pick]
    return chain


def _pick(rows: int, cols: int, j: int) -> Shift:
    """The matrix that picks one diagonal out of those that are laid out."""
    return select(rows * cols, j * rows, (j + 1) * rows)


def _sum(forms: Forms, heads: Sequence[Sequence[Form]]) -> Form:
    return forms.combine([(ONE, forms.product((), chain)) for chain in heads])


def _threes(count: int) -> int:
    """⌈log₃ count⌉: how often so many factors are grouped in threes."""
    return next(k for k in range(count) if 3**k >= count)


def _thirds(values: Sequence[Form]) -> list[Sequence[Form]]:
    """Two or three groups, full ones first: equal groups are one value, and a tree stays low."""
    size = 1
    while 3 * size < len(values):
        size *= 3
    return [values[i : i + size] for i in range(0, len(values), size)]
