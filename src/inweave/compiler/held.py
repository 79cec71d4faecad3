"""Which sizes the weights of a network hold, read off the network.

A weight holds a size if it is as long or wide as that: an identity between d columns, the first
column of a block that stands behind one of n columns. Two sizes may be the same number, and a
number may be a size by chance, so widths are followed: those of blocks that inputs fill are known
by name, and whatever meets in a head, or is written to a block, is as wide as that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from inweave.language.program import Program
from inweave.model.layers import BlockPointwiseLayer, heads_of
from inweave.model.network import Network
from inweave.model.projection import Piece

LITERAL = ""  # what no size is

Named = tuple[Hashable, Piece]


def held_sizes(network: Network, program: Program, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The sizes that the weights hold, as far as can be told; rather too many than too few."""
    widths = _Widths(network, program)
    found = list(widths.held())
    return tuple(
        name
        for name in program.size_names
        if any(_may_be(name, sizes, number, names) for number, names in found)
    )


def _may_be(name: str, sizes: Mapping[str, int], number: int, names: set[str]) -> bool:
    """Whether a width is a size, or made of it: if it is of no kind that is known, by number.

    But one is taken for one: most are, and a size that is one is looked at again elsewhere.
    """
    if names or number == 1:
        return name in names
    return number == sizes[name] or (number > sizes[name] and number not in sizes.values())


class _Widths:
    """Widths of blocks and of pieces of heads, those together that are the same."""

    def __init__(self, network: Network, program: Program) -> None:
        self.network, self.layout = network, network.layout
        self._same: dict[Hashable, Hashable] = {}
        for fill in network.fills:
            if fill.source is None or fill.place.diagonal:
                continue
            kind = program.arguments[fill.source]
            rows, cols = (*kind.sizes, LITERAL, LITERAL)[:2]
            across = rows if fill.place.transpose else cols
            name = across if isinstance(across, str) else LITERAL
            if fill.place.extent[1] == self.layout[fill.place.block].cols:
                self._join(("block", fill.place.block), ("size", name))
        for head in self._heads():
            self._meet(head)

    def _heads(self) -> Iterator[tuple[list[Named], ...]]:
        """The query, key and value of every head, their pieces each with a name of its own."""
        for i, head in enumerate(heads_of(self.network.layers)):
            if head.pieces is not None:
                yield tuple(
                    [((i, j, k), piece) for k, piece in enumerate(part)]
                    for j, part in enumerate(head.pieces)
                )

    def held(self) -> Iterator[tuple[int, set[str]]]:
        """Every width that the weights hold, with the names that it is known by."""
        names: dict[Hashable, set[str]] = {}
        for key in list(self._same):
            if isinstance(key, tuple) and key[0] == "size":
                names.setdefault(self._first(key), set()).add(key[1])
        for head in self._heads():
            for key, piece in (named for part in head for named in part):
                yield piece.matrix.rows, names.get(self._first(_rows(key, piece)), set())
                yield piece.matrix.cols, names.get(self._first(key), set())
        used = [block for block in self.layout if block.name in self.network.used_blocks]
        for block in used[:-1]:
            yield block.cols, names.get(self._first(("block", block.name)), set())
        for layer in self.network.layers:
            if isinstance(layer, BlockPointwiseLayer):
                yield from ((size, set()) for place, _ in layer.applied for size in place.extent)

    def _meet(self, head: tuple[list[Named], ...]) -> None:
        query, key, value = head
        for name, piece in (*query, *key, *value):
            if piece.matrix.is_identity():
                self._join(name, _rows(name, piece))
        for name, q in query:
            for other, k in key:
                if (q.at, q.stop) == (k.at, k.stop):
                    self._join(name, other)
        for name, v in value:
            for block in self.layout.over(v.at, v.stop):
                if (v.at, v.stop) == (block.start, block.stop):
                    self._join(name, ("block", block.name))

    def _join(self, a: Hashable, b: Hashable) -> None:
        first, second = self._first(a), self._first(b)
        if first != second:
            self._same[first] = second

    def _first(self, key: Hashable) -> Hashable:
        found = self._same.setdefault(key, key)
        while found != (after := self._same[found]):
            self._same[key] = found = after
        return found


def _rows(name: Hashable, piece: Piece) -> Hashable:
    """The rows of a piece's matrix: the columns of a block, or of a bias the rows it fills."""
    return ("bias", name) if piece.block is None else ("block", piece.block)
