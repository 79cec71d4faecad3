"""The selector of a loop over rows: a unit vector that a shift matrix moves on by one.

`scan` carries one, and so does a Python loop over rows that was found again.
"""

from __future__ import annotations

from typing import NamedTuple

from inweave.exact.constants import Shift, select
from inweave.language.expressions import ConstantExpr, Units


class Selector(NamedTuple):
    """A unit vector of so many entries that begins at one of them."""

    total: int
    start: int
    backward: bool

    def first(self, units: Units = (False, False)) -> ConstantExpr:
        return ConstantExpr(select(self.total, self.start, self.start + 1), units)

    def shift(self) -> ConstantExpr:
        row, col = (0, 1) if self.backward else (1, 0)
        return ConstantExpr(Shift(self.total, self.total, row, col, self.total - 1))
