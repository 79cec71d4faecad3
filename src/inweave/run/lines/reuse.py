"""Straight lines for a batch in numpy, written into arrays that nothing reads any more.

Every operation on a batch makes an array as large as the batch, which comes from the system or has
left the caches since it was used last. Where a sum, a product or a quotient entry by entry is the
last to read an array of its own size that the code itself has made, its result can take that
array's place; or that of some rows and columns of a larger one, where the rest is all that is still
read: elimination row by row stays where it is. What is a view of an array, or may be one, counts as
the array.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from inweave.run.lines.code import Line, Lines
from inweave.run.values.term import Box

INTO = ("add", "sub", "mul", "div")
MAKES = ("matmul", *INTO, "concat")
VIEWS = ("getitem", "flip", "one", "more")  # what they make reads, not they
LARGE = 32  # entries for each problem from which on it pays


class _Place(NamedTuple):
    """A box of the array that a line made."""

    made: int
    box: Box


Held = dict[int, Box]
"""Of arrays, by the lines that made them: the boxes that a slot may share."""


def reused(
    lines: Lines, outputs: Iterable[int], fixed: Mapping[int, tuple[str, Any]] | None = None
) -> dict[int, int]:
    """Which lines may write into an operand, by number: 0 into the first, 1 into the second.

    Indices are among what is `fixed`. What is written into a box of an array is an array of its
    own: nothing reads that box of the other one any more.
    """
    boxes = {slot: content for slot, (kind, content) in (fixed or {}).items() if kind == "index"}
    places: dict[int, _Place] = {}  # slots that hold just that, upright
    holds: dict[int, Held] = {}
    reads: dict[int, list[tuple[int, Box]]] = defaultdict(list)  # of an array, at which lines
    targets: dict[int, list[tuple[int, _Place]]] = {}
    for i, line in enumerate(lines):
        slots = [line.a, line.b] if isinstance(line, Line) else line.reads
        held = _joined(holds.get(slot, {}) for slot in slots)
        place = None
        if isinstance(line, Line) and line.op == "getitem" and line.a in places:
            place = _part(places[line.a], boxes.get(line.b))
            held = held if place is None else {place.made: place.box}
        elif not isinstance(line, Line) or line.op not in VIEWS:
            for made, box in held.items():
                reads[made].append((i, box))
        if isinstance(line, Line) and line.op in MAKES:
            place = _Place(i, Box(0, 0, line.rows, line.cols))
            held = {i: place.box}
        if isinstance(line, Line) and line.op in INTO and line.rows * line.cols >= LARGE:
            targets[i] = [
                (side, at)
                for side, (slot, other) in enumerate((slots, slots[::-1]))
                if (at := places.get(slot)) is not None
                if at == places.get(other) or not _meets(holds.get(other, {}), at)
            ]
        outs = [line.out] if isinstance(line, Line) else [*line.phis, *(s.out for s in line.stacks)]
        for out in outs:
            places.pop(out, None)
            holds[out] = held
            if place is not None:
                places[out] = place
    for made, box in _joined(holds.get(slot, {}) for slot in outputs).items():
        reads[made].append((len(lines), box))
    return {
        i: side
        for i, found in targets.items()
        for side in [_side(lines[i], i, found, reads)]
        if side is not None
    }


def _meets(held: Held, place: _Place) -> bool:
    """Whether a slot may share entries with a place: a transpose, say, would be changed."""
    return place.made in held and held[place.made].meets(place.box)


def _joined(each: Iterable[Held]) -> Held:
    found: Held = {}
    for held in each:
        for made, box in held.items():
            found[made] = found[made].join(box) if made in found else box
    return found


def _part(whole: _Place, index: tuple[int, int, int, int] | None) -> _Place | None:
    if index is None:
        return None
    (top, bottom, left, right), box = index, whole.box
    return _Place(
        whole.made, Box(box.top + top, box.left + left, box.top + bottom, box.left + right)
    )


def _side(
    line: Any,
    i: int,
    targets: Sequence[tuple[int, _Place]],
    reads: Mapping[int, list[tuple[int, Box]]],
) -> int | None:
    for side, (made, box) in targets:
        later = (at for j, at in reads[made] if j > i)
        if (box.rows, box.cols) == (line.rows, line.cols) and not any(map(box.meets, later)):
            return side
    return None


def into(apply: Callable[..., Any], side: int) -> Callable[[Any, Any], Any]:
    """An operation that writes into one of its operands, if that has the result's batch axes."""

    def run(a: Any, b: Any) -> Any:
        target, other = (b, a) if side else (a, b)
        shape = getattr(other, "shape", ())
        if len(shape) <= 2 or shape[:-2] == target.shape[:-2]:
            return apply(a, b, out=target)
        return apply(a, b)

    return run
