"""Loops as simpler ones: several in place of one, and one in place of two."""

from __future__ import annotations

from typing import TypeVar

from inweave.compiler.forms import Forms, LoopForm, ResultLeaf, ordered

T = TypeVar("T")


def apart(loop: LoopForm) -> list[LoopForm]:
    """A loop as several, if some of the values that it carries have nothing to do with others."""
    groups: list[set[int]] = []
    for i, step in enumerate(loop.step):
        met = set(ordered([step]))
        group = {i} | {j for j, leaf in enumerate(loop.carried) if leaf in met}
        joined = [other for other in groups if other & group]
        groups = [other for other in groups if not other & group]
        groups.append(group.union(*joined))
    if len(groups) == 1:
        return [loop]

    def only(values: tuple[T, ...], group: set[int]) -> tuple[T, ...]:
        return tuple(x for i, x in enumerate(values) if i in group)

    return [
        LoopForm(
            loop.scope, loop.times, only(loop.carried, g), only(loop.init, g), only(loop.step, g)
        )
        for g in sorted(groups, key=min)
    ]


def flattened(loop: LoopForm, forms: Forms) -> LoopForm | None:
    """A loop that does nothing but run another one, as that one, run more often; else None."""
    first = loop.step[0].sole[0] if loop.step[0].sole else None
    if not isinstance(first, ResultLeaf) or len(first.loop.carried) != len(loop.carried):
        return None
    inner = flattened(first.loop, forms) or first.loop
    begins = [forms.of(leaf) for leaf in loop.carried]
    results = [forms.result(first.loop, i) for i in range(len(begins))]
    moves = any(loop.scope in f.loops for f in inner.step)
    if list(loop.step) != results or list(inner.init) != begins or moves:
        return None
    times = loop.times * inner.times
    return forms.intern(LoopForm, inner.scope, times, inner.carried, loop.init, inner.step)
