"""Matrices written out as sums of words: the numbers of the proof by algebra.

A word is a product of letters: symbols (an input, a carried value, a function of something), plain
or transposed, and constant matrices. Letters do not commute, but whatever is 1 x 1 does: a word is
cut wherever an inner size is one, and what stands between two cuts is a scalar, which is kept apart
and in order. Constants that meet are multiplied, identities leave no trace. So two products that
are equal by the laws of matrices are written in the same way, and a sum of words is zero if all
its coefficients are.

That is all that a proof needs. Two sums that differ as written may still be equal (a constant cut
into pieces, functions of equal things written differently), so failing to prove proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.exact.constants import (
    Constant,
    Ones,
    Shift,
    exact,
    fractions,
    identity,
    product,
    select,
    simplest,
    zeros,
)
from inweave.proof.reading import Reading

Letter = tuple[int, bool]  # a number in the alphabet, and whether transposed
Chain = tuple[Letter, ...]
Word = tuple[tuple[Chain, ...], Chain]  # scalars in order, then what is left of the matrices

MOST_WORDS = 2_000  # of one sum
MOST_LETTERS = 400_000  # written in one proof: a fraction of a second
MOST_ENTRIES = 20_000  # of the constants that are written out to compare them
ONE = Fraction(1)


class TooManyWords(Exception):
    """Writing it out would take too long; says nothing about equality."""


@dataclass(frozen=True)
class Symbol:
    """A matrix of which nothing is known but its size, and perhaps that it is symmetric."""

    key: Hashable
    rows: int
    cols: int
    symmetric: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols


class Alphabet:
    """The letters of one proof, numbered as they appear, and how words of them are written."""

    def __init__(self, reading: Reading | None = None) -> None:
        self.letters: list[Symbol | Constant] = []
        self._numbers: dict[Symbol | Constant, int] = {}
        self._parts: dict[Constant, Chain] = {}
        self._written: dict[Chain, tuple[tuple[Fraction, Word] | None, set[str]]] = {}
        self.written_letters = 0
        self.reading = reading or Reading({})
        self.fixed = set[str]()  # the sizes of which something depended on how large they are

    def fix(self, *numbers: int) -> None:
        """Something depends on how large these numbers are, if they are sizes."""
        self.fixed |= self.reading.sizes_of(*numbers)

    def symbol(self, key: Hashable, rows: int, cols: int, symmetric: bool = False) -> Words:
        """A value of its own; the same one for the same key."""
        return self._sum(
            rows, cols, [(ONE, ((self._number(Symbol(key, rows, cols, symmetric)), False),))]
        )

    def constant(self, constant: Constant) -> Words:
        return self._sum(*constant.shape, [(ONE, self._factors(constant))])

    def number(self, value: Fraction) -> Words:
        return self._sum(1, 1, [(value, ())])

    def total(self, rows: int, cols: int, parts: Iterable[tuple[Fraction, Words]]) -> Words:
        """A linear combination."""
        terms: dict[Word, Fraction] = {}
        for c, words in parts:
            self.counted(len(words.terms))
            for word, d in words.terms.items():
                terms[word] = terms.get(word, 0) + c * d
        terms = {word: c for word, c in terms.items() if c}
        if len(terms) > MOST_WORDS:
            raise TooManyWords
        return Words(self, rows, cols, terms)

    def zero(self, rows: int, cols: int) -> Words:
        return Words(self, rows, cols, {})

    def _factors(self, constant: Constant) -> Chain:
        """A constant as letters: one of rank one is a column times a row, so that words are cut."""
        if constant not in self._parts:
            self._parts[constant] = tuple((self._number(k), False) for k in _outer(constant))
        if len(self._parts[constant]) == 2:
            column, row = (self.letters[number] for number, _ in self._parts[constant])
            self.fixed |= self.reading.depends(column, row, constant)  # type: ignore[arg-type]
        return self._parts[constant]

    def _number(self, letter: Symbol | Constant) -> int:
        if letter not in self._numbers:
            self._numbers[letter] = len(self.letters)
            self.letters.append(letter)
        return self._numbers[letter]

    def _sum(self, rows: int, cols: int, parts: Iterable[tuple[Fraction, Chain]]) -> Words:
        terms: dict[Word, Fraction] = {}
        for coefficient, chain in parts:
            self._add(terms, coefficient, (), chain)
        return Words(self, rows, cols, terms)

    def _add(
        self, terms: dict[Word, Fraction], c: Fraction, scalars: tuple[Chain, ...], chain: Chain
    ) -> None:
        written = self.written(chain)
        if written is None:
            return
        factor, (own, rest) = written
        self.counted(len(scalars) + len(own))
        word = (tuple(sorted((*scalars, *own))) if own else scalars, rest)
        total = terms.get(word, 0) + c * factor
        if total:
            terms[word] = total
            if len(terms) > MOST_WORDS:
                raise TooManyWords
        else:
            terms.pop(word, None)

    # -- one way to write a product ---------------------------------------------------------------
    def written(self, chain: Chain) -> tuple[Fraction, Word] | None:
        """A chain as a coefficient times a word in its one form; None if it is zero."""
        self.counted(1 + len(chain))
        if chain not in self._written:
            before, self.fixed = self.fixed, set()
            self._written[chain] = self._write(chain), self.fixed
            self.fixed = before
        found, fixed = self._written[chain]
        self.fixed |= fixed
        return found

    def _write(self, chain: Chain) -> tuple[Fraction, Word] | None:
        coefficient, letters = ONE, list[Letter]()
        for letter in chain:
            letter = self._upright(letter)
            here = self.letters[letter[0]]
            if letters and isinstance(here, Constant):
                before = self.letters[letters[-1][0]]
                if isinstance(before, Constant) and before.cols > 1:
                    c, here = self._multiplied(before, here)
                    coefficient *= c
                    letters.pop()
            if not isinstance(here, Constant):
                letters.append(letter)
            elif _is_zero(here):
                return None
            elif not here.is_identity():
                letters += self._factors(here)
        scalars, rest = list[Chain](), list[Letter]()
        piece: list[Letter] = []
        for letter in letters:
            if piece and self.shape(letter)[0] == 1:
                rest, piece, coefficient = self._cut(rest, piece, scalars, coefficient)
            piece.append(letter)
        if piece and self.shape(piece[-1])[1] == 1:
            rest, piece, coefficient = self._cut(rest, piece, scalars, coefficient)
        return coefficient, (tuple(sorted(scalars)), (*rest, *piece))

    def _cut(
        self, rest: list[Letter], piece: list[Letter], scalars: list[Chain], c: Fraction
    ) -> tuple[list[Letter], list[Letter], Fraction]:
        """What ends in a size of one: a scalar if it begins with one too."""
        if self.shape(piece[0])[0] != 1:
            return [*rest, *piece], [], c
        if len(piece) == 1:
            letter = self.letters[piece[0][0]]
            if isinstance(letter, Constant):
                return rest, [], c * exact(letter.entries()[0, 0])
        turned = tuple(self._upright((n, not flip)) for n, flip in reversed(piece))
        scalars.append(min(tuple(piece), turned))
        return rest, [], c

    def _upright(self, letter: Letter) -> Letter:
        """A transposed letter as the one it is, where it is one: constants, what is symmetric."""
        number, flipped = letter
        here = self.letters[number]
        if not flipped:
            return letter
        if isinstance(here, Constant):
            return self._number(here.T), False
        return (number, False) if here.symmetric or here.rows == here.cols == 1 else letter

    def _multiplied(self, a: Constant, b: Constant) -> tuple[Fraction, Constant]:
        c, both = product(a, b)
        self.fixed |= self.reading.depends(a, b, both)
        return c, both

    def shape(self, letter: Letter) -> tuple[int, int]:
        rows, cols = self.letters[letter[0]].shape
        return (cols, rows) if letter[1] else (rows, cols)

    def counted(self, letters: int) -> None:
        self.written_letters += letters
        if self.written_letters > MOST_LETTERS:
            raise TooManyWords


def _outer(constant: Constant) -> tuple[Constant, ...]:
    """A constant of rank one as a column times a row that begins with one; any other as it is."""
    rows, cols = constant.shape
    if rows == 1 or cols == 1 or constant.is_identity():
        return (constant,)
    if isinstance(constant, Ones):
        return Ones(rows, 1), Ones(1, cols)
    if isinstance(constant, Shift):
        if constant.size != 1:
            return (constant,)
        row, col = constant.row, constant.col
        return select(rows, row, row + 1), select(cols, col, col + 1).T
    if rows * cols > MOST_ENTRIES:
        return (constant,)
    entries = fractions(constant.entries())
    found = np.argwhere(entries != 0)
    if not len(found):
        return (zeros(rows, cols),)
    row, col = found[0]
    first = entries[row : row + 1] / entries[row, col]
    column = entries[:, col : col + 1]
    if np.any(column * first != entries):
        return (constant,)
    return simplest(column), simplest(first)


def _is_zero(constant: Constant) -> bool:
    return getattr(constant, "size", 1) == 0


class Words:
    """A matrix as a sum of words; immutable."""

    __slots__ = ("alphabet", "cols", "rows", "terms")

    def __init__(
        self, alphabet: Alphabet, rows: int, cols: int, terms: dict[Word, Fraction]
    ) -> None:
        self.alphabet, self.rows, self.cols, self.terms = alphabet, rows, cols, terms

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def T(self) -> Words:
        terms: dict[Word, Fraction] = {}
        for (scalars, chain), c in self.terms.items():
            turned = tuple((n, not flip) for n, flip in reversed(chain))
            self.alphabet._add(terms, c, scalars, turned)
        return Words(self.alphabet, self.cols, self.rows, terms)

    def __add__(self, other: Words) -> Words:
        return self.plus(other, ONE)

    def __sub__(self, other: Words) -> Words:
        return self.plus(other, -ONE)

    def plus(self, other: Words, c: Fraction) -> Words:
        assert self.shape == other.shape, (self.shape, other.shape)
        return self.alphabet.total(self.rows, self.cols, [(ONE, self), (c, other)])

    def times(self, c: Fraction) -> Words:
        terms = {word: c * d for word, d in self.terms.items()} if c else {}
        return Words(self.alphabet, self.rows, self.cols, terms)

    def __matmul__(self, other: Words) -> Words:
        assert self.cols == other.rows, (self.shape, other.shape)
        terms: dict[Word, Fraction] = {}
        for (scalars, chain), c in self.terms.items():
            for (more, rest), d in other.terms.items():
                both = tuple(sorted((*scalars, *more))) if scalars and more else scalars or more
                self.alphabet._add(terms, c * d, both, (*chain, *rest))
        return Words(self.alphabet, self.rows, other.cols, terms)

    def scaled(self, scalar: Words) -> Words:
        """A 1 x 1 value times this one."""
        assert scalar.shape == (1, 1)
        terms: dict[Word, Fraction] = {}
        for (scalars, chain), c in self.terms.items():
            for (more, rest), d in scalar.terms.items():
                assert not rest
                both = tuple(sorted((*scalars, *more)))
                self.alphabet._add(terms, c * d, both, chain)
        return Words(self.alphabet, self.rows, self.cols, terms)

    def is_zero(self) -> bool:
        """Whether this is zero; False may also mean that it is not seen to be."""
        if not self.terms:
            return True
        groups: dict[Word, Group] = {}
        for (scalars, chain), c in self.terms.items():
            symbols, constants = self._apart(chain)
            groups.setdefault((scalars, symbols), []).append((c, constants))
        if not all(_cancel(group) for group in groups.values()):
            return False
        for group in groups.values():
            for different in _differing(group):
                for constant in different:
                    self.alphabet.fixed |= self.alphabet.reading.in_place(constant)
        return True

    def _apart(self, chain: Chain) -> tuple[Chain, list[Constant]]:
        """The symbols of a chain, and the constants before, between and after them."""
        letters = self.alphabet.letters
        symbols, constants, size = list[Letter](), list[Constant](), self.rows
        waiting: Constant = identity(size)
        for letter in chain:
            here = letters[letter[0]]
            if isinstance(here, Constant):
                waiting = here if waiting.is_identity() else product(waiting, here)[1]
                continue
            constants.append(waiting)
            symbols.append(letter)
            waiting = identity(self.alphabet.shape(letter)[1])
        constants.append(waiting)
        return tuple(symbols), constants


Group = list[tuple[Fraction, list[Constant]]]  # words with the same symbols


def _differing(group: Group) -> list[tuple[Constant, ...]]:
    """The constants of words, place by place; what is the same in all of them is left out."""
    places = zip(*(constants for _, constants in group), strict=True)
    return [place for place in places if any(k != place[0] for k in place)]


def _cancel(group: Group) -> bool:
    """Whether words with the same symbols add up to zero, their constants written out."""
    shapes = [constant.shape for constant in group[0][1]]
    if len(group) == 1 or any([k.shape for k in ks] != shapes for _, ks in group):
        return False
    places = _differing(group)
    if math.prod(k.rows * k.cols for k, *_ in places) > MOST_ENTRIES:
        return False
    total: Any = 0
    for (c, _), *constants in zip(group, *places, strict=True):
        part = np.array(c, dtype=object)
        for constant in constants:
            part = np.multiply.outer(part, fractions(constant.entries()))
        total = total + part
    return not np.any(total != 0)
