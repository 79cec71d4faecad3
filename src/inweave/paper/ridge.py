"""Section 3 of the paper: networks that run gradient descent for ridge regression.

One step is w ← w - η Δw with Δw = -Xᵀy + XᵀXw + λw, equations (35) and (36). The paper gives two
networks for it. `ridge_lsa` uses heads without biases and pays with a designed prompt: scaled
copies, a spare row and the constant 1. `ridge_elsa` uses biases and takes the variables as they
are, side by side, at the price of two layers per step. Both are built of structural pieces whose
dense `W` and `B` are the printed matrices; a piece that reads a block into columns `at` on is what
the paper calls choosing W by Property 1.

Blocks carry the paper's names. `s` is the width of the prompt, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import matmul
from typing import Any, Literal

from inweave.errors import InputError, ShapeError
from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array, identity
from inweave.exact.whole import whole
from inweave.model.inputs import accept
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.modules import Module
from inweave.model.projection import Piece, Projection, read
from inweave.model.prompt import HALF, Fill, Input, Output, Place, rooted
from inweave.network import Network
from inweave.paper.properties import skip_head

ROOT_ETA = (("eta", HALF),)
NOTHING = Projection()
ZERO_HEAD = Head(NOTHING, NOTHING, NOTHING)
MINUS = Fraction(-1)


# -- the designed input form (Section 3.4) --------------------------------------------------------
def designed_layout(n: int, d: int) -> Layout:
    """The blocks of equation (37): d + 1 tokens, s = 2n + d + 3 columns.

    The last row is the spare one. It holds √η yᵀ and the constant 1, apart from everything else, so
    that a Gram matrix has √η y = (√η yᵀ)ᵀ 1 in it, and it takes the answer below w.
    """
    n, d = whole("n", n, 1, ShapeError), whole("d", d, 1, ShapeError)
    return Layout.of(
        {
            "√ηXᵀ": (d, n),
            "√ηyᵀ": (d + 1, n),
            "1": (d + 1, 1),
            "√η√λI": (d, d),
            "u": (d, 1),
            "w": (d + 1, 1),
        }
    )


def ridge_lsa(n: int, d: int, steps: int, module: Literal["lsa", "elsa"] = "lsa") -> Network:
    """Gradient descent by LSA under the designed input form: equations (37) to (55).

    Three heads with the value in the last column, where w stands, sum to -ηΔw:
    √ηXᵀ (√ηyᵀ)ᵀ 1 = ηXᵀy, -√ηXᵀ (√ηXᵀ)ᵀ w = -ηXᵀXw, and -(√η√λI)(√η√λI)ᵀ w = -ηλw. The module's
    skip adds that to w. The read-out head is 1 uᵀ w, written into the spare row below w; its two
    further heads are zero, so that all modules have one structure.

    With `module="elsa"` the module of `ridge_elsa` serves this prompt, as the paper remarks: the
    first block of heads does the above, and the second passes it on by Property 3.
    """
    layout, steps = designed_layout(n, d), whole("steps", steps, 0)
    if module not in ("lsa", "elsa"):
        raise InputError(f"module must be 'lsa' or 'elsa', got {module!r}")
    X, y, one = "√ηXᵀ", "√ηyᵀ", "1"
    last = layout.width - 1
    step = (
        _head(layout, query=(X, 0), key=(y, 0), value=(one, last)),
        _head(layout, query=(X, 0, -1), key=(X, 0), value=("w", last)),
        _head(layout, query=("√η√λI", 0, -1), key=("√η√λI", 0), value=("w", last)),
    )
    answer = _head(layout, query=(one, last), key=("u", last), value=("w", last))
    if module == "lsa":
        modules = _modules((_block(3, *step),), (_block(3, answer),), steps, d)
    else:
        onward = _block(4, skip_head(layout))
        modules = _modules((_block(4, *step), onward), (_block(4, answer), onward), steps, d)
    fills = (
        Fill(Place(X, n, d, transpose=True), source="X", scale=ROOT_ETA),
        Fill(Place(y, n, 1, row=d, transpose=True), source="y", scale=ROOT_ETA),
        Fill(Place(one, 1, 1, row=d), constant=identity(1)),
        Fill(Place("√η√λI", d, d), constant=identity(d), scale=(*ROOT_ETA, ("lam", HALF))),
        Fill(Place("u", d, 1), source="u"),
        Fill(Place("w", d, 1), source="w0"),
    )
    return Network(
        layout,
        modules,
        inputs=_inputs(n, d, rooted(fills)),
        fills=fills,
        outputs=(Output("", Place("w", 1, 1, row=d), "scalar"),),
    )


# -- the enumerated input form (Section 3.5) ------------------------------------------------------
def enumerated_layout(n: int, d: int) -> Layout:
    """The blocks of equation (56): d tokens, s = 2n + 2d + 3 columns.

    Each variable stands by itself. Y₀ᵀ holds yᵀ in its last row, so that XᵀY₀ is zero but for its
    last column, Xᵀy; the block `answer` is free until the read-out.
    """
    n, d = whole("n", n, 1, ShapeError), whole("d", d, 1, ShapeError)
    return Layout.of(
        {
            "Xᵀ": (d, n),
            "Y₀ᵀ": (d, n),
            "λI": (d, d),
            "√ηI": (d, d),
            "u": (d, 1),
            "answer": (d, 1),
            "w": (d, 1),
        }
    )


def ridge_elsa(n: int, d: int, steps: int) -> Network:
    """Gradient descent by ELSA under the enumerated input form: equations (56) to (86).

    First block, four heads: Xᵀ(Xᵀ)ᵀw = XᵀXw; I(λI)ᵀw = λw; XᵀY₀(-I) in the last d columns, which
    puts -Xᵀy into the last one; -I(√ηI)ᵀ√ηI = -ηI where √ηI stood. Their sum holds Δw and -ηI.
    Second block: I(-ηI)ᵀΔw = -ηΔw, and the one skip around both adds it to w. Read-out: e₀uᵀw into
    `answer`, then passed on by Property 3. Heads that are zero keep the structure common.
    """
    layout, steps = enumerated_layout(n, d), whole("steps", steps, 0)
    last, eta = layout.width - 1, layout["√ηI"].start
    unit, minus = Piece(identity(d), 0), Piece(identity(d), 0, MINUS)
    first = _block(
        4,
        _head(layout, query=("Xᵀ", 0), key=("Xᵀ", 0), value=("w", last)),
        _head(layout, query=unit, key=("λI", 0), value=("w", last)),
        _head(
            layout,
            query=("Xᵀ", layout.width - n),
            key=("Y₀ᵀ", layout.width - n),
            value=Piece(identity(d), layout.width - d, MINUS),
        ),
        _head(layout, query=minus, key=("√ηI", 0), value=("√ηI", eta)),
    )
    second = _block(4, _head(layout, query=unit, key=("√ηI", 0), value=("w", last)))
    answer = _block(
        4, _head(layout, Piece(identity(1), 0), key=("u", 0), value=("w", layout["answer"].start))
    )
    fills = (
        Fill(Place("Xᵀ", n, d, transpose=True), source="X"),
        Fill(Place("Y₀ᵀ", n, 1, row=d - 1, transpose=True), source="y"),
        Fill(Place("λI", 1, 1, diagonal=d), source="lam"),
        Fill(Place("√ηI", d, d), constant=identity(d), scale=ROOT_ETA),
        Fill(Place("u", d, 1), source="u"),
        Fill(Place("w", d, 1), source="w0"),
    )
    return Network(
        layout,
        _modules((first, second), (answer, _block(4, skip_head(layout))), steps, d),
        inputs=_inputs(n, d, rooted(fills)),
        fills=fills,
        outputs=(Output("", Place("answer", 1, 1), "scalar"),),
    )


# -- Gram matrices --------------------------------------------------------------------------------
SYMBOLS = {"η": "eta", "λ": "lam"}
SCALARS = ("η", "√η", "λ", "√λ", "1")


@dataclass(frozen=True)
class GramTable:
    """HᵀH block by block, each entry written as the product that stands there.

    The entries are text and they are what is evaluated, so the table that is printed is the table
    that is checked: `O` is a zero block, any other entry a product of scalars (η, √η, λ, √λ, 1) and
    of X, Y₀, y, u, w, I and their transposes.
    """

    layout: Layout
    entries: tuple[tuple[str, ...], ...]

    def __getitem__(self, blocks: tuple[str, str]) -> str:
        """The entry in the rows of one block and the columns of another."""
        names = self.layout.names
        row, col = (names.index(self.layout[name].name) for name in blocks)
        return self.entries[row][col]

    def evaluate(self, values: Mapping[str, Array], arithmetic: Arithmetic) -> Array:
        """The width x width matrix, in any arithmetic, from X, y, u, w, lam, eta as matrices."""
        factors = _factors(values, self._roots(), arithmetic)
        lines = []
        for rows, line in zip(self.layout, self.entries, strict=True):
            blocks = []
            for cols, entry in zip(self.layout, line, strict=True):
                shape = (rows.cols, cols.cols)
                block = arithmetic.zeros(shape) if entry == "O" else _product(entry, factors)
                if tuple(block.shape[-2:]) != shape:
                    raise ShapeError(
                        f"entry {entry!r} in the rows of {rows.name} and the columns of "
                        f"{cols.name} is {tuple(block.shape[-2:])}, expected {shape}"
                    )
                blocks.append(block)
            lines.append(arithmetic.concat(blocks, -1))
        return arithmetic.concat(lines, -2)

    def __call__(self, **inputs: Any) -> Array:
        """The matrix HᵀH of these X, y, u, w, lam and eta."""
        n, d = self.layout.blocks[0].cols, self.layout["u"].rows
        specs = _inputs(n, d, self._roots(), w="w")
        return self.evaluate(*accept(specs, inputs, "this Gram table"))

    def _roots(self) -> set[str]:
        """The scalar inputs whose root some entry names."""
        named = {name for line in self.entries for entry in line for name in entry.split()}
        return {name for symbol, name in SYMBOLS.items() if f"√{symbol}" in named}

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.entries, strict=True)]
        return "\n".join(
            "  ".join(
                entry.ljust(width) for entry, width in zip(line, widths, strict=True)
            ).rstrip()
            for line in self.entries
        )


def designed_gram(n: int, d: int) -> GramTable:
    """HᵀH of the designed form, equation (40), with the slips of the print put right."""
    return GramTable(
        designed_layout(n, d),
        (
            ("η X Xᵀ", "O", "O", "η √λ X", "√η X u", "√η X w"),
            ("O", "η y yᵀ", "√η y", "O", "O", "O"),
            ("O", "√η yᵀ", "1", "O", "O", "O"),
            ("η √λ Xᵀ", "O", "O", "η λ I", "√η √λ u", "√η √λ w"),
            ("√η uᵀ Xᵀ", "O", "O", "√η √λ uᵀ", "uᵀ u", "uᵀ w"),
            ("√η wᵀ Xᵀ", "O", "O", "√η √λ wᵀ", "wᵀ u", "wᵀ w"),
        ),
    )


def enumerated_gram(n: int, d: int) -> GramTable:
    """HᵀH of the enumerated form, equation (60), with the slip of the print put right."""
    return GramTable(
        enumerated_layout(n, d),
        (
            ("X Xᵀ", "X Y₀ᵀ", "λ X", "√η X", "X u", "O", "X w"),
            ("Y₀ Xᵀ", "Y₀ Y₀ᵀ", "λ Y₀", "√η Y₀", "Y₀ u", "O", "Y₀ w"),
            ("λ Xᵀ", "λ Y₀ᵀ", "λ λ I", "λ √η I", "λ u", "O", "λ w"),
            ("√η Xᵀ", "√η Y₀ᵀ", "√η λ I", "η I", "√η u", "O", "√η w"),
            ("uᵀ Xᵀ", "uᵀ Y₀ᵀ", "λ uᵀ", "√η uᵀ", "uᵀ u", "O", "uᵀ w"),
            ("O", "O", "O", "O", "O", "O", "O"),
            ("wᵀ Xᵀ", "wᵀ Y₀ᵀ", "λ wᵀ", "√η wᵀ", "wᵀ u", "O", "wᵀ w"),
        ),
    )


def _factors(
    values: Mapping[str, Array], roots: set[str], arithmetic: Arithmetic
) -> dict[str, Array]:
    """Every factor that an entry may name, as a (..., rows, cols) array."""
    X, y = values["X"], values["y"]
    d = X.shape[-1]
    before = [arithmetic.zeros((*y.shape[:-1], d - 1))] if d > 1 else []
    plain = {
        "X": X,
        "y": y,
        "Y₀": arithmetic.concat([*before, y], -1),
        "u": values["u"],
        "w": values["w"],
    }
    named = plain | {f"{name}ᵀ": array.mT for name, array in plain.items()}
    named["I"] = arithmetic.array(identity(d).entries())
    named["1"] = arithmetic.array(identity(1).entries())
    for symbol, name in SYMBOLS.items():
        named[symbol] = values[name]
        if name in roots:
            named[f"√{symbol}"] = arithmetic.root(values[name])
    return named


def _product(entry: str, factors: Mapping[str, Array]) -> Array:
    """The matrix product of an entry's factors, times its scalars."""
    names = entry.split()
    scalars = [name for name in names if name in SCALARS]
    matrices = [name for name in names if name not in SCALARS]
    value = reduce(matmul, (factors[name] for name in matrices or ["1"]))
    return reduce(lambda product, name: factors[name] * product, scalars, value)


