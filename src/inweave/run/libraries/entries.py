"""Loops over matrices of a few entries, written out entry by entry.

A Kalman filter of two states, an oscillator, descent in three weights: numpy takes as long for a
product of two by two as for one of twenty by twenty, and Python's floats a third of that. So a loop
in which all is small becomes one of numbers, each entry a carried value or a line of its own, and
is written as those are (`numbers`); at its end, entries are put together again. In a batch, entries
that problems have for themselves are arrays, which numpy goes through in a row: twelve calls for a
product of two by two, and for each of a thousand problems a fifth of what a call of BLAS takes.

Entries of constants stand in the lines as numbers: nothing is multiplied by zero or one. What is
computed twice is computed once, and what nobody reads, not at all.

A product adds up in the order of its columns. numpy may take another one, or round once where this
rounds twice, so answers agree up to rounding, and not to the bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from inweave.exact.constants import Array
from inweave.run.libraries.numbers import Numbers
from inweave.run.libraries.parted import APPLIED, SIGNS, gathered
from inweave.run.libraries.rows import numbers_together, together
from inweave.run.libraries.written import Entry, Shape, Written
from inweave.run.lines.code import Line, Lines, Repeat, Stack

MOST = 25  # entries of a matrix
FIXED = 128  # entries of one that no step changes, alone
FOLDED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
SAME = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}  # on the right, these change nothing


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


def split(loop: Repeat, slots: Sequence[Any], known: Sequence[Any]) -> Split | None:
    """A loop without loops inside over entries; None where a matrix is too large.

    Some slots are `known` before any call.
    """
    try:
        return Split(loop, slots, known)
    except Large:
        return None


class Split:
    """Goes through a loop once, and makes lines for entries; all slots are behind the others."""

    def __init__(self, loop: Repeat, slots: Sequence[Any], known: Sequence[Any]) -> None:
        self.loop, self.slots, self.constants = loop, [*slots], known
        self.end = len(slots)
        arrays = [slots[slot] for slot in loop.reads if hasattr(slots[slot], "shape")]
        self.batched = any(len(x.shape) > 2 for x in arrays)
        self.dtype = arrays[0].dtype if arrays else None
        self.known: dict[int, Entries] = {}
        self.columns: dict[int, list[int]] = {}  # of what is read row by row
        self.values: dict[float, int] = {}  # numbers, and where they stand
        self.arrays: dict[int, int] = {}  # the same numbers as arrays
        self.lines: dict[tuple[str, int, int], int] = {}  # and where each leaves what it makes
        inits = [self.of(slot) for slot in loop.inits]
        self.phis = [self.fresh(x.rows, x.cols) for x in inits]
        self.known |= dict(zip(loop.phis, self.phis, strict=True))
        for line in loop.body:
            assert isinstance(line, Line)
            self.known[line.out] = self.made(line)
        nexts = [self.of(slot) for slot in loop.nexts]
        rows = [self.of(stack.slot) for stack in loop.stacks]
        if [x[:2] for x in nexts] != [x[:2] for x in self.phis]:
            raise Large
        self.left = [self.fresh(x.rows, x.cols) for x in rows]
        stacks = [
            Stack(self.array(slot), out, False, stack.backward, 1)
            for stack, x, outs in zip(loop.stacks, rows, self.left, strict=True)
            for slot, out in zip(x.slots, outs.slots, strict=True)
        ]
        starts, ends = (
            tuple(self.array(slot) for x in every for slot in x.slots) for every in (inits, nexts)
        )
        phis = tuple(slot for x in self.phis for slot in x.slots)
        body: Lines = [Line(*line, out, 1, 1) for line, out in self.lines.items()]
        numbers = replace(
            loop, body=body, phis=phis, inits=starts, nexts=ends, stacks=tuple(stacks)
        )
        body = _read(gathered(numbers, self.slots), {*ends, *(stack.slot for stack in stacks)})
        self.numbers = replace(numbers, body=body)
        self.ends = frozenset((*phis, *(stack.out for stack in stacks)))

    @property
    def more(self) -> list[Any]:
        """What stands in the slots behind the others."""
        return self.slots[self.end :]

    @property
    def copied(self) -> int:
        """How many entries are read before the loop, and put together after it."""
        return len(self.ends) + sum(isinstance(x, Entry) for x in self.slots)

    def of(self, slot: int) -> Entries:
        if slot not in self.known:
            self.known[slot] = self._given(slot)
        return self.known[slot]

    def _given(self, slot: int) -> Entries:
        x = self.slots[slot]
        if isinstance(x, (int, float)):
            return Entries(1, 1, [self.number(x)])
        *lead, rows, cols = self.shape(x)
        if rows * cols > (MOST if self.batched or slot in self.loop.inits else FIXED):
            raise Large
        places = [(i, j) for i in range(rows) for j in range(cols)]
        if self.is_constant(slot):
            return Entries(rows, cols, [self.number(x.item(at)) for at in places])
        found = [Entry(slot, f"{i}, {j}", (*lead, 1, 1), x.dtype) for i, j in places]
        return Entries(rows, cols, [*map(self.put, found)])

    def is_constant(self, slot: int) -> bool:
        return slot < len(self.constants) and self.constants[slot] is not None

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of an array; Python's floats are those of double precision."""
        shape: tuple[int, ...] = getattr(x, "shape", ())
        if len(shape) < 2 or not (self.batched or x.dtype == np.float64):
            raise Large
        return shape

    def fresh(self, rows: int, cols: int) -> Entries:
        """New slots, in which single numbers are to stand."""
        if rows * cols > MOST:
            raise Large
        return Entries(rows, cols, [self.put(None) for _ in range(rows * cols)])

    def put(self, x: Any) -> int:
        self.slots.append(x)
        return len(self.slots) - 1

    def number(self, x: float) -> int:
        """The slot of a number."""
        return ~self.value(-x) if x < 0 else self.value(x)

    def value(self, x: float) -> int:
        """The slot where a number stands with its sign, one for all that are equal."""
        if x not in self.values:
            self.values[x] = self.put(float(x))
        return self.values[x]

    def is_number(self, slot: int) -> bool:
        return isinstance(self.slots[slot], float)

    def array(self, slot: int) -> int:
        """A slot with the same, which is no number of Python's: loops carry arrays."""
        if self.is_number(max(slot, ~slot)):
            if slot not in self.arrays:
                number = self.slots[slot] if slot >= 0 else -self.slots[~slot]
                self.arrays[slot] = self.put(np.full((1, 1), number, self.dtype))
            return self.arrays[slot]
        return slot if slot >= 0 else self.turned(~slot)

    def line(self, op: str, a: int, b: int) -> int:
        """The slot of what a line makes, which may be there already, perhaps with another sign.

        What stands in slot s, stands with the other sign in ~s.
        """
        if op in ("mul", "div"):
            found = self.plain(op, max(a, ~a), max(b, ~b))
            return found if (a < 0) is (b < 0) else ~found
        b = ~b if op == "sub" else b
        if (a < 0) is (b < 0):
            found = self.plain("add", max(a, ~a), max(b, ~b))
            return found if a >= 0 else ~found
        a, b = max(a, b), max(~a, ~b)
        return ~self.plain("sub", b, a) if ("sub", b, a) in self.lines else self.plain("sub", a, b)

    def turned(self, slot: int) -> int:
        """The slot of the same with the other sign."""
        made = {out: key for key, out in self.lines.items() if key[0] == "sub"}
        if slot not in made:
            return self.plain("mul", slot, self.value(-1.0))
        op, a, b = made[slot]
        return self.plain(op, b, a)

    def plain(self, op: str, a: int, b: int) -> int:
        """The same of what stands in slots as it is."""
        x, y = (self.slots[slot] if self.is_number(slot) else None for slot in (a, b))
        if op in FOLDED and x is not None and y is not None:
            return self.number(FOLDED[op](x, y))
        if op == "mul" and 0 in (x, y):
            return self.number(0.0)
        if y is not None and y == SAME.get(op):
            return a
        if op in ("add", "mul"):
            if x is not None and x == SAME[op]:
                return b
            a, b = sorted((a, b))
        if (op, a, b) not in self.lines:
            self.lines[op, a, b] = self.put(None)
        return self.lines[op, a, b]

    def made(self, line: Line) -> Entries:
        """What a line makes."""
        if line.op == "pick":
            return self._picked(line)
        a = self.of(line.a)
        if line.op in APPLIED:
            if not self.batched and getattr(self.slots[line.b], "formula", None) is None:
                raise Large
            return a._replace(slots=[self.plain(line.op, self.array(x), line.b) for x in a.slots])
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
        if (found.rows, found.cols) != (line.rows, line.cols) or len(found.slots) > MOST:
            raise Large
        return found

    def _picked(self, line: Line) -> Entries:
        """A row of what no step changes."""
        x = self.slots[line.a]
        if line.a in self.known or line.rows != 1 or line.cols > MOST:
            raise Large
        *lead, times, cols = self.shape(x)
        if (times, cols) != (self.loop.times, line.cols):
            raise Large
        if line.a not in self.columns:
            columns = [Entry(line.a, f"{k}", (*lead, times, 1), x.dtype) for k in range(cols)]
            self.columns[line.a] = [*map(self.put, columns)]
        picked = [self.plain("pick", column, line.b) for column in self.columns[line.a]]
        return Entries(1, cols, picked)

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


