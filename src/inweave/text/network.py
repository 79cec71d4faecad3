"""Networks in words: every head as the matrix product it stands for.

The text is read off the weights themselves, never stored beside them, so it cannot disagree with
what the network does: `L Cᵀ R → dest`, identities left out, blocks by name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from inweave.compiler.forms import number
from inweave.compiler.names import transposed
from inweave.compiler.origin import Origin
from inweave.exact.constants import Constant, Shift, product
from inweave.exact.names import GREEK, compound, in_turn
from inweave.model.layers import (
    AttentionLayer,
    BlockPointwiseLayer,
    Head,
    Layer,
    PointwiseLayer,
)
from inweave.model.layout import Layout
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import Piece, Projection
from inweave.proof.certificate import Certificate, Claim, about, as_data
from inweave.proof.degree import degree_text
from inweave.proof.entries import Degree


def pretty(name: str) -> str:
    """A block's name for people: Greek letters where the program spells them, s for s·I."""
    return re.sub(r"[^ ()]+", lambda word: GREEK.get(word[0], word[0]), name.removesuffix("·I"))


def turned(name: str) -> str:
    """The name of a block's transpose."""
    return name if name.endswith("·I") else transposed(name)


ONE = Fraction(1)


class Words:
    """Spells the heads of one network, layer by layer.

    A block that holds several values in turn has their names in its own, and each layer that writes
    there writes the next of them: so they are told apart, as long as there are as many names.
    """

    def __init__(self, network: Network) -> None:
        self.layout: Layout = network.layout
        self.now: dict[str, str] = {}  # what stands in blocks of several names
        self.next: dict[str, str] = {}  # what will, after the layer that is spelled
        changed = _changed(network)  # a loop may start from a constant and carry it on
        self.fixed: dict[str, Constant] = {
            fill.place.block: fill.constant
            for fill in network.fills
            if fill.constant is not None and not fill.scale and fill.place.block not in changed
        }
        self.turns = self._turns(network)

    def _turns(self, network: Network) -> dict[str, dict[int, str]]:
        """The layers that write into each block of several names, and the name of what they write.

        A layer that only takes away what stands there leaves nothing that has a name.
        """
        named = {b.name: in_turn(b.name) for b in network.layout}
        found: dict[str, list[int]] = {name: [] for name, several in named.items() if several}
        for i, layer in enumerate(network.layers if found else ()):
            for dest, what in self._written(layer).items():
                if dest in found and what != [_signed(-ONE, pretty(dest))]:
                    found[dest].append(i)
        return {
            name: dict(zip(at, named[name], strict=True))
            for name, at in found.items()
            if len(at) == len(named[name])
        }

    def _written(self, layer: Layer) -> dict[str, list[str]]:
        """What a layer adds to each block, by the block's own name."""
        out: dict[str, list[str]] = {}
        if isinstance(layer, AttentionLayer):
            for head in layer.heads:
                for dest, what in self._added(head).items():
                    out.setdefault(dest, []).extend(what)
        return out

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
        if not all(isinstance(p, Projection) for p in head.projections):
            return [("H", "dense head")]
        added = self._added(head)
        return [(pretty(self.name(dest, then=True)), _join(what)) for dest, what in added.items()]

    def made(self, layer: Layer) -> dict[str, str]:
        """What a layer adds to a block, or (a pointwise one) makes of it, by the block's name."""
        if isinstance(layer, BlockPointwiseLayer):
            return {p.block: f"{f.name}({self.block(p.block)})" for p, f in layer.applied}
        return {dest: _join(what) for dest, what in self._written(layer).items()}

    def line(self, head: Head) -> str:
        """All that a head does, in one line; nothing if it adds nothing."""
        return "; ".join(f"{what} → {dest}" for dest, what in self.head(head))

    def _added(self, head: Head) -> dict[str, list[str]]:
        """What a head adds to each block."""
        if not all(isinstance(p, Projection) for p in head.projections):
            return {}
        query, key, value = (p.pieces for p in head.projections)  # type: ignore[union-attr]
        out: dict[str, list[str]] = {}
        for piece in value:
            dest = self.layout.at(piece.at).name
            if self._is_fixed(piece) and self._copies(key, self._reach([piece])):
                constant = self._constant(piece)
                if isinstance(constant, Shift):  # a linear head (H W, I, I): which columns go where
                    rows = range(constant.row, constant.row + constant.size)
                    moved = [p for p in query if _columns(p) & set(rows)]
                    if len(query) > 1 or constant.row:
                        query_text = self.affine(moved, False)
                        out.setdefault(dest, []).append(_signed(piece.coefficient, query_text))
                        continue
            text = self._product(query, key, piece)
            out.setdefault(dest, []).append(text)
        return out

    def _product(self, query: tuple[Piece, ...], key: tuple[Piece, ...], piece: Piece) -> str:
        factors = []
        c = piece.coefficient
        if not self._identity(query):
            factors.append(self.affine(query, False))
        rows = self._top(key, piece)
        if rows is None and not self._copies(key, self._reach([piece])):
            factors.append(self.affine(key, True))
        bare = Piece(piece.matrix, piece.at, Fraction(1), piece.block)
        read = max((p.stop for p in query), default=0) if self._identity(key) else self._reach(key)
        if not (self._copies((bare,), read, anywhere=True) and factors):
            text = self.affine((bare,), False)
            if rows is not None:
                start = f"{text}[:, :]" if _whole(bare.matrix) else text
                text = start.replace("[:,", f"[0:{rows},")
            factors.append(text)
        if len(factors) == 1:
            return _signed(c, factors[0])
        return _signed(c, " ".join(f"({f})" if _is_sum(f) else f for f in factors))

    def affine(self, pieces: Any, transposed: bool) -> str:
        parts = []
        for p in pieces:
            if p.block is not None and p.block not in self.fixed:
                block = self.layout[p.block]
                name = self.name(p.block)
                text = pretty(turned(name) if transposed and block.rows * block.cols > 1 else name)
                if not _whole(p.matrix) and not p.block.endswith("·I"):
                    text = f"({text})" if compound(text) and not text.startswith("(") else text
                    if transposed and not isinstance(p.matrix, Shift):
                        text = f"{p.matrix.T!r} {text}"
                    else:
                        text += _slice(p.matrix, transposed)
            else:
                constant = self._constant(p)
                text = repr(constant.T if transposed else constant)
            parts.append(_signed(p.coefficient, text))
        return _join(parts) or "0"

    def _is_fixed(self, piece: Piece) -> bool:
        return piece.block is None or piece.block in self.fixed

    def _constant(self, piece: Piece) -> Constant:
        if piece.block is None:
            return piece.matrix
        return product(self.fixed[piece.block], piece.matrix)[1]

    def _reach(self, pieces: Sequence[Piece]) -> int:
        """How many rows some pieces may fill."""
        constants = [self._constant(p) for p in pieces if self._is_fixed(p)]
        tops = [k.row + k.size if isinstance(k, Shift) else k.rows for k in constants]
        blocks = [
            1 if p.block.endswith("·I") else self.layout[p.block].rows  # a scalar, however often
            for p in pieces
            if p.block and not self._is_fixed(p)
        ]
        return max([*tops, *blocks], default=0)

    def _top(self, key: Any, piece: Piece) -> int | None:
        """How many rows of a block a head reads, if that are the first ones and not all."""
        if self._is_fixed(piece) or not isinstance(piece.matrix, Shift) or not self._identity(key):
            return None
        rows = self._constant(key[0]).cols
        return rows if rows < self._reach([piece]) else None

    def _copies(self, pieces: Any, rows: int, anywhere: bool = False) -> bool:
        """Whether the pieces are one identity that cuts nothing off a factor of so many rows."""
        return self._identity(pieces, anywhere) and self._constant(pieces[0]).cols >= rows

    def _identity(self, pieces: Any, anywhere: bool = False) -> bool:
        """Whether the pieces are one identity (in columns from 0, or anywhere)."""
        if len(pieces) != 1 or pieces[0].coefficient != 1 or not self._is_fixed(pieces[0]):
            return False
        k = self._constant(pieces[0])
        return isinstance(k, Shift) and k.row == k.col == 0 and k.size == k.cols and (
            anywhere or pieces[0].at == 0
        )  # fmt: skip


