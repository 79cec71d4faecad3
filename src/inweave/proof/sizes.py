"""What a proof says of other sizes: those at which program and network read the same.

A proof by algebra that is as good for sizes as for the numbers that they are (see `reading`) holds
wherever program and network are written in the same way, with other sizes in the place of these.
Whether a program is can only be seen: it is Python, and may divide by the number of rows. So it is
recorded at other sizes and the two recordings are compared. Of a resized network both are at hand,
and if both read the same, what was proved of the first holds for the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from inweave.errors import ShapeError
from inweave.exact.constants import ByContent, Constant, Ones, Shift, select
from inweave.language.expressions import LoopResult, every
from inweave.language.program import Traced
from inweave.language.recorded import written
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import Piece
from inweave.model.prompt import Place
from inweave.model.relunet import Function
from inweave.proof.certificate import Certificate
from inweave.proof.reading import Extent, Reading

Recorder = Callable[[Mapping[str, int]], Traced]
"""The program at other sizes, of which those given are changed."""

EXTENTS = ("rows", "cols", "diagonal")  # fields that hold numbers of rows or columns
STEPS = ("times", "repeat")  # fields that hold numbers of steps, which may be one of rows


class Moved:
    """Numbers at other sizes than those at which they are read; perhaps those of steps, too."""

    def __init__(self, reading: Reading, there: Mapping[str, int], steps: bool) -> None:
        self.reading, self.there = reading, there
        self.extents = (*EXTENTS, *STEPS) if steps else EXTENTS

    @classmethod
    def of(cls, here: Traced, there: Traced, steps: bool = True) -> Moved:
        """From the sizes of one recording of a program to those of another one."""
        return cls(Reading.of(here), there.sizes, steps)

    def _at(self, read: Extent) -> int:
        return read.more + (self.there[read.size] if read.size else 0)

    def extent(self, number: int) -> int:
        return self._at(self.reading.extent(number))

    def constant(self, constant: Constant) -> Constant:
        if isinstance(constant, Shift):
            return Shift(*map(self._at, self.reading.shift(constant)))
        if isinstance(constant, Ones):
            return Ones(*map(self.extent, constant.shape))
        return constant


# -- programs and networks as they read ------------------------------------------------------------
def spelled(data: Any, moved: Moved, name: str = "") -> Any:
    """Data as plain tuples, with every number of rows or columns and every constant moved."""
    if isinstance(data, Constant):
        return moved.constant(data)
    if isinstance(data, tuple):
        return tuple(spelled(part, moved, name) for part in data)
    if is_dataclass(data) and not isinstance(data, (ByContent, Function)):
        parts = [f.name for f in fields(data) if f.compare]
        return (type(data), *(spelled(getattr(data, part), moved, part) for part in parts))
    return moved.extent(data) if name in moved.extents else data


class _Spelling:
    """A network as a proof reads it: what meets what, and no column of the prompt by number."""

    def __init__(self, network: Network, moved: Moved) -> None:
        self.network, self.layout, self.moved = network, network.layout, moved
        self.blocks = [block for block in self.layout if block.name in network.used_blocks]

    def spelled(self) -> tuple[Any, ...]:
        network, moved = self.network, self.moved
        blocks = [(b.name, moved.extent(b.rows), moved.extent(b.cols)) for b in self.blocks]
        fills = [(self._rest(fill), self._place(fill.place)) for fill in network.fills]
        outputs = [(self._rest(one), self._place(one.place)) for one in network.outputs]
        modules = [self._module(module) for module in network.modules]
        inputs = spelled(network.inputs, moved)
        return moved.extent(self.layout.tokens), blocks, inputs, fills, outputs, modules

    def _rest(self, data: Any) -> Any:
        parts = [f.name for f in fields(data) if f.name != "place"]
        return [spelled(getattr(data, part), self.moved, part) for part in parts]

    def _place(self, place: Place) -> Any:
        rows, cols = place.extent
        width = self.layout[place.block].cols
        down = Shift(self.layout.tokens, rows, place.row, 0, rows)
        right = select(width, place.col, place.col + cols)
        shape = map(self.moved.extent, (place.rows, place.cols, place.diagonal))
        stands = [self.moved.constant(k) for k in (down, right)]
        return [place.block, place.transpose, *shape, *stands]

    def _module(self, module: Module) -> Any:
        body = [self._part(part) for part in module.body]
        carries = [[self._place(place) for place in places] for places in module.carries]
        return [spelled(module.repeat, self.moved, "repeat"), module.skip, carries, body]

    def _part(self, part: Any) -> Any:
        if isinstance(part, Module):
            return self._module(part)
        if isinstance(part, BlockPointwiseLayer):
            return [(self._place(place), function) for place, function in part.applied]
        if isinstance(part, AttentionLayer):
            return part.skip, [self._head(head) for head in part.heads]
        return part

    def _head(self, head: Head) -> Any:
        if head.pieces is None:
            return head
        query, key, value = head.pieces
        pieces = [[self._piece(piece) for piece in part] for part in head.pieces]
        meet = [_meeting(q, k) for q in query for k in key]
        return pieces, meet, [self._written(piece) for piece in value]

    def _piece(self, piece: Piece) -> Any:
        top = None
        if piece.block is None:
            height = piece.matrix.rows
            top = self.moved.constant(Shift(self.layout.tokens, height, 0, 0, height))
        return piece.block, piece.coefficient, self.moved.constant(piece.matrix), top

    def _written(self, piece: Piece) -> list[Any]:
        """Where the columns of a value go: which of them, if not all, to which of a block."""
        found = []
        for block in self.blocks:
            low, high = max(piece.at, block.start), min(piece.stop, block.stop)
            if low < high:
                put = select(block.cols, low - block.start, high - block.start).T
                cut = None if high - low == piece.matrix.cols else (low - piece.at, high - piece.at)
                found.append((block.name, self.moved.constant(put), cut))
        return found


def _meeting(a: Piece, b: Piece) -> Any:
    """Which columns of two pieces meet: none, all, or some by number."""
    low, high = max(a.at, b.at), min(a.stop, b.stop)
    if low >= high:
        return None
    whole = (a.at, a.stop) == (b.at, b.stop)
    return "all" if whole else (low - a.at, low - b.at, high - low)


QUICK = 500  # operations of a program that is recorded at twice its sizes in no time
AS_THEY_ARE = Moved(Reading({}), {}, False)


def alike_programs(here: Traced, there: Traced, moved: Moved | None = None) -> bool:
    """Whether a program, recorded at other sizes, is the same but for them."""
    (inputs, _, *a), (others, _, *b) = written(here), written(there)
    return _alike(spelled, (inputs, *a), (others, *b), moved or Moved.of(here, there))


def alike_networks(here: Network, there: Network, moved: Moved) -> bool:
    """Whether networks are the same but for sizes."""
    return _alike(lambda network, moved: _Spelling(network, moved).spelled(), here, there, moved)


def _alike(spell: Callable[[Any, Moved], Any], here: Any, there: Any, moved: Moved) -> bool:
    try:
        return bool(spell(here, moved) == spell(there, AS_THEY_ARE))
    except ShapeError:  # a constant that does not exist at the other sizes
        return False


def ways(here: Traced, there: Traced) -> list[Moved]:
    """The ways to read numbers of steps, where there is a difference."""
    looped = {x.loop.times for x in every(here.outputs.values()) if isinstance(x, LoopResult)}
    follow = not looped.isdisjoint(here.sizes.values())
    return [Moved.of(here, there, steps) for steps in ((True, False) if follow else (False,))]


# -- what is claimed ------------------------------------------------------------------------------
def unchanged_by(traced: Traced, names: Iterable[str], record: Recorder | None) -> tuple[str, ...]:
    """Those sizes that, when they are larger, leave the program as it is."""
    names = tuple(names)
    if record is None or not names or _reads_the_same(traced, names, record):
        return () if record is None else names
    alone = tuple(name for name in names if _reads_the_same(traced, (name,), record))
    return alone if len(alone) == 1 or _reads_the_same(traced, alone, record) else ()


def reads_the_same(traced: Traced, name: str, record: Recorder) -> bool:
    """Whether a program is the same where a size is the largest of all.

    Sizes that nobody can tell apart here, or from one, are looked at where they are different.
    """
    clear = Reading(traced.sizes).sizes
    names = [other for other in traced.sizes if other not in clear]
    apart = larger(traced.sizes, names, traced.length <= QUICK)
    try:
        here = record(apart) if apart else traced
        return _reads_the_same(here, (name,), lambda sizes: record({**apart, **sizes}))
    except Exception:  # as below
        return False


def _reads_the_same(traced: Traced, names: tuple[str, ...], record: Recorder) -> bool:
    try:
        there = record(larger(traced.sizes, names, traced.length <= QUICK))
        return any(alike_programs(traced, there, moved) for moved in ways(traced, there))
    except Exception:  # the program is anybody's code: at other sizes it may do anything
        return False


def larger(sizes: Mapping[str, int], names: Iterable[str], far: bool) -> dict[str, int]:
    """Some of the sizes, each larger by another amount, and no two of all alike.

    Far away, where a program that looks at its sizes is more likely to be another one, or near by.
    """
    taken, found = set(sizes.values()), dict[str, int]()
    for i, name in enumerate(names):
        start = 2 * max(sizes.values()) + 1 if far else sizes[name] + 2 + 3 * i
        found[name] = next(size for size in itertools.count(start) if size not in taken)
        taken.add(found[name])
    return found


def said_of_sizes(traced: Traced, free: tuple[str, ...]) -> list[str]:
    """For which sizes something is proved, in words."""
    fixed = [f"{name} = {size}" for name, size in traced.sizes.items() if name not in free]
    said = [f"at {' and '.join(fixed)} only"] if fixed else []
    if free:
        said.append(f"for all {' and '.join(free)} at which program and weights read the same")
    return said


def carried_over(
    certificate: Certificate | None, here: tuple[Traced, Network], there: tuple[Traced, Network]
) -> Certificate | None:
    """What was proved of a network, if it holds for this one, which has other sizes; or None."""
    sizes, others = here[0].sizes, there[0].sizes
    changed = {name for name, size in sizes.items() if others[name] != size}
    if certificate is None or not changed <= set(certificate.free):
        return None
    if not any(
        alike_programs(here[0], there[0], moved) and alike_networks(here[1], there[1], moved)
        for moved in ways(here[0], there[0])
    ):
        return None
    return replace(certificate, network=there[1].fingerprint, float_difference=None)
