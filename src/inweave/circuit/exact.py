"""What a layer reads and writes, column by column, and computes with that, in a finite field.

A projection is held as the columns that it reads and the matrix between them and the columns that
matter: as few as a query and a key need to meet, those of a value that are not zero. So a head
costs what its product costs, however it is written, and what it reads is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from inweave.circuit.unrolled import Executed
from inweave.errors import InputError
from inweave.exact.field import Field, FieldArray
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.model.dense import applied
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.layout import Layout

Columns = npt.NDArray[np.intp]
Parts = tuple[FieldArray, ...]


@dataclass(frozen=True)
class Reading:
    """`H W + B`, of the columns that it reads."""

    columns: Columns
    W: FieldArray
    B: FieldArray

    def of(self, H: FieldArray) -> FieldArray:
        return self.linear(H) + self.B

    def linear(self, H: FieldArray) -> FieldArray:
        """The image of a difference of states."""
        return H[..., self.columns] @ self.W


class ExactHead:
    """`Q Kᵀ V`."""

    def __init__(self, head: Head, layout: Layout, arithmetic: FieldArithmetic) -> None:
        both = [
            arithmetic.concat([p.weight(layout, arithmetic), p.bias(layout, arithmetic)], -2)
            for p in head.projections
        ]
        query, key = fewest(*both[:2])
        key, query = fewest(key, query)
        written = np.flatnonzero((both[2].values != 0).any(0))
        self.writes: Columns = written if query.shape[1] else written[:0]
        parts = (query, key, both[2][:, self.writes])
        self.projections = [_reading(part, layout.width) for part in parts]

    @cached_property
    def reads(self) -> dict[str, Columns]:
        """The columns read, by letter."""
        return {x: p.columns for x, p in zip("qkv", self.projections, strict=True)}

    def parts(self, H: FieldArray) -> Parts:
        """What each way in makes of a state."""
        return tuple(p.of(H) for p in self.projections)

    def moved(self, parts: Parts, letter: str, change: FieldArray) -> Parts:
        """The parts if the state were another, through one way in only."""
        at = "qkv".index(letter)
        new = parts[at] + self.projections[at].linear(change)
        return (*parts[:at], new, *parts[at + 1 :])

    def output(self, parts: Parts) -> FieldArray:
        """What is written, (..., tokens, columns written)."""
        q, k, v = parts
        return q @ (k.mT @ v)


def _reading(part: FieldArray, width: int) -> Reading:
    """A projection from its weight and, below, its bias."""
    W, B = part[:width], part[width:]
    columns = np.flatnonzero((W.values != 0).any(1))
    return Reading(columns, W[columns], B)


def fewest(left: FieldArray, right: FieldArray) -> tuple[FieldArray, FieldArray]:
    """`L` and `R` with the same product `L Rᵀ`, of as few columns as `left` has rank.

    If `left = left[:, some] E` for its independent columns, `R` is `right Eᵀ`: columns between a
    query and a key may be mixed at will, and are unmixed here.
    """
    some, echelon = _echelon(left)
    return left[:, some], right @ echelon.mT


def _echelon(x: FieldArray) -> tuple[Columns, FieldArray]:
    """The columns in which rows begin, and the rows, of the reduced echelon form."""
    p, rows, begin = x.field.prime, x.values.copy(), list[int]()
    for column in range(rows.shape[1]):
        at = len(begin)
        candidates = np.flatnonzero(rows[at:, column])
        if not len(candidates):
            continue
        pivot = at + int(candidates[0])
        rows[[at, pivot]] = rows[[pivot, at]]
        rows[at] = rows[at] * pow(int(rows[at, column]), -1, p) % p
        factors = rows[:, column].copy()
        factors[at] = 0
        rows = (rows - factors[:, None] * rows[at] % p) % p
        begin.append(column)
    return np.array(begin, dtype=np.intp), FieldArray(x.field, rows[: len(begin)])


class ExactFunctions:
    """A pointwise layer: what it changes. A function is one that tells all arguments apart."""

    def __init__(self, layer: BlockPointwiseLayer, layout: Layout, field: Field, key: int) -> None:
        self.layer, self.layout, self.field, self.key = layer, layout, field, key
        regions = [place.region(layout)[1] for place, _ in layer.applied]
        every = sorted({c for columns in regions for c in range(columns.start, columns.stop)})
        self.writes: Columns = np.array(every, dtype=np.intp)

    @property
    def reads(self) -> dict[str, Columns]:
        return {"": self.writes}

    def parts(self, H: FieldArray) -> Parts:
        return (H,)

    def moved(self, parts: Parts, letter: str, change: FieldArray) -> Parts:
        return (parts[0] + change,)

    def output(self, parts: Parts) -> FieldArray:
        arithmetic = FieldArithmetic(self.field, self.key, opaque=True)
        (H,) = parts
        change: FieldArray = applied(self.layer, H, self.layout, arithmetic) - H
        return change[..., self.writes]


Computed = ExactHead | ExactFunctions  # a node: what it reads through each way in, what it writes


def nodes_of(
    layers: tuple[Executed, ...], layout: Layout, field: Field, key: int = 0
) -> dict[str, Computed]:
    """Every node that computes, by name; a stored layer is written out once."""
    arithmetic, known = FieldArithmetic(field), dict[int, list[Computed]]()
    found: dict[str, Computed] = {}
    for done in layers:
        if done.stored not in known:
            known[done.stored] = list(_computed(done.layer, layout, arithmetic, key))
        found |= zip(done.nodes, known[done.stored], strict=True)
    return found


def _computed(
    layer: Layer, layout: Layout, arithmetic: FieldArithmetic, key: int
) -> Iterator[Computed]:
    if isinstance(layer, AttentionLayer):
        for head in layer.heads:
            yield ExactHead(head, layout, arithmetic)
    elif isinstance(layer, BlockPointwiseLayer):
        yield ExactFunctions(layer, layout, arithmetic.field, key)
    else:
        raise InputError(
            "a circuit is that of attention and of functions that are held as such; this network "
            f"has a dense layer, {layer!r}, of which a field knows nothing"
        )


def put(H: FieldArray, columns: Columns, part: FieldArray) -> FieldArray:
    """A state to which something is added in some columns."""
    values: Any = H.values.copy()
    values[..., columns] = (H[..., columns] + part).values
    return FieldArray(H.field, values)