def _changed(network: Network) -> set[str]:
    """The blocks that some layer writes to."""
    out: set[str] = set()
    for layer in network.layers:
        if isinstance(layer, PointwiseLayer):
            return set(network.layout.names)
        if isinstance(layer, BlockPointwiseLayer):
            out |= {place.block for place, _ in layer.applied}
            continue
        for head in layer.heads:
            if not isinstance(head.value, Projection):
                return set(network.layout.names)
            out |= {
                block.name
                for piece in head.value.pieces
                for block in network.layout
                if block.start < piece.stop and piece.at < block.stop
            }
    return out


def _columns(piece: Piece) -> set[int]:
    if isinstance(piece.matrix, Shift):
        start = piece.at + piece.matrix.col
        return set(range(start, start + piece.matrix.size))
    return set(range(piece.at, piece.stop))


def _whole(matrix: Constant) -> bool:
    if not isinstance(matrix, Shift):
        return False
    return matrix.row == 0 and matrix.size == matrix.rows


def _slice(matrix: Constant, transposed: bool) -> str:
    if isinstance(matrix, Shift):
        span = f"{matrix.row}:{matrix.row + matrix.size}"
        return f"[{span}, :]" if transposed else f"[:, {span}]"
    return f" {matrix!r}"


def _is_sum(text: str) -> bool:
    """Whether a text is to stand in brackets beside a factor."""
    while text != (text := re.sub(r"\([^()]*\)", "", text)):
        pass
    return re.search(r"(?<!e)\+|.−", text.removeprefix("− ")) is not None


