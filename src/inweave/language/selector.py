"""Selectors: pieces of an identity that a shift matrix moves on, and what they take and put.

A loop over rows carries one: it takes the row where the loop is, and puts what a step says of its
row there. `scan` has them, and so have Python loops over rows that were found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from inweave.exact.constants import Shift, product, select, zeros
from inweave.language.expressions import ConstantExpr, Expr, Product, Scaled, Sum, Transposed, Units
from inweave.language.shapes import ONE, labelled


class Selector(NamedTuple):
    """A piece of an identity, such as a unit vector, that moves down by so many rows per step."""

    start: Shift
    by: int
    units: Units = (False, False)

    @classmethod
    def rows(cls, total: int, units: Units, reverse: bool = False) -> Selector:
        """One that goes through all rows, the last one first with `reverse`."""
        at = total - 1 if reverse else 0
        return cls(select(total, at, at + 1), -1 if reverse else 1, units)

    def first(self) -> ConstantExpr:
        return ConstantExpr(self.start, self.units)

    def moved(self, at: Expr) -> Expr:
        """What is carried on."""
        return Product(ConstantExpr(self._shift(1)), at)

    def after(self, steps: int) -> ConstantExpr:
        """What is carried after so many steps."""
        return ConstantExpr(product(self._shift(steps), self.start)[1], self.units)

    def _shift(self, steps: int) -> Shift:
        total, by = self.start.rows, self.by * steps
        by = max(-total, min(by, total))
        return Shift(total, total, max(by, 0), max(-by, 0), total - abs(by))


class Piece(NamedTuple):
    """A factor that is a piece of an identity: rows or columns are taken, or put somewhere."""

    left: bool
    constant: Shift
    units: Units

    @classmethod
    def of(cls, x: Expr) -> tuple[Piece, Expr] | None:
        """The piece by which a product is taken, and of which value."""
        if isinstance(x, Product):
            for left, unit, other in ((True, x.a, x.b), (False, x.b, x.a)):
                if isinstance(unit, ConstantExpr):
                    piece = unit.constant
                    if isinstance(piece, Shift) and piece.size and not piece.is_identity():
                        return cls(left, piece, unit.units), other
        return None

    @property
    def at(self) -> tuple[int, int]:
        return self.constant.row, self.constant.col

    @property
    def kind(self) -> tuple[Any, ...]:
        """What it has in common with those that take other rows."""
        return self.left, self.constant.shape, self.constant.size, self.units

    def selector(self, by: Sequence[int]) -> tuple[Selector, bool]:
        """What moves as this one does, and whether it is to be transposed."""
        turned = by[1] != 0
        constant, units = self.constant.T if turned else self.constant, self.units
        return Selector(constant, by[turned], units[::-1] if turned else units), turned

    def taken(self, unit: Expr, x: Expr) -> Expr:
        return Product(unit, x) if self.left else Product(x, unit)


class Stack(NamedTuple):
    """How values of one shape stand in a matrix, one for each of so many steps.

    Columns lie in it as rows, so that scalars make a vector, unless they are to be `upright`;
    everything else stands as it is. The last step's value comes first if it goes `backward`.
    """

    steps: int
    value: Expr  # any one of them
    backward: bool = False
    upright: bool = False

    @property
    def _lies(self) -> bool:
        return self.value.cols == 1 and not self.upright

    @property
    def _height(self) -> int:
        return 1 if self._lies else self.value.rows

    def _place(self, step: int) -> Shift:
        """Where the value of a step stands."""
        at = (self.steps - 1 - step if self.backward else step) * self._height
        return select(self.steps * self._height, at, at + self._height)

    def selector(self) -> Selector:
        """What goes through the places, step by step."""
        return Selector(self._place(0), -self._height if self.backward else self._height)

    def empty(self) -> ConstantExpr:
        width = self.value.rows if self._lies else self.value.cols
        units = (False, self.value.kind == "scalar")
        return ConstantExpr(zeros(self.steps * self._height, width), units)

    def put(self, stack: Expr, at: Expr, value: Expr) -> Expr:
        """The values so far, and the one of the step at which the loop is."""
        if value.is_scalar:
            put: Expr = Scaled(value, at)
        else:
            put = Product(at, Transposed(value) if self._lies else value)
        return Sum([(ONE, stack), (ONE, put)], stack.units)

    def taken(self, stack: Expr, step: int) -> Expr:
        """The value of a step."""
        out: Expr = Product(ConstantExpr(self._place(step).T), stack)
        if self._lies and not self.value.is_scalar:
            out = Transposed(out)
        return labelled(out, self.value.units)
