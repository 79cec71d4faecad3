"""What statements define, what of them an answer needs, and what is read where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from inweave.decompiler.statements import Body, Let, Loop, letters_of
from inweave.proof.words import Words


def definitions(body: Body) -> Iterator[tuple[int, Words]]:
    """What symbols are: of what a loop carries, what a step leaves, and of results, the start."""
    for statement in body.statements:
        if isinstance(statement, Let):
            yield statement.symbol, statement.words
        else:
            yield from zip(statement.carried, statement.after, strict=True)
            yield from zip(statement.results, statement.start, strict=True)
            yield from definitions(statement.body)


def carried(body: Body) -> Iterator[int]:
    """The symbols of loops: what they carry, and what is left of it."""
    for statement in body.statements:
        if isinstance(statement, Loop):
            yield from (*statement.carried, *statement.results)
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
        elif wanted & set(statement.results):
            loop, inside = _live(statement, wanted)
            kept.append(loop)
            wanted |= inside
    return Body(kept[::-1]), wanted


def _live(loop: Loop, wanted: Collection[int]) -> tuple[Loop, set[int]]:
    """A loop that carries what is needed after it or in it; all of it, if the network says so."""
    live = {i for i, result in enumerate(loop.results) if loop.declared or result in wanted}
    while True:
        read = {n for i in live for n in letters_of(loop.after[i])}
        body, inside = pruned(loop.body, read)
        more = {i for i, symbol in enumerate(loop.carried) if symbol in inside} - live
        if not more:
            break
        live |= more

    def kept(parts: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(part for i, part in enumerate(parts) if i in live)

    inside |= {n for i in live for n in letters_of(loop.start[i])}
    start, after = kept(loop.start), kept(loop.after)
    carried, results = kept(loop.carried), kept(loop.results)
    return Loop(loop.times, carried, start, body, after, results, loop.declared), inside


def read_once(body: Body, last: Iterable[Words]) -> set[int]:
    """The symbols of a body that are read at one place of it, and in none of its loops."""
    found: Counter[int] = Counter()
    for words in last:
        found.update(letters_of(words))
    for statement in body.statements:
        if isinstance(statement, Let):
            found.update(letters_of(statement.words))
        else:
            for words in statement.start:
                found.update(letters_of(words))
            inside = (*statement.after, *(words for _, words in definitions(statement.body)))
            found.update({n: 2 for words in inside for n in letters_of(words)})
    return {number for number, times in found.items() if times == 1}
