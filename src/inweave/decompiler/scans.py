"""Loops over rows: a carried selector e ← S e is a scan.

In a network a scan is a loop that carries a unit vector e, which a shift moves on: `Xᵀ e` is the
row of X at which the loop is, and `Y + e vᵀ` puts what the step says of its row. Read backwards,
every `Xᵀ e` becomes a symbol for the row, and Y what the step returns beside what it carries. A
loop that does anything else with e stays a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from inweave.decompiler.needed import definitions
from inweave.decompiler.statements import Body, Carried, Let, Letters, Loop, letters_of
from inweave.exact.constants import Constant, Shift
from inweave.proof.words import Chain, Letter, Words


@dataclass(frozen=True)
class Scan:
    """A loop over rows: its arrays and symbols for their rows, its values and their stacks."""

    loop: Loop  # of what is carried besides
    arrays: tuple[Words, ...]
    rows: tuple[int, ...]
    values: tuple[Words, ...]
    said: tuple[int, ...]  # what the loop carries instead of the values
    stacks: tuple[int, ...]
    reverse: bool


class NoScan(Exception):
    """A loop is used in another way."""


def as_scan(loop: Loop, alphabet: Letters, read: Collection[int]) -> Scan | None:
    """A loop as one over rows, if it is one; `read` are the symbols that something reads."""
    for at in range(len(loop.carried)):
        reverse = _direction(loop, at, alphabet)
        if reverse is not None and loop.carried[at].result not in read:
            try:
                return _Reader(loop, at, alphabet, reverse).scan()
            except NoScan:
                return None
    return None


def _direction(loop: Loop, at: int, alphabet: Letters) -> bool | None:
    """Whether a carried value is a selector, and then whether it goes backwards."""
    e, begin, left, _ = loop.carried[at]
    start, after, rows = _chain(begin), _chain(left), begin.rows
    if start is None or after is None or len(start) != 1 or len(after) != 2:
        return None
    unit, shift = alphabet.letters[start[0][0]], alphabet.letters[after[0][0]]
    if after[1] != (e, False) or not isinstance(unit, Shift) or unit.cols != 1:
        return None
    for reverse in (False, True):
        first = rows - 1 if reverse else 0
        by = Shift(rows, rows, int(not reverse), int(reverse), rows - 1)
        if unit.row == first and unit.size == 1 and shift == by and loop.times == rows:
            return reverse
    return None


def _chain(words: Words) -> Chain | None:
    """The letters of a product, if a sum is one with the coefficient one and no scalars."""
    if len(words.terms) != 1:
        return None
    (((scalars, chain), c),) = words.terms.items()
    return chain if c == 1 and not scalars else None


class _Reader:
    """One loop, read as a scan or NoScan."""

    def __init__(self, loop: Loop, at: int, alphabet: Letters, reverse: bool) -> None:
        self.loop, self.at, self.alphabet, self.reverse = loop, at, alphabet, reverse
        self.selector = loop.carried[at].symbol
        defined = (number for number, _ in definitions(loop.body))
        self.inside = {*(x.symbol for x in loop.carried), *defined}
        self.found: dict[Chain, int] = {}  # what e selects a row of, and the symbol of the row

    def scan(self) -> Scan:
        carried, later = self.loop.carried[: self.at], self.loop.carried[self.at + 1 :]
        values = [self._value(x) for x in later]
        stacked = {let for _, let in values}
        body = Body([self._statement(x) for x in self.loop.body.statements if x not in stacked])
        kept = tuple(x._replace(after=self._words(x.after)) for x in carried)
        said = tuple(self._words(words) for words, _ in values)
        if not self.found:
            raise NoScan
        rest = replace(self.loop, carried=kept, body=body)
        arrays, rows = tuple(self._array(run) for run in self.found), tuple(self.found.values())
        symbols, stacks = (x.symbol for x in later), (x.result for x in later)
        return Scan(rest, arrays, rows, said, tuple(symbols), tuple(stacks), self.reverse)

    # -- values -----------------------------------------------------------------------------------
    def _value(self, carried: Carried) -> tuple[Words, Let | None]:
        """What a step puts into the row of a stack, and the statement that says so."""
        stack, start, words, _ = carried
        if start.terms or sum(letters[stack] for letters in self._reads()) != 1:
            raise NoScan
        let = next((x for x in self.loop.body.statements if _is_only(words, x)), None)
        if let is not None:
            assert isinstance(let, Let)
            if sum(letters[let.symbol] for letters in self._reads()) != 1:
                raise NoScan
            words = let.words
        terms = dict(words.terms)
        if terms.pop(((), ((stack, False),)), 0) != 1:
            raise NoScan
        total = self.alphabet.zero(words.cols, 1)
        for (scalars, chain), c in terms.items():
            if chain[:1] != ((self.selector, False),):
                raise NoScan
            rest = Words(self.alphabet, 1, words.cols, {(scalars, chain[1:]): c})
            total += rest.T
        return total, let

    def _reads(self) -> Iterator[Counter[int]]:
        for words in (*self.loop.after, *(words for _, words in definitions(self.loop.body))):
            yield letters_of(words)

    # -- rows -------------------------------------------------------------------------------------
    def _statement(self, statement: Let | Loop) -> Let | Loop:
        if isinstance(statement, Let):
            return replace(statement, words=self._words(statement.words))
        carried = (x._replace(start=self._words(x.start), after=self._words(x.after))
                   for x in statement.carried)  # fmt: skip
        body = Body([self._statement(x) for x in statement.body.statements])
        return replace(statement, carried=tuple(carried), body=body)

    def _words(self, words: Words) -> Words:
        """The same sum with symbols for rows."""
        if self.selector not in letters_of(words):
            return words
        total = self.alphabet.zero(*words.shape)
        for (scalars, chain), c in words.terms.items():
            part = self._chained(chain, words.shape).times(c)
            for scalar in scalars:
                part = part.scaled(self._chained(scalar, (1, 1)))
            total += part
        return total

    def _chained(self, chain: Chain, shape: tuple[int, int]) -> Words:
        """A product in which every row that e selects is a symbol."""
        letters = list(chain)
        while (at := self._place(letters)) is not None:
            if letters[at][1]:
                stop = self._end(letters, at + 1, 1)
                run = tuple((n, not turned) for n, turned in reversed(letters[at + 1 : stop]))
                letters[at:stop] = [(self._row(run), True)]
            else:
                start = self._end(letters, at - 1, -1) + 1
                letters[start : at + 1] = [(self._row(tuple(letters[start:at])), False)]
        found = self.alphabet.product(letters, {})
        return Words(self.alphabet, *shape, {((), ()): 1}) if found is None else found

    def _place(self, letters: list[Letter]) -> int | None:
        return next((i for i, (n, _) in enumerate(letters) if n == self.selector), None)

    def _end(self, letters: list[Letter], at: int, by: int) -> int:
        """Beyond the last letter of what e selects from: constants, and a symbol from outside."""
        begin = at
        while 0 <= at < len(letters):
            number = letters[at][0]
            if number in self.inside:
                raise NoScan
            at += by
            if not isinstance(self.alphabet.letters[number], Constant):
                return at
        if at == begin:
            raise NoScan
        return at

    def _row(self, run: Chain) -> int:
        """The symbol for `run e`, a column."""
        if run not in self.found:
            rows = self.alphabet.shape(run[0])[0]
            names = [key[1] for n, _ in run if (key := self.alphabet.key(n)) is not None]
            key = ("value", _row_name(names), f"row {len(self.alphabet.letters)}")
            self.found[run] = self.alphabet.number_of(self.alphabet.symbol(key, rows, 1))
        return self.found[run]

    def _array(self, run: Chain) -> Words:
        """What e selects rows of."""
        found = self.alphabet.product(run, {})
        assert found is not None
        return found.T


def _row_name(names: Sequence[str]) -> str:
    """The name of a row of something: x of X."""
    if not names:
        return "row"
    name = names[0]
    return name.lower() if len(name) == 1 and name.isupper() else f"{name}_row"


def _is_only(words: Words, statement: Let | Loop) -> bool:
    """Whether a sum is just the symbol that a statement defines."""
    return (
        isinstance(statement, Let)
        and statement.function is None
        and _chain(words) == ((statement.symbol, False),)
    )
