"""Between named inputs and the prompt: what a network takes, where it goes, where answers stand.

`Input` is what the user hands over, `Place` is a region of a block, `Fill` says how inputs make up
a block (`√η Xᵀ` is the input X, transposed, scaled by η to the power 1/2), `Output` says where an
answer is read. All of it is data, so that a saved network needs no code to be run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from inweave.errors import BlockError, DTypeError, InputError, ShapeError
from inweave.exact.arithmetic import Arithmetic, Floats, namespace
from inweave.exact.arithmetic import matrix as written_out
from inweave.exact.constants import Array, Constant, rational_text
from inweave.model.layout import Layout

Kind = Literal["scalar", "vector", "matrix"]
Sign = Literal["any", "nonnegative", "positive"]
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Input:
    """A named argument of a program or network. `sign` restricts it where a root is taken."""

    name: str
    rows: int = 1
    cols: int = 1
    kind: Kind = "matrix"
    sign: Sign = "any"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise BlockError(f"an input needs a name, got {self.name!r}")
        what = f"input {self.name!r}"
        _check_kind(what, self.kind, self.rows, self.cols)
        if self.sign not in get_args(Sign):
            raise InputError(
                f"{what}: got the sign {self.sign!r}, expected {' or '.join(get_args(Sign))}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape a user sees: () for a scalar, (d,) for a vector, (n, d) for a matrix."""
        full = (self.rows, self.cols)
        return {"scalar": (), "vector": (self.rows,), "matrix": full}[self.kind]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "shape": [self.rows, self.cols], "kind": self.kind,
                "sign": self.sign}  # fmt: skip


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
    rows: int
    cols: int
    row: int = 0
    col: int = 0
    transpose: bool = False
    diagonal: int = 0

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

    def check(self, layout: Layout, what: str) -> None:
        block, (rows, cols) = layout[self.block], self.extent
        inside = 0 <= self.row <= block.rows - rows and 0 <= self.col <= block.cols - cols
        if not inside or self.diagonal < 0:
            raise ShapeError(
                f"{what}: {rows} x {cols} from ({self.row}, {self.col}) does not fit into block "
                f"{self.block!r} of {block.rows} x {block.cols}"
            )

    def read(self, layout: Layout, H: Array) -> Array:
        """The value that stands here in a prompt, as (..., rows, cols)."""
        rows, cols = (1, 1) if self.diagonal else self.extent
        left = layout[self.block].start + self.col
        part = H[..., self.row : self.row + rows, left : left + cols]
        return part.mT if self.transpose else part

    def write(self, layout: Layout, value: Array, arithmetic: Arithmetic) -> Array:
        """The whole block, zero but for the value standing here."""
        block = layout[self.block]
        if self.diagonal:
            value = value * arithmetic.array(np.eye(self.diagonal))
        part = value.mT if self.transpose else value
        return _embed(part, block.rows, block.cols, self.row, self.col, arithmetic)

    def describe(self) -> dict[str, Any]:
        return {
            "block": self.block,
            "rows": self.rows,
            "cols": self.cols,
            "row": self.row,
            "col": self.col,
            "transpose": self.transpose,
            "diagonal": self.diagonal,
        }


def _embed(part: Array, rows: int, cols: int, row: int, col: int, arithmetic: Arithmetic) -> Array:
    """`part` at (row, col) of a rows x cols matrix of zeros."""
    height, width = part.shape[-2:]
    wide = _join([(height, col), part, (height, cols - col - width)], -1, arithmetic)
    return _join([(row, cols), wide, (rows - row - height, cols)], -2, arithmetic)


def _join(parts: Sequence[Any], axis: int, arithmetic: Arithmetic) -> Array:
    """Arrays, and zeros given by their shape, side by side along an axis."""
    kept = [
        arithmetic.zeros(p) if isinstance(p, tuple) else p
        for p in parts
        if not (isinstance(p, tuple) and p[axis] == 0)
    ]
    return kept[0] if len(kept) == 1 else arithmetic.concat(kept, axis)


