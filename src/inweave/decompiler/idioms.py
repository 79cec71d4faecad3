"""What a program would say in fewer words than the network does.

Soft thresholds: relu(x − t) − relu(−x − t), of which a program says `soft_threshold(x, t)`. The two
functions stand in blocks of their own, and whatever reads one reads the other with the opposite
sign. Then the first may stand for the difference, and nothing reads the second.

Parts: a network computes whole blocks, and an answer may be one entry of the last. What is read
once, and only in part, is written out where it is read, cut to the rows and columns that are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from inweave.decompiler.needed import definitions
from inweave.decompiler.statements import Body, Let, Letters, Loop, letters_of
from inweave.exact.constants import Ones, Shift
from inweave.language.functions import THRESHOLD
from inweave.model.relunet import RELU
from inweave.proof.words import Chain, Words


# -- soft thresholds -------------------------------------------------------------------------------
def softened(
    body: Body, last: Sequence[Words], alphabet: Letters, outer: Mapping[int, Let] | None = None
) -> tuple[Body, list[Words], dict[int, int]]:
    """A body and what is read after it, with soft thresholds; of each, what else it is made of."""
    known = dict(outer or {}) | {x.symbol: x for x in body.statements if isinstance(x, Let)}
    statements, last, pairs = list[Let | Loop](), list(last), dict[int, int]()
    for x in body.statements:
        if isinstance(x, Loop):
            inside, after, found = softened(x.body, x.after, alphabet, known)
            x, pairs = x.stepping(inside, after), pairs | found
        statements.append(x)
    functions = [x for x in statements if isinstance(x, Let) and x.function == RELU]
    for a, b in combinations(functions, 2):
        threshold = _threshold(a, b, alphabet, known)
        read = [*last, *(words for _, words in definitions(Body(statements)))]
        if threshold is None or not all(_cancel(words, a, b, alphabet) for words in read):
            continue
        soft = replace(a, words=_meant(a, alphabet, known), threshold=threshold)
        last = [_without(words, b) for words in last]
        statements = [
            soft if x is a else replace(x, words=_without(x.words, b)) if isinstance(x, Let) else x
            for x in statements
            if x is not b
        ]
        pairs[a.symbol] = b.symbol
    return Body(statements), last, pairs


def _threshold(a: Let, b: Let, alphabet: Letters, known: Mapping[int, Let]) -> int | None:
    """The t of relu(x − t) and relu(−x − t), whose arguments add up to −2t."""
    if a.words.shape != b.words.shape:
        return None
    total = _meant(a, alphabet, known) + _meant(b, alphabet, known)
    for number in letters_of(total):
        if number in known and known[number].function == THRESHOLD:
            return number if (total + shifted(number, a, alphabet).times(2)).is_zero() else None
    return None


def shifted(threshold: int, let: Let, alphabet: Letters) -> Words:
    """The threshold at every entry."""
    ones = alphabet.constant(Ones(*let.words.shape))
    return ones.scaled(alphabet.letter((threshold, False)))


def _meant(let: Let, alphabet: Letters, known: Mapping[int, Let]) -> Words:
    """The argument of a function, names written out."""
    here = (known[n] for n in letters_of(let.words) if n in known)
    return alphabet.rewritten(let.words, {x.symbol: x.words for x in here if x.function is None})


def _cancel(words: Words, a: Let, b: Let, alphabet: Letters) -> bool:
    """Whether a sum reads of two symbols only their difference."""
    if not {a.symbol, b.symbol} & letters_of(words).keys():
        return True
    same = alphabet.rewritten(words, {b.symbol: alphabet.letter((a.symbol, False))})
    return a.symbol not in letters_of(same)


def _without(words: Words, b: Let) -> Words:
    terms = {
        (scalars, chain): c
        for (scalars, chain), c in words.terms.items()
        if all(n != b.symbol for part in (*scalars, chain) for n, _ in part)
    }
    return Words(words.alphabet, *words.shape, terms)


# -- parts -----------------------------------------------------------------------------------------
def in_part(body: Body, last: Sequence[Words], alphabet: Letters) -> tuple[Body, list[Words]]:
    """A body and what is read after it, with values that are taken in part where they are read."""
    statements = [_inside(x, alphabet) if isinstance(x, Loop) else x for x in body.statements]
    last = list(last)
    for let in reversed(statements):
        if not isinstance(let, Let) or let.function is not None:
            continue
        read = Counter[int]()
        for words in (*last, *(words for _, words in definitions(Body(statements)))):
            read.update(letters_of(words))
        if read[let.symbol] != 1:
            continue
        last = [_cut(words, let, alphabet) for words in last]
        statements = [
            replace(x, words=_cut(x.words, let, alphabet)) if isinstance(x, Let) else x
            for x in statements
        ]
    return Body(statements), last


def _inside(loop: Loop, alphabet: Letters) -> Loop:
    return loop.stepping(*in_part(loop.body, loop.after, alphabet))


def _cut(words: Words, let: Let, alphabet: Letters) -> Words:
    """A sum in which a symbol that is taken in part is what it stands for."""
    chains = [chain for scalars, rest in words.terms for chain in (*scalars, rest)]
    if not any(_is_taken(chain, let.symbol, alphabet) for chain in chains):
        return words
    return alphabet.rewritten(words, {let.symbol: let.words})


def _is_taken(chain: Chain, symbol: int, alphabet: Letters) -> bool:
    """Whether a piece of an identity stands beside a symbol."""
    for at, (number, _) in enumerate(chain):
        if number == symbol:
            beside = [*chain[max(at - 1, 0) : at], *chain[at + 1 : at + 2]]
            return any(isinstance(alphabet.letters[n], Shift) for n, _ in beside)
    return False
