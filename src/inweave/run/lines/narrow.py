"""Columns that a loop is done with: elimination leaves them behind, one in every step.

A step of elimination where a matrix stands takes its row and its column number i, and subtracts a
column times a row from the whole. If after the loop only what stands right of the pivots is read,
then what happens left of them in a step, nobody sees: those entries of the matrix are read by
nothing but the same columns of later steps. So the product needs to be as wide as the rest only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from inweave.run.lines.code import Line, Lines, Repeat


class Narrow(NamedTuple):
    """The line that multiplies a column by a row, and the one that updates the matrix by it."""

    product: int
    update: int


def with_unread(
    lines: Lines, outputs: Iterable[int], fixed: Mapping[int, tuple[str, Any]]
) -> Lines:
    """The same lines, loops with the columns of what they carry that nothing reads afterwards."""
    ends = set(outputs)
    return [
        replace(line, unread=tuple(_unread(lines[i + 1 :], phi, ends, fixed) for phi in line.phis))
        if isinstance(line, Repeat)
        else line
        for i, line in enumerate(lines)
    ]


def _unread(
    lines: Lines, slot: int, outputs: set[int], fixed: Mapping[int, tuple[str, Any]]
) -> int:
    """Columns on the left of what stands in a slot that none of these lines reads."""
    found: list[int] = []
    for line in lines:
        if isinstance(line, Repeat):
            if slot in line.reads:
                return 0
            if slot in line.fills:
                return min(found, default=0)
            continue
        if slot in (line.a, line.b):
            if line.op != "getitem" or line.a != slot:
                return 0
            found.append(fixed[line.b][1][2])
        if line.out == slot:
            return min(found, default=0)
    return 0 if slot in outputs else min(found, default=0)


# What stands in a slot: the matrix, its transpose, the row of this step or what is made of it by
# columns, that transposed, the product, the matrix after the step.
WHOLE, TURNED, ROW, COLUMN, PRODUCT, UPDATED = range(6)
FLIPPED = {WHOLE: TURNED, TURNED: WHOLE, ROW: COLUMN, COLUMN: ROW}
PICKED = {WHOLE: ROW, TURNED: None, COLUMN: None}


def narrow(loop: Repeat) -> Narrow | None:
    """The lines of a loop that need no more than the columns right of its step; None if others do.

    Of the matrix, a step may read its own row and column; of that row, the entry of its own column,
    and what is made of it column by column, to become the row of the product.
    """
    if len(loop.phis) != 1 or not loop.unread or loop.unread[0] < loop.times or loop.stacks:
        return None
    forward = {counter.slot for counter in loop.counters if counter[1:] == (False, 1)}
    kinds: dict[int, int | None] = {loop.phis[0]: WHOLE}
    product = update = -1
    for i, line in enumerate(loop.body):
        assert isinstance(line, Line)
        a, b = kinds.get(line.a), kinds.get(line.b)
        found = None
        if line.op == "flip" and a in FLIPPED:
            found = FLIPPED[a]
        elif line.op == "pick" and a in PICKED and line.b in forward:
            found = PICKED[a]
        elif line.op in ("add", "sub", "mul", "div") and line.rows == 1 and {a, b} == {ROW, None}:
            found = ROW
        elif line.op == "mul" and (a, b) == (None, ROW):
            found, product = PRODUCT, i
        elif line.op in ("add", "sub") and (a, b) == (WHOLE, PRODUCT):
            found, update = UPDATED, i
        elif a is not None or b is not None:
            return None
        kinds[line.out] = found
    return Narrow(product, update) if kinds.get(loop.nexts[0]) == UPDATED else None