@dataclass(frozen=True)
class Fill:
    """A source (an input, or a constant) times powers of scalar inputs, standing at a place."""

    place: Place
    source: str | None = None
    constant: Constant | None = None
    scale: tuple[tuple[str, Fraction], ...] = ()
    coefficient: Fraction = Fraction(1)

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
        got = (source.rows, source.cols)
        expected = (1, 1) if self.place.diagonal else (self.place.rows, self.place.cols)
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

    def describe(self) -> dict[str, Any]:
        return {
            "place": self.place.describe(),
            "source": self.source,
            "constant": None if self.constant is None else self.constant.describe(),
            "scale": [[name, str(power)] for name, power in self.scale],
            "coefficient": rational_text(self.coefficient),
        }


@dataclass(frozen=True)
class Output:
    """A named answer and where it is read. The only output of a network may have the name ''."""

    name: str
    place: Place
    kind: Kind = "matrix"

    def __post_init__(self) -> None:
        _check_kind(f"output {self.name!r}", self.kind, self.place.rows, self.place.cols)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "place": self.place.describe(), "kind": self.kind}


def rooted(fills: Sequence[Fill]) -> set[str]:
    """The scalar inputs whose square root some fill needs."""
    return {name for fill in fills for name, power in fill.scale if power == HALF}


def fill_prompt(
    layout: Layout,
    fills: Sequence[Fill],
    inputs: Mapping[str, Array],
    arithmetic: Arithmetic,
    roots: Mapping[str, Array] | None = None,
) -> Array:
    """The prompt made of lifted inputs (..., rows, cols), in any arithmetic."""
    return layout.pack(fill_blocks(layout, fills, inputs, arithmetic, roots), arithmetic)


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


def lift(
    specs: Sequence[Input], given: Mapping[str, Any], what: str = "this network"
) -> tuple[dict[str, Array], Floats]:
    """Named user arrays as (..., rows, cols) arrays of one library and dtype, all checked."""
    names = [spec.name for spec in specs]
    missing = [name for name in names if name not in given]
    extra = [name for name in given if name not in names]
    if missing or extra:
        said = [f"missing: {', '.join(missing)}"] if missing else []
        said += [f"unknown: {', '.join(extra)}"] if extra else []
        raise BlockError(f"{what} takes the inputs {', '.join(names)}; {'; '.join(said)}")
    given = {name: plain(f"input {name!r}", given[name]) for name in names}
    arithmetic = _common([given[name] for name in names], names)
    lifted = {spec.name: _lift_one(spec, given[spec.name], arithmetic) for spec in specs}
    lead: tuple[int, ...] = ()
    for spec in specs:
        shape = tuple(lifted[spec.name].shape[:-2])
        try:
            lead = np.broadcast_shapes(lead, shape)
        except ValueError:
            raise ShapeError(
                f"input {spec.name!r} has batch axes {shape}, the inputs before it have {lead}; "
                "batch axes must broadcast"
            ) from None
    return lifted, arithmetic


