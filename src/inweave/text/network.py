"""Networks in words: every head as the matrix product it stands for.

The text is read off the weights themselves, never stored beside them, so it cannot disagree with
what the network does: `L Cᵀ R → dest`, identities left out, blocks by name.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Any

from inweave.compiler.names import transposed
from inweave.compiler.origin import Origin
from inweave.exact.constants import Constant, Shift
from inweave.exact.constants import product as multiplied
from inweave.exact.names import GREEK, in_turn
from inweave.model.layers import (
    AttentionLayer,
    BlockPointwiseLayer,
    Head,
    Layer,
    PointwiseLayer,
    heads_of,
    written_blocks,
)
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.modules import Part as Stored
from inweave.model.network import Network
from inweave.model.projection import Piece
from inweave.proof.certificate import Certificate, Claim, about, as_data
from inweave.proof.degree import degree_text
from inweave.proof.entries import Degree
from inweave.text.parts import (
    ONE,
    Diagonal,
    Part,
    Rectangle,
    Term,
    columns,
    combined,
    factor,
    product,
    right,
    spelled,
)


@lru_cache(maxsize=10_000)
def pretty(name: str) -> str:
    """A block's name for people: Greek letters where the program spells them, s for s·I."""
    return re.sub(r"[^ ()]+", lambda word: GREEK.get(word[0], word[0]), name.removesuffix("·I"))


def turned(name: str) -> str:
    """The name of a block's transpose."""
    return name if name.endswith("·I") else transposed(name)