def _signed(c: Fraction, text: str) -> str:
    if abs(c) != 1:
        text = f"{number(abs(c))} {f'({text})' if _is_sum(text) else text}"
    elif c < 0 and _is_sum(text):
        text = f"({text})"
    return f"− {text}" if c < 0 else text


def _join(parts: list[str]) -> str:
    out = ""
    for part in parts:
        if not out:
            out = part
        else:
            out += f" − {part[2:]}" if part.startswith("− ") else f" + {part}"
    return out


def facts(
    network: Network,
    proved: Certificate | Claim | None = None,
    degree: Degree | None = None,
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
    lines = [*_summary(network, origin, proved, degree, free, made, follow), ""]

    def show(parts: tuple[Part, ...], indent: str) -> None:
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


def _summary(
    network: Network,
    origin: Origin | None,
    proved: Certificate | Claim | None,
    degree: Degree | None,
    free: Sequence[str],
    made: tuple[str, str] | None,
    follow: Sequence[str],
) -> list[str]:
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
    if origin is not None:
        fixed = [name for name in origin.program.size_names if name not in (*free, *follow)]
        said = []
        if free:
            other = ", ".join(f"{name}=..." for name in free)
            said.append(
                f"do not depend on {', '.join(free)} as far as seen (net.resize({other}) checks)"
            )
        if follow:
            other = ", ".join(f"{name}=..." for name in follow)
            said.append(
                f"follow {', '.join(follow)} in the size of the shift and the number of steps "
                f"as far as seen (net.resize({other}) rebuilds them)"
            )
        if fixed:
            said.append(f"depend on {', '.join(fixed)}")
        if said:
            lines.append("weights " + "; ".join(said))
        lines += [f"added to the prompt: {text}" for text in origin.added]
    proved = about(network, proved)
    lines.append("not verified" if proved is None else proved.summary)
    return lines