def plain(what: str, value: Any) -> Any:
    """A value without what the rest of the way could not keep: masks, subclasses, sparsity."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{what} has masked entries; fill or drop them first")
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.layout != torch.strided:
        raise InputError(
            f"{what} is a tensor with the layout {str(value.layout).removeprefix('torch.')}, "
            "expected a dense one; .to_dense() makes it one"
        )
    return value


def _common(values: Sequence[Any], names: Sequence[str]) -> Floats:
    """The array library, dtype and device that the given values share."""
    from array_api_compat import device, is_array_api_obj

    arrays = []
    for name, value in zip(names, values, strict=True):
        if is_array_api_obj(value) and not isinstance(value, np.generic):
            arrays.append(value)
            if value.dtype == object:
                raise DTypeError(f"input {name!r}: got dtype object, expected real numbers")
    if not arrays:
        return Floats()
    try:
        xp = namespace(*arrays)
    except TypeError:
        kinds = sorted({type(a).__module__.split(".")[0] for a in arrays})
        raise DTypeError(
            f"the inputs mix array libraries ({', '.join(kinds)}); give them all in one"
        ) from None
    for name, value in zip(names, values, strict=True):
        if is_array_api_obj(value) and not isinstance(value, np.generic):
            if not xp.isdtype(value.dtype, ("real floating", "integral")):
                raise DTypeError(f"input {name!r}: got dtype {value.dtype}, expected real numbers")
    floats = [a.dtype for a in arrays if xp.isdtype(a.dtype, "real floating") and a.ndim > 0]
    floats = floats or [a.dtype for a in arrays if xp.isdtype(a.dtype, "real floating")]
    dtype = xp.result_type(*floats) if floats else xp.asarray(0.0).dtype
    if not floats and xp.__name__.endswith("numpy"):
        dtype = xp.float64
    return Floats(xp, dtype, device(arrays[0]))


def _lift_one(spec: Input, value: Any, arithmetic: Floats) -> Array:
    if isinstance(value, (list, tuple)):
        try:
            listed = np.asarray(value)
            if listed.dtype.kind not in "fiubO":
                raise TypeError(listed.dtype)
            value = listed.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DTypeError(f"input {spec.name!r}: the list does not hold real numbers") from None
    if isinstance(value, (complex, np.complexfloating, str, bytes)) or value is None:
        raise DTypeError(f"input {spec.name!r}: got {type(value).__name__}, expected real numbers")
    try:
        array = arithmetic.convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"input {spec.name!r}: expected real numbers; {error}") from None
    shape, expected, values = tuple(array.shape), (spec.rows, spec.cols), array
    if spec.kind == "scalar":
        array = array[..., None, None]
    elif spec.kind == "vector" and shape[-1:] == (spec.rows,):
        array = array[..., None]
    if tuple(array.shape[-2:]) != expected or array.ndim < 2:
        sizes = ", ".join(map(str, spec.shape))
        raise ShapeError(
            f"input {spec.name!r}: got shape {shape}, expected "
            + (f"(..., {sizes})" if sizes else "a number or batch axes only")
        )
    if is_concrete(values):
        _check_values(spec, values, arithmetic.xp)
    return array


def _check_values(spec: Input, array: Array, xp: Any) -> None:
    """Refuse values that make no sense. Whoever is being traced is asked through numpy.

    Inside jax.jit even an array whose values are known (one that the function closes over) gives
    placeholders when it is computed with.
    """
    finite = xp.all(xp.isfinite(array))
    if not is_concrete(finite):
        array, xp = np.asarray(array), np
        finite = np.all(np.isfinite(array))
    if not bool(finite):
        raise InputError(f"input {spec.name!r} holds NaN or infinity; clean it first")
    wrong = array < 0 if spec.sign == "nonnegative" else array <= 0
    if spec.sign != "any" and bool(xp.any(wrong)):
        raise InputError(
            f"input {spec.name!r}: got {float(xp.min(array)):g}, expected a {spec.sign} value, "
            "because this network's prompt holds its square root"
        )


def is_concrete(array: Array) -> bool:
    """False for the placeholders of a transform (jax.jit, torch.func.vmap): no value is known."""
    kind = type(array)
    if kind.__module__.startswith("torch"):
        return not _is_mapped(array)
    return not (kind.__module__.startswith("jax") and "Tracer" in kind.__name__)


def _is_mapped(tensor: Array) -> bool:
    """Whether torch.func.vmap runs over this tensor, perhaps inside torch.func.grad."""
    functorch = sys.modules["torch"]._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def lower(value: Array, kind: Kind) -> Array:
    """An answer in the user's shape: 0-d scalar, 1-D vector, 2-D matrix, batch axes in front."""
    if kind == "scalar":
        return value[..., 0, 0]
    return value[..., 0] if kind == "vector" else value
