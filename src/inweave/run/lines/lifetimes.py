"""Which arrays the lines of a loop may share: those whose values nothing reads any more.

A step that writes every line into an array of its own goes through more memory than a cache holds.
What a line made is known by its number, what the loop carries by -1, -2, ...; a view of an array,
or what is collected of several, counts as the arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from inweave.run.lines.code import Line, Lines, Repeat

VIEWS = ("getitem", "flip", "diagonal", "pick", "one", "more")  # what they make reads, not they
UNARY = ("flip", "diagonal", "one")  # both operands are the same
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
    operands: list[tuple[int | None, ...]] = []
    for i, line in enumerate(loop.body):
        assert isinstance(line, Line)
        held = holds.get(line.a, set()) | holds.get(line.b, set())
        operands.append((made.get(line.a), made.get(line.b)))
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
    reads = [first for first, _ in operands]
    return Lifetimes(until, apart, _updated(loop, until, operands), reads)


def _updated(
    loop: Repeat, until: dict[int, int], operands: list[tuple[int | None, ...]]
) -> dict[int, int]:
    found: dict[int, int] = {}
    for k, after in enumerate(loop.nexts):
        if loop.last[after] >= 0 and loop.nexts.count(after) == 1:
            found |= dict.fromkeys(_chain(loop, until, operands, loop.last[after], -1 - k), k)
    return found


def _chain(
    loop: Repeat,
    until: dict[int, int],
    operands: list[tuple[int | None, ...]],
    last: int,
    start: int,
) -> list[int]:
    """Lines up to the last, each the last to read what the one before made, entry by entry.

    The first is the last to read what is carried, so that all of them may write there; none if
    there is no such way back.
    """
    line = loop.body[last]
    if not isinstance(line, Line) or line.op not in ENTRY_BY_ENTRY:
        return []
    for made in operands[last]:
        if made is None or until[made] != last:
            continue
        before = [last] if made == start else []
        if made >= 0 and (chain := _chain(loop, until, operands, made, start)):
            before = [*chain, last]
        if before:
            return before
    return []


def reader(lines: Lines, i: int, kept: set[int]) -> int | None:
    """The one line that reads what a line leaves in its slot; None if others do, or a loop may."""
    slot, found = lines[i].out, list[int]()  # type: ignore[union-attr]
    for j, line in enumerate(lines[i + 1 :], i + 1):
        if not isinstance(line, Line):
            return None
        found += [j] * ((line.a == slot) + (line.b == slot and line.op not in UNARY))
        if line.out == slot:
            return found[0] if len(found) == 1 else None
    return found[0] if len(found) == 1 and slot not in kept else None
