"""Indices in C: what is known of one when code is written costs nothing when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inweave.exact.constants import Shift


@dataclass(frozen=True)
class Index:
    """An integer in C: a name, a number, or their sum.

    `own` if it is the thread's own row, `known` if it is a number once loops are unrolled.
    """

    name: str = ""
    offset: int = 0
    own: bool = False
    known: bool = True

    def __add__(self, more: int) -> Index:
        return replace(self, offset=self.offset + more, own=self.own and more == 0)

    @property
    def number(self) -> int | None:
        return None if self.name else self.offset

    def __str__(self) -> str:
        if not self.name:
            return str(self.offset)
        return self.name if not self.offset else f"({self.name} + {self.offset})"


ZERO = Index()


def times(index: Index | str, size: int) -> str:
    """An index times a size."""
    text = str(index)
    if size == 1:
        return text
    return str(int(text) * size) if text.lstrip("-").isdigit() else f"{text} * {size}"


def plus(*parts: str) -> str:
    """A sum of indices, without its zeros."""
    kept = [part for part in parts if part != "0"]
    return " + ".join(kept) or "0"


def on_shift(shift: Shift, i: Index, j: Index) -> str:
    """When an entry is one: 'ONE' always, 'NIL' never, otherwise a condition."""
    if not shift.size:
        return "NIL"
    if i.number is not None and j.number is not None:
        k = i.number - shift.row
        return "ONE" if k == j.number - shift.col and 0 <= k < shift.size else "NIL"
    cond = [f"{i + -shift.row} == {j + -shift.col}"]
    bounds = []
    if not (shift.row == 0 and shift.size == shift.rows):
        bounds = between(i, shift.row, shift.size, shift.rows)
    if not (shift.col == 0 and shift.size == shift.cols):
        bounds += between(j, shift.col, shift.size, shift.cols)
    return "NIL" if "NIL" in bounds else " && ".join(cond + bounds)


def between(index: Index, start: int, size: int, whole: int) -> list[str]:
    """The conditions under which an index lies in a part of a whole."""
    if index.number is not None:
        return [] if start <= index.number < start + size else ["NIL"]
    found = [f"{index} >= {start}"] if start else []
    return found + ([f"{index} < {start + size}"] if start + size < whole else [])


def through(index: Index, order: Sequence[int]) -> Index:
    """The index that stands at an index in an order."""
    if all(at == i for i, at in enumerate(order)):
        return index
    if index.number is not None:
        return Index("", order[index.number])
    starts = [i for i in range(len(order)) if i == 0 or order[i] != order[i - 1] + 1]
    stops = [*starts[1:], len(order)]
    text = ""
    for start, stop in zip(starts, stops, strict=True):
        moved = str(index + (order[start] - start))
        text += moved if stop == len(order) else f"{index} < {stop} ? {moved} : "
    return Index(f"({text})", known=index.known and not index.own)
