"""Symbols for what a network computes: short words, each value named once.

A prompt may hold `√η X`, and no program does. Roots are therefore kept outside of symbols: each is
in every word of a sum or in none, or the sum is taken apart.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import cast

from inweave.decompiler.statements import Body, Heads, Key, Let, Letters, letters_of
from inweave.decompiler.tidy import tidy
from inweave.errors import DecompileError
from inweave.exact.constants import select
from inweave.model.network import Network
from inweave.model.relunet import Function
from inweave.proof.states import States
from inweave.proof.words import FIRST, LAST, Chain, Number, Word, Words

SIMPLE = 1  # symbols in a word that needs no name of its own
NOBODY: Heads = frozenset()
Definition = tuple[Function | None, tuple[int, int], frozenset[tuple[Word, Number]]]


class Naming(States):
    """States over named symbols, and the statements that define those."""

    alphabet: Letters

    def __init__(self, network: Network) -> None:
        super().__init__(network, Letters())
        self._numbers = count()
        self.body = Body()
        self.known: dict[Definition, Words] = {}  # what has a symbol already
        self.by: dict[int | str, Heads] = {}
        self.now = NOBODY  # the heads of what is being named

    def root(self, name: str) -> Words:
        return self.alphabet.symbol(("root", name), 1, 1)

    def new(self, name: str, rows: int, cols: int, symmetric: bool = False) -> Words:
        key = ("value", name, str(next(self._numbers)))
        return self.alphabet.symbol(key, rows, cols, symmetric)

    def name(self, name: str, words: Words) -> Words:
        """The same value as a symbol."""
        down, right = self.around(words)
        return down @ self._named(name, self.tidied(down.T @ words @ right)) @ right.T

    def around(self, words: Words, *others: Words) -> tuple[Words, Words]:
        """The columns of identities that leave of sums the rows and columns that are not zero.

        A block holds values of several heights in turn, and what they are depends on it.
        """
        found = []
        for end, size in zip((FIRST, LAST), words.shape, strict=True):
            chains = [chain for x in (words, *others) for _, chain in x.terms]
            spans = [self.alphabet.reach(chain, end) or range(size) for chain in chains]
            start = min((at.start for at in spans), default=0)
            stop = max((at.stop for at in spans), default=1)
            found.append(self.alphabet.constant(select(size, start, stop)))
        return found[0], found[1]

    def tidied(self, words: Words) -> Words:
        return tidy(self.alphabet, words)

    def _named(self, name: str, words: Words) -> Words:
        total = self.alphabet.zero(*words.shape)
        for odd, part in self._by_roots(words):
            scalar = self._scalar(part)
            part = part if scalar is None else scalar[0]
            symbol = self._let(name, part)
            value = symbol if scalar is None else scalar[1].scaled(symbol)
            for root in odd:
                value = value.scaled(self.root(root))
            total += value
        return total

    def is_simple(self, words: Words) -> bool:
        """Whether a value is hardly more than a symbol, and needs no name."""
        return len(words.terms) <= 1 and self._symbols(words) <= SIMPLE

    def _symbols(self, words: Words) -> int:
        kinds = {n: self.alphabet.key(n) for n in letters_of(words)}
        return sum(
            times
            for n, times in letters_of(words).items()
            if (key := kinds[n]) is not None and key[0] != "root"
        )

    def _scalar(self, words: Words) -> tuple[Words, Words] | None:
        """A scalar times one constant matrix, as both, if that is what all words are."""
        chains = {chain for _, chain in words.terms}
        if words.shape == (1, 1) or len(chains) != 1:
            return None
        (chain,) = chains
        if any(self.alphabet.key(n) is not None for n, _ in chain):
            return None
        terms: dict[Word, Number] = {(scalars, ()): c for (scalars, _), c in words.terms.items()}
        one = Words(self.alphabet, *words.shape, {((), chain): 1})
        return Words(self.alphabet, 1, 1, terms), one

    def _by_roots(self, words: Words) -> list[tuple[frozenset[str], Words]]:
        """Words with the same roots to odd powers together, those roots left out."""
        found: dict[frozenset[str], dict[Word, Number]] = {}
        for (scalars, chain), c in words.terms.items():
            roots = Counter(s for s in scalars if self._is_root(s))
            odd = [s for s, times in roots.items() if times % 2]
            rest = list(scalars)
            for s in odd:
                rest.remove(s)
            names = frozenset(cast(Key, self.alphabet.key(s[0][0]))[1] for s in odd)
            found.setdefault(names, {})[tuple(rest), chain] = c
        return [(odd, Words(self.alphabet, *words.shape, part)) for odd, part in found.items()]

    def _is_root(self, scalar: Chain) -> bool:
        key = self.alphabet.key(scalar[0][0])
        return len(scalar) == 1 and key is not None and key[0] == "root"

    def even(self, words: Words) -> Words:
        """Words without a lone root; others are refused."""
        words = self.tidied(words)
        for odd, _ in self._by_roots(words):
            if odd:
                raise DecompileError(
                    f"the square root of {', '.join(sorted(odd))} stands alone in a value that is "
                    "carried, answered or a function's argument: no program has it"
                )
        return words

    def applied(self, function: Function, x: Words) -> Words:
        return self._let(function.name, self.even(x), function)

    def _let(self, name: str, words: Words, function: Function | None = None) -> Words:
        """A symbol for a sum, or a function of it: the same one for equal sums, also transposed."""
        for turned in (False, True):
            wanted = words.T if turned else words
            found = self.known.get((function, wanted.shape, frozenset(wanted.terms.items())))
            if found is not None:
                self.by[self.alphabet.number_of(found)] |= self.now
                return found.T if turned else found
        symbol = self.new(name, *words.shape)
        number = self.alphabet.number_of(symbol)
        self.by[number] = self.now
        self.known[function, words.shape, frozenset(words.terms.items())] = symbol
        self.body.statements.append(Let(number, words, function))
        return symbol