def _read(lines: Lines, read: set[int]) -> Lines:
    """The lines that make what is read, and those that look at it."""
    found: Lines = []
    for line in reversed(lines):
        assert isinstance(line, Line)
        if line.out in read or line.op in APPLIED:
            read |= {line.a, line.b}
            found.append(line)
    return found[::-1]


class InEntries:
    """A loop over the entries of matrices, put together again when it is through."""

    def __init__(self, split: Split, alone: Written, price: float) -> None:
        self.split, self.alone, self.price = split, alone, price

    @property
    def together(self) -> Callable[..., Array]:
        """What puts entries together: numbers, where all of them are."""
        return numbers_together if isinstance(self.alone, Numbers) else together

    def function(self) -> Callable[[list[Any], Shape], None]:
        run, loop, dtype = self.alone.function(), self.split.loop, self.split.dtype
        phis = [*zip(loop.phis, self.split.phis, strict=True)]
        stacks = [*zip(loop.stacks, self.split.left, strict=True)]
        more, put = self.split.more, self.together

        def whole(slots: list[Any], lead: Shape) -> None:
            end = len(slots)
            slots += more
            run(slots, lead)
            for slot, x in phis:
                slots[slot] = put([slots[k] for k in x.slots], x.rows, x.cols, dtype)
            for stack, x in stacks:
                rows = put([slots[k] for k in x.slots], x.rows, x.cols, dtype)
                slots[stack.out] = rows.mT if stack.flip else rows
            del slots[end:]

        return whole
