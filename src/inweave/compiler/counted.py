"""Which loops of a network are as long as a static argument says, and nothing else is.

A proof may hold however often loops repeat, but it is about the program as it was recorded. The
program at another number of steps may be another one: `1 / steps` is a constant of it. So it is
compiled at other numbers, near and far, and the networks are compared, the repeats left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inweave.compiler.candidates import compiled
from inweave.compiler.origin import Compiled
from inweave.model.modules import Module, Part
from inweave.model.network import Network

LONGEST = 500  # operations of a program that is compiled twice more in no time


def counted_loops(made: Compiled) -> dict[str, tuple[int, ...]]:
    """For each static number, as far as seen, the loops that grow with it, one step for one.

    Loops are counted as in the tree of modules, those that repeat. A number that is not here
    changes the network otherwise, or not at all, or loops that another one changes too.
    """
    origin = made.origin
    statics = [name for name in origin.sizes if name not in origin.program.size_names]
    if origin.traced.length > LONGEST:
        return {}
    found = {name: _grown(made, name) for name in statics if type(origin.sizes[name]) is int}
    shared = Counter(loop for loops in found.values() for loop in loops)
    return {name: loops for name, loops in found.items()
            if loops and all(shared[loop] == 1 for loop in loops)}  # fmt: skip


def _grown(made: Compiled, name: str) -> tuple[int, ...]:
    """The loops that grow with a number, where nothing else changes."""
    here, value = made.network, made.origin.sizes[name]
    seen = {_loops_between(here, _at(made, {name: other}), other - value)
            for other in (value + 1, 2 * value + 1)}  # fmt: skip
    return seen.pop() if len(seen) == 1 else ()


def _at(made: Compiled, others: Mapping[str, Any]) -> Network | None:
    try:
        return compiled(made.origin.at({**made.origin.sizes, **others})).network
    except Exception:  # the program is anybody's code: at other numbers it may do anything
        return None


def _loops_between(here: Network, there: Network | None, more: int) -> tuple[int, ...]:
    """The loops of `here` that repeat so many times more in `there`; none if more is different."""
    if there is None or _uncounted(here) != _uncounted(there):
        return ()
    pairs = list(zip(_repeats(here), _repeats(there), strict=True))
    if any(b - a not in (0, more) or (a == 1 and b != 1) for a, b in pairs):
        return ()
    looped = [b - a for a, b in pairs if a != 1]
    return tuple(i for i, grown in enumerate(looped) if grown)


def _uncounted(network: Network) -> Network:
    """The network with every loop run once."""
    return replace(network, modules=tuple(map(_once, network.modules)))


def _once(part: Any) -> Any:
    if isinstance(part, Module):
        return replace(part, repeat=1, body=tuple(map(_once, part.body)))
    return part


def _repeats(network: Network) -> list[int]:
    parts: list[Part] = [part for module in network.modules for part in module.walk()]
    return [part.repeat for part in parts if isinstance(part, Module)]
