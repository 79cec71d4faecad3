"""Affine loops become recurrences of logarithmic depth.

A loop whose step is `x ← A x + c`, with A and c fixed during the loop, is taken apart here into A
and c; `Recurrence` says what T steps come to. Several carried values become one by stacking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inweave.compiler.forms import ONE, Form, Forms, Leaf, LoopItem
from inweave.compiler.recurrence import Bind, Recurrence
from inweave.exact.constants import select

Parts = dict[int, Form]  # index of a carried value (-1: the constant part) -> left factor
Reader = Callable[[Form], Form]  # u -> u x, where x is what a loop ends with


def collapse(
    item: LoopItem, forms: Forms, bind: Bind
) -> tuple[list[Form], dict[Form, Reader]] | None:
    """The results of a loop as forms of logarithmic depth, or None if its step is not affine.

    With them, for each result or its transpose, how to read it out with a factor in front.
    """
    if len({leaf.cols for leaf in item.carried}) == 1:
        found = [affine(f, item, forms) for f in item.step]
        if all(parts is not None for parts in found):
            out = _collapse(item, [p for p in found if p is not None], item.init, forms, bind)
            return [f for f, _ in out], dict(out)
    if len({leaf.rows for leaf in item.carried}) == 1:  # row recurrences: the same, transposed
        mirrored = [affine(forms.transpose(f), item, forms, row=True) for f in item.step]
        if all(parts is not None for parts in mirrored):
            init = [forms.transpose(f) for f in item.init]
            out = _collapse(item, [p for p in mirrored if p is not None], init, forms, bind)
            return [forms.transpose(f) for f, _ in out], dict(out)
    return None


def affine(
    f: Form,
    item: LoopItem,
    forms: Forms,
    row: bool = False,
    known: dict[Form, Parts | None] | None = None,
) -> Parts | None:
    """`f = Σ_j A_j x_j + c` as {j: A_j, -1: c}, x_j the carried values; None if it is not so.

    `known` has what was found for forms inside, which may have many readers.
    """
    known = {} if known is None else known
    if f not in known:
        known[f] = _affine(f, item, forms, row, known)
    return known[f]


def _affine(
    f: Form, item: LoopItem, forms: Forms, row: bool, known: dict[Form, Parts | None]
) -> Parts | None:
    parts: dict[int, list[tuple[object, Form]]] = {}

    def put(index: int, c: object, form: Form) -> None:
        parts.setdefault(index, []).append((c, form))

    for (v, t), c in f.terms.items():
        if item not in v.loops:
            put(-1, c, forms.form(f.rows, f.cols, [(ONE, v, t)]))
        elif isinstance(v, Leaf):
            if v.item is not item or v.role != "carried" or (t != row and v.family is None):
                return None
            put(v.index, c, forms.identity(v.cols if row else v.rows))
        else:
            chain = [forms.transpose(g) for g in reversed(v.chain)] if t else list(v.chain)
            if any(item in s.loops for s in v.scalars):
                return None
            moving = [i for i, g in enumerate(chain) if item in g.loops]
            if moving != [len(chain) - 1]:
                return None
            inner = affine(chain[-1], item, forms, row, known)
            if inner is None:
                return None
            for j, a in inner.items():
                put(j, c, forms.product(v.scalars, [*chain[:-1], a]))
    if f.constants:
        put(-1, ONE, forms.form(f.rows, f.cols, consts=[(c, k) for k, c in f.constants.items()]))
    return {j: forms.combine(terms) for j, terms in parts.items()}  # type: ignore[arg-type]


def gather(item: LoopItem, forms: Forms, bind: Bind) -> tuple[Form, ...]:
    """An affine step with its matrices taken out of the loop, where that saves flops.

    `x + M x + c` with M and c computed once costs one small product per step; left as it is, the
    step costs its products each time. The flop counts decide.
    """
    found = [affine(f, item, forms) for f in item.step]
    if not any(a.products for parts in found if parts for a in parts.values()):
        return item.step
    if len({leaf.cols for leaf in item.carried}) != 1 or any(parts is None for parts in found):
        return item.step
    step, once, each = [], 0.0, 0.0
    for i, parts in enumerate(found):
        assert parts is not None
        terms = [(ONE, bind(parts[-1], f"c({item.carried[i].name})"))] if -1 in parts else []
        once += flops(parts[-1]) if -1 in parts else 0.0
        for j, a in parts.items():
            if j < 0:
                continue
            x = forms.leaf(item.carried[j])
            if i == j:
                a = forms.combine([(ONE, a), (-ONE, forms.identity(a.rows))])
                terms.append((ONE, x))
            if a.is_zero:
                continue
            name = f"M({item.carried[i].name}{item.carried[j].name if i != j else ''})"
            terms.append((ONE, forms.matmul(bind(a, name), x)))
            once += flops(a)
            each += 0.0 if a.is_constant else 2.0 * a.rows * a.cols * x.cols
        step.append(forms.combine(terms) if terms else item.step[i])
    before = sum(flops(f, item) for f in item.step)
    return tuple(step) if once / item.times + each <= before else item.step


def flops(f: Form, item: LoopItem | None = None, known: dict[Form, float] | None = None) -> float:
    """Multiplications that a form takes, read from left to right or right to left as is cheaper."""
    known = {} if known is None else known
    if f in known:
        return known[f]
    total = 0.0
    for p, _, _ in f.products:
        chain = p.chain
        inner = sum(flops(g, item, known) for g in chain)
        ahead = sum(2.0 * chain[0].rows * g.rows * g.cols for g in chain[1:])
        back = sum(2.0 * chain[-1].cols * g.rows * g.cols for g in chain[:-1]) if chain else 0.0
        fixed = item is not None and item not in p.loops
        total += (inner + min(ahead, back)) / (item.times if fixed and item else 1)
    known[f] = total
    return total


def _collapse(
    item: LoopItem, found: Sequence[Parts], init: Sequence[Form], forms: Forms, bind: Bind
) -> list[tuple[Form, Reader]]:
    rows = [f.rows for f in init]
    total, starts = sum(rows), [sum(rows[:i]) for i in range(len(rows))]
    cols = init[0].cols

    def embed(i: int) -> Form:
        return forms.constant(select(total, starts[i], starts[i] + rows[i]))

    def stacked(parts: Sequence[Form]) -> Form:
        if len(parts) == 1:
            return parts[0]
        return forms.combine([(ONE, between(embed(i), f)) for i, f in enumerate(parts)])

    def between(front: Form, f: Form, *back: Form) -> Form:
        """A form between constants, term by term: around a sum they would need it to be stored."""
        terms = [forms.form(f.rows, f.cols, [(c, v, t)]) for (v, t), c in f.terms.items()]
        terms += [forms.constant(k, c) for k, c in f.constants.items()]
        placed = [(ONE, forms.product((), [front, g, *back])) for g in terms or [f]]
        return forms.combine(placed)

    constant = stacked(
        [p.get(-1, forms.form(f.rows, cols)) for p, f in zip(found, init, strict=True)]
    )
    pieces = [
        (ONE, between(embed(i), a, forms.transpose(embed(j))) if len(rows) > 1 else a)
        for i, parts in enumerate(found)
        for j, a in parts.items()
        if j >= 0
    ]
    matrix = forms.combine(pieces) if pieces else forms.form(total, total)
    name = item.carried[0].name
    if item.times > 1:  # what is affine in stored values can be read without being stored
        matrix = bind(matrix, f"A({name})") if matrix.products else matrix
        constant = bind(constant, f"c({name})") if constant.products else constant
    made = Recurrence(matrix, constant, stacked(init), name, forms, bind)
    final = made.last(item.times)
    if len(rows) == 1:
        return [(final, lambda u: made.read(u, item.times))]

    def reader(i: int) -> Reader:
        return lambda u: made.read(forms.matmul(u, forms.transpose(embed(i))), item.times)

    return [(between(forms.transpose(embed(i)), final), reader(i)) for i in range(len(rows))]
