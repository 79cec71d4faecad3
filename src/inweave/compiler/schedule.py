"""Pass: forms become layers of heads, over values that stand one way round or the other.

A schedule depends on the orientation of every input and carried value, and trying one takes about a
millisecond, so the choice is searched rather than derived: descent over single flips from four
starts finds the paper's own choice for ridge. Depth decides, then the area of the prompt (its width
alone if it is to be narrow: then what is long stands along the tokens), then flops.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable

from inweave.compiler.costs import LONG, SHORT, storage
from inweave.compiler.forms import CarriedLeaf, Form, InputLeaf, Leaf, Written
from inweave.compiler.layers import Schedule, layers
from inweave.compiler.options import Options
from inweave.compiler.readings import Readings
from inweave.compiler.scheduler import Needs, Scheduler
from inweave.compiler.units import UNKNOWN, Units
from inweave.exact.constants import log2

FLOATS = 1000  # powers of two from one, within which there are floats


def schedule(written: Written, options: Options) -> Schedule:
    needed = written.reachable()
    units = Units(options.units, needed)
    found = _searched(written, needed, units, options)
    if units.matter and not _in_floats(found):  # then sizes may have been estimated wrongly
        plain = _searched(written, needed, Units(UNKNOWN, ()), options)
        found = plain if _in_floats(plain) else found
    return found


def _in_floats(found: Schedule) -> bool:
    """Whether floats hold what each head multiplies by."""
    for layer in layers(found.parts):
        for head in layer.heads:
            values = tuple(item for _, item in head.values)
            sizes = [[log2(x.coefficient) for x in read] for read in (head.query, head.key, values)]
            if any(abs(sum(ends)) > FLOATS for ends in (map(min, sizes), map(max, sizes))):
                return False
    return True


def _searched(written: Written, needed: list[Form], units: Units, options: Options) -> Schedule:
    readings = Readings(options.forms, needed, units)
    needs = _needs(written, needed)
    free = list(dict.fromkeys(
        leaf for form in needed for leaf in map(storage, (v for v, _, _ in form.leaves))
        if isinstance(leaf, (InputLeaf, CarriedLeaf)) and leaf.family is None
    ))  # fmt: skip
    tried: dict[tuple[bool, ...], Schedule] = {}

    def attempt(choice: tuple[bool, ...]) -> Schedule:
        if choice not in tried:
            flipped: dict[Leaf, bool] = dict(zip(free, choice, strict=True))
            long = SHORT if options.draft else LONG
            how = (options.hoists, flipped, options.narrow, options.least_work, long)
            scheduler = Scheduler(needs, readings, *how)
            tried[choice] = scheduler.run()
        return tried[choice]

    if options.flipped is not None:
        return attempt(tuple(options.flipped.get(name, False) for name in names(free)))
    best: tuple[bool, ...] | None = None
    for matrices, vectors in itertools.product((False, True), repeat=2):
        choice = tuple(vectors if 1 in (leaf.rows, leaf.cols) else matrices for leaf in free)
        improving = not options.draft
        while improving:
            improving = False
            for i in range(len(free)):
                other = (*choice[:i], not choice[i], *choice[i + 1 :])
                if attempt(other).cost < attempt(choice).cost:
                    choice, improving = other, True
        if best is None or attempt(choice).cost < attempt(best).cost:
            best = choice
    assert best is not None
    return attempt(best)


def _needs(written: Written, needed: list[Form]) -> Needs:
    read = {leaf for form in needed for leaf, _, _ in form.leaves}
    carried = {storage(leaf) for leaf in read}
    loops = [loop for loop in written.loops if carried.intersection(loop.carried)]
    starts = Counter(form for loop in loops for form in loop.init)
    elsewhere = {leaf for form in needed if form not in starts for leaf, _, _ in form.leaves}
    soles = {form.sole[0] for form, n in starts.items() if form.sole and n == 1}
    return Needs(
        written.outputs,
        loops,
        frozenset(leaf for leaf in carried if isinstance(leaf, CarriedLeaf)),
        frozenset(v for v in soles if isinstance(v, Leaf)) - elsewhere,
    )


def names(leaves: Iterable[Leaf]) -> list[str]:
    """A name for each leaf by which its like is found when the program is compiled at other sizes.

    A leaf that has none there (it is a scalar there, or there are more loops) stands as it is.
    """
    counts: Counter[str] = Counter()
    out = []
    for leaf in leaves:
        base = f"{type(leaf).__name__} {leaf.name}"
        counts[base] += 1
        out.append(f"{base} {counts[base]}")
    return out
