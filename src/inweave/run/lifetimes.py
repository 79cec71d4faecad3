"""Which arrays the lines of a loop may share: those whose values nothing reads any more.

A step that writes every line into an array of its own goes through more memory than a cache holds.
What a line made is known by its number, what the loop carries by -1, -2, ...; a view of an array,
or what is collected of several, counts as the arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from inweave.run.code import Line, Lines, Repeat

VIEWS = ("getitem", "flip", "diagonal", "pick", "one", "more")  # what they make reads, not they
ENTRY_BY_ENTRY = (
    "add",
    "sub",
    "mul",
    "div",
    "pointwise",
)  # which may write into an operand of their size


class Lifetimes(NamedTuple):
    """When the values of a step are read for the last time, and where some of them must stand."""

    until: dict[int, int]  # the last line that reads a value; beyond all lines: the next step
    apart: set[int]  # lines that need an array of their own
    updated: dict[int, int]  # lines that update what is carried in its place: which, from 0
    reads: list[int | None]  # what each line's first operand is, if that is no view


def lifetimes(loop: Repeat) -> Lifetimes:
    """The lifetimes of what the lines of a loop without loops inside make."""
    end = len(loop.body)
    made = {slot: -1 - k for k, slot in enumerate(loop.phis)}
    holds = {slot: {which} for slot, which in made.items()}
    until: dict[int, int] = {}
    apart = {loop.last[slot] for slot in loop.nexts}
    reads: list[int | None] = []
    for i, line in enumerate(loop.body):
        assert isinstance(line, Line)
        held = holds.get(line.a, set()) | holds.get(line.b, set())
        reads.append(made.get(line.a))
        if line.op in VIEWS:
            holds[line.out] = held
            made.pop(line.out, None)
            continue
        until |= dict.fromkeys((*held, i), i)
        holds[line.out], made[line.out] = {i}, i
        if line.op == "concat":  # whose parts are computed where they stand
            apart |= {i, *held}
    for slot in (*loop.nexts, *(stack.slot for stack in loop.stacks)):
        until |= dict.fromkeys(holds.get(slot, ()), end)
    return Lifetimes(until, apart, _updated(loop, until), reads)


def _updated(loop: Repeat, until: dict[int, int]) -> dict[int, int]:
    found = {}
    for k, (phi, after) in enumerate(zip(loop.phis, loop.nexts, strict=True)):
        i = loop.last[after]
        if i < 0 or loop.nexts.count(after) > 1 or until.get(-1 - k) != i:
            continue
        line = loop.body[i]
        assert isinstance(line, Line)
        if line.op in ENTRY_BY_ENTRY and phi in (line.a, line.b):
            found[i] = k
    return found


def reader(lines: Lines, i: int, kept: set[int]) -> int | None:
    """The one line that reads what a line leaves in its slot; None if others do, or a loop may."""
    slot, found = lines[i].out, list[int]()  # type: ignore[union-attr]
    for j, line in enumerate(lines[i + 1 :], i + 1):
        if not isinstance(line, Line):
            return None
        found += [j] * ((line.a == slot) + (line.b == slot))
        if line.out == slot:
            return found[0] if len(found) == 1 else None
    return found[0] if len(found) == 1 and slot not in kept else None
