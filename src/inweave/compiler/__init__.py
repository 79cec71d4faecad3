"""The compiler. This page is the list of its stages.

program -trace-> expressions -normalize-> forms -expand-> forms -schedule-> layers of heads
        -allocate-> blocks -emit-> Network -verify-> Certificate
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from inweave import expressions as ex
from inweave.compiler.allocate import Allocation, Allocator
from inweave.compiler.emit import Emitter
from inweave.compiler.expand import Expander
from inweave.compiler.explain import explain as explain
from inweave.compiler.forms import Form, Forms, LoopItem
from inweave.compiler.given import Given, given_form
from inweave.compiler.layers import LoopSpec, Schedule
from inweave.compiler.normalize import Normalizer
from inweave.compiler.origin import Origin
from inweave.compiler.resize import same_weights
from inweave.compiler.search import names, search
from inweave.errors import CompileError, InputError, InweaveError
from inweave.language import Program, Traced
from inweave.network import Network

TARGETS = ("elsa", "lsa")
MODES = ("faithful", "speed", "depth")
FAR = 64  # how many times longer than all others a size is that is by far the longest
PATIENCE = 5.0  # seconds that compile spends on verification without being asked
FIELD_SECONDS_PER_OPERATION = 3e-5  # of the program, two trials
FIELD_SECONDS_PER_FLOP = 4e-9  # program and network, two trials, one core


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


def compile(
    program: Program,
    *,
    target: str = "elsa",
    optimize: str = "faithful",
    tokens: int | str | None = None,
    layout: Any = None,
    verify: bool = True,
    **sizes: Any,
) -> Network:
    """The network that runs a program at given sizes.

    `target` is 'elsa' (heads with biases) or 'lsa' (constants live in the prompt). `optimize` is
    'faithful' (loops stay as written), 'speed' (what a loop does not change leaves it) or 'depth'
    (fewest layers, affine loops collapsed). `tokens` asks for a taller prompt, or names the size
    that tokens stand for: with tokens="n" the width of the prompt grows as little with n as can be,
    so that every example is a row; with tokens="d" every feature is. `layout` fixes the input form:
    a Layout whose blocks are named after inputs ('X', 'Xᵀ', 's·I'; a matrix may stand there both
    ways round), or a Network whose input form is to be used. The network is verified unless
    `verify=False`.

    >>> import inweave
    >>> from inweave import Matrix, Vector
    >>> @inweave.program
    ... def gram(X: Matrix["n", "d"], w: Vector["d"]):
    ...     return X.T @ (X @ w)
    >>> net = inweave.compile(gram, n=4, d=2)
    >>> net
    Network(lsa: 1 attention layers, 1 heads, 2 tokens x 6 columns)
    >>> net(X=[[1, 0], [0, 2], [0, 0], [0, 0]], w=[1, 1]).tolist()
    [1.0, 4.0]
    >>> net.depth, net.depth_lower_bound, net.degree
    (1, 1, 3)
    """
    done = stages(program, target, optimize, tokens, layout, sizes)
    if done.traced.unused:
        warnings.warn(
            f"program {program.name!r} does not use its input(s) {', '.join(done.traced.unused)}; "
            "the network takes and ignores them",
            stacklevel=2,
        )
    origin = Origin(program, dict(sizes), target, optimize, tokens, layout, done.added)
    network = replace(done.network, origin=origin)
    return certified(network) if verify else network


def certified(network: Network) -> Network:
    """The network with its certificate, or with a warning that checking it would take long."""
    assert network.origin is not None
    seconds = verifying(network)
    if seconds > PATIENCE:
        warnings.warn(
            f"verifying this network would take about {seconds:.0f} s; it is not verified yet: "
            "call net.verify(), or compile with verify=False to silence this",
            stacklevel=3,
        )
        return network
    network.verify()
    return network


def verifying(network: Network) -> float:
    """About how many seconds it takes to verify a network; of a loop, one step is checked.

    But a network without the program's loops is checked against all of their steps.
    """
    from inweave.run.plan import plan
    from inweave.verify.check import matched_loops, program_work

    once = tuple(replace(m, repeat=1) if m.carries else m for m in network.modules)
    flops = plan(replace(network, modules=once)).flops
    if network.origin is None:
        return flops * FIELD_SECONDS_PER_FLOP
    traced = network.origin.traced
    operations, products = program_work(traced, once=matched_loops(traced, network) is not None)
    return (flops + products) * FIELD_SECONDS_PER_FLOP + operations * FIELD_SECONDS_PER_OPERATION


def rebuild(origin: Origin) -> Network:
    """The network of an origin, compiled again; not verified."""
    if origin.made_at is not None:
        made = rebuild(replace(origin, sizes=origin.made_at, made_at=None))
        found = same_weights(made, origin.sizes)
        if found is None:
            raise CompileError(f"{origin.program.name!r} no longer compiles to the same weights")
        return found
    done = stages(
        origin.program, origin.target, origin.optimize, origin.tokens, origin.layout, origin.sizes
    )
    return replace(done.network, origin=origin)


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