class Words:
    """Spells the heads of one network, layer by layer.

    A block that holds several values in turn has their names in its own, and each layer that writes
    there writes the next of them: so they are told apart, as long as there are as many names.
    """

    def __init__(self, network: Network) -> None:
        self.layout: Layout = network.layout
        self.now: dict[str, str] = {}  # what stands in blocks of several names
        self.next: dict[str, str] = {}  # what will, after the layer that is spelled
        self.fixed = _fixed(network)
        self.turns = self._turns(network)

    def _turns(self, network: Network) -> dict[str, dict[int, str]]:
        """The layers that write into each block of several names, and the name of what they write.

        A layer that only takes away what stands there leaves nothing that has a name.
        """
        named = {b.name: in_turn(b.name) for b in network.layout}
        found: dict[str, list[int]] = {name: [] for name, several in named.items() if several}
        for i, layer in enumerate(network.layers if found else ()):
            for dest in self._named(layer, found):
                found[dest].append(i)
        return {
            name: dict(zip(at, named[name], strict=True))
            for name, at in found.items()
            if len(at) == len(named[name])
        }

    def _named(self, layer: Layer, among: Iterable[str]) -> set[str]:
        """Those of some blocks to which a layer adds more than what takes away what stands there.

        Whatever else one of its heads adds is enough to know.
        """
        left, taken = set(among), set[str]()
        for head in heads_of([layer]):
            for dest, what in self._added(head, left).items():
                if dest in taken or combined(what) != f"− {factor(pretty(dest))}":
                    left.discard(dest)
                taken.add(dest)
        return set(among) - left

    def layer(self, at: int) -> None:
        """Go on to a layer: heads are spelled as those of this one, layers counted as stored."""
        self.now |= self.next
        self.next = {block: told[at] for block, told in self.turns.items() if at in told}

    def block(self, name: str) -> str:
        """What stands in a block, for people."""
        return pretty(self.name(name))

    def name(self, block: str, then: bool = False) -> str:
        """What stands in a block, or will."""
        found = self.now.get(block, block)
        return self.next.get(block, found) if then else found

    def head(self, head: Head) -> list[tuple[str, str]]:
        """[(destination, what is added to it)]."""
        if head.pieces is None:
            return [("H", "dense head")]
        added = self._added(head)
        return [
            (pretty(self.name(dest, then=True)), combined(what)) for dest, what in added.items()
        ]

    def made(self, layer: Layer, kept: Container[str] = ()) -> dict[str, str]:
        """What a layer makes of blocks, by their names: of those that are kept, it adds to them."""
        if isinstance(layer, BlockPointwiseLayer):
            return {p.block: f"{f.name}({self.block(p.block)})" for p, f in layer.applied}
        added: dict[str, list[Term]] = {}
        for head in heads_of([layer]):
            for dest, what in self._added(head).items():
                added.setdefault(dest, self._old(dest, kept)).extend(what)
        return {dest: combined(what) for dest, what in added.items()}

    def _old(self, block: str, kept: Container[str]) -> list[Term]:
        at = self.layout[block]
        return [Term(ONE, (self.block(block),), size=(at.rows, at.cols))] if block in kept else []

    def line(self, head: Head) -> str:
        """All that a head does, in one line; nothing if it adds nothing."""
        return "; ".join(f"{what} → {dest}" for dest, what in self.head(head))

    def affine(self, pieces: Sequence[Piece], transposed: bool) -> str:
        """What a projection is, or its transpose."""
        parts = self._parts(pieces)
        first = min((part.col for part in parts), default=0)
        whole = [p for p in pieces if p.block and p.block.endswith("·I") and p.matrix.is_identity()]
        tall = max((p.matrix.rows for p in whole), default=None)
        return combined(
            [spelled(p.T if transposed else p, tall) for p in columns(parts, first, right(parts))],
            above=transposed,
        )

    def _added(self, head: Head, among: Container[str] | None = None) -> dict[str, list[Term]]:
        """What a head adds to each block, or to each of some."""
        if head.pieces is None:
            return {}
        *scores, value = head.pieces
        written = [
            (block, found)
            for part in self._parts(value)
            for block in self.layout.over(part.col, part.col + part.width)
            if (among is None or block.name in among)
            and (found := part.columns(block.start, block.stop))
        ]
        if not written:
            return {}
        query, key = map(self._parts, scores)
        first = min((part.col for part in (*query, *key)), default=0)
        query, key = (columns(side, first, right(side)) for side in (query, key))
        keys = [part.T for part in key]
        out: dict[str, list[Term]] = {}
        for block, found in written:
            terms = product(query, keys, found, (block.rows, block.cols))
            out.setdefault(block.name, []).extend(terms)
        return {dest: terms for dest, terms in out.items() if terms}

    def _parts(self, pieces: Sequence[Piece]) -> list[Part]:
        """What some pieces read, and where they put it."""
        parts = (self._part(piece) for piece in pieces)
        return [part for part in parts if part.width]

    def _part(self, piece: Piece) -> Part:
        c, matrix, at = piece.coefficient, piece.matrix, piece.at
        if piece.block is None or piece.block in self.fixed:
            if piece.block is not None:
                times, matrix = multiplied(self.fixed[piece.block], matrix)
                c *= times
            if isinstance(matrix, Shift):
                return Diagonal((), matrix.size, matrix.row, at + matrix.col, c)
            down, across = map(range, matrix.shape)
            return Rectangle(
                repr(matrix), repr(matrix.T), matrix.shape, down, across, col=at, coefficient=c
            )
        block, name = self.layout[piece.block], self.name(piece.block)
        if isinstance(matrix, Shift) and block.name.endswith("·I"):
            return Diagonal((pretty(name),), matrix.size, matrix.row, at + matrix.col, c)
        one = block.rows * block.cols == 1
        names = pretty(name), pretty(name if one else turned(name))
        if isinstance(matrix, Shift):
            across, at = range(matrix.row, matrix.row + matrix.size), at + matrix.col
            shape = block.rows, block.cols
        else:
            names = f"{factor(names[0])} {matrix!r}", f"{matrix.T!r} {factor(names[1])}"
            across, shape = range(matrix.cols), (block.rows, matrix.cols)
        return Rectangle(*names, shape, range(block.rows), across, col=at, coefficient=c)


def _fixed(network: Network) -> dict[str, Constant]:
    """The blocks that hold one constant all the way; a loop may start from one and carry it on."""
    changed = {name for x in network.layers for name in written_blocks(x, network.layout)}
    filled = Counter(fill.place.block for fill in network.fills)
    return {
        block.name: fill.constant
        for fill in network.fills
        for block in [network.layout[fill.place.block]]
        if fill.constant is not None
        and fill.constant.shape == (block.rows, block.cols)
        and not (fill.scale or fill.place.transpose or fill.place.diagonal)
        and fill.coefficient == filled[block.name] == 1
        and block.name not in changed
    }


def facts(
    network: Network, proved: Certificate | Claim | None = None, degree: Degree | None = None
) -> dict[str, Any]:
    """What is known of a network, as data for other programs.

    A degree that is only an upper bound gives no lower bound of the depth, and is left out.
    """
    exact = degree if degree is not None and degree.exact else None
    known = None if exact is None else exact.number
    return {
        "target": network.target,
        "depth": network.depth,
        "heads": network.heads,
        "tokens": network.tokens,
        "width": network.width,
        "stored_numbers": network.stored_numbers,
        "inputs": {spec.name: list(spec.shape) for spec in network.inputs},
        "outputs": {out.name: out.kind for out in network.outputs},
        "blocks": {b.name: [b.rows, b.cols] for b in network.layout},
        "fingerprint": network.fingerprint,
        "degree": known if known is None or known < 2**63 else degree_text(known),
        "depth_lower_bound": None if exact is None else exact.layers,
        "depth_lower_bound_holds": None if exact is None else exact.holds,
        **as_data(network, proved),
    }


