"""Loops in jax: staged once, never unrolled. And domains: NaN where one was left.

The code of a plan is traced by `jax.jit`, so it can be differentiated, vectorised and compiled,
alone or inside the caller's own transformations. A repeated module becomes one `lax.scan`, which
jax can also differentiate backwards.

Compiled code cannot raise, so a function that meets a value outside its domain gives NaN, which
every answer that depends on it becomes too, for the problems of a batch that are concerned. Called
with values and not inside a transformation, `net(...)` sees the NaN and says where it came from.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from inweave.model.inputs import is_concrete
from inweave.model.relunet import Function
from inweave.run.domains import guard, nan_outside
from inweave.run.lines.code import Repeat, batch_axes

SMALL = 7  # columns, of matrices whose products are written out


def staged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled."""
    import jax

    return jax.jit(function)


def guarded(function: Function, apply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, NaN where a problem has any entry outside the domain."""
    import jax.numpy as jnp

    def checked(x: Any) -> Any:
        if is_concrete(x):  # followed line by line, to find out where
            guard(function, x, jnp)
            return apply(x)
        return nan_outside(function, apply, x, jnp)

    return checked


def loop(loop: Repeat, body: Sequence[Callable[[list[Any]], None]]) -> Callable[[list[Any]], None]:
    """A loop as a step over slots."""
    import jax
    import jax.numpy as jnp

    def step(slots: list[Any]) -> None:
        def once(carried: Sequence[Any], i: Any) -> tuple[list[Any], list[Any]]:
            inside = slots.copy()
            for counter in loop.counters:
                inside[counter.slot] = loop.rows(counter, i)
            for phi, value in zip(loop.phis, carried, strict=True):
                inside[phi] = value
            for part in body:
                part(inside)
            shapes = [value.shape for value in carried]
            nexts = [inside[slot] for slot in loop.nexts]
            after = [jnp.broadcast_to(x, s) for x, s in zip(nexts, shapes, strict=True)]
            return after, [inside[stack.slot] for stack in loop.stacks]

        leads = {
            slot: tuple(value.shape[:-2])
            for slot, value in enumerate(slots)
            if hasattr(value, "shape") and len(value.shape) > 2
        }
        batch_axes([loop], leads)
        inits = [slots[slot] for slot in loop.inits]
        carried = [
            jnp.broadcast_to(x, (*leads[phi], *x.shape[-2:]))
            for phi, x in zip(loop.phis, inits, strict=True)
        ]
        carried, left = jax.lax.scan(once, carried, jnp.arange(loop.times))
        for phi, value in zip(loop.phis, carried, strict=True):
            slots[phi] = value
        for stack, rows in zip(loop.stacks, left, strict=True):
            blocks = jnp.moveaxis(rows[::-1] if stack.backward else rows, 0, -3)
            *lead, count, height, cols = blocks.shape
            matrix = blocks.reshape(*lead, count * height, cols)
            slots[stack.out] = matrix.mT if stack.flip else matrix

    return step


def matmul(a: Any, b: Any) -> Any:
    """A product; over few columns as a sum of outer products, which joins the loop around it.

    On a processor, XLA calls a routine for a product instead, and for every product of a batch: 4 x
    4, three and ten times as long. A matrix that the whole batch shares multiplies all vectors at
    once.
    """
    if a.ndim == 2 and b.ndim > 2 and b.shape[-1] == 1:
        return (b[..., 0] @ a.mT)[..., None]
    if a.shape[-1] > SMALL or b.shape[-1] == 1:
        return a @ b
    columns = (a[..., :, k, None] * b[..., None, k, :] for k in range(a.shape[-1]))
    return reduce(operator.add, columns)


def pick(x: Any, rows: tuple[Any, int]) -> Any:
    """Rows of a matrix, the number of whose first is not known while jax traces."""
    import jax

    return jax.lax.dynamic_slice_in_dim(x, *rows, axis=-2)
