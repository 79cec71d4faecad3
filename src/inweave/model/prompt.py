"""Between named inputs and the prompt: what a network takes, where it goes, where answers stand.

`Input` is what the user hands over, `Place` is a region of a block, `Fill` says how inputs make up
a block (`√η Xᵀ` is the input X, transposed, scaled by η to the power 1/2), `Output` says where an
answer is read. All of it is data, so that a saved network needs no code to be run. What users hand
over is looked at in `inweave.model.inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from inweave.errors import BlockError, InputError, ShapeError
from inweave.exact.arithmetic import Arithmetic, bordered
from inweave.exact.arithmetic import matrix as written_out
from inweave.exact.constants import Array, Constant
from inweave.exact.names import check_line
from inweave.exact.schema import Coefficient, Count, Size
from inweave.model.layout import Layout

Kind = Literal["scalar", "vector", "matrix"]
Sign = Literal["any", "nonnegative", "positive"]
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Input:
    """A named argument of a program or network. `sign` restricts it where a root is taken."""

    name: str
    rows: Size = 1
    cols: Size = 1
    kind: Kind = "matrix"
    sign: Sign = "any"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise BlockError(f"an input needs a name, got {self.name!r}")
        check_line("an input", self.name)
        what = f"input {self.name!r}"
        _check_kind(what, self.kind, self.rows, self.cols)
        if self.sign not in get_args(Sign):
            raise InputError(
                f"{what}: got the sign {self.sign!r}, expected {' or '.join(get_args(Sign))}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape a user sees: () for a scalar, (d,) for a vector, (n, d) for a matrix."""
        return _shape(self.kind, self.rows, self.cols)


def _shape(kind: Kind, rows: int, cols: int) -> tuple[int, ...]:
    """What users see of a rows x cols value."""
    return {"scalar": (), "vector": (rows,), "matrix": (rows, cols)}[kind]


def _check_kind(what: str, kind: str, rows: int, cols: int) -> None:
    """Refuse a kind that is none, or that its shape contradicts: entries would be left out."""
    if kind not in get_args(Kind):
        raise InputError(f"{what}: got the kind {kind!r}, expected {' or '.join(get_args(Kind))}")
    if (kind == "scalar" and (rows, cols) != (1, 1)) or (kind == "vector" and cols != 1):
        expected = "1 x 1" if kind == "scalar" else "one column"
        raise ShapeError(f"{what}: got {rows} x {cols} for a {kind}, expected {expected}")


@dataclass(frozen=True)
class Place:
    """Where a rows x cols value stands: from (row, col) of a block on, perhaps transposed.

    With `diagonal = q`, a scalar s stands there as `s I_q`.
    """

    block: str
    rows: Size
    cols: Size
    row: Count = 0
    col: Count = 0
    transpose: bool = False
    diagonal: Count = 0

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns that the value takes up in the prompt."""
        if self.diagonal:
            return self.diagonal, self.diagonal
        return (self.cols, self.rows) if self.transpose else (self.rows, self.cols)

    @property
    def value_shape(self) -> tuple[int, int]:
        """Rows and columns of the value itself."""
        return (1, 1) if self.diagonal else (self.rows, self.cols)

    def region(self, layout: Layout) -> tuple[slice, slice]:
        """The rows and columns of the prompt that the value takes up."""
        return self._slices(layout[self.block].start, self.extent)

    def source(self, layout: Layout) -> tuple[slice, slice]:
        """The rows and columns from which the value is read: of `s I_q`, the first entry."""
        return self._slices(layout[self.block].start, (1, 1) if self.diagonal else self.extent)

    @property
    def inside(self) -> tuple[slice, slice]:
        """The same, of its block alone."""
        return self._slices(0, (1, 1) if self.diagonal else self.extent)

    def _slices(self, start: int, shape: tuple[int, int]) -> tuple[slice, slice]:
        (rows, cols), left = shape, start + self.col
        return slice(self.row, self.row + rows), slice(left, left + cols)

    def check(self, layout: Layout, what: str) -> None:
        block, (rows, cols) = layout[self.block], self.extent
        if self.diagonal and (self.rows, self.cols) != (1, 1):
            raise ShapeError(
                f"{what}: got {self.rows} x {self.cols} on a diagonal, expected a scalar"
            )
        inside = 0 <= self.row <= block.rows - rows and 0 <= self.col <= block.cols - cols
        if not inside or self.diagonal < 0:
            raise ShapeError(
                f"{what}: {rows} x {cols} from ({self.row}, {self.col}) does not fit into block "
                f"{self.block!r} of {block.rows} x {block.cols}"
            )

    def read(self, layout: Layout, H: Array) -> Array:
        """The value that stands here in a prompt, as (..., rows, cols)."""
        part = H[..., *self.source(layout)]
        return part.mT if self.transpose else part

    def write(self, layout: Layout, value: Array, arithmetic: Arithmetic) -> Array:
        """The whole block, zero but for the value standing here."""
        block = layout[self.block]
        if self.diagonal:
            value = value * arithmetic.array(np.eye(self.diagonal))
        part = value.mT if self.transpose else value
        rows, cols = part.shape[-2:]
        wide = bordered(arithmetic, part, -1, self.col, block.cols - self.col - cols)
        return bordered(arithmetic, wide, -2, self.row, block.rows - self.row - rows)


@dataclass(frozen=True)
class Fill:
    """A source (an input, or a constant) times powers of scalar inputs, standing at a place."""

    place: Place
    source: str | None = None
    constant: Constant | None = None
    scale: tuple[tuple[str, Fraction], ...] = ()
    coefficient: Coefficient = Fraction(1)

    def __post_init__(self) -> None:
        if (self.source is None) == (self.constant is None):
            raise BlockError(f"fill of block {self.place.block!r}: give a source or a constant")
        for name, power in self.scale:
            if power not in (1, HALF):
                raise InputError(
                    f"fill of block {self.place.block!r}: {name}^{power} is not 1 or ½"
                )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs that it takes: its source, and scalars that scale it."""
        scales = tuple(name for name, _ in self.scale)
        return scales if self.source is None else (self.source, *scales)

    def check(self, layout: Layout, inputs: Sequence[Input]) -> None:
        """Refuse a fill that does not fit its block or its inputs."""
        what, specs = f"fill of block {self.place.block!r}", {spec.name: spec for spec in inputs}
        self.place.check(layout, what)
        for name in self.inputs:
            if name not in specs:
                known = ", ".join(specs) or "there are none"
                raise BlockError(f"{what}: {name!r} is not an input; expected one of: {known}")
        source = specs[str(self.source)] if self.constant is None else self.constant
        got, expected = (source.rows, source.cols), self.place.value_shape
        if got != expected:
            raise ShapeError(f"{what}: the place is for {expected}, its source has shape {got}")
        for name, power in self.scale:
            if (specs[name].rows, specs[name].cols) != (1, 1):
                raise ShapeError(f"{what}: it is scaled by {name!r}, which is not a scalar")
            if power == HALF and specs[name].sign == "any":
                raise InputError(
                    f"{what}: it holds the square root of {name!r}, so that input must be declared "
                    "nonnegative or positive"
                )

    def value(
        self, inputs: Mapping[str, Array], roots: Mapping[str, Array], ar: Arithmetic
    ) -> Array:
        value = (
            inputs[str(self.source)] if self.constant is None else written_out(ar, self.constant)
        )
        for name, power in self.scale:
            value = (inputs[name] if power == 1 else roots[name]) * value
        return value if self.coefficient == 1 else value * ar.number(self.coefficient)