def _layer_lines(words: Words, layer: Layer) -> list[str]:
    """One line per head that adds something, or per function of a pointwise layer."""
    if isinstance(layer, AttentionLayer):
        said = [words.line(head) for head in layer.heads]
        zero = said.count("")
        lines = [text for text in said if text] or ["(nothing)"]
        lines[0] += f"   (heads of zeros: {zero})" * bool(zero) + "   (no skip)" * (not layer.skip)
        return lines
    if isinstance(layer, PointwiseLayer):
        return [f"pointwise, {layer.V.shape[0]} units per entry"]
    return [
        f"{f.name}({words.block(p.block)}) → {words.block(p.block)}   [{f.net.units} units]"
        for p, f in layer.applied
    ]


def describe(
    network: Network,
    origin: Origin | None = None,
    proved: Certificate | Claim | None = None,
    degree: Degree | None = None,
    free: Sequence[str] = (),
    made: tuple[str, str] | None = None,
    follow: Sequence[str] = (),
) -> str:
    """The table that `print(net)` shows."""
    words, number_of = Words(network), itertools.count()
    known = about(network, proved)
    lines = [*_size(network, degree, made), *_weights(origin, free, follow)]
    lines += ["not verified" if known is None else known.summary, ""]

    def show(parts: tuple[Stored, ...], indent: str) -> None:
        for i, part in enumerate(parts):
            if isinstance(part, Module):
                repeat = f", repeat {part.repeat} times" if part.repeat != 1 else ""
                skip = ", skip around" if part.skip else ""
                lines.append(f"{indent}module {i}{repeat}{skip}:")
                show(part.body, indent + "  ")
                continue
            words.layer(next(number_of))
            mark = f"{indent}{i:>3}  "
            first, *rest = _layer_lines(words, part)
            lines.append(mark + first)
            lines.extend(" " * len(mark) + text for text in rest)

    show(network.modules, "")
    return "\n".join(lines)


def _size(network: Network, degree: Degree | None, made: tuple[str, str] | None) -> list[str]:
    """How large a network is beside its bound, and what its prompt holds."""
    kind = network.target.upper()
    lines = [kind if made is None else f"{made[0]}: {kind}, {made[1]}"]
    depth = f"{network.depth} attention layers"
    if degree is not None:
        bound = f": lower bound {degree.layers} {degree.holds}" if degree.exact else ""
        depth += f" ({degree}{bound})"
    units = [layer.units for layer in network.layers if hasattr(layer, "units")]
    extra = f", up to {max(units)} hidden units per entry" if units else ""
    lines.append(f"{depth}, {network.heads} heads stored{extra}")
    lines.append(f"{network.tokens} tokens x {network.width} columns, "
                 f"{network.stored_numbers} stored numbers")  # fmt: skip
    lines.append("prompt: " + " | ".join(f"{b.name} {b.rows}x{b.cols}" for b in network.layout))
    if network.embedding is not None:
        pair = ("tokens", "columns")
        mixed = [name for name in pair if getattr(network.embedding, name) is not None]
        lines.append(f"in a basis of its own: {' and '.join(mixed)} mixed, no block owns any")
    return lines


def _weights(origin: Origin | None, free: Sequence[str], follow: Sequence[str]) -> list[str]:
    """Which sizes the weights depend on, and what was added to the prompt for them."""
    if origin is None:
        return []
    fixed = [name for name in origin.program.size_names if name not in (*free, *follow)]
    shift = "the size of the shift and the number of steps"
    ways = {
        "do not depend on {} as far as seen (net.resize({}) checks)": free,
        f"follow {{}} in {shift} as far as seen (net.resize({{}}) rebuilds them)": follow,
        "depend on {}": fixed,
    }
    said = [
        text.format(", ".join(names), ", ".join(f"{name}=..." for name in names))
        for text, names in ways.items()
        if names
    ]
    weights = [f"weights {'; '.join(said)}"] if said else []
    return [*weights, *(f"added to the prompt: {text}" for text in origin.added)]
