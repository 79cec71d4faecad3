"""Loops in numpy without allocating: every line writes into an array of its own.

The arrays are made once per loop, so that a step of the loop is a list of ready calls such as
`G.dot(w, out)`, with no slicing, no lookup and no memory management between them. Carried values
live in two arrays each; even steps read the first and write the second, odd steps the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.constants import Array
from weft.run.lower import Line, Loop

Call = Callable[[], Any]
UFUNCS = {"mul": np.multiply, "add": np.add, "sub": np.subtract}
FEWEST = 4  # repetitions below which preparing the calls does not pay


def can_run(loop: Loop) -> bool:
    """Whether a loop is long enough and made only of lines that can write into an array."""
    return loop.repeat >= FEWEST and all(
        isinstance(line, Line) and line.op != "pointwise" for line in loop.body
    )


def product(a: Array, b: Array) -> Array:
    """`a @ b`; a matrix that the whole batch shares multiplies all vectors at once."""
    if a.ndim == 2 and b.ndim > 2 and b.shape[-1] == 1:
        return (b[..., 0] @ a.T)[..., None]
    if b.ndim == 2 and a.ndim > 2 and a.shape[-2] == 1:
        return (a[..., 0, :] @ b)[..., None, :]
    return a @ b


def run(loop: Loop, slots: list[Any]) -> None:
    """Run a loop from its inits; the carried values are in the slots of its phis afterwards."""
    from weft.run.execute import spread

    leads = {
        slot: array.shape[:-2] for slot, array in enumerate(slots) if isinstance(array, np.ndarray)
    }
    spread([loop], leads)
    front = []
    for phi, init in zip(loop.phis, loop.inits, strict=True):
        array = np.empty((*leads[phi], *slots[init].shape[-2:]), dtype=slots[init].dtype)
        array[...] = slots[init]
        front.append(array)
    back = [np.empty_like(array) for array in front]
    steps = _Steps(loop, slots)
    forth, home = steps.calls(front, back), steps.calls(back, front)
    pairs, odd = divmod(loop.repeat, 2)
    both = forth + home
    for _ in range(pairs):
        for call in both:
            call()
    if odd:
        for call in forth:
            call()
    for phi, array in zip(loop.phis, back if odd else front, strict=True):
        slots[phi] = array


class _Steps:
    """Ready calls for the body of a loop; both directions share the arrays in between."""

    def __init__(self, loop: Loop, slots: list[Any]) -> None:
        self.loop, self.slots = loop, slots
        self.arrays: dict[int, Array] = {}
        defined = {line.out: i for i, line in enumerate(loop.body) if isinstance(line, Line)}
        self.last = [defined.get(slot, -1) for slot in loop.nexts]

    def calls(self, read: Sequence[Array], write: Sequence[Array]) -> list[Call]:
        """One step that reads the carried values from one set of arrays and writes the other."""
        values = self.slots.copy()
        for phi, array in zip(self.loop.phis, read, strict=True):
            values[phi] = array
        calls: list[Call] = []
        target: dict[int, Array] = {}
        for i, array in zip(self.last, write, strict=True):
            target.setdefault(i, array)
        for i, line in enumerate(self.loop.body):
            assert isinstance(line, Line)
            values[line.out] = self._line(i, line, values, target.get(i), calls)
        for slot, array in zip(self.loop.nexts, write, strict=True):
            if values[slot] is not array:
                calls.append(partial(np.copyto, array, values[slot]))
        return calls

    def _line(
        self, i: int, line: Line, values: list[Any], target: Array | None, calls: list[Call]
    ) -> Any:
        """The value of a line, or the array that will hold it once its calls have run."""
        a, b = values[line.a], values[line.b]
        if line.op == "getitem":
            return a[b]
        if line.op == "flip":
            return a.mT
        if line.op == "one":
            return (a,)
        if line.op == "more":
            return (*a, b)
        if line.op == "concat":
            lead = np.broadcast_shapes(*(x.shape[:-2] for x in a))
            parts = tuple(np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in a)
            out = self._array(i, lead, line, parts[0].dtype, target)
            calls.append(partial(np.concatenate, parts, b, out))
            return out
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2] if np.ndim(b) else ())
        out = self._array(i, lead, line, a.dtype, target)
        if line.op == "matmul":
            calls.append(_product_into(a, b, out))
        else:
            calls.append(partial(UFUNCS[line.op], a, b, out))
        return out

    def _array(
        self, i: int, lead: tuple[int, ...], line: Line, dtype: Any, target: Array | None
    ) -> Array:
        if target is not None and target.shape[:-2] == lead:
            return target
        if i not in self.arrays:
            self.arrays[i] = np.empty((*lead, line.rows, line.cols), dtype)
        return self.arrays[i]


def _product_into(a: Array, b: Array, out: Array) -> Call:
    if a.ndim == b.ndim == 2:
        return partial(a.dot, b, out)
    if a.ndim == 2 and b.shape[-1] == 1:
        return partial(np.matmul, b[..., 0], a.T, out[..., 0])
    if b.ndim == 2 and a.shape[-2] == 1:
        return partial(np.matmul, a[..., 0, :], b, out[..., 0, :])
    return partial(np.matmul, a, b, out)
