"""Networks whose weights do not know how large a size is.

When no projection holds a constant as long as some size, the same weights serve any value of it:
only the heights of blocks change. That is not assumed but seen. The program is compiled at another
size, and its modules must be equal, piece by piece.

Far from the size that a network was compiled for, the compiler may decide otherwise (what is stored
transposed depends on which side is longer), so that compiling there gives other weights although
the old ones are as good. The network is then stretched: two compilations with the same weights show
how every height depends on the size, and that line is followed to where it is wanted. What comes
out is to be verified against the program like any other network.

The weights of a loop over rows do know their number: there are as many steps, and a shift matrix as
large. But they are described alike at every number of rows, and can be rebuilt: whatever is a
number in one network is on a line with that in two others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from inweave.compiler.candidates import compiled
from inweave.compiler.origin import Compiled, Origin
from inweave.errors import CompileError, InputError, InweaveError
from inweave.exact.constants import Dense
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Piece, Projection
from inweave.model.prompt import Fill, Output, Place

STEPS = (7, 1)  # how far away a size is tried, to see whether the weights depend on it


class Differs(Exception):
    """Two networks differ in more than numbers of rows."""


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


def _elsewhere(made: Compiled, sizes: Mapping[str, Any]) -> Compiled | None:
    """The network at other sizes if its weights are the same, otherwise None; not verified."""
    origin, refusal = made.origin, None
    try:
        found = _compiled(made, sizes)
    except CompileError as error:
        found, refusal = None, error
    if found is None:
        found = stretched(made, sizes)
        if found is not None and _differ(found.network, made.network):
            found = None
    if found is None and refusal is not None:
        raise refusal
    if found is None:
        return _rebuilt(made, sizes)
    first, wanted = origin.made_at or origin.sizes, {**origin.sizes, **sizes}
    made_at = None if wanted == first else dict(first)
    return Compiled(found.network, origin.at(wanted, made_at))


def _compiled(made: Compiled, sizes: Mapping[str, Any]) -> Compiled | None:
    """The program compiled at other sizes, if that gives the same weights."""
    known = {**made.origin.sizes, **sizes}
    other = compiled(made.origin.at(known))
    return None if _differ(other.network, made.network) else other


def _differ(a: Network, b: Network) -> bool:
    return _weights(a.modules) != _weights(b.modules)


def _weights(modules: Sequence[Module]) -> list[Any]:
    """Layers, repeats and skips, without the heights of what is carried."""
    return [
        (part.repeat, part.skip, len(part.body)) if isinstance(part, Module) else part
        for module in modules
        for part in module.walk()
    ]


def _rebuilt(made: Compiled, sizes: Mapping[str, Any]) -> Compiled | None:
    """The program compiled at other sizes, if these are numbers of rows that loops go through.

    And if its weights are described there as they are here.
    """
    origin, here = made.origin, made.origin.sizes
    near = {name: here[name] + 1 for name, size in sizes.items() if size != here[name]}
    other = compiled(origin.at({**here, **sizes}))
    if not all(_follow_steps(made.network, other.network, here[n], sizes[n]) for n in near):
        return None
    samples = [compiled(origin.at({**here, name: size})).network for name, size in near.items()]
    shares = [Fraction(int(sizes[name] - here[name])) for name in near]
    try:
        line = _between(_data(made.network), [_data(sample) for sample in samples], shares)
    except (Differs, InweaveError):
        return None
    return other if line == _data(other.network) else None


def _data(network: Network) -> tuple[Any, ...]:
    """What makes a network, without the blocks that only make its prompt wide enough."""
    blocks = tuple(block for block in network.layout if block.name in network.used_blocks)
    parts = network.modules, network.inputs, network.fills, network.outputs
    return network.layout.tokens, blocks, *parts


def _follow_steps(here: Network, there: Network, old: int, new: int) -> bool:
    """Whether some loop has as many steps as a size is large, at both of its values."""
    pairs = zip(here.modules, there.modules, strict=False)
    return any((a.repeat, b.repeat) == (old, new) for a, b in pairs)


def follows(made: Compiled, name: str) -> bool:
    """Whether the weights have one description at every value of a size, as far as seen near by."""
    size = made.origin.sizes[name]
    if not any(module.repeat == size for module in made.network.modules):
        return False
    try:
        return _rebuilt(made, {name: size + STEPS[0]}) is not None
    except InweaveError:
        return False


# -- stretching -----------------------------------------------------------------------------------
def stretched(made: Compiled, sizes: Mapping[str, Any]) -> Compiled | None:
    """The same weights at other sizes, with heights that follow from two sizes near by."""
    base = made if made.origin.made_at is None else _base(made.origin)
    wanted = {**made.origin.sizes, **sizes}
    near = {}
    for name in made.origin.program.size_names:
        if wanted[name] != base.origin.sizes[name]:
            found = _sample(base, name)
            if found is None:
                return None
            near[name] = found
    return _stretched(base, near, wanted)


def _stretched(
    base: Compiled, near: Mapping[str, tuple[int, Network]], wanted: Mapping[str, Any]
) -> Compiled | None:
    """`base` at the wanted sizes; `near` has a step and the network there for each that differs."""
    made = base.origin.sizes
    samples = [sample for _, sample in near.values()]
    shares = [Fraction(int(wanted[name] - made[name]), step) for name, (step, _) in near.items()]
    try:
        other = _follow(base.network, samples, shares, base.origin)
    except (Differs, InweaveError):
        return None
    if _differ(other, base.network):
        return None
    return Compiled(other, base.origin.at(wanted, made))


def _sample(base: Compiled, name: str) -> tuple[int, Network] | None:
    """A network near by with the same weights, and how much larger the size is there."""
    for step in STEPS:
        try:
            found = _compiled(base, {name: base.origin.sizes[name] + step})
        except InweaveError:
            continue
        if found is not None:
            return step, found.network
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
    if isinstance(start, Dense) or any(type(end) is not type(start) for end in ends):
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
    layout: Layout, modules: Sequence[Module], fills: Sequence[Fill], outputs: Sequence[Output]
) -> dict[str, int]:
    """Rows of every block that may hold something: what is filled, read, and written by heads."""
    tops = {block.name: 1 for block in layout}
    places = [fill.place for fill in fills] + [output.place for output in outputs]
    places += [place for module in modules for place in _places(module)]
    for place in places:
        tops[place.block] = max(tops[place.block], place.row + place.extent[0])
    heads = [
        head
        for module in modules
        for layer in module.layers
        if isinstance(layer, AttentionLayer)
        for head in layer.heads
    ]
    before: dict[str, int] = {}
    while tops != before:
        before = dict(tops)
        for head in heads:
            _write(head, layout, tops)
    return tops


def _places(module: Module) -> Iterator[Place]:
    """Where what is carried stands, and what functions are applied to."""
    for part in module.walk():
        if isinstance(part, Module):
            yield from (place for places in part.carries for place in places)
        elif isinstance(part, BlockPointwiseLayer):
            yield from (place for place, _ in part.applied)


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


def _tallest_bias(modules: Sequence[Module]) -> int:
    layers = [layer for module in modules for layer in module.layers]
    heads = [h for layer in layers if isinstance(layer, AttentionLayer) for h in layer.heads]
    pieces = [piece for head in heads for read in head.projections for piece in _pieces(read)]
    return max((piece.matrix.rows for piece in pieces if piece.block is None), default=0)


# -- what is said of all sizes --------------------------------------------------------------------
def is_free(made: Compiled, name: str, fits: Callable[[Compiled], bool]) -> bool:
    """Whether the weights serve the values of a size at which they are looked at.

    They are looked at near by, at 1, and where the size is the largest of all: the least and the
    most that it can be beside the others. `fits` says whether the network computes its program.
    """
    base = made if made.origin.made_at is None else _base(made.origin)
    near = None if _differ(base.network, made.network) else _sample(base, name)
    if near is None:
        return False
    origin = base.origin
    largest = max(origin.sizes[other] for other in origin.program.size_names)
    for size in (1, 2 * largest + 1):
        wanted = {**origin.sizes, name: size}
        try:
            origin.program.trace(**wanted)
        except InweaveError:
            if size == 1:  # programs may need more than one
                continue
            return False
        other = _stretched(base, {name: near}, wanted)
        if other is None or not fits(other):
            return False
    return True


def resize(made: Compiled, sizes: Mapping[str, Any]) -> Compiled:
    """The same weights at another size; not verified."""
    program = made.origin.program
    unknown = [name for name in sizes if name not in program.size_names]
    if unknown:
        known = ", ".join(program.size_names)
        raise InputError(f"unknown sizes {', '.join(unknown)}; the program has {known}")
    program.trace(**{**made.origin.sizes, **sizes})  # says what is wrong with a size
    try:
        other = _elsewhere(made, sizes)
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
