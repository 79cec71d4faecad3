"""Data beyond memory: a network over dask arrays.

Data can be too much in two ways. **Many prompts**: the inputs are cut along batch axes, and every
chunk is a call of its own, one task. **One long prompt**: the inputs are cut along its rows. Then
the plan's lines become dask's own operations: a Gram matrix is a sum over chunks, nothing of the
size of the data is ever in one place.

Loops are cut out of the graph. One that reads only what is in one piece (the Gram matrix, not X) is
one task, run as numpy runs it. One that goes through rows is one task per chunk of rows, handing on
what it carries. Any other one reads all data in every step: it is stepped here and now, and what it
carries is computed step by step, so that the graph does not grow with their number.

Everything else is lazy, and so are the checks: values that are not finite, a function that left its
domain and answers that grew too far are refused when the answer is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any, Protocol

import dask
import dask.array as da
import numpy as np

from inweave.errors import DivergenceError, InputError, ShapeError
from inweave.exact.arithmetic import Floats, batched
from inweave.exact.constants import Array, Ones, zeros
from inweave.model.inputs import accept, check_values
from inweave.model.network import Network
from inweave.model.prompt import Input, Output, as_answer, by_name, of_kind
from inweave.run.domains import OutOfDomain, refusal
from inweave.run.growth import SUSPICIOUS
from inweave.run.libraries.execute import Bound, Step, fixed, operations, repeated, steps_of
from inweave.run.libraries.functions import applied
from inweave.run.lines.code import Code, Line, Repeat, broadcast

LARGEST = 1 << 20  # entries of a constant that is written out


class Plan(Protocol):
    """What is needed of a plan here."""

    @property
    def from_inputs(self) -> Any: ...

    def sources(self, inputs: Mapping[str, Array], arithmetic: Floats) -> dict[Any, Array]: ...

    def call(self, inputs: Mapping[str, Any], check: bool) -> Any: ...


def call(network: Network, inputs: Mapping[str, Any], check: bool, plan: Plan) -> Any:
    """Named inputs in, some of them dask arrays; the user's answers out, as dask arrays."""
    specs, outputs = network.inputs, network.outputs
    arrays, dtype = _accept(specs, inputs)
    if all(_in_one_piece(x) for x in arrays.values()):
        return _by_chunk(network, arrays, dtype, partial(plan.call, check=check))
    arithmetic = Floats(np, dtype)
    arithmetic.checked = check
    tops = [_top(spec, arrays[spec.name], arithmetic) for spec in specs]
    sources = plan.sources(arrays, Floats(da, dtype))
    lead = broadcast(*(tuple(x.shape[:-2]) for x in arrays.values()))
    found = [
        da.broadcast_to(x, (*lead, *x.shape[-2:]))
        for x in _Run(plan.from_inputs.code, arithmetic).outputs(sources)
    ]
    scale, limit = da.stack(tops).max(), SUSPICIOUS if check else math.inf
    found = [x.map_blocks(_grown, scale, limit, dtype=dtype, meta=x._meta) for x in found]
    return as_answer({o.name: of_kind(x, o.kind) for o, x in zip(outputs, found, strict=True)})


