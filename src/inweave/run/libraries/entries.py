"""Loops over matrices of a few entries, written out entry by entry.

A Kalman filter of two states, an oscillator, descent in three weights: numpy takes as long for a
product of two by two as for one of twenty by twenty, and Python's floats a third of that. So a loop
in which all is small becomes one of numbers, each entry a carried value or a line of its own, and
is written as those are (`numbers`); at its end, entries are put together again.

A product adds up in the order of its columns. numpy may take another one, or round once where this
rounds twice, so answers agree up to rounding, and not to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from inweave.run.libraries.numbers import Numbers
from inweave.run.libraries.parted import APPLIED, SIGNS, is_double
from inweave.run.lines.code import Line, Lines, Repeat, Stack

MOST = 25  # entries of a matrix
FIXED = 128  # entries of one that no step changes
GAIN = 20  # lines over numbers that take as long as one of numpy's


class Entries(NamedTuple):
    """A matrix: its shape, and the slots of its entries, row by row; or several, side by side."""

    rows: int
    cols: int
    slots: list[int]
    parts: tuple[Entries, ...] = ()

    def at(self, i: int, j: int) -> int:
        """The slot of an entry; of one row, or column, it is the same in all."""
        return self.slots[min(i, self.rows - 1) * self.cols + min(j, self.cols - 1)]

    def chosen(self, order: Any) -> Entries:
        """Some of the entries, in another order."""
        rows, cols = order.shape
        return Entries(rows, cols, [self.slots[k] for k in order.ravel()])

    @property
    def order(self) -> Any:
        return np.arange(self.rows * self.cols).reshape(self.rows, self.cols)


class Large(Exception):
    """Not all of a loop is small, or known to Python."""


def small(loop: Repeat, slots: Sequence[Any]) -> Small | None:
    """What writes a loop without loops inside over entries; None where that gains nothing."""
    try:
        return Small(_Split(loop, slots))
    except Large:
        return None


class _Split:
    """Goes through a loop once, and makes lines for entries; all slots are behind the others."""

    def __init__(self, loop: Repeat, slots: Sequence[Any]) -> None:
        self.loop, self.slots = loop, [*slots]
        self.origin: dict[int, str] = {}  # how an entry of what is there before the loop is read
        self.known: dict[int, Entries] = {}
        self.body: Lines = []
        inits = [self.of(slot) for slot in loop.inits]
        self.phis = [self.fresh(x.rows, x.cols) for x in inits]
        self.known |= dict(zip(loop.phis, self.phis, strict=True))
        for line in loop.body:
            assert isinstance(line, Line)
            self.known[line.out] = self.made(line)
        nexts = [self.of(slot) for slot in loop.nexts]
        if [x[:2] for x in nexts] != [x[:2] for x in self.phis]:
            raise Large
        computed = sum(line.op in (*SIGNS, *APPLIED) for line in loop.body)  # type: ignore[union-attr]
        if len(self.body) > GAIN * computed:
            raise Large
        self.left = [self.of(stack.slot) for stack in loop.stacks]
        stacks = [
            Stack(slot, slot, False, stack.backward, 1)
            for stack, x in zip(loop.stacks, self.left, strict=True)
            for slot in x.slots
        ]
        phis, starts, ends = (
            tuple(slot for x in every for slot in x.slots) for every in (self.phis, inits, nexts)
        )
        self.numbers = replace(
            loop, body=self.body, phis=phis, inits=starts, nexts=ends, stacks=tuple(stacks)
        )

    def of(self, slot: int) -> Entries:
        if slot not in self.known:
            self.known[slot] = self._given(slot)
        return self.known[slot]

    def _given(self, slot: int) -> Entries:
        x = self.slots[slot]
        if isinstance(x, (int, float)):
            return Entries(1, 1, [slot])
        shape: tuple[int, ...] = getattr(x, "shape", ())
        most = MOST if slot in self.loop.inits else FIXED
        if len(shape) != 2 or x.size > most or not is_double(x, *shape):
            raise Large
        rows, cols = shape
        found = self.fresh(rows, cols, most)
        for k, entry in enumerate(found.slots):
            self.origin[entry] = f"slots[{slot}].item({k})"
        return found

    def fresh(self, rows: int, cols: int, most: int = MOST) -> Entries:
        """New slots, in which single numbers are to stand."""
        if rows * cols > most:
            raise Large
        return Entries(rows, cols, [self.put(np.empty((1, 1))) for _ in range(rows * cols)])

    def put(self, x: Any) -> int:
        self.slots.append(x)
        return len(self.slots) - 1

    def line(self, op: str, a: int, b: int) -> int:
        found = self.put(np.empty((1, 1)))
        self.body.append(Line(op, a, b, found, 1, 1))
        return found

    def made(self, line: Line) -> Entries:
        """What a line makes."""
        if line.op == "pick":
            return self._picked(line)
        a = self.of(line.a)
        if line.op in APPLIED:
            if getattr(self.slots[line.b], "formula", None) is None:
                raise Large
            return a._replace(slots=[self.line(line.op, x, line.b) for x in a.slots])
        if line.op == "one":
            return a._replace(parts=(a,))
        if line.op == "more":
            return a._replace(parts=(*a.parts, self.of(line.b)))
        if line.op in ("flip", "getitem", "diagonal", "concat"):
            found = self._moved(line, a)
        elif line.op == "matmul":
            found = self._multiplied(a, self.of(line.b))
        elif line.op in SIGNS:
            b = self.of(line.b)
            places = [(i, j) for i in range(line.rows) for j in range(line.cols)]
            entries = [self.line(line.op, a.at(*at), b.at(*at)) for at in places]
            found = Entries(line.rows, line.cols, entries)
        else:
            raise Large
        if (found.rows, found.cols) != (line.rows, line.cols):
            raise Large
        return found

    def _picked(self, line: Line) -> Entries:
        """A row of what no step changes."""
        if line.a in self.known or line.rows != 1 or line.cols > MOST:
            raise Large
        if not is_double(self.slots[line.a], self.loop.times, line.cols):
            raise Large
        row = self.put(np.empty((1, line.cols)))
        self.body.append(line._replace(out=row))
        if line.cols == 1:
            return Entries(1, 1, [row])
        places = [(..., slice(0, 1), slice(k, k + 1)) for k in range(line.cols)]
        return Entries(1, line.cols, [self.line("getitem", row, self.put(at)) for at in places])

    def _moved(self, line: Line, a: Entries) -> Entries:
        """The same entries in other places."""
        if line.op == "flip":
            return a.chosen(a.order.T)
        if line.op == "getitem":
            return a.chosen(a.order[self.slots[line.b]])
        if line.op == "diagonal":
            return a.chosen(np.diagonal(a.order)[:, None])
        ends = np.cumsum([0, *(len(part.slots) for part in a.parts)])
        orders = [part.order + end for part, end in zip(a.parts, ends, strict=False)]
        slots = [slot for part in a.parts for slot in part.slots]
        return Entries(0, 0, slots).chosen(np.concatenate(orders, self.slots[line.b]))

    def _multiplied(self, a: Entries, b: Entries) -> Entries:
        if a.cols != b.rows:
            raise Large
        found = []
        for i in range(a.rows):
            for j in range(b.cols):
                total, *rest = (self.line("mul", a.at(i, k), b.at(k, j)) for k in range(a.cols))
                for term in rest:
                    total = self.line("add", total, term)
                found.append(total)
        return Entries(a.rows, b.cols, found)


class Small(Numbers):
    """Writes the lines for entries, and puts together what is left."""

    def __init__(self, split: _Split) -> None:
        self.split = split
        super().__init__(split.numbers, split.numbers.reads, split.slots)

    def given_as(self, slot: int, x: Any) -> str:
        return self.split.origin.get(slot) or super().given_as(slot, x)

    def put_away(self, name: str, stack: Stack) -> None:
        """Nothing: it is one entry of many."""

    def results(self) -> Iterator[str]:
        names = iter([phi.name for phi in self.phis])
        for slot, x in zip(self.split.loop.phis, self.split.phis, strict=True):
            entries = ", ".join(next(names) for _ in x.slots)
            yield f"slots[{slot}] = array([{entries}]).reshape({x.rows}, {x.cols})"
        entry = 0
        for stack, x in zip(self.split.loop.stacks, self.split.left, strict=True):
            lists = ", ".join(f"left{entry + k}" for k in range(len(x.slots)))
            entry += len(x.slots)
            order = "[:, ::-1]" if stack.backward else ""
            rows = f"array([{lists}]){order}.T.reshape(-1, {x.cols})"
            yield f"slots[{stack.out}] = {rows}{'.T' if stack.flip else ''}"
