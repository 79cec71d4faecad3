"""Every line that is printed of a network is true: its value, on random data, is what is added.

Lines are read as `inweave.text.parts` says they are meant: a matrix goes on with zeros, a scalar is
that multiple of I, and only what falls into the block that is written counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.circuit.unrolled import unrolled
from inweave.compiler.names import transposed
from inweave.exact.constants import Ones, Shift, identity
from inweave.exact.names import compound
from inweave.gallery import heavy_ball, ridge_gd
from inweave.model.dense import trace
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.projection import Piece, Projection
from inweave.text.network import Words, pretty
from scripts.least_depth import PROGRAMS, SMALL, sizes
from tests import ways

pytestmark = pytest.mark.usefixtures("unchecked_passes")
SUM = re.compile(r"(?<!e)\+|−")
STEEP = ("newton_schulz", "hyperpower")  # their loops are long
LARGE = 48  # rows and columns of a matrix that goes on with zeros


# -- lines as values -------------------------------------------------------------------------------
class Value(NamedTuple):
    """A matrix with zeros around it, and how large it is; a scalar has no size."""

    array: Any
    rows: int = 0
    cols: int = 0

    @property
    def T(self) -> Value:
        return Value(self.array.T, self.cols, self.rows)

    def moved(self, row: int, col: int) -> Value:
        out = np.zeros((LARGE, LARGE))
        out[row:, col:] = self.array[: LARGE - row, : LARGE - col]
        return Value(out, self.rows + row, self.cols + col)


def large(array: Any) -> Value:
    array = np.atleast_2d(array)
    out = np.zeros((LARGE, LARGE))
    out[: array.shape[0], : array.shape[1]] = array
    return Value(out, *array.shape)


def scalar(number: float) -> Value:
    return Value(float(number) * np.eye(LARGE))


class Line:
    """Reads a sum of products of known words."""

    def __init__(self, text: str, known: Mapping[str, Value]) -> None:
        self.whole = self.rest = text
        self.sums = 0  # names that are sums, in the product that is read
        self.known = sorted(known.items(), key=lambda pair: -len(pair[0]))

    def value(self) -> Value:
        out = self.sum()
        assert not self.rest, f"{self.whole}: what is {self.rest}?"
        return out

    def take(self, pattern: str) -> re.Match[str] | None:
        found = re.match(pattern, self.rest)
        self.rest = self.rest[found.end() :] if found else self.rest
        return found

    def sum(self) -> Value:
        out = self.product(-1 if self.take("− ") else 1)
        while sign := self.take(r" ([+−]) "):
            more = self.product(1 if sign[1] == "+" else -1)
            out = Value(out.array + more.array, max(out.rows, more.rows), max(out.cols, more.cols))
        return out

    def product(self, sign: int) -> Value:
        before, alone, self.sums = self.sums, sign > 0, 0
        out = self.factor()
        while self.take(r" (?![+−|])"):
            more, alone = self.factor(), False
            out = Value(out.array @ more.array, out.rows or more.rows, more.cols or out.cols)
        assert alone or not self.sums, f"{self.whole}: a sum is multiplied without brackets"
        self.sums = before
        return out._replace(array=sign * out.array)

    def factor(self) -> Value:
        out = self.word()
        while part := self.take(r"ᵀ|\[(\d*):(\d*), (\d*):(\d*)\]|@\((\d+),(\d+)\)"):
            if part[0] == "ᵀ":
                out = out.T
            elif part[5]:
                out = out.moved(int(part[5]), int(part[6]))
            else:
                top, bottom, left, right = (int(g) if g else None for g in part.groups()[:4])
                assert (bottom or 0) <= out.rows, f"{self.whole}: {part[0]} of {out.rows} rows"
                assert (right or 0) <= out.cols, f"{self.whole}: {part[0]} of {out.cols} columns"
                out = large(out.array[: out.rows, : out.cols][top:bottom, left:right])
        return out

    def word(self) -> Value:
        for name, value in self.known:
            if re.match(re.escape(name) + r"($|[ )\];\[@ᵀ])", self.rest):
                self.rest = self.rest.removeprefix(name)
                part = re.match(r"[@ᵀ]|\[[\d:]", self.rest)
                assert not (part and compound(name) and name[0] != "("), f"{self.whole}: of what?"
                self.sums += bool(SUM.search(re.sub(r"\(.*\)", "", name)))
                return value
        if size := self.take(r"I(\d+)"):
            return large(np.eye(int(size[1])))
        if size := self.take(r"ones\((\d+)x(\d+)\)"):
            return large(np.ones((int(size[1]), int(size[2]))))
        if digits := self.take(r"\d+/\d+|\d+(\.\d+)?(e[-+]?\d+)?"):
            return scalar(Fraction(digits[0]))
        if self.take(r"\("):
            out = self.sum()
            assert self.take(r"\)"), f"{self.whole}: no bracket before {self.rest}"
            return out
        assert self.take(r"\["), f"{self.whole}: what is {self.rest}?"
        return self.tiles()

    def tiles(self) -> Value:
        parts = [self.sum()]
        sign = self.take(r" \| |; ")
        assert sign, f"{self.whole}: what is {self.rest}?"
        parts.append(self.sum())
        while self.take(re.escape(sign[0])):
            parts.append(self.sum())
        assert self.take(r"\]"), f"{self.whole}: no bracket before {self.rest}"
        parts = [part.T for part in parts] if sign[0] == "; " else parts
        out = large(np.hstack([part.array[:, : part.cols] for part in parts]))
        out = out._replace(rows=max(part.rows for part in parts))
        return out.T if sign[0] == "; " else out


def known_words(words: Words, held: Mapping[str, Any]) -> dict[str, Value]:
    """What a reader knows when a layer begins: blocks by name, and their transposes."""
    out: dict[str, Value] = {}
    for block, array in held.items():
        if block.endswith("·I"):
            out[words.block(block)] = scalar(array[0, 0])
        else:
            out[words.block(block)] = large(array)
            out.setdefault(pretty(transposed(words.name(block))), large(array).T)
    return out


# -- what is true ----------------------------------------------------------------------------------
def false_lines(net: Any, H: Any) -> list[str]:
    """What is said of heads, of whole layers and of variables that is not so."""
    words, layout, wrong = Words(net), net.layout, []
    variables = net.circuit(functional=False).variables if hasattr(net, "circuit") else ()
    steps = zip(unrolled(net).layers, trace(net, H).steps, strict=True)
    for i, (done, step) in enumerate(steps):
        words.layer(done.stored)
        if not isinstance(done.layer, AttentionLayer):
            continue
        known = known_words(words, layout.unpack(step.before))
        told = {pretty(words.name(b.name, then=True)): b.name for b in layout}
        assert len(told) == len(layout.blocks), "two blocks are called the same"
        for head, did in zip(done.layer.heads, step.heads, strict=True):
            lines = {told[dest]: text for dest, text in words.head(head)}
            wrong += differences(lines, known, layout, did.output)
        made = {v.block: v.expression for v in variables if v.layer == i}
        wrong += differences(made, known, layout, step.after, layout.names if made else ())
    return wrong


def differences(
    lines: Mapping[str, str],
    known: Mapping[str, Value],
    layout: Layout,
    truth: Any,
    names: Any = None,
) -> list[str]:
    """The lines that are not what stands in their blocks; no line: nothing does."""
    out = []
    for block in layout:
        text = lines.get(block.name, "0" if names is None else "")
        if not text or "constant(" in text:
            continue
        said = Line(text, known).value().array[: block.rows, : block.cols]
        stands = truth[: block.rows, block.columns]
        if not np.allclose(said, stands, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(stands).max())):
            out.append(f"{text} → {block.name}")
    return out


def filled(net: Any) -> Any:
    rng = np.random.default_rng(0)
    return net.prompt(**{spec.name: rng.normal(size=spec.shape) * 0.5 for spec in net.inputs})


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_printed_of_a_network_is_true(name, target):
    """Would catch a head, a position or a slice that is left out of what is printed."""
    program = PROGRAMS[name]
    for optimize, steps in (("depth", 3 if name in STEEP else 9), ("faithful", 2)):
        at = sizes(program, SMALL, steps)
        net = inweave.compile(program, target=target, optimize=optimize, verify=False, **at)
        assert not false_lines(net, filled(net))


@inweave.program
def scanned(X: Matrix["n", "d"], A: Matrix["d", "d"], w: Vector["d"], s: Scalar):
    return inweave.scan(lambda l, z: (A @ l + z, s * s), w, X)


@inweave.program
def coupled(B: Matrix["d", "d"], X: Matrix["n", "d"], v: Vector["d"]):
    def step(q, e):
        return q - 0.125 * (B.T @ q) + 0.5 * e, X.T @ (X @ e) + q

    return inweave.iterate(step, (v, v), 7)[1]


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize(
    ("program", "at", "expected"),
    [
        (heavy_ball, {"n": 4, "d": 2, "steps": 9}, "I2 + I2@(2,0) → A"),
        (scanned, {"n": 4, "d": 2}, "B[value,row][:, 3:4] + B[value,row][:, 1:2] → answer1"),
        (coupled, {"n": 2, "d": 3}, "[vᵀ | vᵀ] Aᵀ Aᵀ → [q,e]₂ᵀ"),
    ],
)
def test_places_and_parts_are_told_apart(program, at, expected, target):
    net = inweave.compile(program, target=target, optimize="depth", verify=False, **at)
    assert not false_lines(net, filled(net))
    assert expected in str(net)


# -- any head --------------------------------------------------------------------------------------
BLOCKS = {"X": (4, 3), "w": (3, 1), "s·I": (4, 4), "vᵀ": (1, 3), "−t·v": (3, 1), "C−Xᵀ": (3, 4),
          "t·I": (5, 5), "XᵀX": (3, 3), "e": (1, 1)}  # fmt: skip


def any_constant(rng: Any, rows: int, most: int) -> Any:
    if rng.integers(6) == 0:
        return Ones(rows, int(rng.integers(1, most + 1)))
    cols = int(rng.integers(1, most + 1))
    size = int(rng.integers(1, min(rows, cols) + 1))
    row, col = int(rng.integers(rows - size + 1)), int(rng.integers(cols - size + 1))
    return identity(rows) if rng.integers(2) and rows <= most else Shift(rows, cols, row, col, size)


def any_projection(rng: Any, layout: Layout, start: int, stop: int) -> Projection:
    """Pieces that go to some columns."""
    pieces = []
    for _ in range(rng.integers(1, 4)):
        block = rng.choice([None, *layout.names])
        at = int(rng.integers(start, stop))
        rows = 4 if block is None else layout[block].cols
        c = Fraction(int(rng.choice([1, 1, -1, 2])), int(rng.choice([1, 1, 3])))
        pieces.append(Piece(any_constant(rng, rows, stop - at), at, c, block))
    return Projection(tuple(pieces))


def test_any_head_is_printed_as_what_it_adds():
    layout, rng = Layout.of(BLOCKS), np.random.default_rng(1)
    held = {name: rng.normal(size=shape) for name, shape in BLOCKS.items()}
    held |= {n: held[n][0, 0] * np.eye(len(held[n])) for n in BLOCKS if n.endswith("·I")}
    H = layout.pack(held)
    heads = [
        Head(any_projection(rng, layout, 0, 6), any_projection(rng, layout, 0, 6),
             any_projection(rng, layout, 0, layout.width))
        for _ in range(150)
    ]  # fmt: skip
    net = Network(layout, (Module((AttentionLayer(tuple(heads)),)),))
    assert not false_lines(net, H)
    words = Words(net)
    known = known_words(words, held)
    for head in heads:
        for turned in (False, True):
            pieces = head.query.pieces
            whole = H @ head.query.weight(layout) + head.query.bias(layout)
            start = min(p.at + (p.matrix.col if isinstance(p.matrix, Shift) else 0) for p in pieces)
            truth = whole[:, start:].T if turned else whole[:, start:]
            text = words.affine(pieces, turned)
            seen = np.s_[:, :4] if turned else np.s_[:4]  # a scalar by itself may be s I4
            said = Line(text, known).value().array[: truth.shape[0], : truth.shape[1]]
            assert np.allclose(said[seen], truth[seen]), text


def test_names_that_begin_with_a_sign_are_in_brackets():
    net = ways.compiled(ridge_gd, "factored", n=4, d=2, steps=3, verify=False)
    assert not false_lines(net, filled(net))
    assert "w + (−η(XᵀX+λI)) w + ηXᵀy" in [v.expression for v in net.circuit().variables]
