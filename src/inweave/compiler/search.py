"""Which values are stored transposed: schedules are tried, and the best one is kept.

A schedule depends on the orientation of every input and carried value, and trying one takes about a
millisecond, so the choice is searched rather than derived.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from inweave.compiler.forms import Form, Forms, Leaf, LoopItem, Product
from inweave.compiler.layers import Schedule
from inweave.compiler.normalize import reachable
from inweave.compiler.schedule import Scheduler


def search(
    forms: Forms,
    mode: str,
    outputs: dict[str, Form],
    loops: list[LoopItem],
    narrow: bool = False,
    chosen: Mapping[str, bool] | None = None,
) -> tuple[Scheduler, Schedule]:
    """Schedule under the best choice of which values are stored transposed, or under one `chosen`.

    Each try is one schedule; its depth decides, then the area of the prompt (its width alone if
    `narrow`: then what is long stands along the tokens), then flops. Descent over single flips from
    four starts finds the paper's own choice for ridge and is quick.
    """
    needed = reachable(list(outputs.values()))
    counts: dict[Product, int] = {}
    leaves: dict[Leaf, None] = {}
    for form in needed:
        for p, _, _ in form.products:
            counts[p] = counts.get(p, 0) + 1
        for leaf, _, _ in form.leaves:
            if leaf.item is not None:
                leaf = leaf.item.carried[leaf.index]
            if leaf.role in ("input", "carried") and not leaf.is_scalar and leaf.family is None:
                leaves.setdefault(leaf)
    looped = [leaf for form in needed for leaf, _, _ in form.leaves if leaf.item is not None]
    carried = {leaf.item.carried[leaf.index] for leaf in looped if leaf.item is not None}
    live = [item for item in loops if any(leaf in carried for leaf in item.carried)]
    shared = {p for p, n in counts.items() if n > 1}
    starts = [item.init[i] for item in live for i in range(len(item.init))]
    read = {leaf for form in needed if form not in starts for leaf, _, _ in form.leaves}
    soles = [form.sole[0] for form in starts if form.sole and starts.count(form) == 1]
    movable = {value for value in soles if isinstance(value, Leaf)} - read
    free = list(leaves)
    tried: dict[tuple[bool, ...], tuple[Scheduler, Schedule]] = {}

    def attempt(choice: tuple[bool, ...]) -> tuple[Scheduler, Schedule]:
        if choice not in tried:
            scheduler = Scheduler(forms, mode, dict(zip(free, choice, strict=True)), shared)
            scheduler.movable, scheduler.live = movable, carried
            scheduler.narrow = narrow
            tried[choice] = scheduler, scheduler.run(outputs, live)
        return tried[choice]

    if chosen is not None:
        return attempt(tuple(chosen.get(name, False) for name in names(free)))
    best: tuple[bool, ...] | None = None
    for matrices, vectors in itertools.product((False, True), repeat=2):
        choice = tuple(vectors if 1 in (leaf.rows, leaf.cols) else matrices for leaf in free)
        improving = True
        while improving:
            improving = False
            for i in range(len(free)):
                other = (*choice[:i], not choice[i], *choice[i + 1 :])
                if attempt(other)[1].cost < attempt(choice)[1].cost:
                    choice, improving = other, True
        if best is None or attempt(choice)[1].cost < attempt(best)[1].cost:
            best = choice
    assert best is not None
    return attempt(best)


def names(leaves: Iterable[Leaf]) -> list[str]:
    """A name for each leaf by which its like is found when the program is compiled at other sizes.

    A leaf that has none there (it is a scalar there, or there are more loops) stands as it is.
    """
    counts: dict[str, int] = {}
    out = []
    for leaf in leaves:
        base = f"{leaf.role} {leaf.name}"
        counts[base] = counts.get(base, 0) + 1
        out.append(f"{base} {counts[base]}")
    return out
