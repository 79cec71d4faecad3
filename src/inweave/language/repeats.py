"""Python loops found again in what a program recorded.

`for _ in range(40): x = A @ x + x` leaves forty copies of its body. Copies that follow one another
at a fixed distance, each reading what its predecessors made or what all of them read, are the loop
that `inweave.iterate` would have recorded. If each of them moreover takes the next row of something
(`X[i]`), they are what `inweave.scan` would have recorded: a selector takes the row, is carried and
moved on. Long ones are recorded as the loops they are, which takes less of everything; whether to
do so with others is for the compiler to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inweave.exact.constants import Shift, product, select
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.selector import Selector

LONGEST = 64  # a body of more operations than this is not looked for
PARTS = 8  # nor one with an operation that reads more values than this

Run = tuple[int, int, int]  # operations [start, stop) equal those `length` before them
Place = tuple[int, int]  # (operation of the body, how many copies ago it was made)


MANY = 1000  # operations in the copies of a body that are recorded as a loop
ROWS = 4  # copies that take one row each and are recorded as a loop


def rolled(outputs: Sequence[Expr], operations: Sequence[Expr]) -> list[Expr]:
    """What was recorded, with very many copies of a body, and loops over rows, as loops."""
    picks = sum(Pick.of(x) is not None for x in operations)
    if picks < ROWS and len(operations) < MANY:
        return list(outputs)
    became: dict[Expr, Expr] = {}
    for found in repeats(operations):
        if _is_long(found, outputs, operations) and _unrolled(found) == found.ends:
            became.update(zip(found.ends, substituted(found.results, became), strict=True))
    return substituted(outputs, became)


def _is_long(found: Repeat, outputs: Sequence[Expr], operations: Sequence[Expr]) -> bool:
    """Whether copies are so many that they are a loop, and nothing reads one in the middle.

    A loop that only adds, or only multiplies, is written out: a sum is one layer, and of a product
    the layers are as few as the logarithm of its length.
    """
    few = found.loop.times < ROWS if found.over_rows else len(found.inside) < MANY
    if few or _does_only(found, ex.Sum) or _does_only(found, ex.Product, ex.Scaled):
        return False
    outside = (x for x in operations if x not in found.inside and x not in found.ends)
    read = {part for x in outside for part in x.parts}
    return found.inside.isdisjoint(read) and found.inside.isdisjoint(outputs)


def _does_only(found: Repeat, *operations: type[Expr]) -> bool:
    """Whether a step does nothing else with what it carries than these, and transpose."""
    moving = set[Expr](found.loop.carried[: len(found.ends)])
    for x in found.loop.body:
        if moving.intersection(x.parts):
            moving.add(x)
            if not isinstance(x, (*operations, ex.Transposed)):
                return False
    return True


def _unrolled(found: Repeat) -> list[Expr]:
    """What a loop comes to, written down step by step: the very expressions that were recorded.

    Values are interned, so this is a proof that the loop is what the program did.
    """
    loop, state = found.loop, list(found.loop.init)
    for _ in range(loop.times):
        known = dict(zip(loop.carried, state, strict=True)) | {x: x for x in loop.outer}
        for x in loop.body:
            what, parts = opened(x)
            known[x] = _folded(again(x, what, [known[part] for part in parts]))
        state = [known[x] for x in loop.step]
    return state[: len(found.ends)]


def _folded(x: Expr) -> Expr:
    """An operation on constants that a selector takes part in, carried out."""
    match x:
        case ex.Transposed(x=ex.ConstantExpr() as k):
            return ex.ConstantExpr(k.constant.T)
        case ex.Product(a=ex.ConstantExpr() as a, b=ex.ConstantExpr() as b):
            return ex.ConstantExpr(product(a.constant, b.constant)[1])
    return x


class Pick(NamedTuple):
    """A product with a unit vector: a row or a column of so many is taken."""

    row: bool
    total: int
    at: int

    @classmethod
    def of(cls, x: Expr) -> tuple[Pick, Expr] | None:
        """What a product takes, and of which value."""
        if not isinstance(x, ex.Product):
            return None
        for row, unit, other in ((True, x.a, x.b), (False, x.b, x.a)):
            piece = unit.constant if isinstance(unit, ex.ConstantExpr) else None
            if (
                isinstance(piece, Shift)
                and piece.size == 1
                and (piece.rows, piece.cols)[not row] == 1
            ):
                return cls(row, max(piece.shape), piece.col if row else piece.row), other
        return None


class Repeat(NamedTuple):
    """A loop that was found, and the expressions that its results stand for."""

    loop: ex.Loop
    ends: list[Expr]
    over_rows: bool
    inside: set[Expr]  # what its copies made, but for the ends

    @property
    def results(self) -> list[Expr]:
        return [ex.LoopResult(self.loop, i) for i in range(len(self.ends))]


def repeats(operations: Sequence[Expr]) -> Iterator[Repeat]:
    """Loops in what was recorded, first ones first."""
    trace = Trace(operations)
    for run in trace.runs():
        found = trace.loop(*run)
        if found is not None:
            yield found


class Trace:
    """Operations in the order in which they were recorded, as numbers that can be compared.

    `reads[i]` is what operation i reads: numbers of earlier operations, negative ones for what is
    no operation (inputs, constants and results of loops). `picks[i]` says which row it takes.
    """

    def __init__(self, recorded: Iterable[Expr]) -> None:
        self.operations: list[Expr] = []
        self.reads: list[list[int]] = []
        self.kinds: list[Any] = []  # what an operation does
        self.others: dict[int, Expr] = {}
        self.picks: dict[int, Pick] = {}
        numbers: dict[Expr, int] = {}
        places: dict[Any, int] = {}
        for x in recorded:
            if isinstance(x, (ex.InputExpr, ex.ConstantExpr, ex.LoopResult)):
                same = x.constant if isinstance(x, ex.ConstantExpr) else x
                numbers[x] = places.setdefault(same, -1 - len(places))
                self.others.setdefault(numbers[x], x)
                continue
            what, parts = opened(x)
            pick = Pick.of(x)
            if pick is not None:
                self.picks[len(self.operations)] = pick[0]
                what, parts = pick[0]._replace(at=0), [pick[1]]
            numbers[x] = len(self.operations)
            self.operations.append(x)
            self.reads.append([numbers[part] for part in parts])
            self.kinds.append((type(x), x.shape, what) if len(parts) <= PARTS else x)

    def expression(self, number: int) -> Expr:
        return self.operations[number] if number >= 0 else self.others[number]

    def runs(self) -> list[Run]:
        """Copies of a body, at least three of them; where runs overlap, the longest."""
        size, seen = len(self.operations), {}  # type: int, dict[Any, int]
        kinds = np.array([seen.setdefault(kind, len(seen)) for kind in self.kinds])
        reads = np.full((size, PARTS), -1 - len(self.others))
        for i, parts in enumerate(self.reads):
            reads[i, : len(parts)] = parts[:PARTS]
        rows = np.zeros(size, dtype=int)
        rows[list(self.picks)] = [pick.at for pick in self.picks.values()]
        found: list[Run] = []
        for length in range(1, min(LONGEST, size // 3) + 1):
            now, before = reads[length:], reads[:-length]
            moving = (before >= 0) & (now == before + length)
            further = rows[length:] - rows[:-length]
            equal = (kinds[length:] == kinds[:-length]) & (moving | (now == before)).all(axis=1)
            equal &= abs(further) <= 1
            edges = np.flatnonzero(np.diff(equal, prepend=False, append=False)).reshape(-1, 2)
            motion = np.column_stack([moving, further])
            for start, stop in edges[edges[:, 1] - edges[:, 0] >= 2 * length].tolist():
                # What an operation reads stays or moves with it, not first one, then the other.
                moves = motion[start:stop]
                turns = np.flatnonzero((moves[length:] != moves[:-length]).any(axis=1))
                start = start + turns[-1] + 1 if turns.size else start
                if stop - start >= 2 * length:
                    found.append((int(start) + length, stop + length, length))
        kept: list[Run] = []
        for run in sorted(found, key=lambda run: (run[0] - run[1], run[2])):
            if all(run[0] >= other[1] or run[1] <= other[0] for other in kept):
                kept.append(run)
        return sorted(kept)

    def loop(self, start: int, stop: int, length: int) -> Repeat | None:
        """The loop of a run, begun where it carries least; None if no copy reads an earlier one."""
        begun = range(start, min(start + length, stop - 2 * length + 1))
        start = min(begun, key=lambda i: (len(self._places(i, length)), (stop - i) % length))
        places = self._places(start, length)
        if not places:
            return None
        body = [self._read(i, start, length) for i in range(start, start + length)]
        first, times = start - length, (stop - start) // length + 1
        init = {(j, lag): first - lag * length + j for j, lag in places}
        while (earlier := self._before(first - length, start, length, body, init)) is not None:
            init, first, times = earlier, first - length, times + 1
        carried = {place: ex.Carried(f"x{n or ''}", self.operations[start + place[0]])
                   for n, place in enumerate(places)}  # fmt: skip
        selectors: dict[Selector, ex.Carried] = {}
        step: list[Expr] = []
        for i, reads in enumerate(body):
            parts = [
                carried[r] if isinstance(r, tuple) else
                step[r - start] if r >= start else self.expression(r) for r in reads
            ]  # fmt: skip
            if start + i in self.picks:
                unit = self._unit(start + i, first + i, length, selectors)
                step.append(_picked(self.picks[start + i], unit, parts[0]))
            else:
                step.append(again(self.operations[start + i], self.kinds[start + i][2], parts))
        loop = ex.Loop(
            (*carried.values(), *selectors.values()),
            (*(self.expression(init[place]) for place in places), *(s.first() for s in selectors)),
            (*(step[j] if lag == 1 else carried[j, lag - 1] for j, lag in places),
             *(ex.Product(s.shift(), symbol) for s, symbol in selectors.items())),
            times,
        )  # fmt: skip
        end = first + times * length
        ends = [self.operations[end - lag * length + j] for j, lag in places]
        inner = set(loop.body)
        changing = [i for i in range(length) if step[i] in inner]
        copies = range(first, end, length)
        inside = {self.operations[copy + i] for copy in copies for i in changing}
        return Repeat(loop, ends, bool(selectors), inside.difference(ends))

    def _unit(self, i: int, first: int, length: int, selectors: dict[Selector, ex.Carried]) -> Expr:
        """The unit vector by which an operation takes its row: a constant, or one that moves on."""
        pick, before = self.picks[i], self.picks[i - length]
        if pick.at == before.at:
            return ex.ConstantExpr(select(pick.total, pick.at, pick.at + 1))
        backward = pick.at < before.at
        found = Selector(pick.total, self.picks[first].at, backward)
        if found not in selectors:
            selectors[found] = ex.Carried(f"row{len(selectors) or ''}", found.first())
        return selectors[found]

    def _places(self, start: int, length: int) -> list[Place]:
        """What the copy at `start` reads of those before it, and what stands between."""
        reads = [self._read(i, start, length) for i in range(start, start + length)]
        direct = {read for parts in reads for read in parts if isinstance(read, tuple)}
        return sorted({(j, k) for j, lag in direct for k in range(1, lag + 1)})

    def _read(self, i: int, start: int, length: int) -> list[int | Place]:
        """What an operation of the copy at `start` reads, with places in the copies before it."""
        out: list[int | Place] = []
        for now, before in zip(self.reads[i], self.reads[i - length], strict=True):
            lag, j = divmod(now - start, length)
            out.append(now if now == before or now >= start else (j, -lag))
        return out

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
            if first < 0 or self.kinds[first + i] != self.kinds[start + i]:
                return None
            if start + i in self.picks:
                here, later, last = (self.picks[n + i].at for n in (first, first + length, start))
                further = last - self.picks[start - length + i].at
                if later - here != further:
                    return None
            for read, found in zip(reads, self.reads[first + i], strict=True):
                if isinstance(read, tuple):
                    read = out.setdefault(read, found)
                elif read >= start:
                    read += first - start
                if read != found:
                    return None
        after = {(j, k): out.get((j, k - 1)) if k > 1 else first + j for j, k in init}
        return out if after == init and out.keys() == init.keys() else None


def opened(x: Expr) -> tuple[Any, Sequence[Expr]]:
    """What an operation does, and what it reads."""
    if isinstance(x, ex.Sum):
        return tuple(c for c, _ in x.terms), x.parts
    return getattr(x, "function", None), x.parts


def _picked(pick: Pick, unit: Expr, x: Expr) -> Expr:
    if not pick.row:
        return ex.Product(x, unit)
    if isinstance(unit, ex.ConstantExpr):
        return ex.Product(ex.ConstantExpr(unit.constant.T), x)
    return ex.Product(ex.Transposed(unit), x)


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
        for x in ex.ordered(roots):
            if x not in known:
                known[x] = one(x)
        return [known[x] for x in roots]

    return fill(roots)
