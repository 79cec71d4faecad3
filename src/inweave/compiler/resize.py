"""Networks whose weights do not know how large a size is.

When no projection holds a constant as long as some size, the same weights serve any value of it:
only the heights of blocks change. That is not assumed but seen. The program is compiled at another
size, and its modules must be equal, piece by piece.

Far from the size that a network was compiled for, the compiler may decide otherwise (what is stored
transposed depends on which side is longer), so that compiling there gives other weights although
the old ones are as good. The network is then stretched: two compilations with the same weights show
how every height depends on the size, and that line is followed to where it is wanted. What comes
out is verified against the program like any other network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from inweave.compiler.origin import Origin
from inweave.errors import CompileError, InputError, InweaveError, VerificationError
from inweave.layout import Layout
from inweave.network import (
    AttentionLayer,
    BlockPointwiseLayer,
    Head,
    Module,
    Network,
    Part,
    layers_of,
)
from inweave.projection import AnyProjection, Piece, Projection
from inweave.prompt import Fill, Output, Place

STEPS = (7, 1)  # how far away a size is tried, to see whether the weights depend on it
QUICK = 0.2  # seconds that a statement about all sizes may take to check at one of them


class Differs(Exception):
    """Two networks differ in more than numbers of rows."""


def same_weights(network: Network, sizes: Mapping[str, Any]) -> Network | None:
    """The network at other sizes if its weights are the same, otherwise None; not verified."""
    try:
        return _elsewhere(network, sizes)
    except InweaveError:
        return None


def _elsewhere(network: Network, sizes: Mapping[str, Any]) -> Network | None:
    """As `same_weights`, but what the compiler finds wrong with the sizes is said."""
    origin, refused = network.origin, None
    assert origin is not None
    try:
        found = _compiled(network, sizes)
    except CompileError as error:
        found, refused = None, error
    if found is None:
        found = stretched(network, sizes)
        if found is not None and _differ(found, network):
            found = None
    if found is None and refused is not None:
        raise refused
    if found is None:
        return None
    made, wanted = origin.made_at or origin.sizes, {**origin.sizes, **sizes}
    made_at = None if wanted == made else dict(made)
    return replace(found, origin=replace(origin, sizes=wanted, made_at=made_at))


def _compiled(network: Network, sizes: Mapping[str, Any]) -> Network | None:
    """The program compiled at other sizes, if that gives the same weights."""
    from inweave.compiler import rebuild

    assert network.origin is not None
    known = {**network.origin.sizes, **sizes}
    other = rebuild(replace(network.origin, sizes=known, made_at=None))
    return None if _differ(other, network) else other


def _differ(a: Network, b: Network) -> bool:
    return _weights(a.modules) != _weights(b.modules)


def _weights(parts: tuple[Part, ...]) -> list[Any]:
    """Layers, repeats and skips, without the heights of what is carried."""
    return [
        (part.repeat, part.skip, _weights(part.body)) if isinstance(part, Module) else part
        for part in parts
    ]


# -- stretching -----------------------------------------------------------------------------------
def stretched(network: Network, sizes: Mapping[str, Any]) -> Network | None:
    """The same weights at other sizes, with heights that follow from two sizes near by."""
    base = _base(network)
    assert network.origin is not None
    assert base.origin is not None
    wanted, made = {**network.origin.sizes, **sizes}, base.origin.sizes
    near = {}
    for name in network.origin.program.size_names:
        if wanted[name] != made[name]:
            found = _sample(base, name)
            if found is None:
                return None
            near[name] = found
    return _stretched(base, near, wanted)


def _base(network: Network) -> Network:
    """The network with these weights at the sizes that they were compiled for."""
    from inweave.compiler import rebuild

    origin = network.origin
    assert origin is not None
    if origin.made_at is None:
        return network
    base = rebuild(replace(origin, sizes=origin.made_at, made_at=None))
    return base


def _stretched(
    base: Network, near: Mapping[str, tuple[int, Network]], wanted: Mapping[str, Any]
) -> Network | None:
    """`base` at the wanted sizes; `near` has a step and the network there for each that differs."""
    origin = base.origin
    assert origin is not None
    made = origin.sizes
    samples = [sample for _, sample in near.values()]
    shares = [Fraction(int(wanted[name] - made[name]), step) for name, (step, _) in near.items()]
    try:
        other = _follow(base, samples, shares, origin)
    except (Differs, InweaveError):
        return None
    if _differ(other, base):
        return None
    return replace(other, origin=replace(origin, sizes=dict(wanted), made_at=dict(made)))


def _sample(base: Network, name: str) -> tuple[int, Network] | None:
    """A network near by with the same weights, and how much larger the size is there."""
    assert base.origin is not None
    for step in STEPS:
        try:
            found = _compiled(base, {name: base.origin.sizes[name] + step})
        except InweaveError:
            continue
        if found is not None:
            return step, found
    return None


def _follow(
    base: Network, samples: Sequence[Network], shares: Sequence[Fraction], origin: Origin
) -> Network:
    """The network on the line (or plane) through some networks."""

    def line(part: str) -> Any:
        return _between(getattr(base, part), [getattr(s, part) for s in samples], shares)

    modules, fills, outputs = line("modules"), line("fills"), line("outputs")
    known = [_heights(one.layout, one.modules, one.fills, one.outputs) for one in (base, *samples)]
    tops = _heights(base.layout, modules, fills, outputs)
    blocks = []
    for block in base.layout:
        there = [sample.layout[block.name] for sample in samples]
        # A block that holds one value after another is as high as the highest: that is no line.
        seen = zip(known, (block, *there), strict=True)
        if all(heights[block.name] == one.rows for heights, one in seen):
            blocks.append(replace(block, rows=tops[block.name]))
        else:
            blocks.append(_between(block, there, shares))
    asked = origin.tokens if isinstance(origin.tokens, int) else 0
    tokens = max([asked, _tallest_bias(modules), *(block.rows for block in blocks)])
    if asked and tokens > asked:
        raise Differs
    return Network(Layout(tuple(blocks), tokens), modules, line("inputs"), fills, outputs)


def _between(start: Any, ends: Sequence[Any], shares: Sequence[Fraction]) -> Any:
    """`start + Σ share · (end - start)` for every int in some data; all else must be the same."""
    if all(end == start for end in ends):
        return start
    if any(type(end) is not type(start) for end in ends):
        raise Differs
    if type(start) is int:
        moves = [share * (end - start) for share, end in zip(shares, ends, strict=True)]
        at = start + sum(moves, Fraction(0))
        if at.denominator != 1:
            raise Differs
        return int(at)
    if isinstance(start, tuple) and all(len(end) == len(start) for end in ends):
        return tuple(_between(one, others, shares) for one, *others in zip(start, *ends))  # noqa: B905
    if is_dataclass(start) and not isinstance(start, type):
        return replace(
            start,
            **{
                part.name: _between(
                    getattr(start, part.name), [getattr(end, part.name) for end in ends], shares
                )
                for part in fields(start)
                if part.init
            },
        )
    raise Differs


def _heights(
    layout: Layout, parts: Sequence[Part], fills: Sequence[Fill], outputs: Sequence[Output]
) -> dict[str, int]:
    """Rows of every block that may hold something: what is filled, read, and written by heads."""
    tops = {block.name: 1 for block in layout}
    places = [fill.place for fill in fills] + [output.place for output in outputs]
    places += [place for part in parts for place in _places(part)]
    for place in places:
        tops[place.block] = max(tops[place.block], place.row + place.extent[0])
    heads = [
        head
        for part in parts
        for layer in layers_of(part)
        if isinstance(layer, AttentionLayer)
        for head in layer.heads
    ]
    before: dict[str, int] = {}
    while tops != before:
        before = dict(tops)
        for head in heads:
            _write(head, layout, tops)
    return tops


def _places(part: Part) -> list[Place]:
    if isinstance(part, Module):
        carried = [place for places in part.carries for place in places]
        return carried + [place for inner in part.body for place in _places(inner)]
    return [place for place, _ in part.applied] if isinstance(part, BlockPointwiseLayer) else []


def _write(head: Head, layout: Layout, tops: dict[str, int]) -> None:
    """Raise the blocks that a head writes: `Q Kᵀ V` is as high as Q, or as V if Q Kᵀ copies."""
    query, key, value = map(_pieces, head.projections)
    copies = all(
        len(read) == 1 and read[0].block is None and read[0].matrix.is_identity()
        for read in (query, key)
    )
    top = max((_rows(piece, tops) for piece in query), default=0)
    for piece in value:
        rows = min(top, _rows(piece, tops)) if copies else top
        for block in layout:
            if block.start < piece.stop and piece.at < block.stop:
                tops[block.name] = max(tops[block.name], rows)


def _rows(piece: Piece, tops: Mapping[str, int]) -> int:
    return piece.matrix.rows if piece.block is None else tops[piece.block]


def _pieces(projection: AnyProjection) -> tuple[Piece, ...]:
    if not isinstance(projection, Projection):
        raise Differs
    return projection.pieces


def _tallest_bias(parts: Sequence[Part]) -> int:
    layers = [layer for part in parts for layer in layers_of(part)]
    heads = [h for layer in layers if isinstance(layer, AttentionLayer) for h in layer.heads]
    pieces = [piece for head in heads for read in head.projections for piece in _pieces(read)]
    return max((piece.matrix.rows for piece in pieces if piece.block is None), default=0)


# -- what is said of all sizes --------------------------------------------------------------------
def is_free(network: Network, name: str) -> bool:
    """Whether the weights serve every value of a size.

    They are looked at near by, at 1, and where the size is the largest of all: the least and the
    most that it can be beside the others. The network is also verified there if that is quick.
    """
    from inweave.compiler import deep_recursion

    base = _base(network)
    near = None if _differ(base, network) else _sample(base, name)
    origin = base.origin
    if near is None or origin is None:
        return False
    largest = max(origin.sizes[other] for other in origin.program.size_names)
    for size in (1, 2 * largest + 1):
        wanted = {**origin.sizes, name: size}
        try:
            with deep_recursion():
                origin.program.trace(**wanted)
        except InweaveError:
            if size == 1:  # programs may need more than one
                continue
            return False
        other = _stretched(base, {name: near}, wanted)
        if other is None or not _fits(other):
            return False
    return True


def _fits(network: Network) -> bool:
    """Whether a network computes its program, as far as that is quickly seen."""
    from inweave.compiler import verifying
    from inweave.verify.check import verify

    assert network.origin is not None
    if verifying(network) > QUICK:
        return True
    try:
        verify(network.origin.program, network, seed=0)
    except VerificationError:
        return False
    return True


def resize(network: Network, sizes: dict[str, Any]) -> Network:
    """The same weights at another size, verified there."""
    from inweave.compiler import certified, deep_recursion

    origin = network.origin
    if origin is None:
        raise InputError("only compiled networks can be resized")
    unknown = [name for name in sizes if name not in origin.program.size_names]
    if unknown:
        known = ", ".join(origin.program.size_names)
        raise InputError(f"unknown sizes {', '.join(unknown)}; the program has {known}")
    with deep_recursion():
        origin.program.trace(**{**origin.sizes, **sizes})  # says what is wrong with a size
    said = ", ".join(f"{name}={value}" for name, value in sizes.items())
    refusal = f"the weights depend on the size, so {said} needs a new compilation"
    try:
        other = _elsewhere(network, sizes)
    except CompileError as error:
        raise CompileError(f"{refusal}; at that size, {error}") from error
    except InweaveError as error:
        raise CompileError(f"{refusal}: {error}") from error
    if other is None:
        raise CompileError(refusal)
    try:
        return certified(other)
    except VerificationError as error:
        raise CompileError(f"{refusal}: {error}") from error