# -- helpers --------------------------------------------------------------------------------------
Source = Piece | tuple[str, int] | tuple[str, int, int]


def _head(layout: Layout, query: Source, key: Source, value: Source) -> Head:
    """A head of one piece each: a bias, or (block, at) or (block, at, coefficient)."""

    def projection(source: Source) -> Projection:
        return Projection((source if isinstance(source, Piece) else read(layout, *source),))

    return Head(projection(query), projection(key), projection(value))


def _block(count: int, *heads: Head) -> AttentionLayer:
    """A block of `count` heads (3 in LSA, 4 in ELSA), zero ones at the end; no skip of its own."""
    return AttentionLayer(heads + (ZERO_HEAD,) * (count - len(heads)), skip=False)


def _modules(
    step: tuple[AttentionLayer, ...], answer: tuple[AttentionLayer, ...], steps: int, d: int
) -> tuple[Module, Module]:
    """The step, tied over all steps and carrying w, then the read-out; one skip around each."""
    carries = ((Place("w", d, 1),),)
    return Module(step, repeat=steps, skip=True, carries=carries), Module(answer, skip=True)


def _inputs(n: int, d: int, roots: set[str], w: str = "w0") -> tuple[Input, ...]:
    """What both networks take; a sign is asked for only where a root is taken."""
    return (
        Input("X", n, d, "matrix"),
        Input("y", n, 1, "vector"),
        Input("u", d, 1, "vector"),
        Input(w, d, 1, "vector"),
        Input("lam", kind="scalar", sign="nonnegative" if "lam" in roots else "any"),
        Input("eta", kind="scalar", sign="positive" if "eta" in roots else "any"),
    )
