"""The compiler. This page is the list of its stages.

program -trace-> expressions -normalize-> forms -expand-> forms -schedule-> layers of heads
        -allocate-> blocks -emit-> Network -verify-> Certificate
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from inweave.compiler.allocate import Allocation, Allocator
from inweave.compiler.emit import Emitter
from inweave.compiler.expand import Expander
from inweave.compiler.forms import Form, Forms, LoopItem
from inweave.compiler.given import Given, given_form
from inweave.compiler.layers import LoopSpec, Schedule
from inweave.compiler.normalize import Normalizer
from inweave.compiler.origin import Compiled, Origin
from inweave.compiler.search import names, search
from inweave.errors import InputError, InweaveError
from inweave.language import expressions as ex
from inweave.language.program import Program, Traced
from inweave.model.network import Network

TARGETS = ("elsa", "lsa")
MODES = ("faithful", "speed", "depth")
FAR = 64  # how many times longer than all others a size is that is by far the longest


@dataclass
class Stages:
    """What every stage produced."""

    traced: Traced
    normalized: dict[str, Form]
    expanded: dict[str, Form]
    loops: list[LoopItem]
    schedule: Schedule
    allocation: Allocation
    network: Network
    added: tuple[str, ...]


def stages(
    program: Program,
    target: str,
    optimize: str,
    tokens: int | str | None,
    layout: Any,
    sizes: dict[str, Any],
) -> Stages:
    """Run the stages in order."""
    _check(program, target, optimize, tokens)
    with deep_recursion():
        if isinstance(tokens, str) and layout is None:
            return _along(program, target, optimize, tokens, sizes)
        tall = tokens if isinstance(tokens, int) else None
        return _shallowest(program.trace(**sizes), target, optimize, tall, layout)


def _along(
    program: Program, target: str, optimize: str, name: str, sizes: dict[str, Any]
) -> Stages:
    """The prompt whose width grows least with a size: that size runs along the tokens.

    The narrowest prompt is tried and the smallest, and if both grow, also the one in which values
    stand as they would if the size were by far the longest.
    """
    here = program.trace(**sizes)
    narrowest = _shallowest(here, target, optimize, narrow=True)
    try:
        next_to = program.trace(**{**sizes, name: sizes[name] + 1})
    except InweaveError:  # the size cannot be another one
        return narrowest

    def rank(done: Stages, narrow: bool, longest: Traced | None = None) -> tuple[int, int, int]:
        other = _shallowest(next_to, target, optimize, narrow=narrow, longest=longest)
        network = done.network
        growth = other.network.width - network.width
        return network.depth, growth, network.tokens * network.width

    smallest = _shallowest(here, target, optimize)
    tried = [(rank(narrowest, True), narrowest), (rank(smallest, False), smallest)]
    best = min(tried, key=lambda pair: pair[0])
    if best[0][1] > 0:
        longest = _longest(program, here, next_to, name, sizes)
        if longest is not None:
            done = _shallowest(here, target, optimize, longest=longest)
            best = min(best, (rank(done, False, longest), done), key=lambda pair: pair[0])
    return best[1]


def _longest(
    program: Program, here: Traced, next_to: Traced, name: str, sizes: dict[str, Any]
) -> Traced | None:
    """The program where a size is by far the longest; None if the program would be longer too."""
    lengths = {sum(1 for _ in ex.every(traced.outputs.values())) for traced in (here, next_to)}
    if len(lengths) > 1:
        return None
    try:
        return program.trace(**{**sizes, name: FAR * max(sizes[n] for n in program.size_names)})
    except InweaveError:
        return None


def _shallowest(
    traced: Traced,
    target: str,
    optimize: str,
    tokens: int | None = None,
    layout: Any = None,
    narrow: bool = False,
    longest: Traced | None = None,
) -> Stages:
    """One run through the stages; for least depth, also with nothing moved out of the loops."""
    done = staged(traced, target, optimize, tokens, layout, narrow, longest)
    if optimize == "depth" and any(isinstance(part, LoopSpec) for part in done.schedule.parts):
        plain = staged(traced, target, "faithful", tokens, layout, narrow, longest)
        done = min(done, plain, key=lambda tried: tried.network.depth)
    return done


def staged(
    traced: Traced,
    target: str,
    optimize: str,
    tokens: int | None,
    layout: Any,
    narrow: bool = False,
    longest: Traced | None = None,
) -> Stages:
    """One run through the stages; values stand the way round that they do in `longest`."""
    front, chosen = _front(traced, optimize, layout), None
    if longest is not None:
        there = _front(longest, optimize, None)
        flipped = search(there.forms, optimize, there.expanded, there.loops, True)[0].flipped
        chosen = dict(zip(names(flipped), flipped.values(), strict=True))
    given, loops = front.given, front.loops
    scheduler, schedule = search(front.forms, optimize, front.expanded, loops, narrow, chosen)
    allocation = Allocator(schedule, scheduler.leaves, given).run()
    emitter = Emitter(schedule, allocation, target, tokens, given)
    network = emitter.network(traced.inputs, dict(traced.kinds))
    return Stages(
        traced, front.normalized, front.expanded, loops, schedule, allocation, network,
        tuple(emitter.added),
    )  # fmt: skip


class Front(NamedTuple):
    """What is known of a program before anything is scheduled."""

    forms: Forms
    given: Given | None
    normalized: dict[str, Form]
    expanded: dict[str, Form]
    loops: list[LoopItem]


def _front(traced: Traced, optimize: str, layout: Any) -> Front:
    forms = Forms()
    given = None if layout is None else given_form(layout, traced, forms)
    normalizer = Normalizer(forms, optimize, given)
    normalized = normalizer.program(traced)
    expander = Expander(forms, hoist=optimize != "faithful")
    expanded = {name: expander.form(form) for name, form in normalized.items()}
    return Front(forms, given, normalized, expanded, normalizer.loops)


def compiled(origin: Origin) -> Compiled:
    """The network of an origin; not verified."""
    done = stages(
        origin.program, origin.target, origin.optimize, origin.tokens, origin.layout, origin.sizes
    )
    return Compiled(done.network, replace(origin, added=done.added))


def _check(program: Any, target: str, optimize: str, tokens: Any) -> None:
    if not isinstance(program, Program):
        raise InputError(f"expected a program made by @inweave.program, got {program!r}")
    if target not in TARGETS:
        raise InputError(f"target must be one of {', '.join(TARGETS)}, got {target!r}")
    if optimize not in MODES:
        raise InputError(f"optimize must be one of {', '.join(MODES)}, got {optimize!r}")
    if isinstance(tokens, str) and tokens not in program.size_names:
        raise InputError(
            f"tokens={tokens!r} is not a size of program {program.name!r}; it has "
            f"{', '.join(program.size_names) or 'none'}"
        )
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, (int, str))):
        raise InputError(f"tokens must be an int or the name of a size, got {tokens!r}")


@contextmanager
def deep_recursion(limit: int = 50_000) -> Iterator[None]:
    """Programs written as long Python loops make deep forms."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