def _accept(specs: Sequence[Input], given: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The inputs as (..., rows, cols) arrays of one dtype; what is no dask array is checked now."""
    lazy = {name for name, x in given.items() if isinstance(x, da.Array)}
    for name in lazy:
        if any(math.isnan(size) for size in given[name].shape):
            raise ShapeError(
                f"input {name!r}: the sizes of its chunks are unknown; "
                "its method compute_chunk_sizes() finds them"
            )
    own = [spec for spec in specs if spec.name in given and spec.name not in lazy]
    known, _ = accept(own, {spec.name: given[spec.name] for spec in own})
    whole = {name: _lazily(x) for name, x in given.items()}
    arrays, arithmetic = accept(specs, whole)
    dtype = np.dtype(arithmetic.dtype)
    return arrays | {name: x.astype(dtype) for name, x in known.items()}, dtype


def _lazily(x: Any) -> Any:
    """Arrays as dask arrays; numbers and lists decide nothing about the dtype, and stay."""
    return da.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x


def _in_one_piece(x: Any) -> bool:
    """Whether every prompt of an array lies in one chunk."""
    return not isinstance(x, da.Array) or all(len(sizes) == 1 for sizes in x.chunks[-2:])


def _mapped(function: Callable[[Array], Array], x: Any) -> Any:
    if isinstance(x, da.Array):
        return x.map_blocks(function, dtype=x.dtype, meta=x._meta)
    return function(x)


def _top(spec: Input, x: Any, arithmetic: Floats) -> Any:
    """The largest magnitude in an input, whose values are looked at on the way."""

    def top(block: Array) -> Array:
        check_values(spec, block, block, arithmetic)
        return np.max(np.abs(block), keepdims=True, initial=0.0)

    x = da.asarray(x)
    return x.map_blocks(top, dtype=x.dtype, meta=x._meta, chunks=(1,) * x.ndim).max()


def _grown(block: Array, scale: Array, limit: float) -> Array:
    """An answer as it is, unless it reaches suspiciously far beyond the inputs."""
    top, scale = float(np.max(np.abs(block), initial=0.0)), max(1.0, float(scale))
    if limit < math.inf and not top <= limit * scale:
        raise DivergenceError(
            f"the answer reached {top:.3g}, inputs are at most {scale:.3g}; "
            "check=False returns it as it is"
        )
    return block


# -- many prompts ---------------------------------------------------------------------------------
def _by_chunk(
    network: Network, arrays: Mapping[str, Any], dtype: Any, call: Callable[[Any], Any]
) -> Any:
    """Every chunk of the batch as a call of its own."""
    specs, outputs = network.inputs, network.outputs
    shapes = [_shape(o) for o in outputs]
    taken = [[f"{spec.name}_{i}" for i in range(len(spec.shape))] for spec in specs]
    made = [[f"out_{k}_{i}" for i in range(len(shape))] for k, shape in enumerate(shapes)]
    given = [of_kind(arrays[spec.name], spec.kind) for spec in specs]
    sides = (",".join(f"({','.join(names)})" for names in side) for side in (taken, made))
    found = da.apply_gufunc(
        partial(_called, call, [spec.name for spec in specs]),
        "->".join(sides),
        *_alike(given, taken),
        output_dtypes=[dtype] * len(outputs),
        output_sizes=dict(zip(chain(*made), chain(*shapes), strict=True)),
    )
    names = [output.name for output in outputs]
    return as_answer(dict(zip(names, found if len(names) > 1 else [found], strict=True)))


def _alike(arrays: Sequence[Any], axes: Sequence[Sequence[str]]) -> list[Any]:
    """Arrays with the same chunks along the batch axes that they share; `axes` are their others."""
    named: list[Any] = []
    for x, names in zip(arrays, axes, strict=True):
        lead = x.ndim - len(names)
        named += [da.asarray(x), (*(f"batch_{i - lead}" for i in range(lead)), *names)]
    return list(da.core.unify_chunks(*named)[1])


def _shape(output: Output) -> tuple[int, ...]:
    rows, cols = output.place.value_shape
    return Input("answer", rows, cols, output.kind).shape


def _called(call: Callable[[Any], Any], names: Sequence[str], *arrays: Array) -> Any:
    """What a task does: one array, or several, as dask wants them."""
    answers = by_name(call(dict(zip(names, arrays, strict=True))))
    return tuple(answers.values()) if len(answers) > 1 else next(iter(answers.values()))


# -- one long prompt ------------------------------------------------------------------------------
class _Run:
    """Code over slots that hold dask arrays, or numpy arrays where all is known."""

    def __init__(self, code: Code, arithmetic: Floats) -> None:
        self.code, self.arithmetic = code, arithmetic

    def outputs(self, sources: Mapping[Any, Any]) -> list[Any]:
        slots: list[Any] = [None] * self.code.slots
        for slot, (kind, content) in self.code.fixed.items():
            slots[slot] = _fixed(kind, content, self.arithmetic)
        for name, slot in self.code.sources.items():
            slots[slot] = sources[name]
        for step in steps_of(self.code.lines, operations(self.arithmetic) | OURS, self._loop):
            step(slots)
        return [da.asarray(slots[slot]) for slot in self.code.outputs]

    def _loop(self, loop: Repeat, body: list[Step]) -> Step:
        """A loop as one task, as one for each chunk of rows that it goes through, or stepped."""
        rows = {line.a for line in loop.body if isinstance(line, Line) and line.op == "pick"}
        read = loop.reads

        def step(slots: list[Any]) -> None:
            cut = {slot for slot in read if not _in_one_piece(slots[slot])}
            if not cut:
                self._task(loop, slots)
            elif cut <= rows and _walks(loop, rows, slots):
                self._along(loop, rows, slots)
            else:
                _stepped(loop, body, read, slots)

        return step

    def _task(self, loop: Repeat, slots: list[Any]) -> None:
        """A loop as one task."""
        read, ends = loop.reads, (*loop.phis, *(stack.out for stack in loop.stacks))
        fixed = {slot: self.code.fixed[slot] for slot in read if slot in self.code.fixed}
        given = [slot for slot in read if slot not in fixed]
        piece = Code([loop], self.code.slots, {slot: slot for slot in given}, fixed, ends)
        lead = broadcast(*(tuple(slots[slot].shape[:-2]) for slot in given))
        shapes = [(*lead, *shape) for shape in _shapes(loop, slots)]
        run = partial(_piece, piece, self.arithmetic, shapes)
        made = dask.delayed(run, nout=len(ends), pure=False)(*(slots[slot] for slot in given))
        for slot, value, shape in zip(ends, made, shapes, strict=True):
            slots[slot] = da.from_delayed(value, shape, self.arithmetic.dtype)

    def _along(self, loop: Repeat, rows: set[int], slots: list[Any]) -> None:
        """A loop through rows: a task for each chunk of them, which goes on where one ended."""
        chunks = next(slots[slot].chunks[-2] for slot in rows if not _in_one_piece(slots[slot]))
        spans = [*pairwise(accumulate(chunks, initial=0))]
        order = -1 if loop.counters[0].backward else 1
        for phi, value in zip(loop.phis, [slots[slot] for slot in loop.inits], strict=True):
            slots[phi] = value
        left: list[list[Any]] = [[] for _ in loop.stacks]
        for low, high in spans[::order]:
            here = slots.copy()
            for slot in rows:
                here[slot] = slots[slot][..., low:high, :]
            self._task(replace(loop, times=high - low, inits=loop.phis), here)
            for phi in loop.phis:
                slots[phi] = here[phi]
            for stack, parts in zip(loop.stacks, left, strict=True):
                parts.append(here[stack.out])
        for stack, parts in zip(loop.stacks, left, strict=True):
            slots[stack.out] = da.concatenate(parts[::order], axis=-1 if stack.flip else -2)


def _stepped(loop: Repeat, body: list[Step], read: Sequence[int], slots: list[Any]) -> None:
    """A loop that reads all data in every step; what it carries is computed after each."""
    stay = [
        slot for slot in read if isinstance(slots[slot], da.Array) and _in_one_piece(slots[slot])
    ]
    for slot, value in zip(stay, dask.persist(*(slots[slot] for slot in stay)), strict=True):
        slots[slot] = value

    def stacked(rows: Sequence[Any], flip: bool) -> Any:
        matrix = _joined(rows, -2)
        return matrix.swapaxes(-1, -2) if flip else matrix

    repeated(stacked, loop, body, slots, lambda values: dask.persist(*values))


def _piece(
    piece: Code, arithmetic: Floats, shapes: Sequence[tuple[int, ...]], *arrays: Array
) -> tuple[Array, ...]:
    """What a task does: code in numpy, each of its outputs in the shape that was announced."""
    outs = _guarded(lambda given: Bound(piece, arithmetic).run(given))(
        dict(zip(piece.sources, arrays, strict=True))
    )
    return tuple(np.broadcast_to(x, shape) for x, shape in zip(outs, shapes, strict=True))


def _guarded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function whose domain errors are told in words."""

    def apply(x: Any) -> Any:
        try:
            return function(x)
        except OutOfDomain as left:
            raise refusal(left, []) from None

    return apply


# -- what a loop reads and makes ------------------------------------------------------------------
def _walks(loop: Repeat, rows: set[int], slots: Sequence[Any]) -> bool:
    """Whether a loop picks the rows of some slots one after another and reads them no other way."""
    counters = {counter.slot for counter in loop.counters}
    directions = {counter.backward for counter in loop.counters}
    directions |= {stack.backward for stack in loop.stacks}
    for line in loop.body:
        used = set(line.reads) if isinstance(line, Repeat) else {line.a, line.b}
        picks = isinstance(line, Line) and line.op == "pick" and line.b in counters
        if not picks and used & rows:
            return False
    return len(directions) == 1 and all(slots[slot].shape[-2] == loop.times for slot in rows)


def _shapes(loop: Repeat, slots: Sequence[Any]) -> list[tuple[int, int]]:
    """Rows and columns of what a loop leaves: what it carries, and its stacks."""
    carried = [tuple(slots[slot].shape[-2:]) for slot in loop.inits]
    widths = {line.out: line.cols for line in loop.body if isinstance(line, Line)}
    for phi, shape in zip(loop.phis, carried, strict=True):
        widths.setdefault(phi, shape[1])
    stacked = []
    for stack in loop.stacks:
        width = widths[stack.slot] if stack.slot in widths else slots[stack.slot].shape[-1]
        height = loop.times * stack.height
        stacked.append((width, height) if stack.flip else (height, width))
    return carried + stacked


# -- lines over dask arrays -----------------------------------------------------------------------
def _product(a: Any, b: Any) -> Any:
    return da.matmul(a, b) if isinstance(a, da.Array) or isinstance(b, da.Array) else a @ b


def _joined(arrays: Sequence[Any], axis: int) -> Any:
    lazy = any(isinstance(x, da.Array) for x in arrays)
    xp = da if lazy else np
    return xp.concatenate(batched(xp.broadcast_to, arrays), axis=axis)


def _diagonal(x: Any, _: Any) -> Any:
    return (da if isinstance(x, da.Array) else np).diagonal(x, axis1=-2, axis2=-1)[..., None]


OURS: dict[str, Any] = {
    "matmul": _product,
    "flip": lambda x, _: x.swapaxes(-1, -2),
    "concat": _joined,
    "diagonal": _diagonal,
    "pointwise": lambda x, function: _mapped(function, x),
}
"""The operations that dask arrays have no operator for."""


def _fixed(kind: str, content: Any, arithmetic: Floats) -> Any:
    if kind == "function":
        function, rows, cols = content
        return _guarded(applied(function, rows, cols, arithmetic))
    if kind == "const" and content.rows * content.cols > LARGEST:
        if isinstance(content, Ones):
            return da.ones(content.shape, dtype=arithmetic.dtype, chunks=-1)
        if content == zeros(*content.shape):
            return da.zeros(content.shape, dtype=arithmetic.dtype, chunks=-1)
        raise InputError(
            f"this network computes with {content!r}, which has to be written out and is too large "
            "for one machine; no dask array can help with that"
        )
    return fixed(kind, content, arithmetic)
