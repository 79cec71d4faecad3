"""Loops in numpy without allocating: every line writes into an array of its own.

The arrays are made once per loop, so that a step of the loop is a list of ready calls such as
`G.dot(w, out)`, with no slicing, no lookup and no memory management between them. Carried values
live in two arrays each; even steps read the first and write the second, odd steps the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from inweave.exact.constants import Array
from inweave.run.code import Lead, Line, Repeat, Stack, batch_axes, broadcast

Call = Callable[[], Any]
FEWEST = 4  # repetitions below which preparing the calls does not pay


def can_run(loop: Repeat) -> bool:
    """Whether a loop is long enough and has no other one inside."""
    return loop.times >= FEWEST and all(isinstance(line, Line) for line in loop.body)


def matmul(a: Array, b: Array) -> Array:
    """`a @ b`; a matrix that the whole batch shares multiplies all vectors at once."""
    if a.ndim == 2 and b.ndim > 2 and b.shape[-1] == 1:
        return (b[..., 0] @ a.T)[..., None]
    if b.ndim == 2 and a.ndim > 2 and a.shape[-2] == 1:
        return (a[..., 0, :] @ b)[..., None, :]
    return a @ b


def run(loop: Repeat, slots: list[Any], batched: bool) -> None:
    """Run a loop from its inits; the carried values are in the slots of its phis afterwards."""
    leads: dict[int, Lead] = {}
    if batched:
        for slot, array in enumerate(slots):
            if isinstance(array, np.ndarray) and array.ndim > 2:
                leads[slot] = array.shape[:-2]
        batch_axes([loop], leads)
    front = []
    for phi, init in zip(loop.phis, loop.inits, strict=True):
        start = slots[init]
        array = np.empty((*leads.get(phi, ()), *start.shape[-2:]), dtype=start.dtype)
        array[...] = start
        front.append(array)
    back = [np.empty_like(array) for array in front]
    arrays: dict[int, Array] = {}
    stacks: dict[Stack, Array] = {}
    forth = _calls(loop, slots, front, back, arrays, stacks, leads, 0)
    home = _calls(loop, slots, back, front, arrays, stacks, leads, 1)
    pairs, odd = divmod(loop.times, 2)
    both = forth + home
    for _ in range(pairs):
        for call in both:
            call()
    if odd:
        for call in forth:
            call()
    for phi, array in zip(loop.phis, back if odd else front, strict=True):
        slots[phi] = array
    for stack, array in stacks.items():
        slots[stack.out] = array.mT if stack.flip else array


def _calls(
    loop: Repeat,
    slots: list[Any],
    read: Sequence[Array],
    write: Sequence[Array],
    arrays: dict[int, Array],
    stacks: dict[Stack, Array],
    leads: dict[int, Lead],
    first: int,
) -> list[Call]:
    """Every second step, from the `first` on, each reading one set of arrays and writing the other.

    `arrays` are those for the values in between, by line, and `stacks` what steps leave; both
    directions use the same ones.
    """
    values = slots.copy()
    for phi, array in zip(loop.phis, read, strict=True):
        values[phi] = array
    for counter in loop.counters:
        values[counter.slot] = [loop.row(counter, i) for i in range(first, loop.times, 2)]
    targets: dict[int, Array] = {}
    for slot, array in zip(loop.nexts, write, strict=True):
        targets.setdefault(loop.last[slot], array)
    calls: list[Call] = []
    for i, (op, a, b, out, rows, cols) in enumerate(loop.body):  # type: ignore[misc]
        x, y = values[a], values[b]
        moved = MOVES.get(op)
        if moved is not None:
            values[out] = moved(x, y)
            continue
        lead: Lead = ()
        if op == "concat":
            lead = broadcast(*(part.shape[:-2] for part in x))
            x = tuple(np.broadcast_to(part, (*lead, *part.shape[-2:])) for part in x)
            dtype = x[0].dtype
        else:
            dtype = x.dtype
            if x.ndim > 2 or (isinstance(y, np.ndarray) and y.ndim > 2):
                lead = broadcast(x.shape[:-2], y.shape[:-2] if isinstance(y, np.ndarray) else ())
        into = targets.get(i)
        if into is None or into.shape[:-2] != lead:
            into = arrays.get(i)
            if into is None:
                into = arrays[i] = np.empty((*lead, rows, cols), dtype)
        calls.append(INTO[op](x, y, into))
        values[out] = into
    for slot, array in zip(loop.nexts, write, strict=True):
        if values[slot] is not array:
            calls.append(partial(np.copyto, array, values[slot]))
    for stack in loop.stacks:
        row = values[stack.slot]
        if stack not in stacks:
            shape = (*leads.get(stack.out, ()), loop.times, row.shape[-1])
            stacks[stack] = np.empty(shape, row.dtype)
        places = [loop.row(stack, i) for i in range(first, loop.times, 2)]
        calls.append(_each(_rows(stacks[stack], places), row))
    return calls


def _rows(x: Array, rows: Sequence[int]) -> Iterator[Array]:
    return iter([x[..., i : i + 1, :] for i in rows])


def _each(into: Iterator[Array], row: Array) -> Call:
    return lambda: np.copyto(next(into), row)


def _picked_into(x: Array, rows: Sequence[int], out: Array) -> Call:
    picked = _rows(x, rows)
    return lambda: np.copyto(out, next(picked))


def _applied_into(x: Array, function: Callable[[Array], Array], out: Array) -> Call:
    return lambda: np.copyto(out, function(x))


def _product_into(a: Array, b: Array, out: Array) -> Call:
    if a.ndim == b.ndim == 2:
        return partial(a.dot, b, out)
    if a.ndim == 2 and b.shape[-1] == 1:
        return partial(np.matmul, b[..., 0], a.T, out[..., 0])
    if b.ndim == 2 and a.shape[-2] == 1:
        return partial(np.matmul, a[..., 0, :], b, out[..., 0, :])
    return partial(np.matmul, a, b, out)


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "getitem": lambda x, index: x[index],
    "flip": lambda x, _: x.mT,
    "diagonal": lambda x, _: np.linalg.diagonal(x)[..., None],
    "one": lambda x, _: (x,),
    "more": lambda held, x: (*held, x),
}
"""Lines that need no call in each step: views of arrays that stay where they are."""


def _multiply_into(a: Array, b: Array | float, out: Array) -> Call:
    """numpy multiplies by an array without axes in a third of the time that (1, 1) takes."""
    if not isinstance(b, np.ndarray):
        b = np.array(b, dtype=out.dtype)
    elif a.shape == (1, 1) and out.size > 1:
        a = a[0, 0, ...]
    return partial(np.multiply, a, b, out)


INTO: dict[str, Callable[[Any, Any, Array], Call]] = {
    "matmul": _product_into,
    "mul": _multiply_into,
    "add": partial(partial, np.add),
    "sub": partial(partial, np.subtract),
    "concat": partial(partial, np.concatenate),
    "pick": _picked_into,
    "pointwise": _applied_into,
}
"""The call that computes a line into an array."""