@dataclass(frozen=True)
class Output:
    """A named answer and where it is read.

    The only output of a network may have the name ''; those named '0', '1', ... are a tuple.
    """

    name: str
    place: Place
    kind: Kind = "matrix"

    def __post_init__(self) -> None:
        check_line("an output", self.name)
        _check_kind(f"output {self.name!r}", self.kind, self.place.rows, self.place.cols)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape a user sees, as of an `Input`."""
        return _shape(self.kind, self.place.rows, self.place.cols)


def rooted(fills: Sequence[Fill]) -> set[str]:
    """The scalar inputs whose square root some fill needs."""
    return {name for fill in fills for name, power in fill.scale if power == HALF}


def drawn_inputs(
    inputs: Iterable[Input], rooted: Container[str], draw: Callable[[tuple[int, int]], Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Any inputs, and the roots of those that are `rooted`: of these, the root is drawn."""
    values, roots = {}, {}
    for spec in inputs:
        value = draw((spec.rows, spec.cols))
        if spec.name in rooted:
            roots[spec.name], value = value, value * value
        values[spec.name] = value
    return values, roots


def fill_prompt(
    layout: Layout,
    fills: Sequence[Fill],
    inputs: Mapping[str, Array],
    arithmetic: Arithmetic,
    roots: Mapping[str, Array] | None = None,
) -> Array:
    """The prompt made of lifted inputs (..., rows, cols), in any arithmetic.

    It has the batch axes of all inputs, of those too that it does not hold.
    """
    H = layout.pack(fill_blocks(layout, fills, inputs, arithmetic, roots), arithmetic)
    lead = np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in inputs.values()))
    if tuple(H.shape[:-2]) == lead:
        return H
    return arithmetic.concat([H, arithmetic.zeros((*lead, layout.tokens, 0))], -1)


def fill_blocks(
    layout: Layout,
    fills: Sequence[Fill],
    inputs: Mapping[str, Array],
    arithmetic: Arithmetic,
    roots: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """The same, block by block."""
    if roots is None:
        roots = {name: arithmetic.root(inputs[name]) for name in rooted(fills)}
    blocks: dict[str, Array] = {}
    for fill in fills:
        part = fill.place.write(layout, fill.value(inputs, roots, arithmetic), arithmetic)
        name = fill.place.block
        blocks[name] = blocks[name] + part if name in blocks else part
    for block in layout:
        if block.name not in blocks:
            blocks[block.name] = arithmetic.zeros((block.rows, block.cols))
    return blocks


def numbered(names: Sequence[str]) -> bool:
    """Whether names of answers are those of a tuple: "0", "1" and so on."""
    return len(names) > 0 and list(names) == [str(i) for i in range(len(names))]


def as_answer(answers: Mapping[str, Any]) -> Any:
    """Answers as a program returns them: one without a name as itself, numbered ones as a tuple."""
    if list(answers) == [""]:
        return answers[""]
    return tuple(answers.values()) if numbered([*answers]) else answers


def by_name(answer: Any) -> dict[str, Any]:
    """The answers by name again, as a network's outputs have them: the way back of `as_answer`."""
    if isinstance(answer, tuple):
        return {str(i): value for i, value in enumerate(answer)}
    return dict(answer) if isinstance(answer, Mapping) else {"": answer}


def of_kind(value: Array, kind: Kind) -> Array:
    """An answer in the user's shape: 0-d scalar, 1-D vector, 2-D matrix, batch axes in front."""
    if kind == "scalar":
        return value[..., 0, 0]
    return value[..., 0] if kind == "vector" else value
