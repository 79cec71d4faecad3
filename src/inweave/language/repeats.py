"""Python loops found again in what a program recorded.

`for _ in range(40): x = A @ x + x` leaves forty copies of its body. Copies that follow one another
at a fixed distance, each reading what its predecessors made or what all of them read, are the loop
that `inweave.iterate` would have recorded. If each of them moreover takes the next rows of
something (`X[i]`), they are what `inweave.scan` would have recorded: a selector takes them, is
carried and moved on. Where it is asked for, each may also multiply by numbers of its own, which a
selector takes from a list. Loops in loops are copies of copies; the outermost one is found.

This module finds loops and says nothing of what they are good for: `rolled` does, and the compiler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from inweave.exact.constants import simplest
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.selector import Piece, Selector
from inweave.language.shapes import ONE

SHORT = 64  # bodies of so many operations are all looked for
LONG = 32  # longer ones only at so many distances, those at which most operations come again
WIDE = 64  # a body has no operation that reads more values than this
LAGS = 8  # nor one that reads what was made more copies before

Run = tuple[int, int, int]  # operations [start, stop) equal those `length` before them
Place = tuple[int, int]  # (operation of the body, how many copies ago it was made)


class Repeat(NamedTuple):
    """A loop that was found, and the expressions that its results stand for."""

    loop: ex.Loop
    ends: list[Expr]
    selectors: list[Selector]  # carried after what the ends stand for
    body: list[Expr]  # what a step makes, in the order of the program
    copies: list[list[Expr]]  # what was recorded instead
    takes_rows: bool  # of something, and not only numbers of its own in every step

    @property
    def units(self) -> list[Expr]:
        """The selectors as a body sees them, and transposed."""
        symbols = self.loop.carried[len(self.ends) :]
        return [*symbols, *map(ex.Transposed, symbols)]

    @property
    def moving(self) -> dict[Expr, int]:
        """What changes from step to step, and its place in the body."""
        units = self.units
        changing, out = {*self.loop.carried, *units}, dict[Expr, int]()
        for i, x in enumerate(self.body):
            if not changing.isdisjoint(x.parts) or any(is_taken(part, units) for part in x.parts):
                changing.add(x)
                out[x] = i
        return out

    @property
    def results(self) -> list[Expr]:
        return [ex.LoopResult(self.loop, i) for i in range(len(self.ends))]


def repeats(operations: Sequence[Expr], varying: bool = False) -> Iterator[Repeat]:
    """Loops that carry something in what was recorded, first ones first.

    Those that are `varying` may have other coefficients in every step.
    """
    return (found for found in Trace(operations, varying).loops() if found.ends)


class Trace:
    """Operations in the order in which they were recorded, as numbers that can be compared.

    `reads[i]` is what operation i reads: numbers of earlier operations, negative ones for what is
    no operation (inputs, constants and results of loops). `pieces[i]` says which rows it takes.
    """

    def __init__(self, recorded: Iterable[Expr], varying: bool = False) -> None:
        self.operations: list[Expr] = []
        self.reads: list[list[int]] = []
        self.kinds: list[int] = []  # what an operation does
        self.others: dict[int, Expr] = {}
        self.pieces: dict[int, Piece] = {}
        self.numbers = numbers = dict[Expr, int]()
        places: dict[Any, int] = {}
        kinds: dict[Any, int] = {}

        def number(x: Expr) -> int:
            if x not in numbers:
                same = (x.constant, x.units) if isinstance(x, ex.ConstantExpr) else x
                numbers[x] = places.setdefault(same, -1 - len(places))
                self.others.setdefault(numbers[x], x)
            return numbers[x]

        for x in recorded:
            if not x.parts or isinstance(x, ex.LoopResult):
                continue
            what, parts = opened(x)
            piece = Piece.of(x)
            if piece is not None:
                self.pieces[len(self.operations)] = piece[0]
                what, parts = piece[0].kind, [piece[1]]
            self.reads.append([number(part) for part in parts])
            if isinstance(x, ex.Sum):  # Fractions are slow to hash
                what = len(what) if varying else tuple([c.as_integer_ratio() for c in what])
            kind = (type(x), x.shape, what) if len(parts) <= WIDE else (x,)
            self.kinds.append(kinds.setdefault(kind, len(kinds)))
            numbers[x] = len(self.operations)
            self.operations.append(x)

    def expression(self, number: int) -> Expr:
        return self.operations[number] if number >= 0 else self.others[number]

    def loops(self) -> Iterator[Repeat]:
        for run in self.runs():
            found = self.loop(*run)
            if found is not None:
                yield found

    def runs(self) -> list[Run]:
        """Copies of a body, at least three of them; where runs overlap, the longest."""
        size, kinds = len(self.operations), np.array(self.kinds, dtype=int)
        width = min(WIDE, max(map(len, self.reads), default=0))
        reads = np.full((size, width), -1 - len(self.others))
        for i, parts in enumerate(self.reads):
            reads[i, : len(parts)] = parts[:width]
        rows = np.zeros((size, 2), dtype=int)
        rows[list(self.pieces)] = [piece.at for piece in self.pieces.values()] or 0
        found: list[Run] = []
        for length in self._lengths(kinds, reads, rows):
            equal = kinds[length:] == kinds[:-length]
            if not _stretches(equal, 2 * length):
                continue
            now, before = reads[length:], reads[:-length]
            moving = (before >= 0) & (now == before + length)
            further = rows[length:] - rows[:-length]
            equal &= (moving | (now == before)).all(axis=1) & (further == 0).any(axis=1)
            stretches = _stretches(equal, 2 * length)
            if not stretches:
                continue
            motion = np.column_stack([moving, further])
            for start, stop in stretches:
                # What an operation reads stays or moves with it, not first one, then the other.
                turns = (motion[start + length : stop] != motion[start : stop - length]).any(axis=1)
                firsts = [start, *(start + 1 + np.flatnonzero(turns)).tolist()]
                lasts = [first - 1 + length for first in firsts[1:]] + [stop]
                found += [
                    (first + length, last + length, length)
                    for first, last in zip(firsts, lasts, strict=True)
                    if last - first >= 2 * length
                ]
        kept: list[Run] = []
        for run in sorted(found, key=lambda run: (run[0] - run[1], run[2])):
            if all(run[0] >= other[1] or run[1] <= other[0] for other in kept):
                kept.append(run)
        return sorted(kept)

    def _lengths(self, kinds: Any, reads: Any, rows: Any) -> list[int]:
        """Distances at which copies may follow one another."""
        longest = len(kinds) // 3
        if longest <= SHORT:
            return list(range(1, longest + 1))
        given = np.column_stack([kinds, np.where(reads < 0, reads, 0), rows])
        weights: Any = np.random.default_rng(0).integers(1 << 62, size=given.shape[1])
        votes: Counter[int] = Counter()
        for columns in (given.shape[1] - 2, given.shape[1]):  # whichever rows it takes, or the same
            same: Any = given[:, :columns] @ weights[:columns]
            for what in (same, np.convolve(same, weights[:4], "valid")):  # one, or four in a row
                order = np.argsort(what, kind="stable")
                further = np.diff(order)[np.diff(what[order]) == 0]
                votes.update(further[(further > SHORT) & (further <= longest)].tolist())
        often = [length for length, count in votes.most_common(LONG) if count > 1]
        return [*range(1, SHORT + 1), *often]

    def loop(self, start: int, stop: int, length: int) -> Repeat | None:
        """The loop of a run, begun where it carries least; None if its copies are all one."""
        start = self._begin(start, stop, length)
        places = self._places(start, length)
        if any(lag > LAGS for _, lag in places):
            return None  # it reads what another loop made, step by step
        body = self._body(start, length)
        first, init = self._started(start, length)
        times = (stop - first) // length
        carried = {place: ex.Carried(f"x{n or ''}", self.operations[start + place[0]])
                   for n, place in enumerate(places)}  # fmt: skip
        starts = [self.expression(init[place]) for place in places]
        if any(x.shape != carried[place].shape for x, place in zip(starts, places, strict=True)):
            return None  # what was read as a copy before the first is another operation
        selectors: dict[Selector, ex.Carried] = {}
        step: list[Expr] = []
        for i, reads in enumerate(body):
            parts = [
                carried[r] if isinstance(r, tuple) else
                step[r - start] if r >= start else self.expression(r) for r in reads
            ]  # fmt: skip
            if start + i in self.pieces:
                by = self._further(start + i, length)
                unit = _unit(self.pieces[first + i], by, selectors)
                step.append(self.pieces[first + i].taken(unit, parts[0]))
            else:
                at = range(first + i, first + times * length, length)
                each = [self._read_as(copy, start + i) for copy in at]
                step.append(_in_turn(each, parts, selectors))
        if not carried and not selectors:
            return None
        loop = ex.Loop(
            (*carried.values(), *selectors.values()),
            (*starts, *(s.first() for s in selectors)),
            (*(step[j] if lag == 1 else carried[j, lag - 1] for j, lag in places),
             *(s.moved(symbol) for s, symbol in selectors.items())),
            times,
        )  # fmt: skip
        end = first + times * length
        ends = [self.operations[end - lag * length + j] for j, lag in places]
        copies = [self.operations[copy : copy + length] for copy in range(first, end, length)]
        taken = [start + i for i in range(length) if start + i in self.pieces]
        takes_rows = any(any(self._further(i, length)) for i in taken)
        return Repeat(loop, ends, list(selectors), step, copies, takes_rows)

    def _begin(self, start: int, stop: int, length: int) -> int:
        """Where a run is cut into copies: where the fewest values are made before and read after.

        Of several such places, one that leaves as little as can be before the loop and after it,
        rather before it: what is left of a step would have to be carried until then.
        """
        begun = range(start, min(start + length, stop - 2 * length + 1))
        last = {
            now: i
            for i in range(start, stop)
            for now, before in zip(self.reads[i], self.reads[i - length], strict=True)
            if now != before
        }
        alive = np.zeros(stop + 1, dtype=int)
        for made, read in last.items():
            alive[max(made, 0) + 1] += 1
            alive[read + 1] -= 1
        alive = np.cumsum(alive)
        fewest = [i for i in begun if alive[i] == alive[begun.start : begun.stop].min()]
        fewest.sort(key=lambda i: (stop - i) % length)

        def left(i: int) -> tuple[int, int]:
            after = (stop - i) % length
            return self._started(i, length)[0] + after, after

        return min(fewest[:SHORT], key=left)

    def _started(self, start: int, length: int) -> tuple[int, dict[Place, int]]:
        """Where the first copy begins, and what stands for the values that it reads."""
        body, first = self._body(start, length), start - length
        init = {(j, lag): first - lag * length + j for j, lag in self._places(start, length)}
        while (earlier := self._before(first - length, start, length, body, init)) is not None:
            init, first = earlier, first - length
        return first, init

    def _further(self, i: int, length: int) -> tuple[int, int]:
        """By how many rows and columns a piece moves from copy to copy."""
        (row, col), (a, b) = self.pieces[i].at, self.pieces[i - length].at
        return row - a, col - b

    def _places(self, start: int, length: int) -> list[Place]:
        """What the copy at `start` reads of those before it, and what stands between."""
        reads = (read for parts in self._body(start, length) for read in parts)
        direct = {read for read in reads if isinstance(read, tuple)}
        return sorted({(j, k) for j, lag in direct for k in range(1, lag + 1)})

    def _body(self, start: int, length: int) -> list[list[int | Place]]:
        """What the operations of the copy at `start` read, with places in the copies before it."""

        def read(now: int, before: int) -> int | Place:
            lag, j = divmod(now - start, length)
            return now if now == before or now >= start else (j, -lag)

        copy = range(start, start + length)
        return [list(map(read, self.reads[i], self.reads[i - length])) for i in copy]

    def _before(
        self,
        first: int,
        start: int,
        length: int,
        body: Sequence[Sequence[int | Place]],
        init: dict[Place, int],
    ) -> dict[Place, int] | None:
        """Where a loop starts if the operations from `first` are a copy too, else None.

        The first copies read what stood before the loop, so they do not belong to the run.
        """
        out: dict[Place, int] = {}
        for i, reads in enumerate(body):
            here = self._like(first + i, start + i) if first >= 0 else None
            if here is None:
                return None
            if start + i in self.pieces and (
                self._further(first + length + i, length) != self._further(start + i, length)
            ):
                return None
            for read, found in zip(reads, here, strict=True):
                if isinstance(read, tuple):
                    read = out.setdefault(read, found)
                elif read >= start:
                    read += first - start
                if read != found:
                    return None
        after = {(j, k): out.get((j, k - 1)) if k > 1 else first + j for j, k in init}
        return out if after == init and out.keys() == init.keys() else None

    def _like(self, i: int, other: int) -> list[int] | None:
        """What an operation reads if it does what another one does, else None.

        A sum takes the factor of `0.1 * x` as its own; it may well be a sum that reads `0.1 * x`.
        """
        if self.kinds[i] == self.kinds[other]:
            return self.reads[i]
        a, b = self.operations[i], self.operations[other]
        if not isinstance(a, ex.Sum) or not isinstance(b, ex.Sum) or len(a.terms) != len(b.terms):
            return None
        pairs = zip(a.terms, b.terms, self.reads[i], strict=True)
        found = [
            read if c == d else self.numbers.get(ex.Sum([(c / d, x)])) if d else None
            for (c, x), (d, _), read in pairs
        ]
        return None if None in found else [read for read in found if read is not None]

    def _read_as(self, i: int, other: int) -> Expr:
        """An operation that does what another one does, with the coefficients of what it reads.

        Of `0.1 * x` that it took the factor of, it reads all: the factor would count twice.
        """
        return self.operations[i if self.kinds[i] == self.kinds[other] else other]


def _stretches(true: Any, least: int) -> list[list[int]]:
    """Where at least so many truths follow one another."""
    edges = np.flatnonzero(np.diff(true, prepend=False, append=False)).reshape(-1, 2)
    return edges[edges[:, 1] - edges[:, 0] >= least].tolist()  # type: ignore[no-any-return]


def _unit(piece: Piece, by: tuple[int, int], selectors: dict[Selector, ex.Carried]) -> Expr:
    """The piece by which the copies take their rows: a constant, or one that moves on."""
    if by == (0, 0):
        return ex.ConstantExpr(piece.constant, piece.units)
    found, turned = piece.selector(by)
    if found not in selectors:
        selectors[found] = ex.Carried(f"row{len(selectors) or ''}", found.first())
    return ex.Transposed(selectors[found]) if turned else selectors[found]


def _in_turn(
    copies: Sequence[Expr], parts: Sequence[Expr], selectors: dict[Selector, ex.Carried]
) -> Expr:
    """The operation of some copies; where their coefficients differ, a selector takes the next."""
    x = copies[-1]
    if not isinstance(x, ex.Sum) or all(opened(copy)[0] == opened(x)[0] for copy in copies):
        return again(x, opened(x)[0], parts)
    whole = Selector.rows(len(copies), (False, True))
    at = selectors.setdefault(whole, ex.Carried(f"row{len(selectors) or ''}", whole.first()))
    terms = []
    for k, part in enumerate(parts):
        each = [copy.terms[k][0] for copy in copies if isinstance(copy, ex.Sum)]
        if len(set(each)) == 1:
            terms.append((each[0], part))
        else:
            listed = ex.ConstantExpr(simplest(np.array([[c] for c in each], dtype=object)))
            taken = ex.Product(ex.Transposed(at), listed)
            terms.append((ONE, ex.Scaled(taken, part)))
    return ex.Sum(terms, x.units)


def is_taken(x: Expr, units: Sequence[Expr]) -> TypeGuard[ex.Scaled]:
    """Whether this is scaled by a number that a selector takes."""
    return isinstance(x, ex.Scaled) and isinstance(x.s, ex.Product) and x.s.a in units


def opened(x: Expr) -> tuple[Any, Sequence[Expr]]:
    """What an operation does, and what it reads."""
    if isinstance(x, ex.Sum):
        return tuple(c for c, _ in x.terms), x.parts
    return getattr(x, "function", None), x.parts


def again(x: Expr, what: Any, parts: Sequence[Expr]) -> Expr:
    """The same operation on other values."""
    if isinstance(x, ex.Sum):
        return ex.Sum(zip(what, parts, strict=True), x.units if x.relabelled else None)
    operation: Callable[..., Expr] = type(x)
    return operation(*parts) if what is None else operation(what, *parts)


def substituted(roots: Iterable[Expr], became: Mapping[Expr, Expr]) -> list[Expr]:
    """Expressions made again wherever some part of them has become another."""
    known, loops = dict(became), dict[ex.Loop, ex.Loop]()

    def one(x: Expr) -> Expr:
        if isinstance(x, ex.LoopResult):
            if x.loop not in loops:
                loops[x.loop] = inside(x.loop)
            return x if loops[x.loop] is x.loop else ex.LoopResult(loops[x.loop], x.index)
        what, parts = opened(x)
        new = [known[part] for part in parts]
        return x if new == list(parts) else again(x, what, new)

    def inside(loop: ex.Loop) -> ex.Loop:
        init, step = fill(loop.init), fill(loop.step)
        if (init, step) == (list(loop.init), list(loop.step)):
            return loop
        return ex.Loop(loop.carried, tuple(init), tuple(step), loop.times)

    def fill(roots: Iterable[Expr]) -> list[Expr]:
        roots = list(roots)
        for x in ex.ordered(roots, stop=known):
            known[x] = one(x)
        return [known[x] for x in roots]

    return fill(roots)
