"""Pass, for least depth: affine loops become recurrences of logarithmic depth.

A loop whose step is `x ← A x + c`, with A and c fixed during the loop, is taken apart into A and c;
`Recurrence` says what T steps come to. Several carried values become one by stacking. Where it
saves a layer, words are cut inside A (`Segments`). A loop that is no deeper than its recurrence
stays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from inweave.compiler.affine import FIXED, Parts, Places, affine_step, sandwiched
from inweave.compiler.expand import Expander
from inweave.compiler.forms import (
    ONE,
    CarriedLeaf,
    Form,
    Forms,
    LoopForm,
    Node,
    Product,
    Written,
    innermost,
    ordered,
)
from inweave.compiler.letters import Letters, TooMany
from inweave.compiler.naming import Alphabet, Names
from inweave.compiler.options import Options
from inweave.compiler.recurrence import is_written_out
from inweave.compiler.rewrite import Rewriter
from inweave.compiler.sandwich import sandwich
from inweave.compiler.segments import Front, Segments
from inweave.compiler.simpler import apart, flattened, geometric, varying
from inweave.compiler.stacked import Reader, stacked, together, vectors
from inweave.exact.constants import Dense, log2, magnitude

LONGEST = 20_000  # steps that multiply by constants: the bits of their powers are as many
MOST_BITS = 25_000_000  # of all entries of such a power: seconds, and megabytes of weights
BITS = 55  # that a step adds to an entry, about
QUICK_BITS = 500_000  # of such a power for speed: plans make longer ones in floats


def collapse(written: Written, options: Options) -> Written:
    collapser = Collapser(options, Alphabet.of(written, (spec.name for spec in options.inputs)))
    return collapser.written(written, collapser.each)


class Collapser(Rewriter):
    """Puts what loops end with in place of their results, and reads it out the shallowest way."""

    def __init__(self, options: Options, alphabet: Alphabet) -> None:
        super().__init__(options.forms)
        self.least_depth, self.steady, self.alphabet = options.least_depth, options.steady, alphabet
        self._readers: dict[Form, End] = {}
        self._cut: set[Form] = set()  # what is read with words cut inside steps
        self._inner: set[Node] = set()  # what loops inside of others came to
        self._estimate = Expander(options.forms, hoist=True)

    def each(self, old: LoopForm) -> LoopForm | Sequence[Form]:
        loop = self.loop(old)
        once, level = self._once(loop) if loop.times == 1 else None, self._level(loop)
        still = once and max(map(level, once)) <= max(map(level, loop.init))  # it takes no layer
        if once and (still or not self.least_depth):
            return once
        flat = flattened(old, self.forms)
        found = [] if flat is None else self._ends(self.loop(flat))
        found = found or self._ends(loop)
        if not found:
            return once or loop
        forms, cut = zip(*(read(()) for read in found), strict=True)
        results = [end.back(f) for end, f in zip(found, forms, strict=True)]
        if not self._shallower(results, loop):
            return loop
        if loop.around:
            self._inner |= {*ordered(results)} - {*ordered((*loop.init, *loop.step))}
        self._readers |= dict(zip(forms, found, strict=True))
        self._cut |= set(itertools.compress(forms, cut))
        return results

    def _once(self, loop: LoopForm) -> list[Form] | None:
        """What one step makes of the start; None where a loop inside it is left, which reads it."""
        put = Rewriter(self.forms)
        for leaf, start in zip(loop.carried, loop.init, strict=True):
            put.become(self.forms.of(leaf), start)
        results = [put(f) for f in loop.step]
        return None if any(loop.scope in f.loops for f in results) else results

    def _ends(self, loop: LoopForm) -> list[End]:
        """How each result of a loop is read; none if it does not collapse."""
        ends: dict[CarriedLeaf, End] = {}
        for part in apart(loop):
            found = self._connected(part)
            if not found:
                return []
            ends |= dict(zip(part.carried, found, strict=True))
        return [ends[leaf] for leaf in loop.carried]

    def _connected(self, loop: LoopForm) -> list[End]:
        """The same for values each of which has to do with the others."""
        places = sandwiched(loop, self.forms)
        if places is not None and _multiplies_by_numbers(places):
            if loop.times > LONGEST or loop.times * _bits(loop, places) > MOST_BITS:
                return []
        for row in (False, True):  # row recurrences: the same, transposed
            found = self._affine(loop, row) or self._varying(loop, row)
            if found:
                return found
        if places is None or loop.times == 1 or not (self.least_depth or self.steady):
            return self._geometric(loop)
        return self._sandwich(loop, places) or self._vectors(loop, places)

    def _sandwich(self, loop: LoopForm, places: Sequence[Places]) -> list[End]:
        """A loop that multiplies what it carries on both sides, or transposes it."""
        if len(places) > 1 or self.steady:
            return []
        called = partial(self._letter, loop)
        made = sandwich(places[0], loop.init[0], called, self.forms, self._level(loop))
        if made is None:
            return []
        last = partial(_times, self.forms, made.last(loop.times))
        return [End(last, None, 0, _same, self._estimate)]

    def _letter(self, loop: LoopForm, matrix: Form, right: bool) -> Names:
        """The names in a loop with a matrix on either side; the right one has its own letter."""
        named = self._names(loop, [[{0: matrix}]], loop.init, False)
        other = right and matrix.sole is None
        return replace(named, matrix=self.alphabet.sums()) if other else named

    def _vectors(self, loop: LoopForm, places: Sequence[Places]) -> list[End]:
        """A loop that is affine in the entries of what it carries, in whatever way."""
        found = vectors(loop, places, self.forms)
        if found is None:
            return []
        where, parts, start = found
        vector = CarriedLeaf(
            together([x.name for x in loop.carried]), start.rows, 1, loop.scope, 0, None
        )
        whole = LoopForm(loop.scope, loop.times, (vector,), (start,), loop.step[:1])
        ends = self._recurrence(whole, [parts], [start], False)
        return [
            replace(end, back=partial(each.taken, forms=self.forms))
            for end in ends
            for each in where
        ]

    def _level(self, loop: LoopForm) -> Callable[[Form], int]:
        outside, estimate = innermost(loop.around), self._estimate
        return lambda f: estimate.level(estimate(f), outside)

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
        return [End(None, fine, 0, _same, self._estimate)]

    def _affine(self, loop: LoopForm, row: bool) -> list[End]:
        parts = affine_step(loop, self.forms, row) if _alike(loop.carried, row) else None
        return [] if parts is None else self._recurrence(loop, parts, self._start(loop, row), row)

    def _recurrence(
        self, loop: LoopForm, parts: Sequence[Parts], start: Sequence[Form], row: bool
    ) -> list[End]:
        unseen = not self.steady or self._symmetric(parts)
        if not (unseen or _is_constant(parts, start, loop.times)):
            return []
        called = self._names(loop, [parts], start, row)
        made, coarse = stacked(loop, parts, start, called, self.forms)
        if not (unseen or made.keeps_digits(loop.times)):
            return []
        fine = self._segments(loop, [parts], loop.times, start, called)
        back = self.forms.transpose if row else _same
        return [End(read, fine, i, back, self._estimate) for i, read in enumerate(coarse)]

    def _symmetric(self, parts: Sequence[Parts]) -> bool:
        """Whether the matrix of a step is its own transpose.

        The powers of others, such as those of momentum, may be large on the way to a small result;
        those of constants are exact on the way, and looked at.
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
        back = self.forms.transpose if row else _same
        ends = {j: End(None, fine, i, back, self._estimate) for i, j in enumerate(found.rest)}
        for j, form in found.ends.items():
            turned = self.forms.transpose(form) if row else form
            ends[j] = End(partial(_times, self.forms, turned), None, j, back, self._estimate)
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
        if not self.least_depth:
            return None
        for opened in (self._inner, set[Node]()):
            with suppress(TooMany):
                level = self._level(loop)
                letters = Letters(steps, times, start, self.forms, level, opened)
                break
        else:
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
                form, cut = read(forms.mirrored(chain[1:i]))
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
    back: Callable[[Form], Form]  # to what the loop carries, from what is computed
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


