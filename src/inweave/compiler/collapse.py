"""Pass, for least depth: affine loops become recurrences of logarithmic depth.

A loop whose step is `x ← A x + c`, with A and c fixed during the loop, is taken apart into A and c;
`Recurrence` says what T steps come to. Several carried values become one by stacking. Where it
saves a layer, words are cut inside A (`Segments`). A loop that is no deeper than its recurrence
stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from inweave.compiler.affine import Parts, affine_step
from inweave.compiler.expand import Expander
from inweave.compiler.forms import (
    ONE,
    CarriedLeaf,
    Form,
    Forms,
    LoopForm,
    Product,
    Written,
    innermost,
)
from inweave.compiler.geometric import geometric
from inweave.compiler.known import varying
from inweave.compiler.letters import Letters, TooMany
from inweave.compiler.naming import Alphabet, Names
from inweave.compiler.options import Options
from inweave.compiler.recurrence import Recurrence
from inweave.compiler.rewrite import Rewriter
from inweave.compiler.segments import Front, Segments
from inweave.exact.constants import select

Reader = Callable[[Sequence[Form]], Form]  # factors in front of what a loop ends with -> all that


def collapse(written: Written, options: Options) -> Written:
    collapser = Collapser(options, Alphabet.of(written))
    return collapser.written(written, collapser.each)


class Collapser(Rewriter):
    """Puts what loops end with in place of their results, and reads it out the shallowest way."""

    def __init__(self, options: Options, alphabet: Alphabet) -> None:
        super().__init__(options.forms)
        self.least_depth, self.steady, self.alphabet = options.least_depth, options.steady, alphabet
        self._readers: dict[Form, End] = {}
        self._cut: set[Form] = set()  # what is read with words cut inside steps
        self._estimate = Expander(options.forms, hoist=True)

    def each(self, old: LoopForm) -> LoopForm | Sequence[Form]:
        loop = self.loop(old)
        found = self._ends(loop)
        if not found:
            return loop
        forms, cut = zip(*(read(()) for read in found), strict=True)
        results = [self.forms.transpose(f) for f in forms] if found[0].row else forms
        if not self._shallower(results, loop):
            return loop
        self._readers |= dict(zip(forms, found, strict=True))
        self._cut |= set(itertools.compress(forms, cut))
        return results

    def _ends(self, loop: LoopForm) -> list[End]:
        """How each result of a loop is read; none if it does not collapse."""
        for row in (False, True):  # row recurrences: the same, transposed
            found = self._affine(loop, row) or self._varying(loop, row)
            if found:
                return found
        return self._geometric(loop)

    def _geometric(self, loop: LoopForm) -> list[End]:
        found = geometric(loop, self.forms) if self.least_depth else None
        if found is None:
            return []
        step, times = found
        start = self.forms.form(loop.init[0].rows, loop.init[0].cols)
        named = self._names(loop, [], [start], False)
        called = replace(named, carried=(self.alphabet.sums(),))  # of so many terms
        fine = self._segments(loop, [[step]], times, [start], called)
        if fine is None or fine.depth(Front((), 0)) is None:
            return []
        return [End(None, fine, 0, False, self._estimate)]

    def _affine(self, loop: LoopForm, row: bool) -> list[End]:
        parts = affine_step(loop, self.forms, row) if _alike(loop.carried, row) else None
        if parts is None or (self.steady and not self._symmetric(parts)):
            return []
        start = self._start(loop, row)
        called = self._names(loop, [parts], start, row)
        coarse = _stacked(loop, parts, start, called, self.forms)
        fine = self._segments(loop, [parts], loop.times, start, called)
        return [End(read, fine, i, row, self._estimate) for i, read in enumerate(coarse)]

    def _symmetric(self, parts: Sequence[Parts]) -> bool:
        """Whether the matrix of a step is its own transpose.

        The powers of others, such as those of momentum, may be large on the way to a small result.
        """
        matrix = parts[0].get(0)
        return len(parts) == 1 and (matrix is None or self.forms.transpose(matrix) is matrix)

    def _varying(self, loop: LoopForm, row: bool) -> list[End]:
        found = varying(loop, self.forms, row) if self.least_depth else None
        if found is None or not _alike([loop.carried[j] for j in found.rest], row):
            return []
        start = [self._start(loop, row)[j] for j in found.rest]
        called = self._names(loop, [], start, row)
        rest = tuple(called.carried[j] for j in found.rest)
        chosen = replace(called, carried=rest, alike=False)
        fine = self._segments(loop, found.steps[::-1], loop.times, start, chosen)
        if fine is None or not fine.letters.steady:  # a loop over rows serves any number of rows
            return []
        ends = {j: End(None, fine, i, row, self._estimate) for i, j in enumerate(found.rest)}
        for j, form in found.ends.items():
            turned = self.forms.transpose(form) if row else form
            ends[j] = End(partial(_times, self.forms, turned), None, j, row, self._estimate)
        return [ends[j] for j in range(len(ends))]

    def _start(self, loop: LoopForm, row: bool) -> list[Form]:
        return [self.forms.transpose(f) if row else f for f in loop.init]

    def _names(
        self, loop: LoopForm, steps: Sequence[Sequence[Parts]], start: Sequence[Form], row: bool
    ) -> Names:
        matrices = [f for step in steps for parts in step for j, f in parts.items() if j >= 0]
        return self.alphabet.names(matrices, loop, start, row)

    def _segments(
        self,
        loop: LoopForm,
        steps: Sequence[Sequence[Parts]],
        times: int,
        start: Sequence[Form],
        called: Names,
    ) -> Segments | None:
        """Steps cut letter by letter, if that is asked for."""
        outside, estimate = innermost(loop.around), self._estimate
        if not self.least_depth:
            return None
        try:
            letters = Letters(
                steps, times, start, self.forms, lambda f: estimate.level(estimate(f), outside)
            )
        except TooMany:
            return None
        families = {step[0][0].family if 0 in step[0] else None for step in steps}
        family = families.pop() if len(start) == len(families) == 1 else None
        return Segments(letters, called, family, self.forms)

    def product(self, p: Product, scalars: list[Form], chain: list[Form]) -> Form | None:
        """What a loop ends with is read out by its own way if that is less deep."""
        out = super().product(p, scalars, chain)
        short = self._read(scalars, chain)
        if not short:
            return out
        cut = any(f in self._cut for f in (chain[-1], self.forms.transpose(chain[0])))
        tried = [(out or self.forms.of(p), cut), *short]
        return min(tried, key=lambda made: (self._estimate.depth(made[0]), made[1]))[0]

    def _read(self, scalars: Sequence[Form], chain: list[Form]) -> list[tuple[Form, bool]]:
        """Products in which a loop's end is read out with its neighbour, or with more of them.

        With each, whether words are cut for it.
        """
        forms, out = self.forms, []
        if len(chain) > 1 and chain[-1] in self._readers:
            read = self._readers[chain[-1]]
            for i in reversed(range(len(chain) - 1)):
                form, cut = read(chain[i:-1])
                out.append((forms.product(scalars, [*chain[:i], form]), cut))
        elif len(chain) > 1 and forms.transpose(chain[0]) in self._readers:
            read = self._readers[forms.transpose(chain[0])]
            for i in range(2, len(chain) + 1):
                form, cut = read([forms.transpose(f) for f in reversed(chain[1:i])])
                turned = forms.product(scalars, [forms.transpose(form), *chain[i:]])
                out.append((turned, cut))
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


@dataclass(frozen=True)
class End:
    """What a loop ends with, read by factors in front: words are cut where that is less deep."""

    coarse: Reader | None
    fine: Segments | None
    index: int
    row: bool
    estimate: Expander

    def __call__(self, factors: Sequence[Form]) -> tuple[Form, bool]:
        """The whole, and whether words are cut for it."""
        front = Front(tuple(factors), self.index)
        if self.coarse is not None:
            coarse = self.coarse(factors)
            depth = None if self.fine is None else self.fine.depth(front)
            if depth is None or depth >= self.estimate.depth(coarse):
                return coarse, False
        assert self.fine is not None
        return self.fine.read(front), True


def _alike(carried: Sequence[CarriedLeaf], row: bool) -> bool:
    """Whether carried values can stand on top of one another."""
    return len({leaf.rows if row else leaf.cols for leaf in carried}) == 1


def _times(forms: Forms, form: Form, front: Sequence[Form]) -> Form:
    return forms.product((), [*front, form])


def _takes_out(p: Product, loop: LoopForm) -> bool:
    """Whether a product has a part that is computed before the loop."""
    fixed = [loop.scope not in f.loops for f in (*p.chain, *p.scalars) if not f.is_constant]
    return all(fixed) or any(a and b for a, b in itertools.pairwise(fixed))


def _stacked(
    loop: LoopForm, found: Sequence[Parts], init: Sequence[Form], called: Names, forms: Forms
) -> list[Reader]:
    """The results of an affine loop, cut between steps: what it carries is one stacked value."""
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
    if len(rows) > 1:
        called = replace(called, carried=(f"[{','.join(called.carried)}]",))
    if loop.times > 1:  # what is affine in stored values can be read without being stored
        matrix = forms.bind(matrix, called.power(1)) if matrix.products else matrix
        constant = forms.bind(constant, called.sum(1)) if constant.products else constant
    made = Recurrence(matrix, constant, stacked(init), called, forms)
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
