"""Python loops recorded as the loops they are, which takes less of everything.

What is done with the copies of a body that `repeats` found: those that go through rows, and all
but a few others, become a loop. Written out they would be multiplied out, and powers of a matrix
stand where the program multiplies a vector step by step: those of twenty times `x = A @ x` may be
larger than x by as many digits as there are. Only where the fewest layers are asked for, copies
that are not very many are taken as they were written.

What is read after a loop, such as values that a program collects in a list, it stacks as `scan`
does, and whoever reads one of them reads a row of the stack. So a second loop over the list is a
loop over rows too, and the list put together is the stack itself.

A loop is only put in if, written down step by step, it gives the very expressions that were
recorded: values are interned, so that is a proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from inweave.exact.constants import Constant, Shift, exact, identity, product, zeros
from inweave.language import expressions as ex
from inweave.language.expressions import Carried, Expr, LoopResult
from inweave.language.repeats import Repeat, Trace, again, is_taken, opened, substituted
from inweave.language.selector import Piece, Stack
from inweave.language.shapes import ONE, labelled

MANY = 1000  # operations in the copies of a body that are always recorded as a loop
COPIES = 5  # that are, of what is not only added up; four are what a head or two multiply
ROWS = 4  # copies that take one row each and are recorded as a loop
STACKS = 8  # values of one step that are read after a loop, at most
CHAIN = 8  # operations that take a row, at most
PLAIN = (ex.Product, ex.Transposed, ex.Sum)  # operations by which rows are taken
FAR = 1000  # a degree that no product of rows has


def rolled(outputs: Sequence[Expr], operations: Sequence[Expr], short: bool = False) -> list[Expr]:
    """What was recorded, with very many copies of a body, and loops over rows, as loops.

    And `short` ones, if they are asked for, and then those with coefficients of their own in every
    step.
    """
    outputs, operations = _looped(outputs, operations, short)
    if short:
        outputs, _ = _looped(outputs, operations, short, varying=True)
    return substituted(outputs, _in_steps(outputs, short))


def _in_steps(outputs: Sequence[Expr], short: bool) -> dict[Expr, Expr]:
    """What the steps of loops became, that have such copies themselves."""
    became: dict[Expr, Expr] = {}
    for loop in {x.loop: None for x in ex.ordered(outputs) if isinstance(x, LoopResult)}:
        changing, body = set[Expr](loop.carried), list[Expr]()
        for x in ex.ordered(loop.step):
            if not changing.isdisjoint(x.parts):
                changing.add(x)
                body.append(x)
        looped = rolled(loop.step, body, short)
        became.update((x, y) for x, y in zip(loop.step, looped, strict=True) if x is not y)
    return became


def _looped(
    outputs: Sequence[Expr], operations: Sequence[Expr], short: bool, varying: bool = False
) -> tuple[list[Expr], Sequence[Expr]]:
    """What was recorded, and its operations, until no more loops are found."""
    least = COPIES if short else MANY
    while len(operations) >= least or sum(Piece.of(x) is not None for x in operations) >= ROWS:
        operations = _with_rows_where_they_are_read(operations, outputs)
        became: dict[Expr, Expr] = {}
        lasts: dict[Expr, Expr] = {}
        recorded, readers = set(operations), _readers(outputs, operations)
        for found in Trace(operations, varying).loops():
            found = _completed(found, recorded)
            loop = Stacking(found, _read_after(found, readers), short)
            if loop.is_worth_it() and loop.gives_what_was_recorded():
                for known, new in zip((became, lasts), loop.values(), strict=True):
                    known.update(zip(new, substituted(new.values(), became), strict=True))
        if not became:
            break
        outputs, operations = _rewritten(outputs, operations, became, lasts)
    return list(outputs), operations


# -- loops that stack ------------------------------------------------------------------------------
class Reading(NamedTuple):
    """In which copies a value is read afterwards, in that order, and if it is put below others."""

    copies: list[int]
    upright: bool


Read = dict[int, Reading]  # by the operation of the body


Readers = dict[Expr, list[tuple[int, Expr | None]]]  # numbered as they come; None: an answer


def _readers(outputs: Sequence[Expr], operations: Sequence[Expr]) -> Readers:
    """Who reads each value."""
    out: Readers = {}
    read = [(part, reader) for reader in operations for part in reader.parts]
    for at, (x, reader) in enumerate((*read, *((x, None) for x in outputs))):
        out.setdefault(x, []).append((at, reader))
    return out


def _read_after(found: Repeat, readers: Readers) -> Read:
    """What others read of the copies, but for the ends.

    What a copy makes of its rows alone and is linear in them, others make for themselves.
    """
    degrees, ends, out = _degrees(found, carried=FAR), set(found.ends), Read()
    kept = [j for j in found.moving.values() if degrees[found.body[j]] > 1]
    inside = {copy[j] for copy in found.copies for j in found.moving.values()}
    seen = list[tuple[int, int, int, bool]]()
    for (c, copy), j in itertools.product(enumerate(found.copies), kept):
        x = copy[j]
        others = [(at, reader) for at, reader in readers.get(x, ()) if reader not in inside]
        if others and x not in ends:
            seen.append((others[0][0], j, c, any(_puts(reader, x) for _, reader in others)))
    for _, j, c, upright in sorted(seen):
        out.setdefault(j, Reading([], upright)).copies.append(c)
    return out


def _puts(reader: Expr | None, x: Expr) -> bool:
    """Whether a value is put below others there."""
    taken = None if reader is None else Piece.of(reader)
    return taken is not None and taken[0].left and taken[1] is x


def _degrees(found: Repeat, carried: int) -> dict[Expr, int]:
    """The degree of what a body makes in the rows that it takes, given that of what it carries.

    Where rows are put is no factor: `e (eᵀX)` is linear in them.
    """
    out: dict[Expr, int] = dict.fromkeys(found.loop.carried, carried)
    out.update(dict.fromkeys(units := found.units, 1))
    for x in found.moving:
        read = (part.x if is_taken(part, units) else part for part in x.parts)
        parts = [out.get(part, 0) for part in read]
        if isinstance(x, ex.Product) and x.a in units and x.a.rows > x.a.cols:
            parts[0] = 0
        match x:
            case ex.Product() | ex.Scaled() | ex.Entrywise():
                out[x] = sum(parts)
            case ex.Sum() | ex.Transposed():
                out[x] = max(parts)
            case _:
                out[x] = FAR
    return out


class Stacking(NamedTuple):
    """A loop that was found and moreover keeps what is read of its copies afterwards."""

    found: Repeat
    read: Read
    short: bool

    def is_worth_it(self) -> bool:
        """Whether copies are so many that they are a loop.

        Steps that do not wait for one another are written out as long as they are few: a sum is one
        layer, and of a product of rows the layers are as few as the logarithm of its length. A sum
        of what is at most quadratic in the rows is a product of matrices, as XᵀX is, however long
        it is. A power of what is carried, such as `x ** 32`, keeps its digits however it is cut.
        """
        found, times = self.found, self.found.loop.times
        if len(self.read) > STACKS or not (found.ends or self.read):
            return False
        stacked = any(reading.copies != [times - 1] for reading in self.read.values())
        adds, multiplies = self._does_only(ex.Sum), self._does_only(ex.Product, ex.Scaled)
        if not stacked and adds and self._degree_of_sum() <= 2:
            return False
        powers = multiplies and not found.loop.outer
        if self.short and times >= COPIES and not (adds or powers or found.takes_rows):
            return True
        if not stacked and multiplies:
            return False
        if found.takes_rows and not (adds or multiplies):
            return times >= ROWS
        return times * len(found.moving) * (times if stacked else 1) >= MANY

    def _does_only(self, *operations: type[Expr]) -> bool:
        """Whether a step does nothing else with what it carries than these, and transpose."""
        moving = set[Expr](self.found.loop.carried[: len(self.found.ends)])
        for x in self.found.moving:
            if moving.intersection(x.parts):
                moving.add(x)
                if not isinstance(x, (*operations, ex.Transposed)):
                    return False
        return True

    def _degree_of_sum(self) -> int:
        """The degree of what a loop adds to what it carries, in the rows that it takes."""
        degrees = _degrees(self.found, carried=0)
        return max(degrees.get(x, 0) for x in self.found.loop.step[: len(self.found.ends)])

    def gives_what_was_recorded(self) -> bool:
        """Whether the loop, written down step by step, gives the very same expressions."""
        found, ends = self.found, len(self.found.ends)
        steps, state = [(x, *opened(x)) for x in found.moving], found.loop.init[:ends]
        for i, copy in enumerate(found.copies):
            known = _stepped(found, steps, state, i)
            if any(known[found.body[j]] is not copy[j] for j in self.read):
                return False
            state = tuple(known.get(x, x) for x in found.loop.step[:ends])
        return list(state) == found.ends

    def values(self) -> tuple[dict[Expr, Expr], dict[Expr, Expr]]:
        """What stands for the recorded values, and rows of stacks that what it ends with are."""
        found, times = self.found, self.found.loop.times
        stacks = {
            j: Stack(times, found.copies[0][j], copies[0] > copies[-1], upright)
            for j, (copies, upright) in self.read.items()
            if copies != [times - 1]
        }
        made = self._loop(stacks)
        results = [LoopResult(made, i) for i in range(len(made.carried))]
        became = {x: labelled(y, x.units) for x, y in zip(found.ends, results, strict=False)}
        lasts: dict[Expr, Expr] = {}
        for j, result in zip(self.read, results[len(found.ends) :], strict=False):
            for c in self.read[j].copies:
                x = found.copies[c][j]
                row = stacks[j].taken(result, c) if j in stacks else result
                became[x] = labelled(row, x.units)
            last = found.copies[-1][j]
            if j in stacks and last in found.ends:
                lasts[last] = stacks[j].taken(result, times - 1)
        return became, lasts

    def _loop(self, stacks: Mapping[int, Stack]) -> ex.Loop:
        """The loop that carries what is read afterwards too: stacks of it, or the last one."""
        found, loop, ends = self.found, self.found.loop, len(self.found.ends)
        step = rolled(
            [*loop.step[:ends], *(found.body[j] for j in self.read)], found.body, self.short
        )
        carried, init = list(loop.carried[:ends]), list(loop.init[:ends])
        selectors = dict(zip(found.selectors, loop.carried[ends:], strict=True))
        for i, j in enumerate(self.read, ends):
            if j not in stacks:
                init.append(ex.ConstantExpr(zeros(*step[i].shape), step[i].units))
                carried.append(Carried(f"last{j}", init[-1]))
                continue
            init.append(stacks[j].empty())
            carried.append(Carried(f"value{j}", init[-1]))
            selector = stacks[j].selector()
            new = Carried(f"row{len(selectors)}", selector.first())
            step[i] = stacks[j].put(carried[-1], selectors.setdefault(selector, new), step[i])
        init += [selector.first() for selector in selectors]
        step += [selector.moved(symbol) for selector, symbol in selectors.items()]
        return ex.Loop((*carried, *selectors.values()), tuple(init), tuple(step), loop.times)


Step = tuple[Expr, Any, Sequence[Expr]]  # an operation, what it does and what it reads


def _stepped(
    found: Repeat, steps: Iterable[Step], state: Sequence[Expr], i: int
) -> dict[Expr, Expr]:
    """What step i of a loop makes of what it carries."""
    at = [selector.after(i) for selector in found.selectors]
    turned = (ex.ConstantExpr(e.constant.T, e.units[::-1]) for e in at)
    known: dict[Expr, Expr] = dict(zip(found.loop.carried, (*state, *at), strict=True))
    known.update(zip(found.units, (*at, *turned), strict=True))
    for x, what, parts in steps:
        if isinstance(x, ex.Sum):
            terms = [_numbered(known, c, part) for c, part in zip(what, parts, strict=True)]
            what, parts = zip(*terms, strict=True)
        known[x] = again(x, what, [known.get(part, part) for part in parts])
    return known


def _numbered(known: Mapping[Expr, Expr], c: Fraction, x: Expr) -> tuple[Fraction, Expr]:
    """What is scaled by a number that a selector takes, with that number as its coefficient."""
    if x in known or not isinstance(x, ex.Scaled) or not isinstance(x.s, ex.Product):
        return c, x
    at, listed = known.get(x.s.a), x.s.b
    if not (isinstance(at, ex.ConstantExpr) and isinstance(listed, ex.ConstantExpr)):
        return c, x
    times, number = product(at.constant, listed.constant)
    return c * times * exact(number.entries()[0, 0]), x.x


def _completed(found: Repeat, recorded: Collection[Expr]) -> Repeat:
    """The same loop with one more step, if most of that was recorded too.

    Of the last step a program often needs only a part, and what it does not need is not recorded.
    """
    loop, steps = found.loop, [(x, *opened(x)) for x in found.moving]
    known = _stepped(found, steps, found.ends, loop.times)
    missing = [x for x in found.moving if known[x] not in recorded]
    if 2 * len(missing) > len(steps) or any(isinstance(x, ex.Applied) for x in missing):
        return found
    made = [known.get(x, x) for x in found.body]
    ends = [known.get(x, x) for x in loop.step[: len(found.ends)]]
    longer = ex.Loop(loop.carried, loop.init, loop.step, loop.times + 1)
    return found._replace(loop=longer, ends=ends, copies=[*found.copies, made])


# -- what comes after ------------------------------------------------------------------------------
def _rewritten(
    outputs: Sequence[Expr],
    operations: Sequence[Expr],
    became: Mapping[Expr, Expr],
    lasts: Mapping[Expr, Expr],
) -> tuple[list[Expr], list[Expr]]:
    """What was recorded, with other values in place of some."""
    left = set(ex.ordered(outputs, stop=became))
    listed = [x for x in operations if x in left]
    new = substituted([*outputs, *listed], became)
    lasts = {became[x]: row for x, row in lasts.items()}
    sums = {x: _gathered(x, lasts) for x in new if isinstance(x, ex.Sum) and len(x.parts) >= ROWS}
    new = substituted(new, {x: y for x, y in sums.items() if x is not y})
    outputs, listed = new[: len(outputs)], new[len(outputs) :]
    needed = set(ex.ordered(outputs))
    rows = ex.ordered(became.values(), stop={x for x in needed if isinstance(x, LoopResult)})
    return outputs, [x for x in (*rows, *listed) if x in needed]


def _with_rows_where_they_are_read(
    operations: Sequence[Expr], outputs: Sequence[Expr]
) -> list[Expr]:
    """Operations such that whoever reads a row takes it just before.

    A row that was taken long before, as `zip(X, y)` does, or of a stack that was none when the
    program was recorded, is taken where it would be in a loop that takes it itself.
    """
    taken: dict[Expr, list[Expr]] = {}
    out: list[Expr] = []
    for x in operations:
        if x in taken:
            continue
        piece = Piece.of(x)
        of = piece[1] if piece else x.parts[0] if len(x.parts) == 1 else None
        before = taken.get(of, []) if of is not None else []
        if (piece or before) and isinstance(x, PLAIN) and len(before) < CHAIN:
            taken[x] = [*before, x]
            continue
        for part in x.parts:
            out += taken.get(part, ())
        out.append(x)
    for x in outputs:
        out += taken.get(x, ())
    return out


# -- rows put together -----------------------------------------------------------------------------
class Inner(NamedTuple):
    """A value as `left @ core @ right`, or with the core transposed."""

    coefficient: Fraction
    left: Constant
    core: Expr
    turned: bool
    right: Constant

    @classmethod
    def of(cls, x: Expr, lasts: Mapping[Expr, Expr]) -> Inner:
        c, turned = ONE, False
        left, right = identity(x.rows), identity(x.cols)  # type: Constant, Constant
        while True:
            x = lasts.get(x, x)
            piece = Piece.of(x)
            if piece is not None:
                constant, x = piece[0].constant, piece[1]
                if piece[0].left != turned:
                    left = product(left, constant.T if turned else constant)[1]
                else:
                    right = product(constant.T if turned else constant, right)[1]
            elif isinstance(x, ex.Transposed):
                x, turned = x.x, not turned
            elif isinstance(x, ex.Sum) and len(x.terms) == 1:
                c, x = c * x.terms[0][0], x.terms[0][1]
            else:
                return cls(c, left, x, turned, right)

    def joined(self, other: Inner) -> Inner | None:
        """The sum of this and another one, if their pieces follow one another."""
        if self._replace(left=other.left, right=other.right) != other:
            return None
        if self.right == other.right and (left := _joined(self.left, other.left)) is not None:
            return self._replace(left=left)
        if self.left == other.left and (right := _joined(self.right, other.right)) is not None:
            return self._replace(right=right)
        return None

    def expression(self) -> Expr:
        x = ex.Transposed(self.core) if self.turned else self.core
        x = x if self.left.is_identity() else ex.Product(ex.ConstantExpr(self.left), x)
        return x if self.right.is_identity() else ex.Product(x, ex.ConstantExpr(self.right))


def _joined(a: Constant, b: Constant) -> Shift | None:
    """Two pieces of an identity as one, if the second goes on where the first ends."""
    if not isinstance(a, Shift) or not isinstance(b, Shift) or a.shape != b.shape:
        return None
    follows = (b.row, b.col) == (a.row + a.size, a.col + a.size)
    return Shift(*a.shape, a.row, a.col, a.size + b.size) if follows else None


def _gathered(x: ex.Sum, lasts: Mapping[Expr, Expr]) -> Expr:
    """A sum in which rows of one value, put next to each other, are that value."""
    terms: list[tuple[Inner, tuple[Fraction, Expr]]] = []
    for c, part in x.terms:
        inner = Inner.of(part, lasts)
        inner = inner._replace(coefficient=c * inner.coefficient)
        both = terms[-1][0].joined(inner) if terms else None
        if both is None:
            terms.append((inner, (c, part)))
        else:
            terms[-1] = both, (both.coefficient, both.expression())
    if len(terms) == len(x.terms):
        return x
    if len(terms) == 1 and terms[0][1][0] == 1:
        return labelled(terms[0][1][1], x.units)
    return ex.Sum([term for _, term in terms], x.units)
