"""Numbers and constant matrices as Python that reads them back exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from inweave.exact.constants import Constant, Shift, exact, fractions

FRACTION = "Fraction("
NUMBERS = (*"0123456789", FRACTION)  # how a number begins
SUM, PRODUCT, ATOM = range(3)  # how tightly a text holds together
FEW = 3  # diagonals that a matrix is written as
Shape = tuple[int, int]
Slice = tuple[int, int] | None


class Text(NamedTuple):
    """A piece of Python, and what must stand in brackets beside what."""

    text: str
    level: int = ATOM

    def inside(self, level: int) -> str:
        """As a part of something that holds together so tightly."""
        return f"({self.text})" if self.level < level else self.text


def number_text(c: Fraction) -> str:
    """A number that Python reads back exactly."""
    if c.denominator == 1:
        return str(c.numerator) if abs(c) < 10**15 else _float(c) or str(c.numerator)
    return _float(c) or f"{FRACTION}{c.numerator}, {c.denominator})"


def _float(c: Fraction) -> str:
    try:
        value = float(c)
    except OverflowError:
        return ""
    return repr(value) if Fraction(value) == c else ""


def _diagonals(k: Constant) -> str:
    """The whole diagonals that a matrix is, if they are few and each is one number."""
    entries, found = k.entries(), list[str]()
    for offset in range(1 - k.rows, k.cols):
        diagonal = np.diagonal(entries, offset)
        if diagonal.any():
            if len(found) == FEW or (diagonal != diagonal[0]).any():
                return ""
            number = number_text(exact(diagonal[0]))
            if number.startswith(FRACTION):  # numpy would round it
                return ""
            ahead = "" if number == "1" else f"{number} * "
            found.append(ahead + _eye(k.rows, k.cols, offset))
    return " + ".join(found)


def sliced(span: Slice) -> str:
    """Rows or columns as Python takes them."""
    if span is None:
        return ":"
    start, stop = span
    return str(start) if stop - start == 1 else f"{start or ''}:{stop}"


def shift(k: Shift) -> Text:
    """A piece of an identity."""
    rows, cols = k.shape
    if k.size == 0:
        return zero(k.shape)
    if k.is_identity():
        return Text(f"inweave.eye({rows})")
    if cols == 1:
        return Text(f"inweave.eye({rows})[:, {k.row}]")
    offset = k.col - k.row
    if k.size == min(rows - max(-offset, 0), cols - max(offset, 0)):
        return Text(_eye(rows, cols, offset))
    left, right = sliced((k.row, k.row + k.size)), sliced((k.col, k.col + k.size))
    if k.size == 1:
        return Text(f"inweave.eye({rows})[:, {left}] @ inweave.eye({cols})[{right}, :]", PRODUCT)
    return Text(f"np.eye({rows})[:, {left}] @ np.eye({cols})[{right}]", PRODUCT)


def zero(shape: Shape) -> Text:
    """Zeros, as a vector or its transpose where they are one."""
    rows, cols = shape
    if shape == (1, 1):
        return Text("0.0")
    if cols == 1:
        return Text(f"inweave.zeros({rows})")
    return Text(f"inweave.zeros({cols}).T" if rows == 1 else f"inweave.zeros({rows}, {cols})")


def _eye(rows: int, cols: int, offset: int) -> str:
    return f"np.eye({rows}, {cols}, {offset})" if offset else f"np.eye({rows}, {cols})"


def written(k: Constant) -> str:
    """A constant as a few whole diagonals, each of one number, or as its entries in lists."""
    if k.rows == k.cols and (found := _diagonals(k)):
        return found
    rows = [[number_text(e) for e in row] for row in fractions(k.entries())]
    listed = [row[0] if k.cols == 1 else f"[{', '.join(row)}]" for row in rows]
    return f"[{', '.join(listed)}]"
