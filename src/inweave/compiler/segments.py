"""Pieces of a chain of factors, each computed in the fewest layers.

A layer multiplies three stored values, so a piece of 3^k letters is there after k layers, wherever
it begins: a chain is cut in three, and again. Where there is a choice it is cut between steps,
where the fewest values stand side by side.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import NamedTuple

from inweave.compiler.forms import ONE, DefinedLeaf, Family, Form, Forms, Product
from inweave.compiler.letters import END, LAST, Letters, State, carried
from inweave.compiler.naming import Names, PieceNames, spelled

MOST = 30_000  # letters of a chain in which not all can be read at once


class Front(NamedTuple):
    """Factors in front of a carried value, at positions up to -1; none are at its beginning."""

    factors: tuple[Form, ...]
    row: int


Piece = tuple[int, int]  # positions [i, j) of a chain
BETWEEN: State = frozenset()  # between the factors in front


class Segments:
    """What a loop ends with, and what it is read out by, as sums of products of stored pieces."""

    def __init__(self, letters: Letters, names: Names, family: Family, forms: Forms) -> None:
        self.letters, self.family, self.forms = letters, family, forms
        self._names = PieceNames(letters, names)
        self._known: dict[tuple[object, ...], Form] = {}
        self._leaves: dict[tuple[Form, Family], Form] = {}
        self._reached: dict[tuple[object, ...], int] = {}

    def read(self, front: Front) -> Form:
        """A carried value at the end of the loop, with factors in front of it."""
        begin = -len(front.factors)
        first = BETWEEN if begin else carried(front.row)
        if self.letters.length == 0:  # it starts from zero and adds nothing
            rows = front.factors[0].rows if begin else self.letters.sizes[front.row]
            return self.forms.form(rows, self.letters.sizes[END])
        return self._value(front, (begin, self.letters.length), first, LAST)

    def depth(self, front: Front) -> int | None:
        """The layers that this takes; None if that is not known in short time."""
        begin, end = -len(front.factors), self.letters.length
        if end - begin > MOST and not self._flat:
            return None
        return self._depth(front, (begin, end))

    # -- depth ------------------------------------------------------------------------------------
    @cached_property
    def _levels(self) -> list[int]:
        """Of all positions, or of one step if all are alike."""
        letters = self.letters
        end = min(letters.length, letters.each) if letters.periodic else letters.length
        found = [letters.level(i) for i in range(end)]
        later = range(letters.whole, letters.length) if letters.periodic else ()
        return found + [letters.level(i) for i in later]

    @cached_property
    def _flat(self) -> bool:
        return not any(self._levels)

    def _level(self, front: Front, i: int) -> int:
        return self.letters.of_form(front.factors[i]) if i < 0 else self.letters.level(i)

    def _depth(self, front: Front, piece: Piece) -> int:
        i, j = piece
        k = 0
        while self._reach(front, i, k) < j:
            k += 1
        return k

    def _reach(self, front: Front, i: int, k: int) -> int:
        """The end of the longest piece that begins here and is there after so many layers."""
        end = self.letters.length
        if i >= end:
            return end
        if self._flat and (i >= 0 or not any(map(self.letters.of_form, front.factors))):
            return min(i + int(3**k), end)
        begin = front if i < 0 else None
        found = i
        for some in range(self._level(front, i), k + 1):  # not recursive: a factor may be very deep
            key = (begin, i, some, True)
            if key not in self._reached:
                at = i
                for _ in range(3 if some else 0):
                    at = self._reach(front, at, some - 1)
                self._reached[key] = max(at, i + 1)
            found = self._reached[key]
            if found == end:
                break
        return found

    def _back(self, front: Front, j: int, k: int) -> int:
        """The beginning of the longest piece that ends here and is there after so many layers."""
        begin = -len(front.factors)
        if j <= begin:
            return begin
        if self._flat and not any(map(self.letters.of_form, front.factors)):
            return max(j - int(3**k), begin)
        found = j
        for some in range(self._level(front, j - 1), k + 1):
            key = (front, j, some, False)
            if key not in self._reached:
                at = j
                for _ in range(3 if some else 0):
                    at = self._back(front, at, some - 1)
                self._reached[key] = min(at, j - 1)
            found = self._reached[key]
            if found == begin:
                break
        return found

    # -- cuts -------------------------------------------------------------------------------------
    def _cuts(self, front: Front, piece: Piece) -> list[int]:
        """Where a piece is cut, in three parts if it has as many factors."""
        i, j = piece
        if j - i == 1:
            return []
        k = self._depth(front, piece) - 1
        last = self._back(front, j, k)
        low, high = max(self._back(front, last, k), i + 1), min(self._reach(front, i, k), j - 1)
        first = self._best(front, low, high, (2 * i + j) / 3)
        low, high = max(last, first + 1), min(self._reach(front, first, k), j - 1)
        return [first, self._best(front, low, high, (i + 2 * j) / 3)] if low <= high else [first]

    def _best(self, front: Front, low: int, high: int, wanted: float) -> int:
        """The narrowest place near a position, within bounds."""
        near = min(max(round(wanted), low), high)
        each = self.letters.each
        places = range(max(low, near - each), min(high, near + each) + 1)
        return min(places, key=lambda at: (self._width(front, at), abs(at - wanted)))

    def _width(self, front: Front, at: int) -> int:
        """How many values stand side by side between two factors."""
        if at < 0:
            return front.factors[at].rows
        return sum(map(self.letters.size, self.letters.states(at)))

    # -- pieces -----------------------------------------------------------------------------------
    def _value(self, front: Front, piece: Piece, s: State, t: State) -> Form:
        """What stands in a piece between two states, as a sum of products."""
        i, j = piece
        paths: list[tuple[list[Form], State]] = [([], s)]
        for part in itertools.pairwise((i, *self._cuts(front, piece), j)):
            ends = [t] if part[1] == j else self._states(part[1])
            paths = [
                ([*chain, f], end)
                for chain, begin in paths
                for end in ends
                for f in self._parts(front, part, begin, end)
            ]
        rows = front.factors[i].rows if i < 0 else self.letters.size(s)
        zero = self.forms.form(rows, self.letters.size(t) if j >= 0 else front.factors[j].rows)
        products = [self.forms.product((), chain) for chain, _ in paths]
        return self.forms.combine([(ONE, f) for f in (zero, *products)])

    def _states(self, at: int) -> list[State]:
        return [BETWEEN] if at < 0 else self.letters.states(at)

    def _parts(self, front: Front, piece: Piece, s: State, t: State) -> tuple[Form, ...]:
        """What stands in a piece between two states, as factors of products one of which it is."""
        i, j = piece
        if j - i > 1:
            stored = self._stored(front, piece, s, t)
            return () if stored.is_zero else (stored,)
        if i >= 0:
            return self.letters.factor(i, s, t)
        return (front.factors[i],) if i < -1 or t == carried(front.row) else ()

    def _stored(self, front: Front, piece: Piece, s: State, t: State) -> Form:
        i, j = piece
        letters = self.letters
        key: tuple[object, ...] = (front if i < 0 else None, i, j, s, t)
        if letters.periodic and i >= 0 and j <= letters.whole:  # others are like it
            key = (letters.like(i), j - i, s, t)
        if key not in self._known:
            form = self._value(front, piece, s, t)
            if not all(_is_read(p) for p, _, _ in form.products):
                family = form.family or self._family(piece, s, t)
                if (form, family) not in self._leaves:  # equals are stored once, by one name
                    fields = (self._name(front, piece, s, t), form.rows, form.cols, form, family)
                    self._leaves[form, family] = self.forms.leaf(DefinedLeaf, *fields)
                form = self._leaves[form, family]
            self._known[key] = form
        return self._known[key]

    def _family(self, piece: Piece, s: State, t: State) -> Family:
        """Powers of a symmetric matrix are its relatives, however they are computed."""
        whole = all(0 <= at <= self.letters.whole and at % self.letters.each == 0 for at in piece)
        return self.family if whole and s == t == carried(0) else None

    def _name(self, front: Front, piece: Piece, s: State, t: State) -> str:
        """What a piece is called: factors in front, times what stands behind them."""
        i, j = piece
        before = front.factors[i : j if j < 0 else None] if i < 0 else ()
        if i < 0:
            i, s = 0, carried(front.row)
        terms = self._names.of(i, j, s, t) if j > 0 else [(ONE, [])]
        return spelled((c, [*before, *words]) for c, words in terms or ())


def _is_read(p: Product) -> bool:
    """Whether a product is a scalar alone, as a multiple of the identity."""
    return len(p.scalars) == 1 and all(f.is_identity for f in p.chain)
