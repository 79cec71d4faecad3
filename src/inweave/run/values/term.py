"""Terms: the pieces that a matrix of a network is held in, and the boxes in which they stand."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from inweave.run.values.kinds import ONE
from inweave.run.values.node import Node


class Term(NamedTuple):
    """`coefficient * scalars * core` from (row, col) on; an int core is an identity of that size.

    A 1 x 1 node always stands among the scalars, with the identity of size 1 as core.
    """

    row: int
    col: int
    core: Node | int
    coefficient: Fraction = ONE
    scalars: tuple[Node, ...] = ()

    @property
    def rows(self) -> int:
        return self.core if isinstance(self.core, int) else self.core.rows

    @property
    def cols(self) -> int:
        return self.core if isinstance(self.core, int) else self.core.cols

    @property
    def box(self) -> Box:
        return Box(self.row, self.col, self.row + self.rows, self.col + self.cols)

    def moved(self, down: int, right: int) -> Term:
        return self._replace(row=self.row + down, col=self.col + right)


Matrix = tuple[Term, ...]

State = tuple[Matrix, ...]
"""One matrix per span, in the prompt's own rows and columns."""


class Box(NamedTuple):
    """Rows top to bottom, columns left to right, half-open."""

    top: int
    left: int
    bottom: int
    right: int

    @classmethod
    def of(cls, rows: slice, cols: slice) -> Box:
        return cls(rows.start, cols.start, rows.stop, cols.stop)

    @property
    def rows(self) -> int:
        return self.bottom - self.top

    @property
    def cols(self) -> int:
        return self.right - self.left

    def join(self, other: Box) -> Box:
        return Box(min(self.top, other.top), min(self.left, other.left),
                   max(self.bottom, other.bottom), max(self.right, other.right))  # fmt: skip

    def meets(self, other: Box) -> bool:
        return (self.top < other.bottom and other.top < self.bottom
                and self.left < other.right and other.left < self.right)  # fmt: skip


def bounding(terms: Iterable[Term]) -> Box:
    """The smallest box that holds all terms."""
    boxes = [term.box for term in terms]
    box = boxes[0]
    for other in boxes[1:]:
        box = box.join(other)
    return box
