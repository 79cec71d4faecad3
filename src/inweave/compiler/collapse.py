"""Pass, for least depth: affine loops become recurrences of logarithmic depth.

A loop whose step is `x ← A x + c`, with A and c fixed during the loop, is taken apart into A and c;
`Recurrence` says what T steps come to. Several carried values become one by stacking. A loop that
is no deeper than its recurrence stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from inweave.compiler.affine import Parts, affine_step
from inweave.compiler.expand import Expander
from inweave.compiler.forms import ONE, Form, Forms, LoopForm, Product, Written, innermost
from inweave.compiler.options import Options
from inweave.compiler.recurrence import Recurrence
from inweave.compiler.rewrite import Rewriter
from inweave.exact.constants import select

Reader = Callable[[Form], Form]  # u -> u x, where x is what a loop ends with


def collapse(written: Written, options: Options) -> Written:
    collapser = Collapser(options.forms)
    return collapser.written(written, collapser.each)


class Collapser(Rewriter):
    """Puts what loops end with in place of their results, and reads it out the shallowest way."""

    def __init__(self, forms: Forms) -> None:
        super().__init__(forms)
        self._readers: dict[Form, Reader] = {}
        self._estimate = Expander(forms, hoist=True)

    def each(self, old: LoopForm) -> LoopForm | Sequence[Form]:
        loop = self.loop(old)
        found = ends(loop, self.forms)
        if found is None or not self._shallower(found[0], loop):
            return loop
        self._readers |= found[1]
        return found[0]

    def product(self, p: Product, scalars: list[Form], chain: list[Form]) -> Form | None:
        """What a loop ends with is read out by its own way if that is less deep."""
        out = super().product(p, scalars, chain)
        short = self._read(chain)
        if not short:
            return out
        tried = [out or self.forms.of(p), *(self.forms.product(scalars, c) for c in short)]
        return min(tried, key=self._estimate.depth)

    def _read(self, chain: list[Form]) -> list[list[Form]]:
        """Chains in which a loop's end is read out with its neighbour, or with more of them."""
        forms, out = self.forms, []
        if len(chain) > 1 and chain[-1] in self._readers:
            read = self._readers[chain[-1]]
            for i in reversed(range(len(chain) - 1)):
                out.append([*chain[:i], read(forms.product((), chain[i:-1]))])
        elif len(chain) > 1 and forms.transpose(chain[0]) in self._readers:
            read = self._readers[forms.transpose(chain[0])]
            for i in range(2, len(chain) + 1):
                turned = forms.transpose(forms.product((), chain[1:i]))
                out.append([forms.transpose(read(turned)), *chain[i:]])
        return out

    def _shallower(self, short: Sequence[Form], loop: LoopForm) -> bool:
        """Whether a collapsed loop is no deeper than the loop itself.

        If they are equally deep, collapsing still wins: a loop shares no layer with what surrounds
        it.
        """
        estimate, outside = self._estimate, innermost(loop.around)
        collapsed = max(estimate.level(estimate(f), outside) for f in short)
        steps = [estimate(f) for f in loop.step]
        each = max(estimate.level(f, loop.scope) for f in steps)
        # Before the loop: what it does not change. Inside another loop: its start and its result.
        before = any(_takes_out(p, loop) for f in steps for p, _, _ in f.products)
        around = int(before) + int(outside is not None)
        return loop.times == 1 or collapsed <= loop.times * max(each, 1) + around


def _takes_out(p: Product, loop: LoopForm) -> bool:
    """Whether a product has a part that is computed before the loop."""
    fixed = [loop.scope not in f.loops for f in (*p.chain, *p.scalars) if not f.is_constant]
    return all(fixed) or any(a and b for a, b in itertools.pairwise(fixed))


def ends(loop: LoopForm, forms: Forms) -> tuple[list[Form], dict[Form, Reader]] | None:
    """The results of a loop as forms of logarithmic depth, or None if its step is not affine.

    With them, for each result or its transpose, how to read it out with a factor in front.
    """
    if len({leaf.cols for leaf in loop.carried}) == 1:
        found = affine_step(loop, forms)
        if found is not None:
            out = _ends(loop, found, loop.init, forms)
            return [f for f, _ in out], dict(out)
    if len({leaf.rows for leaf in loop.carried}) == 1:  # row recurrences: the same, transposed
        found = affine_step(loop, forms, row=True)
        if found is not None:
            out = _ends(loop, found, [forms.transpose(f) for f in loop.init], forms)
            return [forms.transpose(f) for f, _ in out], dict(out)
    return None


def _ends(
    loop: LoopForm, found: Sequence[Parts], init: Sequence[Form], forms: Forms
) -> list[tuple[Form, Reader]]:
    rows = [f.rows for f in init]
    total, starts = sum(rows), [0, *itertools.accumulate(rows)]

    def embed(i: int) -> Form:
        return forms.constant(select(total, starts[i], starts[i] + rows[i]))

    def stacked(parts: Sequence[Form]) -> Form:
        if len(parts) == 1:
            return parts[0]
        return forms.combine([(ONE, between(embed(i), f)) for i, f in enumerate(parts)])

    def between(front: Form, f: Form, *back: Form) -> Form:
        """A form between constants, term by term: around a sum they would need it to be stored."""
        apart = forms.apart(f) or [(ONE, f)]
        return forms.combine([(c, forms.product((), [front, g, *back])) for c, g in apart])

    zero = [forms.form(f.rows, f.cols) for f in init]
    constant = stacked([parts.get(-1, z) for parts, z in zip(found, zero, strict=True)])
    pieces = [
        (ONE, between(embed(i), a, forms.transpose(embed(j))) if len(rows) > 1 else a)
        for i, parts in enumerate(found)
        for j, a in parts.items()
        if j >= 0
    ]
    matrix = forms.combine(pieces) if pieces else forms.form(total, total)
    name = loop.carried[0].name
    if loop.times > 1:  # what is affine in stored values can be read without being stored
        matrix = forms.bind(matrix, f"A({name})") if matrix.products else matrix
        constant = forms.bind(constant, f"c({name})") if constant.products else constant
    made = Recurrence(matrix, constant, stacked(init), name, forms)
    final = made.last(loop.times)
    if len(rows) == 1:
        return [(final, lambda u: made.read(u, loop.times))]

    def reader(i: int) -> Reader:
        return lambda u: made.read(forms.matmul(u, forms.transpose(embed(i))), loop.times)

    return [(between(forms.transpose(embed(i)), final), reader(i)) for i in range(len(rows))]
