"""Python loops found again in what a program recorded.

`for _ in range(40): x = A @ x + x` leaves forty copies of its body. Copies that follow one another
at a fixed distance, each reading what its predecessors made or what all of them read, are the loop
that `inweave.iterate` would have recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced

LONGEST = 64  # a body of more operations than this is not looked for
PARTS = 8  # nor one with an operation that reads more values than this

Run = tuple[int, int, int]  # operations [start, stop) equal those `length` before them
Place = tuple[int, int]  # (operation of the body, how many copies ago it was made)
Repeat = tuple[ex.Loop, list[Expr]]  # with the expressions that its results stand for


def repeats(traced: Traced) -> Iterator[Repeat]:
    """Loops in what was recorded, first ones first."""
    trace = Trace(traced.operations)
    for run in trace.runs():
        found = trace.loop(*run)
        if found is not None:
            yield found


class Trace:
    """Operations in the order in which they were recorded, as numbers that can be compared.

    `reads[i]` is what operation i reads: numbers of earlier operations, negative ones for what is
    no operation (inputs, constants and results of loops).
    """

    def __init__(self, recorded: Iterable[Expr]) -> None:
        self.operations: list[Expr] = []
        self.reads: list[list[int]] = []
        self.kinds: list[Any] = []  # what an operation does
        self.others: dict[int, Expr] = {}
        numbers: dict[Expr, int] = {}
        sums: dict[Any, list[ex.Sum]] = {}
        places: dict[Any, int] = {}
        for x in recorded:
            if isinstance(x, (ex.InputExpr, ex.ConstantExpr, ex.LoopResult)):
                same = x.constant if isinstance(x, ex.ConstantExpr) else x
                numbers[x] = places.setdefault(same, -1 - len(places))
                self.others.setdefault(numbers[x], x)
                continue
            what, parts = opened(x, sums)
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
        found: list[Run] = []
        for length in range(1, min(LONGEST, size // 3) + 1):
            now, before = reads[length:], reads[:-length]
            moving = (before >= 0) & (now == before + length)
            equal = (kinds[length:] == kinds[:-length]) & (moving | (now == before)).all(axis=1)
            edges = np.flatnonzero(np.diff(equal, prepend=False, append=False))
            for start, stop in edges.reshape(-1, 2).tolist():
                # What an operation reads stays or moves with it, not first one, then the other.
                moves = moving[start:stop]
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
        while (earlier := self._before(first - length, start, body, init)) is not None:
            init, first, times = earlier, first - length, times + 1
        carried = {place: ex.Carried(f"x{n or ''}", self.operations[start + place[0]])
                   for n, place in enumerate(places)}  # fmt: skip
        step: list[Expr] = []
        for i, reads in enumerate(body):
            parts = [
                carried[r] if isinstance(r, tuple) else
                step[r - start] if r >= start else self.expression(r) for r in reads
            ]  # fmt: skip
            step.append(again(self.operations[start + i], self.kinds[start + i][2], parts))
        loop = ex.Loop(
            tuple(carried.values()),
            tuple(self.expression(init[place]) for place in places),
            tuple(step[j] if lag == 1 else carried[j, lag - 1] for j, lag in places),
            times,
        )
        end = first + times * length
        return loop, [self.operations[end - lag * length + j] for j, lag in places]

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
        self, first: int, start: int, body: Sequence[Sequence[int | Place]], init: dict[Place, int]
    ) -> dict[Place, int] | None:
        """Where a loop starts if the operations from `first` are a copy too, else None.

        The first copies read what stood before the loop, so they do not belong to the run.
        """
        out: dict[Place, int] = {}
        for i, reads in enumerate(body):
            if first < 0 or self.kinds[first + i] != self.kinds[start + i]:
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


def opened(x: Expr, sums: dict[Any, list[ex.Sum]]) -> tuple[Any, Sequence[Expr]]:
    """What an operation does and what it reads; a sum that was copied into a sum is read as one."""
    if not isinstance(x, ex.Sum):
        return getattr(x, "function", None), x.parts
    terms = list(x.terms)
    for end in (0, -1):
        recent = sums.setdefault((end, x.terms[end][1]), [])
        for inner in recent[:-5:-1]:
            size, (c, _) = len(inner.terms), inner.terms[end]
            if c == 0 or not 1 < size < len(terms):
                continue
            ratio = terms[end][0] / c
            piece = slice(0, size) if end == 0 else slice(len(terms) - size, len(terms))
            scaled = ((ratio * c, y) for c, y in inner.terms)
            if all(a == b for a, b in zip(terms[piece], scaled, strict=True)):
                terms[piece] = [(ratio, inner)]
                break
        if x not in recent[-4:]:
            recent.append(x)
    return tuple(c for c, _ in terms), [y for _, y in terms]


def again(x: Expr, what: Any, parts: Sequence[Expr]) -> Expr:
    """The same operation on other values."""
    if isinstance(x, ex.Sum):
        return ex.Sum(zip(what, parts, strict=True))
    operation: Callable[..., Expr] = type(x)
    return operation(*parts) if what is None else operation(what, *parts)
