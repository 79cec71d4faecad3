"""Inputs that need no look of their own: what is made of them shows whether they are finite.

What is not finite times anything, zero too, is not finite, nor is what it is added to. So where
every entry of an input takes part in an answer, which is looked at anyway, or in the argument of a
function that is refused outside its domain, no look is needed. And where a product is much smaller
than its factor, to look at the product instead saves a pass over the data, which is half of the
time where an algorithm reads its data once. A library that leaves out zeros would not show it; so
it is asked, with factors of the same kind.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from inweave.model.relunet import Function
from inweave.run.domains import limits
from inweave.run.lines.code import Code, Line
from inweave.run.values.newton import Refined

SMALLER = 4  # times that a product must be, to be looked at instead of a factor
LARGEST = 512  # rows and columns that a library is asked with
LIGHT = 1 << 18  # multiplications of such a question, beyond which a look at factors is cheaper

Shape = tuple[int, int]


class Shows(NamedTuple):
    """Slots of sources that are finite if what a line makes is, or what is looked at anyway."""

    by_lines: dict[int, set[int]]
    anyway: set[int]

    @property
    def all(self) -> set[int]:
        return self.anyway.union(*self.by_lines.values())


class _Carrier(NamedTuple):
    """A value that is not finite if any entry of some sources is not; perhaps a source itself.

    Or several values that are held together, one of which is not.
    """

    sources: frozenset[int]
    shape: Shape
    flipped: bool = False
    whole: int | None = None  # the source that it is, or the transpose of
    last: int = -1  # of several values together, the slot of the last one


def shown(code: Code, dtype: Any, checked: bool = True) -> Shows:
    """Which sources are shown to be finite, and by what; `checked` says that domains are."""
    by_lines: dict[int, set[int]] = {}
    anyway = set[int]()
    carriers = {s: _Carrier(frozenset([s]), shape, whole=s) for s, shape in code.shapes.items()}
    for i, line in enumerate(code.lines):
        if not isinstance(line, Line):
            for slot in line.fills:
                carriers.pop(slot, None)
            continue
        if line.op == "pointwise" and checked and _refuses(code.fixed.get(line.b), dtype):
            anyway |= getattr(carriers.get(line.a), "sources", frozenset())
        if line.op == "matmul" and (seen := _much_larger(code, carriers, line, dtype)):
            by_lines[i] = seen
        _without_ones(code, carriers, line)
        made = _carried(code, carriers, line, dtype)
        carriers.pop(line.out, None)
        if made is not None:
            carriers[line.out] = made
    for slot in code.outputs:
        if slot in carriers:
            anyway |= carriers[slot].sources
    taken = set(anyway)
    for i, seen in [*by_lines.items()]:  # one look at each will do
        by_lines[i] = seen - taken
        taken |= seen
    return Shows({i: seen for i, seen in by_lines.items() if seen}, anyway)


def _refuses(fixed: Any, dtype: Any) -> bool:
    """Whether what stands in a slot is a function that refuses what is not finite."""
    if fixed is None or fixed[0] != "function":
        return False
    function = fixed[1][0]
    if isinstance(function, Refined):
        function = None if function.is_inside else function.table
    return isinstance(function, Function) and all(map(math.isfinite, limits(function, dtype)))


def _without_ones(code: Code, carriers: dict[int, _Carrier], line: Line) -> None:
    """Where powers are looked at, the last value may end with the row of a one.

    It reads no source, and every row above that reads one is its own witness.
    """
    kind, made = code.fixed.get(line.b, ("", None))
    held = carriers.get(line.a) if kind == "look" and made.beside else None
    if held is not None and (last := carriers.get(held.last)) is not None:
        carriers[held.last] = last._replace(shape=(made.rows, last.shape[1]))


def _carried(code: Code, carriers: dict[int, _Carrier], line: Line, dtype: Any) -> _Carrier | None:
    """What the value of a line carries."""
    shape = line.rows, line.cols
    one, other = carriers.get(line.a), carriers.get(line.b)
    if line.op in ("flip", "getitem"):
        if one is None or (line.op == "getitem" and code.fixed.get(line.b) != _all_of(one.shape)):
            return None
        flipped = one.flipped != (line.op == "flip")
        return one._replace(shape=shape, flipped=flipped)
    if one is None and other is None:
        return None
    if line.op == "matmul":
        sizes = _sizes(line, one, other)
        if math.prod(sizes) > LIGHT or not _carries(*sizes, *_turned(one, other), dtype):
            return None
    elif line.op not in ("mul", "add", "sub", "one", "more", "concat"):
        return None
    found = [x.sources for x in (one, other) if x is not None]
    last = line.a if line.op == "one" else line.b
    return _Carrier(frozenset[int]().union(*found), shape, last=last)


def _all_of(shape: Shape) -> tuple[str, tuple[int, int, int, int]]:
    """The index of a whole value."""
    return "index", (0, shape[0], 0, shape[1])


def _much_larger(code: Code, carriers: dict[int, _Carrier], line: Line, dtype: Any) -> set[int]:
    """Sources that are factors of a product, and much larger than it."""
    one, other = carriers.get(line.a), carriers.get(line.b)
    seen = {
        x.whole
        for x in (one, other)
        if x is not None and x.whole is not None
        if SMALLER * line.rows * line.cols <= math.prod(code.shapes[x.whole])
    }
    asked = seen and _carries(*_sizes(line, one, other), *_turned(one, other), dtype)
    return seen if asked else set()


def _sizes(line: Line, one: _Carrier | None, other: _Carrier | None) -> tuple[int, int, int]:
    """The rows, what is summed over and the columns of a product, as a library is asked."""
    inner = one.shape[1] if one is not None else other.shape[0] if other is not None else 1
    rows, inner, cols = (min(size, LARGEST) for size in (line.rows, inner, line.cols))
    return rows, inner, cols


def _turned(one: _Carrier | None, other: _Carrier | None) -> tuple[bool, bool]:
    return one is not None and one.flipped, other is not None and other.flipped


@lru_cache(maxsize=256)
def _carries(rows: int, inner: int, cols: int, left: bool, right: bool, dtype: Any) -> bool:
    """Whether a product of the library shows what is not finite in factors like these."""
    a, b = (np.empty(shape[::-1] if turned else shape, dtype)
            for shape, turned in (((rows, inner), left), ((inner, cols), right)))  # fmt: skip
    with np.errstate(invalid="ignore"):
        for number, other in ((np.inf, 0.0), (0.0, np.inf), (np.nan, 0.0), (0.0, np.nan)):
            a.fill(number)
            b.fill(other)
            for product in (np.dot, np.matmul):
                if np.isfinite(product(a.T if left else a, b.T if right else b)).any():
                    return False
    return True
