"""Which of several compilations of a program is kept.

For speed, the candidates are compared by their costs: whether a loop is best left alone, relieved
of what it does not change or collapsed depends on the sizes. How many prompts a network will be
given at once is not known, so it is to be fast for one and for many. The cost is handed in, since
what a network takes to run is known further down. For least depth, moving things out of loops may
cost a layer, so a program that keeps its loops is also compiled as it is written. Where a size is
to run along the tokens, prompts whose values stand in different ways are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from inweave.compiler.driver import Compilation, Shared, checked_by, run
from inweave.compiler.layers import LoopSpec
from inweave.compiler.options import (
    AS_WRITTEN,
    CANDIDATES,
    COLLAPSED,
    HOISTED,
    MODES,
    TARGETS,
)
from inweave.compiler.origin import Compiled, Origin
from inweave.compiler.schedule import names
from inweave.errors import CompileError, InputError
from inweave.language import expressions as ex
from inweave.language.program import Program, Traced
from inweave.model.network import Network

USUAL = {"faithful": AS_WRITTEN, "speed": HOISTED, "depth": COLLAPSED}  # where none was chosen
ALIKE = 1.05  # times the least cost: the first candidate that takes no more is kept
LEAST = 1e-12  # seconds that anything takes
FAR = 64  # how many times longer than all others a size is that is by far the longest
LONGEST = 1024  # that is recorded for it: a program may hold matrices of such a size


def compiled(origin: Origin) -> Compiled:
    """The network of an origin; not verified."""
    done = best(origin)
    found = replace(origin, added=done.allocation.added, recorded=origin.traced)
    return Compiled(done.network, found)


class Cost(Protocol):
    """What a network takes to run: for one prompt, and for each of a large batch."""

    @property
    def seconds(self) -> float: ...

    @property
    def batched(self) -> float: ...


T = TypeVar("T")
C = TypeVar("C", bound=Cost)


def chosen(origin: Origin, cost: Callable[[Network], C]) -> tuple[Origin, dict[str, C]]:
    """The origin with the candidate that is to be its network, and what each would cost.

    There is a choice for speed only, and none where all candidates are one network. A candidate
    that saves calls by more arithmetic is faster for one prompt and slower in a batch, so that is
    kept which is slower than the fastest by least, where it is slowest beside it; of those that
    cost about the same, the first: they are in the order in which they go away from the program.
    """
    _check_options(origin)
    if origin.optimize != "speed":
        return origin, {}
    networks = _drafts(origin)
    first = next(iter(networks), "")
    if all(network is networks[first] for network in networks.values()):
        return replace(origin, candidate=first, recorded=origin.traced), {}
    costs = _priced(networks, cost)
    return replace(origin, candidate=_kept(costs), recorded=origin.traced), costs


def _kept(costs: Mapping[str, Cost]) -> str:
    known = {name: cost for name, cost in costs.items() if math.isfinite(cost.seconds)}
    if not known:
        return next(iter(costs), "")
    alone = max(min(cost.seconds for cost in known.values()), LEAST)
    batched = max(min(cost.batched for cost in known.values()), LEAST)
    slower = {
        name: max(cost.seconds / alone, cost.batched / batched) for name, cost in known.items()
    }
    most = ALIKE * min(slower.values())
    return next(name for name, times in slower.items() if times <= most)


def _drafts(origin: Origin) -> dict[str, Network]:
    """The candidates that compile.

    Drafts will do: which way round values stand and how the longest products are cut, the longest
    searches of a compilation, are little to a network's plan. Shorter products are cut as they will
    be: in thirds, one may cost three times as much. Where candidates come to the same, they share
    it: without loops, most do.
    """
    asked = {"target": origin.target, "layout": origin.layout, "shared": Shared()}
    found: dict[str, Network] = {}
    with checked_by(None):  # the one that is kept is compiled again
        for name in CANDIDATES:
            with suppress(CompileError):
                found[name] = run(
                    origin.traced, candidate=name, draft=True, steady=True, **asked
                ).network
    return found


def _priced(networks: Mapping[str, Network], cost: Callable[[Network], C]) -> dict[str, C]:
    shared, costs = Shared(), dict[str, C]()
    for name, network in networks.items():
        with suppress(CompileError):
            costs[name] = shared.once(("cost",), network, partial(cost, network))
    return costs


def best(origin: Origin) -> Compilation:
    """The compilation of a program that serves best what was asked for."""
    _check_options(origin)
    ways = dict.fromkeys((origin.candidate or USUAL[origin.optimize], AS_WRITTEN))
    return next(_built(partial(_best, origin, candidate) for candidate in ways))


def _built(attempts: Iterable[Callable[[], T]]) -> Iterator[T]:
    """What comes of the attempts that succeed; one that cannot be built does not sink the others.

    If none can, the first says why.
    """
    refused, some = None, False
    for attempt in attempts:
        try:
            made = attempt()
        except CompileError as error:
            refused = refused or error
        else:
            some = True
            yield made
    if refused is not None and not some:
        raise refused


def _best(origin: Origin, candidate: str) -> Compilation:
    asked = {"target": origin.target, "layout": origin.layout}
    if isinstance(origin.tokens, str) and origin.layout is None:
        return _along(origin, origin.tokens, candidate, asked)
    asked["tokens"] = origin.tokens if isinstance(origin.tokens, int) else None
    return _compiled(origin, origin.traced, candidate, asked)


def _compiled(
    origin: Origin, recorded: Traced, candidate: str, asked: dict[str, Any]
) -> Compilation:
    """The compilation of a candidate; for least depth, the least deep of several.

    Where steps are cut is chosen by estimates, which may cost a layer that loops cut as for speed,
    or with nothing moved out of them, do not have.
    """
    tried = partial(run, recorded, **asked)
    if origin.optimize != "depth":
        steady = origin.optimize == "speed"
        return _least_multiplied(partial(tried, candidate=candidate, steady=steady), fewest=False)
    least = partial(tried, candidate=candidate, least_depth=origin.layout is None)
    done = _least_multiplied(least, fewest=True)
    steps = [x.loop.times for x in recorded.operations if isinstance(x, ex.LoopResult)]
    attempts: list[Callable[[], Compilation]] = [lambda: done]
    as_for_speed = partial(tried, candidate=candidate, steady=True)
    with suppress(CompileError):
        if steps and as_for_speed(draft=True).network.depth < done.network.depth:
            attempts.append(as_for_speed)
    kept = any(isinstance(part, LoopSpec) for part in done.schedule.parts)
    if kept or (steps and max(steps) < done.network.depth):  # a step takes a layer or more
        attempts.append(partial(tried, candidate=AS_WRITTEN))
    return min(_built(attempts), key=lambda made: made.network.depth)


def _least_multiplied(tried: Callable[..., Compilation], fewest: bool) -> Compilation:
    """A compilation that multiplies out no products over sums that a head or a block can hold.

    What cancels in a sum, as in `(x - m) (x - m)ᵀ`, keeps its digits there, and takes fewer heads.
    Only where the `fewest` layers are asked for, it is multiplied out if that saves one.
    """
    shared = Shared()
    done = tried(shared=shared)
    with suppress(CompileError):
        other = tried(shared=shared, picks=True)
        if not fewest or other.network.depth <= done.network.depth:
            return other
    return done


def _along(origin: Origin, size: str, candidate: str, asked: dict[str, Any]) -> Compilation:
    """The prompt whose width grows least with a size: that size runs along the tokens.

    The narrowest prompt is tried and the smallest, and if both grow, also the one in which values
    stand as they would if the size were by far the longest.
    """
    here, longer = origin.traced, _recorded(origin, size, origin.sizes[size] + 1)

    def tried(how: dict[str, Any]) -> tuple[tuple[int, int, int], Compilation]:
        done = _compiled(origin, here, candidate, {**asked, **how})
        if longer is None:  # the size cannot be another one
            return (0, 0, 0), done
        other = _compiled(origin, longer, candidate, {**asked, **how}).network
        network = done.network
        growth = other.width - network.width
        return (network.depth, growth, network.tokens * network.width), done

    found = list(_built(partial(tried, how) for how in ({"narrow": True}, {})))
    if longer is not None and min(rank for rank, _ in found)[1] > 0:
        longest = max(origin.sizes[n] for n in origin.program.size_names)
        far = _recorded(origin, size, min(FAR * longest, max(LONGEST, 2 * longest)))
        if far is not None and len({_length(traced) for traced in (here, longer)}) == 1:
            with suppress(CompileError):
                flipped = run(far, candidate=candidate, narrow=True, **asked).schedule.flipped
                turned = dict(zip(names(flipped), flipped.values(), strict=True))
                found.append(tried({"flipped": turned}))
    return min(found, key=lambda pair: pair[0])[1]


def _recorded(origin: Origin, size: str, value: int) -> Traced | None:
    """The program at another size; None if it cannot have that."""
    try:
        return origin.record({size: value})
    except Exception:  # the program is anybody's code: at other sizes it may do anything
        return None


def _length(traced: Traced) -> int:
    return sum(1 for _ in ex.every(traced.outputs.values()))


def _check_options(origin: Origin) -> None:
    program, tokens = origin.program, origin.tokens
    if not isinstance(program, Program):
        raise InputError(f"expected a program made by @inweave.program, got {program!r}")
    for what, got, known in (
        ("target", origin.target, TARGETS),
        ("optimize", origin.optimize, MODES),
    ):
        if got not in known:
            raise InputError(f"{what} must be one of {', '.join(known)}, got {got!r}")
    if isinstance(tokens, str) and tokens not in program.size_names:
        raise InputError(
            f"tokens={tokens!r} is not a size of program {program.name!r}; it has "
            f"{', '.join(program.size_names) or 'none'}"
        )
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, (int, str))):
        raise InputError(f"tokens must be an int or the name of a size, got {tokens!r}")
