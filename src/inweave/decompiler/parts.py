"""What is read once, and only in part, is computed only in part.

A network computes whole blocks, and an answer may be one entry of the last. Written out where it is
read, a value is cut to the rows and columns that are taken of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from inweave.decompiler.needed import definitions
from inweave.decompiler.statements import Body, Let, Letters, Loop, letters_of
from inweave.exact.constants import Shift
from inweave.proof.words import Chain, Words


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
