"""A loop in two: what is made of single numbers, before everything that waits for it.

A rate that decays, the variance of a filter, the weights of momentum: numbers that a loop carries
beside vectors, and that no vector changes. numpy takes as long for such a number as for a hundred,
so they have a loop of their own, over Python's floats (`numbers`), which leaves those that the rest
reads, step by step, and the rest reads them as rows. Numbers that every problem of a batch has for
itself stay where they are: they are vectors, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from inweave.run.lines.code import Counter, Line, Lines, Repeat, Stack

SIGNS = {"add": "+", "sub": "-", "mul": "*", "matmul": "*", "div": "/"}
SAME = ("flip", "getitem", "diagonal")  # of a number, the number
APPLIED = ("pointwise", "guard")
ROW, NUMBER, OTHER = "row", "number", "other"  # of a row, single numbers may be read


class Parted(NamedTuple):
    """A loop over numbers, the rest, and arrays like those that the one leaves for the other.

    These stand in slots behind all others.
    """

    numbers: Repeat
    rest: Repeat | None
    left: list[Any]


def parted(loop: Repeat, slots: Sequence[Any]) -> Parted | None:
    """The two parts of a loop without loops inside; None where there is nothing to gain."""
    kinds, carried = _kinds(loop, slots)
    stacks = [stack for stack in loop.stacks if kinds.at_end[stack.slot] is NUMBER]
    if len(carried) == len(loop.phis) and len(stacks) == len(loop.stacks):
        return None if OTHER in kinds.made else Parted(loop, None, [])
    return _parts(loop, len(slots), kinds, carried)


def gathered(loop: Repeat, slots: list[Any]) -> Lines:
    """The lines of a step with numbers that multiply one after the other multiplied by each other.

    Every slot is filled once; new ones stand behind all others. Of constants the range is known in
    which they multiply, and stays as it is.
    """
    kinds = _kinds(loop, slots)[0].at_end
    times: list[tuple[int, int] | None] = []  # of lines that multiply by a number: it, and what
    whole = {*loop.nexts, *(stack.slot for stack in loop.stacks)}  # what is not only multiplied
    for line in loop.body:
        assert isinstance(line, Line)
        a, b = (line.a, line.b) if kinds[line.a] is NUMBER else (line.b, line.a)
        known = line.op == "mul" and kinds[a] is NUMBER and kinds[b] is OTHER
        times.append((a, b) if known else None)
        whole |= set() if known else {line.a, line.b}
    products: dict[int, tuple[int, int]] = {}
    made: dict[tuple[int, int], int] = {}
    found: Lines = []
    for line, pair in zip(loop.body, times, strict=True):
        assert isinstance(line, Line)
        if pair is None:
            found.append(line)
            continue
        number, x = pair
        constants = [isinstance(slots[k], float) for k in (number, products.get(x, pair)[0])]
        if x in products and x not in whole and not all(constants):
            both, x = (number, products[x][0]), products[x][1]
            if both not in made:
                made[both] = len(slots)
                slots.append(None)
                found.append(Line("mul", *both, made[both], 1, 1))
            number = made[both]
        products[line.out] = number, x
        found.append(line._replace(a=number, b=x))
    return found


# -- which are numbers ----------------------------------------------------------------------------
class _Kinds(NamedTuple):
    """What the lines of a step make, and what stands in its slots afterwards."""

    made: list[str]
    at_end: _Slots


class _Slots(dict[int, str]):
    """What stands in slots: at first, what is known before the loop."""

    def __init__(self, slots: Sequence[Any], filled: dict[int, str]) -> None:
        super().__init__(filled)
        self.slots = slots

    def __missing__(self, slot: int) -> str:
        x = self.slots[slot]
        known = isinstance(x, (int, float)) or is_double(x, 1, 1)
        return NUMBER if known else OTHER


def _kinds(loop: Repeat, slots: Sequence[Any]) -> tuple[_Kinds, set[int]]:
    """What is a number, and which of the carried values are."""
    before = _Slots(slots, {})
    carried = {p for p, i in zip(loop.phis, loop.inits, strict=True) if before[i] is NUMBER}
    while True:
        known = _Slots(slots, {p: NUMBER if p in carried else OTHER for p in loop.phis})
        made = []
        for line in loop.body:
            assert isinstance(line, Line)
            known[line.out] = _kind(line, known, loop.times)
            made.append(known[line.out])
        pairs = zip(loop.phis, loop.nexts, strict=True)
        kept = {p for p, after in pairs if p in carried and known[after] is NUMBER}
        if kept == carried:
            return _Kinds(made, known), carried
        carried = kept


def _kind(line: Line, known: _Slots, times: int) -> str:
    """What a line makes, if Python can do that with floats."""
    slots, found = known.slots, NUMBER if line.rows == line.cols == 1 else ROW
    if line.op == "pick":
        whole = line.a not in known and is_double(slots[line.a], times, line.cols)
        return found if whole else OTHER
    if line.op == "getitem":
        read = known[line.a] in (NUMBER, ROW)
    elif line.op in APPLIED:
        read = known[line.a] is NUMBER and getattr(slots[line.b], "formula", None) is not None
    elif line.op in SAME:
        read = known[line.a] is NUMBER
    else:
        read = line.op in SIGNS and known[line.a] is known[line.b] is NUMBER
    return NUMBER if read and found is NUMBER else OTHER


def is_double(x: Any, *shape: int) -> bool:
    return getattr(x, "shape", None) == shape and x.dtype == np.float64


# -- the parts ------------------------------------------------------------------------------------
class _Rest:
    """The lines that stay, and what they read of the others once they come to it."""

    def __init__(self, loop: Repeat, end: int) -> None:
        self.lines: list[Line | Repeat] = []
        self.waiting: dict[int, int | Line] = {}  # slots of numbers: what they are in their loop
        self.left: dict[int, int] = {}  # and in which slots that leaves them
        self.end, self.counter = end, end + 2 * len(loop.body) + len(loop.phis)

    def read(self, *slots: int) -> None:
        for slot in slots:
            found = self.waiting.pop(slot, None)
            if isinstance(found, int):
                at = self.left.setdefault(found, self.end + len(self.left))
                found = Line("pick", at, self.counter, slot, 1, 1)
            self.lines += [] if found is None else [found]

    def keep(self, line: Line) -> None:
        self.read(line.a, line.b)
        self.waiting.pop(line.out, None)
        self.lines.append(line)


def _parts(loop: Repeat, end: int, kinds: _Kinds, carried: set[int]) -> Parted | None:
    """Slots are used again, so every number gets one of its own, behind those that are left."""
    alone, rest = list[Line | Repeat](), _Rest(loop, end)
    own = dict(zip(carried, carried, strict=True))
    rest.waiting.update(own)
    for i, line in enumerate(loop.body):
        assert isinstance(line, Line)
        if kinds.made[i] is OTHER:
            rest.keep(line)
            continue
        a, b = (own.get(slot, slot) for slot in (line.a, line.b))
        own[line.out] = end + len(loop.body) + len(loop.phis) + i
        alone.append(line._replace(a=a, b=b, out=own[line.out]))
        rest.waiting[line.out] = line if line.op == "pick" else own[line.out]
    those = [k for k, phi in enumerate(loop.phis) if phi in carried]
    others = [k for k, phi in enumerate(loop.phis) if phi not in carried]
    stacks = [s for s in loop.stacks if kinds.at_end[s.slot] is not NUMBER]
    rest.read(*(loop.nexts[k] for k in others), *(stack.slot for stack in stacks))
    computed = sum(line.op in (*SIGNS, *APPLIED) for line in alone if isinstance(line, Line))
    if computed <= len(rest.left) + 1:
        return None
    left = [Stack(slot, out, False, False, 1) for slot, out in rest.left.items()]
    left += [s._replace(slot=own.get(s.slot, s.slot)) for s in loop.stacks if s not in stacks]
    numbers = _some(loop, those, alone, left)
    numbers = replace(numbers, nexts=tuple(own.get(slot, slot) for slot in numbers.nexts))
    counters = (*loop.counters, Counter(rest.counter, False, 1))
    found = replace(_some(loop, others, rest.lines, stacks), counters=counters)
    return Parted(numbers, found, [np.empty((loop.times, 1))] * len(rest.left))


def _some(loop: Repeat, kept: list[int], body: Lines, stacks: list[Stack]) -> Repeat:
    """A loop with some of its carried values and lines."""
    phis, inits, nexts = (
        tuple(slots[k] for k in kept) for slots in (loop.phis, loop.inits, loop.nexts)
    )
    return replace(loop, body=body, phis=phis, inits=inits, nexts=nexts, stacks=tuple(stacks))
