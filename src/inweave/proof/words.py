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
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.exact.constants import (
    Constant,
    Dense,
    Ones,
    Shift,
    added,
    exact,
    fractions,
    identity,
    is_zero,
    product,
    select,
    simplest,
    zeros,
)
from inweave.exact.rational import Whole, combined, integers
from inweave.proof.reading import Reading

Letter = tuple[int, bool]  # a number in the alphabet, and whether transposed
Chain = tuple[Letter, ...]
Word = tuple[tuple[Chain, ...], Chain]  # scalars in order, then what is left of the matrices

Number = int | Fraction  # the coefficient of a word: whole ones are multiplied a lot faster
Term = tuple[Word, Number]

FIRST, LAST = 0, -1  # letters of a word
MOST_WORDS = 5_000  # of one sum
MOST_LETTERS = 1_000_000  # written in one proof: about a second
LIKE_A_LETTER = 10  # multiplications of long numbers that take as long
MOST_ENTRIES = 20_000  # of the constants that are written out to compare them
MOST_SHIFTS = 64  # of words that differ in nothing else
ONE = 1
IDENTITY: dict[Word, Number] = {((), ()): ONE}  # the sum that is I, whatever its size


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
        self._spellings: dict[
            tuple[int | None, int], tuple[tuple[Number, Chain] | None, set[str]]
        ] = {}
        self._written: dict[Chain, tuple[tuple[Number, Word] | None, set[str]]] = {}
        self._cuts: dict[Chain, int | None] = {}
        self._reaches: dict[tuple[int, int], range | None] = {}
        self.written_letters = 0
        self.reading = reading or Reading({})
        self.fixed = set[str]()  # the sizes of which something depended on how large they are

    @property
    def is_free(self) -> bool:
        """Whether there is a size on which nothing depended so far."""
        return not self.fixed >= self.reading.sizes.keys()

    def is_settled(self, *letters: Letter) -> bool:
        """Whether letters have no size of which nothing depended so far."""
        sizes = self.reading.sizes_of(*(number for x in letters for number in self.shape(x)))
        return sizes <= self.fixed

    def fix(self, *numbers: int) -> None:
        """Something depends on how large these numbers are, if they are sizes."""
        self.fixed |= self.reading.sizes_of(*numbers)

    def symbol(self, key: Hashable, rows: int, cols: int, symmetric: bool = False) -> Words:
        """A value of its own; the same one for the same key."""
        number = self._number(Symbol(key, rows, cols, symmetric))
        return self._sum(rows, cols, ((number, False),))

    def constant(self, constant: Constant) -> Words:
        return self._sum(*constant.shape, self._factors(constant))

    def total(self, rows: int, cols: int, parts: Iterable[tuple[Number, Words]]) -> Words:
        """A linear combination."""
        terms: dict[Word, Number] = {}
        for c, words in parts:
            self.counted(len(words.terms))
            c = _number(c)
            for word, d in words.terms.items():
                terms[word] = terms.get(word, 0) + c * d
        terms = {word: c for word, c in terms.items() if c}
        if len(terms) > MOST_WORDS:
            raise TooManyWords
        return Words(self, rows, cols, terms)

    def sum(self, rows: int, cols: int, parts: Iterable[Words]) -> Words:
        return self.total(rows, cols, ((ONE, part) for part in parts))

    def zero(self, rows: int, cols: int) -> Words:
        return Words(self, rows, cols, {})

    def _factors(self, constant: Constant) -> Chain:
        """A constant as letters: one of rank one is a column times a row, so that words are cut."""
        if constant not in self._parts:
            self._parts[constant] = tuple((self._number(k), False) for k in _outer(constant))
        if len(self._parts[constant]) == 2:
            column, row = (self._constant(number) for number, _ in self._parts[constant])
            self.fixed |= self.reading.depends(column, row, constant)
        return self._parts[constant]

    def _number(self, letter: Symbol | Constant) -> int:
        if letter not in self._numbers:
            self._numbers[letter] = len(self.letters)
            self.letters.append(letter)
        return self._numbers[letter]

    def _sum(self, rows: int, cols: int, chain: Chain) -> Words:
        """The sum that is one chain."""
        terms: dict[Word, Number] = {}
        self._add(terms, ONE, (), self.written(chain))
        return Words(self, rows, cols, terms)

    def _add(
        self,
        terms: dict[Word, Number],
        c: Number,
        scalars: tuple[Chain, ...],
        written: tuple[Number, Word] | None,
    ) -> None:
        if written is None:
            return
        factor, (own, rest) = written
        self._put(terms, (tuple(sorted((*scalars, *own))) if own else scalars, rest), c * factor)

    def _put(self, terms: dict[Word, Number], word: Word, c: Number) -> None:
        self.counted(len(word[0]))
        total = terms.get(word, 0) + c
        if total:
            terms[word] = total
            if len(terms) > MOST_WORDS:
                raise TooManyWords
        else:
            terms.pop(word, None)

    # -- one way to write a product ---------------------------------------------------------------
    def written(self, chain: Chain) -> tuple[Number, Word] | None:
        """A chain as a coefficient times a word in its one form; None if it is zero."""
        self.counted(1 + len(chain))
        if chain not in self._written:
            before, self.fixed = self.fixed, set()
            self._written[chain] = self._write(chain), self.fixed
            self.fixed = before
        found, fixed = self._written[chain]
        self.fixed |= fixed
        return found

    def joined(self, a: Chain, b: Chain) -> tuple[Number, Word] | None:
        """The product of two chains, each in its one form.

        Only what stands between their cuts is new, and that is the same for most pairs.
        """
        before, after = self._cut_of(a) or 0, self._cut_of(b)
        kept, rest = a[:before], () if after is None else b[after:]
        self.counted(len(kept) + len(rest))
        found = self.written((*a[before:], *b[:after]))
        if found is None or not (kept or rest):
            return found
        c, (scalars, between) = found
        return c, (scalars, (*kept, *between, *rest))

    def turned(self, chain: Chain) -> tuple[Number, Word] | None:
        """The transpose of a chain that is in its one form."""
        at = self._cut_of(chain) or 0
        right = self.written(tuple((n, not flip) for n, flip in reversed(chain[:at])))
        left = self.written(tuple((n, not flip) for n, flip in reversed(chain[at:])))
        if left is None or right is None:
            return None
        (c, (scalars, start)), (d, (more, end)) = left, right
        return c * d, ((*scalars, *more), (*start, *end))

    def _cut_of(self, chain: Chain) -> int | None:
        """Where a chain in its one form is cut by a size of one, if it is."""
        if chain not in self._cuts:
            sizes = [self.shape(chain[0])[0]] if chain else [1]
            sizes += [self.shape(letter)[1] for letter in chain]
            self._cuts[chain] = sizes.index(1) if 1 in sizes else None
        return self._cuts[chain]

    def _write(self, chain: Chain) -> tuple[Number, Word] | None:
        coefficient: Number = ONE
        letters: list[Letter] = []
        for letter in chain:
            letter = self._upright(letter)
            if not isinstance(self.letters[letter[0]], Constant):
                letters.append(letter)
                continue
            meets = bool(letters) and self._is_open(letters[-1][0])
            spelled = self._spelled(letters.pop()[0] if meets else None, letter[0])
            if spelled is None:
                return None
            coefficient *= spelled[0]
            letters += spelled[1]
        scalars, rest = list[Chain](), list[Letter]()
        piece: list[Letter] = []
        for letter in letters:
            if piece and self.shape(letter)[0] == 1:
                rest, piece, coefficient = self._cut(rest, piece, scalars, coefficient)
            piece.append(letter)
        if piece and self.shape(piece[-1])[1] == 1:
            rest, piece, coefficient = self._cut(rest, piece, scalars, coefficient)
        return coefficient, (tuple(sorted(scalars)), (*rest, *piece))

    def _is_open(self, number: int) -> bool:
        """Whether a letter is a constant that is multiplied with one after it."""
        letter = self.letters[number]
        return isinstance(letter, Constant) and letter.cols > 1

    def _spelled(self, before: int | None, number: int) -> tuple[Number, Chain] | None:
        """A constant, or two that meet, as a coefficient times letters; None if it is zero."""
        key = (before, number)
        if key not in self._spellings:
            right = self._constant(number)
            left = identity(right.rows) if before is None else self._constant(before)
            moved = isinstance(left, Shift) or isinstance(right, Shift)
            long = (isinstance(k, Dense) and k.array.dtype == object for k in (left, right))
            if any(long) and not moved:
                self.counted(left.rows * right.rows * right.cols // LIKE_A_LETTER)
            c, both = product(left, right)
            self.counted(both.rows * both.cols * isinstance(both, Dense))
            first, here = _scaled(both)
            letters = () if here.is_identity() else self._factors(here)
            fixed = set[str]() if before is None else self.reading.depends(left, right, both)
            if type(here) is not type(both):  # what its entries are, they are at this size
                fixed |= self.reading.sizes_of(*both.shape)
            self._spellings[key] = None if is_zero(here) else (_number(c * first), letters), fixed
        found, fixed = self._spellings[key]
        self.fixed |= fixed
        return found

    def _constant(self, number: int) -> Constant:
        letter = self.letters[number]
        assert isinstance(letter, Constant)
        return letter

    def _cut(
        self, rest: list[Letter], piece: list[Letter], scalars: list[Chain], c: Number
    ) -> tuple[list[Letter], list[Letter], Number]:
        """What ends in a size of one: a scalar if it begins with one too."""
        if self.shape(piece[0])[0] != 1:
            return [*rest, *piece], [], c
        if len(piece) == 1:
            letter = self.letters[piece[0][0]]
            if isinstance(letter, Constant):
                return rest, [], c * _number(exact(letter.entries()[0, 0]))
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

    def shape(self, letter: Letter) -> tuple[int, int]:
        rows, cols = self.letters[letter[0]].shape
        return (cols, rows) if letter[1] else (rows, cols)

    def reach(self, chain: Chain, end: int) -> range | None:
        """The rows in which a chain begins, or the columns in which it ends; None: any of them."""
        if not chain:
            return None
        key = (chain[end][0], end)
        if key not in self._reaches:
            self._reaches[key] = _reach(self.letters[key[0]], end)
        return self._reaches[key]

    def counted(self, letters: int) -> None:
        self.written_letters += letters
        if self.written_letters > MOST_LETTERS:
            raise TooManyWords

    def is_nothing(self, c: Number) -> bool:
        """Whether a coefficient is zero."""
        return not c

    def expected(self, letters: int) -> None:
        """Give up before so many letters are written, if they are too many."""
        if self.written_letters + letters > MOST_LETTERS:
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
    top, _ = constant.whole
    found = np.argwhere(top)
    if not len(found):
        return (zeros(rows, cols),)
    row, col = found[0]
    top = integers(top)
    if np.any(top[:, col : col + 1] * top[row] != top * top[row, col]):
        return (constant,)
    entries = fractions(constant.entries())
    first = entries[row : row + 1] / entries[row, col]
    return simplest(entries[:, col : col + 1]), simplest(first)


def _scaled(constant: Constant) -> tuple[Number, Constant]:
    """A number times a constant, of whole numbers without a divisor: multiples are one letter.

    The first of them is not negative.
    """
    if not isinstance(constant, Dense):
        return ONE, constant
    top, bottom = constant.whole
    some = top[top != 0]
    if not len(some):
        return ONE, constant
    divisor = math.gcd(*integers(some)) * (1 if some[0] > 0 else -1)
    if divisor == bottom == 1:
        return ONE, constant
    return _number(Fraction(divisor, bottom)), simplest(top // divisor)


def _reach(letter: Symbol | Constant, end: int) -> range | None:
    """Rows or columns of a constant outside which it is zero; None if nothing is known of them."""
    if isinstance(letter, Shift):
        start = letter.row if end == FIRST else letter.col
        return range(start, start + letter.size)
    if not isinstance(letter, Dense):
        return None
    found = np.flatnonzero((letter.entries() != 0).any(axis=1 if end == FIRST else 0))
    return range(int(found[0]), int(found[-1]) + 1) if len(found) else range(0)


def _number(c: Number) -> Number:
    return c.numerator if c.denominator == 1 else c


class Words:
    """A matrix as a sum of words; immutable."""

    __slots__ = ("_lines", "alphabet", "cols", "rows", "terms")

    def __init__(self, alphabet: Alphabet, rows: int, cols: int, terms: dict[Word, Number]) -> None:
        self.alphabet, self.rows, self.cols, self.terms = alphabet, rows, cols, terms
        self._lines: dict[int, Lines] = {}

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def T(self) -> Words:
        terms: dict[Word, Number] = {}
        for (scalars, chain), c in self.terms.items():
            self.alphabet._add(terms, c, scalars, self.alphabet.turned(chain))
        return Words(self.alphabet, self.cols, self.rows, terms)

    def __add__(self, other: Words) -> Words:
        return self.plus(other, ONE)

    def __sub__(self, other: Words) -> Words:
        return self.plus(other, -ONE)

    def plus(self, other: Words, c: Number) -> Words:
        assert self.shape == other.shape, (self.shape, other.shape)
        return self.alphabet.total(self.rows, self.cols, [(ONE, self), (c, other)])

    def times(self, c: Number) -> Words:
        return self if c == 1 else self.alphabet.total(self.rows, self.cols, [(c, self)])

    def __matmul__(self, other: Words) -> Words:
        assert self.cols == other.rows, (self.shape, other.shape)
        if self.terms == IDENTITY or other.terms == IDENTITY:
            return other if self.terms == IDENTITY else self
        terms: dict[Word, Number] = {}
        for ((scalars, chain), c), ((more, rest), d) in self._meeting(other):
            both = tuple(sorted((*scalars, *more))) if scalars and more else scalars or more
            self.alphabet._add(terms, c * d, both, self.alphabet.joined(chain, rest))
        return Words(self.alphabet, self.rows, other.cols, terms)

    def _meeting(self, other: Words) -> Iterator[tuple[Term, Term]]:
        """The words of both whose product is not seen to be zero at once."""
        if len(self.terms) >= len(other.terms):
            lines = self.lines(LAST).beside(other)
            for term in other.terms.items():
                yield from ((own, term) for own in lines.near(term))
        else:
            lines = other.lines(FIRST).beside(self)
            for term in self.terms.items():
                yield from ((term, own) for own in lines.near(term))

    def lines(self, end: int) -> Lines:
        """The words by their first letter or their last."""
        if end not in self._lines:
            self._lines[end] = Lines(self, end)
        return self._lines[end]

    def scaled(self, scalar: Words) -> Words:
        """A 1 x 1 value times this one."""
        assert scalar.shape == (1, 1)
        terms: dict[Word, Number] = {}
        for (scalars, chain), c in self.terms.items():
            for (more, rest), d in scalar.terms.items():
                assert not rest
                both = tuple(sorted((*scalars, *more)))
                self.alphabet._add(terms, c * d, both, (ONE, ((), chain)))
        return Words(self.alphabet, self.rows, self.cols, terms)

    def gathered(self) -> Words:
        """The same, where words that differ in a matrix of numbers at one end are one word.

        Otherwise a loop that multiplies by `I + L` would have a word for every power of L. Pieces
        of identities stay apart while they are few.
        """
        found = self
        for end in (FIRST, LAST):
            found = found._gathered(end)
        return found

    def _gathered(self, end: int) -> Words:
        alphabet, terms = self.alphabet, dict[Word, Number]()
        alike: dict[Word, list[tuple[Number, Constant, Word]]] = {}
        for word, c in self.terms.items():
            constant, rest = self._parted(word[1], end)
            alike.setdefault((word[0], rest), []).append((c, constant, word))
        for (scalars, rest), group in alike.items():
            dense = len(group) > MOST_SHIFTS or any(isinstance(k, Dense) for _, k, _ in group)
            if len(group) == 1 or not dense:
                for c, _, word in group:
                    alphabet._put(terms, word, c)
                continue
            for _, k, _ in group:
                alphabet.fixed |= alphabet.reading.in_place(k)
            letter = (alphabet._number(added([(Fraction(c), k) for c, k, _ in group])), False)
            chain = (letter, *rest) if end == FIRST else (*rest, letter)
            alphabet._add(terms, ONE, scalars, alphabet.written(chain))
        return Words(alphabet, self.rows, self.cols, terms)

    def _parted(self, chain: Chain, end: int) -> tuple[Constant, Chain]:
        """The constant at one end of a chain, and all others of its letters."""
        here = self.alphabet.letters[chain[end][0]] if chain else None
        if isinstance(here, Constant):
            return here, chain[1:] if end == FIRST else chain[:-1]
        return identity(self.rows if end == FIRST else self.cols), chain

    def is_zero(self) -> bool:
        """Whether this is zero; False may also mean that it is not seen to be."""
        if not self.terms:
            return True
        groups: Groups = {}
        for (scalars, chain), c in self.terms.items():
            symbols, constants = self._apart(chain, self.rows)
            groups.setdefault((scalars, symbols), []).append((c, constants))
        left = {key: group for key, group in groups.items() if not _cancel(group, self.alphabet)}
        if left and not self._uncut(left):
            return False
        for group in groups.values():
            for different in _differing(group):
                for constant in different:
                    self.alphabet.fixed |= self.alphabet.reading.in_place(constant)
        return True

    def _uncut(self, groups: Groups) -> bool:
        """Whether groups cancel once words that were cut are put together again, in place.

        A row and a column with a scalar between them, `a (bᵀ X c) dᵀ`, may be entries of a word
        without cuts, `(a bᵀ) X (c dᵀ)`.
        """
        cut = {key: groups.pop(key) for key in list(groups) if not key[1]}
        if not (cut and groups):
            return False
        for (scalars, _), group in cut.items():
            for c, (constant,) in group:
                key, constants = self._joined(scalars, constant, groups)
                groups.setdefault(key, []).append((c, constants))
        if not all(_cancel(group, self.alphabet) for group in groups.values()):
            return False
        letters = {x for cuts, chain in self.terms for part in (*cuts, chain) for x in part}
        for shape in (self.shape, *map(self.alphabet.shape, letters)):
            self.alphabet.fix(*shape)
        return True

    def _joined(
        self, scalars: tuple[Chain, ...], constant: Constant, groups: Groups
    ) -> tuple[Word, list[Constant]]:
        """A constant and a scalar as one chain whose symbols others have, where there are any."""
        ends = _outer(constant)
        if len(ends) == 1 and 1 in constant.shape:
            ends = (*ends, identity(1)) if constant.cols == 1 else (identity(1), *ends)
        for i, scalar in enumerate(scalars if len(ends) == 2 else ()):
            for chain in (scalar, tuple((n, not flip) for n, flip in reversed(scalar))):
                symbols, between = self._apart(tuple(map(self.alphabet._upright, chain)), 1)
                key = ((*scalars[:i], *scalars[i + 1 :]), symbols)
                if key in groups:
                    first, last = product(ends[0], between[0]), product(between[-1], ends[1])
                    return key, [first[1], *between[1:-1], last[1]]
        return (scalars, ()), [constant]

    def _apart(self, chain: Chain, size: int) -> tuple[Chain, list[Constant]]:
        """The symbols of a chain of so many rows, and the constants before, between and after."""
        letters = self.alphabet.letters
        symbols, constants = list[Letter](), list[Constant]()
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


Group = list[tuple[Number, list[Constant]]]  # words with the same symbols
Groups = dict[Word, Group]  # by their scalars and their symbols


def _differing(group: Group) -> list[tuple[Constant, ...]]:
    """The constants of words, place by place; what is the same in all of them is left out."""
    places = zip(*(constants for _, constants in group), strict=True)
    return [place for place in places if any(k != place[0] for k in place)]


class Lines:
    """Words by the one row in which they begin, or the one column in which they end.

    An entrywise product is a sum of as many words as there are entries, each in a line of its own,
    and all that its readers pick is one line.
    """

    def __init__(self, words: Words, end: int) -> None:
        self.alphabet, self.end, self.count = words.alphabet, end, len(words.terms)
        self.anywhere: list[Term] = []
        self.at: dict[int, list[Term]] = {}
        for term in words.terms.items():
            reach = words.alphabet.reach(term[0][1], end)
            if reach is not None and len(reach) == 1:
                self.at.setdefault(reach.start, []).append(term)
            else:
                self.anywhere.append(term)

    def beside(self, others: Words) -> Lines:
        """These, unless even those that are anywhere make too many letters with all the others."""
        count = len(others.terms)
        if len(self.anywhere) * count > MOST_WORDS:
            self.alphabet.expected(count * sum(1 + len(chain) for (_, chain), _ in self.anywhere))
        return self

    def near(self, other: Term) -> list[Term]:
        """The words that do not vanish beside another one, as far as its lines tell."""
        reach = self.alphabet.reach(other[0][1], LAST if self.end == FIRST else FIRST)
        lines: Iterable[int] = self.at if reach is None else [i for i in reach if i in self.at]
        found = [*self.anywhere, *(term for i in lines for term in self.at[i])]
        if len(found) < self.count and self.alphabet.is_free:
            for term in (term for i in self.at.keys() - set(lines) for term in self.at[i]):
                pair = (term, other) if self.end == LAST else (other, term)
                before, after = pair[0][0][1], pair[1][0][1]
                if not self.alphabet.is_settled(before[-1], after[0]):
                    self.alphabet.written((*before, *after))  # what makes it vanish
        return found


def _cancel(group: Group, alphabet: Alphabet) -> bool:
    """Whether words with the same symbols add up to zero, their constants written out."""
    shapes = [constant.shape for constant in group[0][1]]
    if len(group) == 1 or any([k.shape for k in ks] != shapes for _, ks in group):
        return False
    places = _differing(group)
    if math.prod(k.rows * k.cols for k, *_ in places) > MOST_ENTRIES:
        return False
    places.sort(key=lambda place: -place[0].rows * place[0].cols)
    numbers = [c for c, _ in group]
    top, bottom = _written_out(list(zip(numbers, *places, strict=True)))
    return all(alphabet.is_nothing(Fraction(x, bottom)) for x in top.flat if x)


def _written_out(words: Sequence[tuple[Any, ...]]) -> Whole:
    """The entries of a sum of words: coefficients, each with the constants at its places.

    What words have in common at the first place is multiplied by the sum of their others.
    """
    if len(words[0]) == 1:
        return combined([(c, np.ones(1)) for (c,) in words])
    alike: dict[Constant, list[tuple[Any, ...]]] = {}
    for c, first, *rest in words:
        alike.setdefault(first, []).append((c, *rest))
    parts = [(k.whole, _written_out(rest)) for k, rest in alike.items()]
    bottom = math.lcm(*(first.bottom * inner.bottom for first, inner in parts))
    total = integers(np.zeros((parts[0][0].top.size, len(parts[0][1].top))))
    for first, inner in parts:
        flat = first.top.ravel()
        some = np.flatnonzero(flat)
        scaled = inner.top * (bottom // (first.bottom * inner.bottom))
        total[some] += integers(flat[some])[:, None] * scaled
    return Whole(total.ravel(), bottom)