def _same(form: Form) -> Form:
    return form


def _multiplies_by_numbers(places: Sequence[Places]) -> bool:
    """Whether all that a step multiplies by are numbers, and not all of them one."""
    found = [f for each in places for place, left in each.items() if place != FIXED
             for f in (left, place.right) if f is not None]  # fmt: skip
    return all(f.is_constant for f in found) and not all(f.is_identity for f in found)


def _is_constant(parts: Sequence[Parts], start: Sequence[Form], times: int) -> bool:
    """Whether all that a step multiplies by are numbers, few enough to power to see if it helps."""
    numbers = all(f.is_constant for each in parts for j, f in each.items() if j >= 0)
    return numbers and BITS * times * sum(f.rows for f in start) ** 2 <= QUICK_BITS


def _bits(loop: LoopForm, places: Sequence[Places]) -> float:
    """About how many bits a step adds to the entries of all that was multiplied so far."""
    found = [(place, left) for each in places for place, left in each.items() if place != FIXED]
    left = any(is_written_out(f, loop.times) for _, f in found)
    right = any(p.right and is_written_out(p.right, loop.times) for p, _ in found)
    if not (left or right):
        return 0
    if any(place.turned for place, _ in found):
        left = right = True
    apart = len(found) == 1 and ((left and right) or FIXED not in places[0])
    each = [_length(f, apart) + (0 if p.right is None else _length(p.right, apart))
            for p, f in found]  # fmt: skip
    sides = ((leaf.rows if left else 1, leaf.cols if right else 1) for leaf in loop.carried)
    side = sum(max(a, b) if len(found) == 1 else a * b for a, b in sides)
    return max(each) * side**2


def _length(f: Form, apart: bool) -> float:
    """Bits of the entries of a constant, over their denominator.

    A multiple is as long where its coefficient stays `apart` from its powers: where no sum of them
    is asked for, and none with other constants.
    """
    one = apart and len(f.constants) == 1
    if one and not isinstance(f.constants[0][0], Dense):
        return 0
    parts = [(k, ONE if one else c) for k, c in f.constants]
    bottoms = [c.denominator * (k.whole.bottom if isinstance(k, Dense) else 1) for k, c in parts]
    size = max((log2(c) + magnitude(k) for k, c in parts), default=0)
    return math.log2(math.lcm(*bottoms)) + max(size, 0) + 1


def _alike(carried: Sequence[CarriedLeaf], row: bool) -> bool:
    """Whether carried values can stand on top of one another."""
    return len({leaf.rows if row else leaf.cols for leaf in carried}) == 1


def _times(forms: Forms, form: Form, front: Sequence[Form]) -> Form:
    return forms.product((), [*front, form])


def _takes_out(p: Product, loop: LoopForm) -> bool:
    """Whether a product has a part that is computed before the loop."""
    fixed = [loop.scope not in f.loops for f in (*p.chain, *p.scalars) if not f.is_constant]
    return all(fixed) or any(a and b for a, b in itertools.pairwise(fixed))
