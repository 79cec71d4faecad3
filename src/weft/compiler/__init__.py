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
from typing import Any

from weft.compiler.allocate import Allocation, Allocator
from weft.compiler.emit import Emitter
from weft.compiler.expand import Expander
from weft.compiler.explain import explain as explain
from weft.compiler.forms import Form, Forms, LoopItem
from weft.compiler.given import given_form
from weft.compiler.layers import LoopSpec, Schedule
from weft.compiler.normalize import Normalizer
from weft.compiler.origin import Origin
from weft.compiler.resize import same_weights
from weft.compiler.search import search
from weft.errors import CompileError, InputError
from weft.language import Program, Traced
from weft.network import Network

TARGETS = ("elsa", "lsa")
MODES = ("faithful", "speed", "depth")
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
    """Run the stages in order; for least depth, also with nothing moved out of the loops."""
    with deep_recursion():
        traced = program.trace(**sizes)
        if isinstance(tokens, str) and tokens not in program.size_names:
            raise InputError(
                f"tokens={tokens!r} is not a size of program {program.name!r}; it has "
                f"{', '.join(program.size_names) or 'none'}"
            )
        done = staged(traced, target, optimize, tokens, layout)
        if optimize == "depth" and any(isinstance(part, LoopSpec) for part in done.schedule.parts):
            plain = staged(traced, target, "faithful", tokens, layout)
            done = min(done, plain, key=lambda tried: tried.network.depth)
    return done


def staged(
    traced: Traced, target: str, optimize: str, tokens: int | str | None, layout: Any
) -> Stages:
    """One run through the stages."""
    forms = Forms()
    given = None if layout is None else given_form(layout, traced, forms)
    normalizer = Normalizer(forms, optimize, given)
    normalized = normalizer.program(traced)
    expander = Expander(forms, hoist=optimize != "faithful")
    expanded = {name: expander.form(form) for name, form in normalized.items()}
    narrow = isinstance(tokens, str)
    scheduler, schedule = search(forms, optimize, expanded, normalizer.loops, narrow)
    allocation = Allocator(schedule, scheduler.leaves, given).run()
    tall = None if isinstance(tokens, str) else tokens
    emitter = Emitter(schedule, allocation, target, tall, given)
    network = emitter.network(traced.inputs, dict(traced.kinds))
    return Stages(
        traced, normalized, expanded, normalizer.loops, schedule, allocation, network,
        tuple(emitter.added),
    )  # fmt: skip


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
    that tokens stand for: tokens="n" makes the prompt narrow, every example a row. `layout` fixes
    the input form: a Layout whose blocks are named after inputs ('X', 'Xᵀ', 's·I'), or a Network
    whose input form is to be used. The network is verified unless `verify=False`.

    >>> import weft
    >>> from weft import Matrix, Vector
    >>> @weft.program
    ... def gram(X: Matrix["n", "d"], w: Vector["d"]):
    ...     return X.T @ (X @ w)
    >>> net = weft.compile(gram, n=4, d=2)
    >>> net
    Network(lsa: 1 attention layers, 1 heads, 2 tokens x 6 columns)
    >>> net(X=[[1, 0], [0, 2], [0, 0], [0, 0]], w=[1, 1]).tolist()
    [1.0, 4.0]
    >>> net.depth, net.depth_lower_bound, net.degree
    (1, 1, 3)
    """
    _check(program, target, optimize)
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
    from weft.run.plan import plan
    from weft.verify.check import matched_loops, program_work

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


def _check(program: Any, target: str, optimize: str) -> None:
    if not isinstance(program, Program):
        raise InputError(f"compile takes a program made by @weft.program, got {program!r}")
    if target not in TARGETS:
        raise InputError(f"target must be one of {', '.join(TARGETS)}, got {target!r}")
    if optimize not in MODES:
        raise InputError(f"optimize must be one of {', '.join(MODES)}, got {optimize!r}")


@contextmanager
def deep_recursion(limit: int = 50_000) -> Iterator[None]:
    """Programs written as long Python loops make deep forms."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
