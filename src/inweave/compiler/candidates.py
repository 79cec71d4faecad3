"""Which of several compilations of a program is kept.

For least depth, moving things out of loops may cost a layer, so a program that keeps its loops is
also compiled as it is written. Where a size is to run along the tokens, prompts whose values stand
in different ways are compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inweave.compiler.driver import Compilation, run
from inweave.compiler.layers import LoopSpec
from inweave.compiler.options import MODES, TARGETS
from inweave.compiler.origin import Compiled, Origin
from inweave.compiler.schedule import names
from inweave.errors import InputError, InweaveError
from inweave.language import expressions as ex
from inweave.language.program import Program, Traced

FAR = 64  # how many times longer than all others a size is that is by far the longest


def compiled(origin: Origin) -> Compiled:
    """The network of an origin; not verified."""
    done = best(origin)
    found = replace(origin, added=done.allocation.added, recorded=origin.traced)
    return Compiled(done.network, found)


def best(origin: Origin) -> Compilation:
    """The compilation of a program that serves best what was asked for."""
    _check_options(origin)
    asked = {"target": origin.target, "layout": origin.layout}
    if isinstance(origin.tokens, str) and origin.layout is None:
        return _along(origin, origin.tokens, asked)
    asked["tokens"] = origin.tokens if isinstance(origin.tokens, int) else None
    return shallowest(origin.traced, origin.optimize, asked)


def shallowest(recorded: Traced, mode: str, asked: dict[str, Any]) -> Compilation:
    """The compilation in a mode; for least depth, or with nothing moved out of the loops."""
    done = run(recorded, mode=mode, **asked)
    if mode == "depth" and any(isinstance(part, LoopSpec) for part in done.schedule.parts):
        plain = run(recorded, mode="faithful", **asked)
        done = min(done, plain, key=lambda tried: tried.network.depth)
    return done


def _along(origin: Origin, size: str, asked: dict[str, Any]) -> Compilation:
    """The prompt whose width grows least with a size: that size runs along the tokens.

    The narrowest prompt is tried and the smallest, and if both grow, also the one in which values
    stand as they would if the size were by far the longest.
    """
    here, longer = origin.traced, _recorded(origin, size, origin.sizes[size] + 1)

    def tried(how: dict[str, Any]) -> tuple[tuple[int, int, int], Compilation]:
        done = shallowest(here, origin.optimize, {**asked, **how})
        if longer is None:  # the size cannot be another one
            return (0, 0, 0), done
        other = shallowest(longer, origin.optimize, {**asked, **how}).network
        network = done.network
        growth = other.width - network.width
        return (network.depth, growth, network.tokens * network.width), done

    found = [tried({"narrow": True}), tried({})]
    if longer is not None and min(rank for rank, _ in found)[1] > 0:
        far = _recorded(origin, size, FAR * max(origin.sizes[n] for n in origin.program.size_names))
        if far is not None and len({_length(traced) for traced in (here, longer)}) == 1:
            flipped = run(far, mode=origin.optimize, narrow=True, **asked).schedule.flipped
            turned = dict(zip(names(flipped), flipped.values(), strict=True))
            found.append(tried({"flipped": turned}))
    return min(found, key=lambda pair: pair[0])[1]


def _recorded(origin: Origin, size: str, value: int) -> Traced | None:
    """The program at another size; None if it cannot have that."""
    try:
        return origin.program.trace(**{**origin.sizes, size: value})
    except InweaveError:
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
