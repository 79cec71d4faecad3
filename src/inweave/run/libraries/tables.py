"""Tables looked up without a search.

A table is a line between two neighbouring knots. Finding the two by bisection takes log(knots)
steps, which no processor foresees: fifty nanoseconds a number. A `Guide` counts cells instead. It
is an increasing map to whole numbers under which no two knots are in one cell, so that the number
of a cell says which knot is the last before it, and one comparison with the next knot the rest.
Cells are even, or as fine near zero as the knots of a reciprocal are: the leading bits of a float
count octaves and even parts of each.

What is found is the very line that bisection finds: of two numbers in different cells the one in
the higher cell is larger, since rounding too keeps the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.model.relunet import Function
from inweave.run.libraries.compiled import interp

MOST_CELLS = 1 << 16
FEW = 1 << 10  # numbers up to which numpy's own bisection is as quick
CHUNK = 1 << 14  # numbers at a time, that a cache holds with what is looked up for them


@dataclass(frozen=True)
class Even:
    """Cells of one width."""

    low: float
    scale: float

    def cells(self, x: Array, whole: Callable[[Array], Array], _: Any) -> Array:
        """The cell of every number; `whole` cuts off what follows the point."""
        return whole((x - self.low) * self.scale)

    @classmethod
    def of(cls, knots: Array) -> Even:
        return cls(float(knots[0]), float((1 + 2.0**-20) / np.min(np.diff(knots))))


@dataclass(frozen=True)
class Octaves:
    """Cells that are an even part of an octave, for positive numbers."""

    first: int
    shift: int

    def cells(self, x: Array, _: Any, bits: Callable[[Array], Array]) -> Array:
        """The cell of every number; `bits` reads floats as whole numbers, in the same order."""
        return (bits(x) >> self.shift) - self.first

    @classmethod
    def of(cls, knots: Array) -> Octaves:
        places = knots.view(f"i{knots.itemsize}")
        shift = max(int(np.min(np.diff(places))).bit_length() - 1, 0)
        return cls(int(places[0]) >> shift, shift)


Guide = Even | Octaves


@dataclass(frozen=True, eq=False)
class Table:
    """A piecewise linear function, flat outside its knots."""

    knots: Array
    values: Array

    @classmethod
    def of(cls, function: Function) -> Table:
        """The table that a net with a domain is: units that grow to the right add up from the left,
        the others from the right, so that no more cancels than in the net."""
        net, ends = function.net, function.domain or ()
        w, b, v = (np.array(numbers) for numbers in (net.weights, net.biases, net.outputs))
        bent = w != 0
        kinks = -b[bent] / w[bent]
        knots, at = np.unique(np.concatenate([ends, kinks]), return_inverse=True)
        slopes = np.zeros((2, len(knots)))
        np.add.at(slopes, ((w[bent] < 0).astype(int), at[len(ends) :]), (v * w)[bent])
        widths, level = np.diff(knots), net.constant + float(np.maximum(b, 0)[~bent] @ v[~bent])
        rises = np.cumsum(slopes[0])[:-1] * widths
        falls = -np.cumsum(slopes[1, ::-1])[::-1][1:] * widths
        values = np.full(len(knots), level)
        values[1:] += np.cumsum(rises)
        values[:-1] += np.cumsum(falls[::-1])[::-1]
        return cls(knots, values)

    @cached_property
    def slopes(self) -> Array:
        """The slope after every knot."""
        with np.errstate(all="ignore"):
            return np.append(np.diff(self.values) / np.diff(self.knots), self.values[:1] * 0)

    @cached_property
    def ends(self) -> Array:
        """The knot after every knot; there is none after the last."""
        return np.append(self.knots[1:], self.knots[:1] + np.inf)

    @cached_property
    def guide(self) -> tuple[Guide, Array] | None:
        """A guide with few cells, and the last knot before each cell; None if there is none."""
        if not (len(self.knots) > 1 and np.isfinite(self.slopes).all()):
            return None
        found: list[tuple[Guide, Array]] = []
        with np.errstate(all="ignore"):
            kinds = (Even, Octaves) if self.knots[0] > 0 else (Even,)
            for guide in (kind.of(self.knots) for kind in kinds):
                at = guide.cells(self.knots, _whole, _bits)
                if at[0] == 0 and at[-1] < MOST_CELLS and np.all(np.diff(at) > 0):
                    found.append((guide, at))
        if not found:
            return None
        guide, at = min(found, key=lambda one: int(one[1][-1]))
        before = np.searchsorted(at, np.arange(at[-1] + 1)) - 1
        return guide, np.maximum(before, 0)

    def rounded(self, dtype: Any) -> Table:
        """The same in another float type; knots that become one are no two knots."""
        knots, first = np.unique(self.knots.astype(dtype), return_index=True)
        return Table(knots, self.values[first].astype(dtype))


def _whole(x: Array) -> Array:
    return x.astype(np.int64)


def _bits(x: Array) -> Array:
    return x.view(f"i{x.itemsize}")


def in_numpy(table: Table) -> Callable[[Array, Array], None]:
    """What computes a table of one array into another one of its shape."""
    knots, values, slopes, ends = table.knots, table.values, table.slopes, table.ends
    low, high, found = knots[0], knots[-1], table.guide

    def searched(x: Array, out: Array) -> None:
        out[...] = interp(x, knots, values)

    if found is None:
        return searched
    guide, before = found

    def look_up(x: Array) -> Array:
        x = np.minimum(np.maximum(x, low), high)
        at = before.take(guide.cells(x, _whole, _bits), mode="clip")
        at += x >= ends.take(at)
        x -= knots.take(at)
        x *= slopes.take(at)
        x += values.take(at)
        return x

    def into(x: Array, out: Array) -> None:
        if x.size <= FEW:
            searched(x, out)
            return
        given, whole = x.ravel(), out.flags.c_contiguous
        flat = out.reshape(-1) if whole else np.empty(out.size, out.dtype)
        with np.errstate(invalid="ignore"):  # NaN is in any cell, and stays what it is
            for start in range(0, x.size, CHUNK):
                piece = given[start : start + CHUNK]
                flat[start : start + CHUNK] = look_up(piece.astype(np.float64, copy=False))
        if not whole:
            out[...] = flat.reshape(out.shape)

    return into


def in_jax(table: Table, floats: Arithmetic) -> Callable[[Array], Array]:
    """What computes a table of an array, and can be differentiated."""
    import jax
    import jax.numpy as jnp

    table = table.rounded(floats.dtype)
    low, high = table.knots[0], table.knots[-1]
    lists = (table.knots, table.values, table.slopes, table.ends)
    knots, values, slopes, ends = (floats.array(numbers) for numbers in lists)
    integer = jnp.dtype(f"i{table.knots.itemsize}")
    guide, before = table.guide or (None, np.zeros(1, int))
    last = jnp.asarray(before, jnp.int32)

    def take(numbers: Array, at: Array) -> Array:
        return numbers.at[at].get(mode="clip")

    def found(x: Array) -> Array:
        """The last knot that is not after a number."""
        if guide is None:
            return jnp.searchsorted(knots, x, side="right") - 1
        cells = guide.cells(
            x,
            lambda x: x.astype(jnp.int32),
            lambda x: jax.lax.bitcast_convert_type(x, integer),
        )
        at = take(last, cells)
        return at + (x >= take(ends, at))

    def apply(x: Array) -> Array:
        x = jnp.where(x < low, low, jnp.where(x > high, high, x))
        at = found(jax.lax.stop_gradient(x))
        return take(values, at) + take(slopes, at) * (x - take(knots, at))

    return apply
