"""Networks at other sizes.

When no projection holds a constant as long as some size, the same weights serve any value of it:
only the heights of blocks change. Compiling at the other size may give those weights. Far from the
size that a network was compiled for, the compiler may decide otherwise (what is stored transposed
depends on which side is longer), although the old ones are as good. The network is then stretched.

The weights of a loop over rows do know their number: there are as many steps, and a shift matrix as
large. Such a network follows the size: it is compiled anew, where its values may also stand in
another way. What becomes of a network depends on the sizes that it was first compiled for and on
those that are wanted, never on those between.

A proof may hold however often loops repeat, but it is about the program as it was recorded. The
program at another number of steps may be another one: `1 / steps` is a constant of it. So it is
compiled at other numbers, near and far, and the networks are compared, the repeats left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inweave.compiler.candidates import compiled
from inweave.compiler.held import held_sizes
from inweave.compiler.origin import Compiled, Origin
from inweave.compiler.stretch import stretched
from inweave.errors import CompileError, InputError, InweaveError
from inweave.model.modules import Module, Part, loops_of
from inweave.model.network import Network

LONGEST = 500  # operations of a program that is compiled twice more in no time


def build(origin: Origin) -> Compiled:
    """The network of an origin, which may have been made at other sizes; not verified."""
    if origin.made_at is None:
        return compiled(origin)
    try:
        found = _elsewhere(_base(origin), origin.sizes)
    except InweaveError:
        found = None
    if found is None:
        raise CompileError(f"{origin.program.name!r} no longer compiles to the same weights")
    return found


def _base(origin: Origin) -> Compiled:
    """The network of an origin at the sizes that its weights were compiled for."""
    return compiled(origin.at(origin.made_at or origin.sizes))


def _elsewhere(base: Compiled, wanted: Mapping[str, Any]) -> Compiled | None:
    """The network at other sizes, if its weights do not depend on them or follow them; or None."""
    first = base.origin.sizes
    changed = [name for name in base.origin.program.size_names if wanted[name] != first[name]]
    origin = base.origin.at(wanted, first if changed else None)
    try:
        anew = compiled(base.origin.at(wanted)).network
    except CompileError:
        found = stretched(base, wanted)
        if found is None:
            raise
        return found
    here, there = loop_steps(base.network), loop_steps(anew)  # as many as a size is large, at both
    follow = {name for name in changed if first[name] in here and wanted[name] in there}
    if _weights(anew.modules) == _weights(base.network.modules):
        return Compiled(anew, origin)
    if not follow:
        return stretched(base, wanted)
    held = set(held_sizes(base.network, base.origin.program, first))
    return Compiled(anew, origin) if held.isdisjoint(set(changed) - follow) else None


def loop_steps(network: Network) -> set[int]:
    """How often the loops of a network repeat."""
    return {loop.repeat for loop in loops_of(network.modules)}


def _weights(modules: Sequence[Module]) -> list[Any]:
    """Layers, repeats and skips, without the heights of what is carried."""
    return [
        (part.repeat, part.skip, len(part.body)) if isinstance(part, Module) else part
        for module in modules
        for part in module.walk()
    ]


def resize(made: Compiled, sizes: Mapping[str, Any]) -> Compiled:
    """The same weights at another size, or those that follow it; not verified."""
    program = made.origin.program
    unknown = [name for name in sizes if name not in program.size_names]
    if unknown:
        known = ", ".join(program.size_names)
        raise InputError(f"unknown sizes {', '.join(unknown)}; the program has {known}")
    wanted = {**made.origin.sizes, **sizes}
    program.trace(**wanted)  # says what is wrong with a size
    base = made if made.origin.made_at is None else _base(made.origin)
    try:
        other = _elsewhere(base, wanted)
    except CompileError as error:
        raise refused(sizes, f"; at that size, {error}") from error
    except InweaveError as error:
        raise refused(sizes, f": {error}") from error
    if other is None:
        raise refused(sizes)
    return other


def refused(sizes: Mapping[str, Any], why: str = "") -> CompileError:
    """The error for sizes at which the weights do not serve."""
    said = ", ".join(f"{name}={value}" for name, value in sizes.items())
    return CompileError(f"the weights depend on the size, so {said} needs a new compilation{why}")


# -- numbers of steps -----------------------------------------------------------------------------
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
