"""Fewer words: those that differ in one constant are one.

Heads that were split, or that share out a product among them, add up to sums of words with the same
symbols. Their constants are added, and what is a number in them goes in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from inweave.decompiler.statements import Letters
from inweave.exact.constants import (
    Constant,
    Dense,
    Shift,
    added,
    exact,
    identity,
    product,
    simplest,
)
from inweave.proof.words import Chain, Letter, Words

Group = list[tuple[Fraction, list[Constant]]]


def tidy(alphabet: Letters, words: Words) -> Words:
    """The same sum, in which words that differ in one constant are one word."""
    groups: dict[tuple[Chain, ...], Group] = {}
    for (scalars, chain), c in words.terms.items():
        apart = [_apart(alphabet, part, 1) for part in scalars]
        apart.sort(key=lambda pair: pair[0])
        apart.append(_apart(alphabet, chain, words.rows))
        symbols = tuple(symbols for symbols, _ in apart)
        groups.setdefault(symbols, []).append(
            _simpler(Fraction(c), [constant for _, constants in apart for constant in constants])
        )
    parts = [
        _product(alphabet, symbols, constants).times(c)
        for symbols, group in groups.items()
        for c, constants in _merged(group)
    ]
    return alphabet.sum(*words.shape, parts)


def _apart(alphabet: Letters, chain: Chain, rows: int) -> tuple[Chain, list[Constant]]:
    """The symbols of a chain, and the constants before, between and after them."""
    symbols, constants = list[Letter](), list[Constant]()
    waiting: Constant = identity(rows)
    for letter in chain:
        here = alphabet.letters[letter[0]]
        if isinstance(here, Constant):
            waiting = product(waiting, here)[1]  # only a column and a row still meet
            continue
        constants.append(waiting)
        symbols.append(letter)
        waiting = identity(alphabet.shape(letter)[1])
    return tuple(symbols), [*constants, waiting]


def _product(alphabet: Letters, chains: Sequence[Chain], constants: Iterable[Constant]) -> Words:
    """The product of chains, all but the last of them scalars, with constants between."""
    waiting, found = iter(constants), list[Words]()
    for symbols in chains:
        total = alphabet.constant(next(waiting))
        for letter in symbols:
            total = total @ alphabet.letter(letter) @ alphabet.constant(next(waiting))
        found.append(total)
    *scalars, value = found
    for scalar in scalars:
        value = value.scaled(scalar)
    return value


def _merged(group: Group) -> Group:
    """Words of the same symbols, those that differ in one constant added up."""
    waiting, done = dict(enumerate(group)), list[tuple[Fraction, list[Constant]]]()
    beside: dict[Any, dict[int, None]] = {}  # by all constants but one: the words that have them
    for i, (_, constants) in waiting.items():
        for key in _but_one(constants):
            beside.setdefault(key, {})[i] = None

    def taken(i: int) -> tuple[Fraction, list[Constant]]:
        for key in _but_one(group[i][1]):
            del beside[key][i]
        return waiting.pop(i)

    while waiting:
        c, constants = taken(next(iter(waiting)))
        while near := [i for key in _but_one(constants) for i in islice(beside.get(key, ()), 1)]:
            d, others = taken(min(near))
            apart = [k for k, (a, b) in enumerate(zip(constants, others, strict=True)) if a != b]
            if not apart:
                c += d
                continue
            (k,) = apart
            total = added([(c, constants[k]), (d, others[k])])
            c, constants = _simpler(Fraction(1), [*constants[:k], total, *constants[k + 1 :]])
        done.append((c, constants))
    return [(c, ks) for c, ks in done if c]


def _but_one(constants: list[Constant]) -> Iterator[tuple[int, tuple[Constant, ...]]]:
    for k in range(len(constants)):
        yield k, (*constants[:k], *constants[k + 1 :])


def _simpler(c: Fraction, constants: list[Constant]) -> tuple[Fraction, list[Constant]]:
    """The same word: of a constant whose entries but zeros are all equal, that is a factor."""
    found = []
    for constant in constants:
        if isinstance(constant, Dense):
            entries = constant.entries()
            numbers = set(entries[entries != 0].tolist())
            if len(numbers) == 1:
                c *= exact(numbers.pop())
                constant = simplest((entries != 0) * 1.0)
        found.append(constant)
    return c * (not any(isinstance(k, Shift) and k.size == 0 for k in found)), found
