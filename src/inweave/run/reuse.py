"""Straight lines for a batch in numpy, written into arrays that nothing reads any more.

Every operation on a batch makes an array as large as the batch, which comes from the system or has
left the caches since it was used last. Where a sum or a product entry by entry is the last to read
an array of its own size that the code itself has made, its result can take that array's place. What
is a view of an array, or may be one, counts as the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from inweave.run.code import Line, Lines

INTO: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
MAKES = ("matmul", "add", "sub", "mul", "concat")
LARGE = 256  # entries for each problem from which on it pays


def reused(lines: Lines, outputs: Iterable[int]) -> dict[int, int]:
    """Which lines may write into an operand, by number: 0 into the first, 1 into the second."""
    made: dict[int, int] = {}  # slots that hold an array which a line made, and nothing else
    holds: dict[int, frozenset[int]] = {}  # the lines whose arrays a slot may share
    last: dict[int, int] = {}  # where an array is read for the last time
    reads: list[tuple[int | None, int | None]] = []
    for i, line in enumerate(lines):
        slots = [line.a, line.b] if isinstance(line, Line) else line.reads
        held = frozenset[int]().union(*(holds.get(slot, frozenset()) for slot in slots))
        last |= dict.fromkeys(held, i)
        reads.append((made.get(slots[0]), made.get(slots[1])) if isinstance(line, Line) else
                     (None, None))  # fmt: skip
        outs = [line.out] if isinstance(line, Line) else [*line.phis, *(s.out for s in line.stacks)]
        for out in outs:
            made.pop(out, None)
            holds[out] = held
        if isinstance(line, Line) and line.op in MAKES:
            made[line.out], holds[line.out] = i, frozenset({i})
    for slot in outputs:
        last |= dict.fromkeys(holds.get(slot, ()), len(lines))
    return {
        i: side
        for i, line in enumerate(lines)
        if isinstance(line, Line) and line.op in INTO
        for side in [_side(lines, line, i, reads[i], last)]
        if side is not None
    }


def _side(
    lines: Lines, line: Line, i: int, reads: tuple[int | None, int | None], last: dict[int, int]
) -> int | None:
    for side, at in enumerate(reads):
        if at is not None and last[at] == i and lines[at][4:] == line[4:]:  # type: ignore[index]
            return side if line.rows * line.cols >= LARGE else None
    return None


def into(op: str, side: int) -> Callable[[Any, Any], Any]:
    """An operation that writes into one of its operands, if that has the result's batch axes."""
    apply = INTO[op]

    def run(a: Any, b: Any) -> Any:
        target, other = (b, a) if side else (a, b)
        shape = getattr(other, "shape", ())
        if len(shape) <= 2 or shape[:-2] == target.shape[:-2]:
            return apply(a, b, out=target)
        return apply(a, b)

    return run
