"""Numbers of a proof as sizes: which of them would be others if a size were another one.

Numbers of rows and columns are read as sizes, positions as so many from the beginning or, close to
it, from the end. Each reading is a guess, and any guess will do: what is proved is claimed only of
programs and networks that read the same, and a number which was a size by chance does not follow
it there. What must be right is that a step of the proof holds for the sizes that it was read with,
not only for their numbers: `depends` says for which it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from inweave.exact.constants import Constant, Ones, Shift
from inweave.language.expressions import every
from inweave.language.program import Traced

CLOSE = 2  # rows or columns from the end, up to which a position is counted from there


class Extent(NamedTuple):
    """A number that follows a size: the size and so many more; or, without one, just a number."""

    size: str
    more: int

    def plus(self, other: Extent) -> Extent | None:
        if self.size and other.size:
            return None
        return Extent(self.size or other.size, self.more + other.more)

    def minus(self, other: Extent) -> Extent | None:
        if other.size and other.size != self.size:
            return None
        return Extent("" if other.size else self.size, self.more - other.more)

    def at_most(self, other: Extent) -> bool:
        """Whether this is no more than another one, however large sizes are (one or more)."""
        if self.size == other.size:
            return self.more <= other.more
        return not self.size and self.more <= other.more + 1


class Read(NamedTuple):
    """A piece of an identity, its five numbers read."""

    rows: Extent
    cols: Extent
    row: Extent
    col: Extent
    size: Extent


class Reading:
    """How numbers are read at given sizes; of two that are equal, and of one, nobody can tell.

    A number close below a size is read as so many less if it is among those `seen` in a program.
    """

    def __init__(self, sizes: Mapping[str, int], seen: Collection[int] = ()) -> None:
        count = Counter(sizes.values())
        self.sizes = {name: size for name, size in sizes.items() if size != 1 and count[size] == 1}
        self._named = {size: Extent(name, 0) for name, size in self.sizes.items()}
        for name, size in self.sizes.items():
            for less in range(1, CLOSE + 1):
                if CLOSE < size - less in seen and size - less not in count:
                    self._named.setdefault(size - less, Extent(name, -less))
        self._shifts: dict[Shift, Read] = {}

    @classmethod
    def of(cls, traced: Traced) -> Reading:
        """How the numbers of a program are read, and those of a network that computes it."""
        shapes = {x.shape for x in every(traced.outputs.values())}
        return cls(traced.sizes, {number for shape in shapes for number in shape})

    def extent(self, number: int) -> Extent:
        return self._named.get(number, Extent("", number))

    def position(self, number: int, total: int) -> Extent:
        """A row or column of so many."""
        end = self.extent(total)
        close = total - number <= min(CLOSE, number)
        if end.size and close:
            return Extent(end.size, end.more - (total - number))
        return Extent("", number)

    def shift(self, piece: Shift) -> Read:
        if piece not in self._shifts:
            row, col = self.position(piece.row, piece.rows), self.position(piece.col, piece.cols)
            size = self._length(piece, row, col)
            rows, cols = self.extent(piece.rows), self.extent(piece.cols)
            self._shifts[piece] = Read(rows, cols, row, col, size)
        return self._shifts[piece]

    def _length(self, piece: Shift, row: Extent, col: Extent) -> Extent:
        """How long a diagonal is: up to the last column or row, or to one close to it."""
        ends = [
            (piece.cols - piece.col - piece.size, piece.cols, col),
            (piece.rows - piece.row - piece.size, piece.rows, row),
        ]
        for left, total, start in sorted(ends, key=lambda end: end[0]):
            stop = self.position(total - left, total)
            found = stop.minus(start)
            if found is not None and (left == 0 or stop.size):
                return found
        return self.extent(piece.size)

    def sizes_of(self, *numbers: int) -> set[str]:
        """The sizes that some numbers are."""
        return {self._named[number].size for number in numbers if number in self._named}

    def depends(self, a: Constant, b: Constant, found: Constant) -> set[str]:
        """The sizes that must be what they are for two constants to have the product `found`.

        As few as can be, and the smallest: loops over many rows of few columns are the rule.
        """
        if not self.sizes or a.is_identity() or b.is_identity():
            return set()
        if isinstance(a, Ones) and isinstance(b, Ones):
            return self.sizes_of(a.cols)  # which is the coefficient
        named = self.sizes_of(*a.shape, *b.shape)
        if isinstance(a, Shift) and isinstance(b, Shift) and isinstance(found, Shift):
            read = self.shift(a), self.shift(b), self.shift(found)
            named = {number.size for piece in read for number in piece} - {""}
            rising = sorted(named, key=lambda name: self.sizes[name])
            for few in range(len(rising)):
                for fixed in combinations(rising, few):
                    if _product(*(self._fixed(piece, fixed) for piece in read)):
                        return set(fixed)
        return named

    def _fixed(self, piece: Read, names: Iterable[str]) -> Read:
        """A piece that is read with some sizes as numbers."""
        plain = [Extent("", x.more + self.sizes[x.size]) if x.size in names else x for x in piece]
        return Read(*plain)

    def in_place(self, constant: Constant) -> set[str]:
        """The sizes on which it depends where the entries of a constant stand."""
        if not isinstance(constant, Shift):
            return self.sizes_of(*constant.shape)
        read = self.shift(constant)
        return {read.row.size, read.col.size, read.size.size} - {""}


def _product(a: Read, b: Read, found: Read) -> bool:
    """Whether two pieces of identities have this product, however large sizes are."""
    one, other = a.col.plus(a.size), b.row.plus(b.size)
    if one is None or other is None:
        return False
    start = _larger(a.col, b.row)
    # Neither ends beyond the columns of a, which are the rows of b.
    stop = other if one == a.cols else one if other == b.rows else _smaller(one, other)
    if start is None or stop is None:
        return False
    if stop.at_most(start):
        return found.size == Extent("", 0)
    before, after, size = start.minus(a.col), start.minus(b.row), stop.minus(start)
    if before is None or after is None or not start.at_most(stop):
        return False
    made = a.rows, b.cols, a.row.plus(before), b.col.plus(after), size
    return made == found


def _larger(a: Extent, b: Extent) -> Extent | None:
    return b if a.at_most(b) else a if b.at_most(a) else None


def _smaller(a: Extent, b: Extent) -> Extent | None:
    return a if a.at_most(b) else b if b.at_most(a) else None
