"""What a network is read as: statements over symbols, each a sum of words.

A symbol is a letter of the alphabet with a key that says what it is: an input, a root of one, or a
value that a statement defines. Sums of words are those of the proof by algebra.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple, cast

from inweave.exact.constants import Constant, Dense
from inweave.model.relunet import Function
from inweave.proof.words import Alphabet, Letter, Symbol, Word, Words

Key = tuple[str, ...]  # ("input", name), ("root", name) of an input, or ("value", name, number)


class HeadAt(NamedTuple):
    """A head by its layer, counted as stored, and its number there; None of a pointwise layer."""

    layer: int
    head: int | None


Heads = frozenset[HeadAt]


@dataclass(frozen=True)
class Let:
    """A symbol and its definition; with a function, that of every entry.

    With a threshold, a symbol that is subtracted in the words, it is their soft threshold.
    """

    symbol: int
    words: Words
    function: Function | None = None
    threshold: int | None = None


class Carried(NamedTuple):
    """What a loop carries: a symbol in it, where that starts, what a step leaves, one after it."""

    symbol: int
    start: Words
    after: Words
    result: int


@dataclass(frozen=True)
class Loop:
    """A repeated module: what it carries, and what one step does."""

    times: int
    carried: tuple[Carried, ...]
    body: Body
    declared: bool  # whether the network itself says what it carries

    @property
    def after(self) -> list[Words]:
        """What a step leaves."""
        return [x.after for x in self.carried]

    def stepping(self, body: Body, after: Iterable[Words]) -> Loop:
        """The same loop by another step."""
        pairs = zip(self.carried, after, strict=True)
        return replace(
            self, body=body, carried=tuple(x._replace(after=words) for x, words in pairs)
        )


@dataclass
class Body:
    """Statements in order."""

    statements: list[Let | Loop] = field(default_factory=list)


@dataclass(frozen=True)
class Read:
    """A network as statements, and its answers in words.

    `by` are the heads that compute each of them: of a symbol its definition, of what a loop carries
    one step, of a loop's result where it starts, and of an answer, by its name, the last move.
    """

    alphabet: Letters
    body: Body
    answers: dict[str, Words]
    by: dict[int | str, Heads]


class Letters(Alphabet):
    """An alphabet whose symbols are known by what they are, and constants as they first came.

    In words a constant begins with a one. `came` has what it is a part of and by which factor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.came: dict[int, tuple[Constant, Fraction]] = {}

    def constant(self, constant: Constant) -> Words:
        words = super().constant(constant)
        for (_, chain), c in words.terms.items():
            if len(chain) == 1 and isinstance(constant, Dense):
                self.came.setdefault(chain[0][0], (constant, 1 / Fraction(c)))
        return words

    def number_of(self, words: Words) -> int:
        """The letter that a symbol is."""
        ((scalars, chain),) = words.terms
        return (chain or scalars[0])[0][0]

    def letter(self, letter: Letter) -> Words:
        """A letter as a sum of one word."""
        here = self.letters[letter[0]]
        if isinstance(here, Constant):
            return self.constant(here.T if letter[1] else here)
        rows, cols = self.shape(letter)
        word: Word = ((), (letter,)) if (rows, cols) != (1, 1) else ((((letter[0], False),),), ())
        return Words(self, rows, cols, {word: 1})

    def product(self, chain: Iterable[Letter], meant: Mapping[int, Words]) -> Words | None:
        """A product of letters, some of which mean a sum; None if there are none."""
        total: Words | None = None
        for number, flipped in chain:
            words = meant.get(number)
            if words is None:
                words = self.letter((number, flipped))
            elif flipped:
                words = words.T
            total = words if total is None else total @ words
        return total

    def rewritten(self, words: Words, meant: Mapping[int, Words]) -> Words:
        """A sum in which some symbols mean sums."""
        parts = []
        for (scalars, chain), c in words.terms.items():
            part = self.product(chain, meant) or Words(self, *words.shape, {((), ()): 1})
            for scalar in scalars:
                factor = self.product(scalar, meant)
                assert factor is not None
                part = part.scaled(factor)
            parts.append(part.times(c))
        return self.sum(*words.shape, parts)

    def key(self, number: int) -> Key | None:
        letter = self.letters[number]
        return cast(Key, letter.key) if isinstance(letter, Symbol) else None


def letters_of(words: Words) -> Counter[int]:
    """The letters of a sum, and how often each is written."""
    found: Counter[int] = Counter()
    for scalars, chain in words.terms:
        found.update(number for part in (*scalars, chain) for number, _ in part)
    return found
