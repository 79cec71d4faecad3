"""What statements define, what of them an answer needs, and what is read where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from inweave.decompiler.statements import Body, Let, Loop, letters_of
from inweave.proof.words import Words


def definitions(body: Body) -> Iterator[tuple[int, Words]]:
    """What symbols are: of what a loop carries, what a step leaves, and of results, the start."""
    for statement in body.statements:
        if isinstance(statement, Let):
            yield statement.symbol, statement.words
        else:
            for x in statement.carried:
                yield x.symbol, x.after
                yield x.result, x.start
            yield from definitions(statement.body)


def carried(body: Body) -> Iterator[int]:
    """The symbols of loops: what they carry, and what is left of it."""
    for statement in body.statements:
        if isinstance(statement, Loop):
            yield from (symbol for x in statement.carried for symbol in (x.symbol, x.result))
            yield from carried(statement.body)


def pruned(body: Body, needed: Collection[int]) -> tuple[Body, set[int]]:
    """The statements that something needs, and all that they need themselves."""
    wanted = set(needed)
    kept: list[Let | Loop] = []
    for statement in reversed(body.statements):
        if isinstance(statement, Let):
            if statement.symbol in wanted:
                kept.append(statement)
                wanted |= letters_of(statement.words).keys()
        elif wanted & {x.result for x in statement.carried}:
            loop, inside = _live(statement, wanted)
            kept.append(loop)
            wanted |= inside
    return Body(kept[::-1]), wanted


def _live(loop: Loop, wanted: Collection[int]) -> tuple[Loop, set[int]]:
    """A loop that carries what is needed after it or in it; all of it, if the network says so."""
    inside = set[int]()
    while True:
        live = [
            x for x in loop.carried if loop.declared or {x.result, x.symbol} & {*wanted, *inside}
        ]
        read = {n for x in live for n in letters_of(x.after)}
        body, more = pruned(loop.body, read)
        if more <= inside:
            break
        inside |= more
    inside |= {n for x in live for n in letters_of(x.start)}
    return replace(loop, carried=tuple(live), body=body), inside


def read_once(body: Body, last: Iterable[Words]) -> set[int]:
    """The symbols of a body that are read at one place of it, and in none of its loops."""
    found: Counter[int] = Counter()
    for words in last:
        found.update(letters_of(words))
    for statement in body.statements:
        if isinstance(statement, Let):
            found.update(letters_of(statement.words))
        else:
            for x in statement.carried:
                found.update(letters_of(x.start))
            inside = (*statement.after, *(words for _, words in definitions(statement.body)))
            found.update({n: 2 for words in inside for n in letters_of(words)})
    return {number for number, times in found.items() if times == 1}
