"""Pass: fewer heads. Heads that share two of their three parts become one, linear updates another.

`Q Kᵀ V + Q Kᵀ V' = Q Kᵀ (V + V')`, and likewise for the other two parts. All linear updates of a
layer together are one head, `(I, I, H W)` or `(H W, I, I)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from inweave.compiler.forms import ONE
from inweave.compiler.layers import (
    Allocation,
    HeadSpec,
    Item,
    Key,
    LayerSpec,
    Placed,
    Read,
    rewritten,
)
from inweave.compiler.options import Options
from inweave.compiler.units import READ
from inweave.exact.constants import Constant, identity, is_zero, log2, product, select

COUNT = 1 << 24  # that a size of a program is below


def merge(allocation: Allocation, _: Options) -> Allocation:
    def each(layer: LayerSpec) -> LayerSpec:
        heads = (*merged(layer.heads), *_linear(layer, allocation))
        return LayerSpec(heads, (), layer.pointwise)

    return replace(allocation, parts=rewritten(allocation.parts, each))


def collect(items: Read) -> Read:
    """A read with equal summands added up, in a fixed order, without those that are zero."""
    total: dict[Item, Fraction] = {}
    for item in items:
        if is_zero(item.constant):
            continue
        unit = Item(ONE, item.key, item.constant, item.diagonal)
        total[unit] = total.get(unit, Fraction(0)) + item.coefficient
    return tuple(unit.scaled(c) for unit, c in total.items() if c)


def added(values: tuple[Placed, ...]) -> tuple[Placed, ...]:
    """Values with equal summands of one destination added up: as a set they must be all there is.

    Heads are compared by sets of summands, and a set forgets that one stands in it twice.
    """
    reads: dict[Key, list[Item]] = {}
    for dest, item in values:
        reads.setdefault(dest, []).append(item)
    return tuple((dest, item) for dest, read in reads.items() for item in collect(tuple(read)))


def merged(heads: Sequence[HeadSpec]) -> list[HeadSpec]:
    """Heads with the same sum, none of which share two of query, key and values."""
    out = [head for head in map(_scaled, heads) if head.values]
    before = None
    while len(out) != before:
        before = len(out)
        for apart in (2, 0, 1):
            groups: dict[tuple[frozenset[object], ...], list[HeadSpec]] = {}
            for head in out:
                parts = [frozenset[object](part) for part in (head.query, head.key, head.values)]
                del parts[apart]
                groups.setdefault(tuple(parts), []).append(head)
            out = [_joined(group, apart) for group in groups.values()]
    return out


def _scaled(head: HeadSpec) -> HeadSpec:
    """The head with all coefficients but those within a sum moved to its values.

    Far from one, only what is within a power of two: the rest keeps a factor in range.
    """
    query, key, values = collect(head.query), collect(head.key), added(head.values)
    if not (query and key and values):
        return HeadSpec((), (), ())
    a, b = (_moderate(_common(read)) for read in (query, key))
    return HeadSpec(
        tuple(item.scaled(1 / a) for item in query),
        tuple(item.scaled(1 / b) for item in key),
        tuple((dest, item.scaled(a * b)) for dest, item in values),
    )


def _common(read: Read) -> Fraction:
    """The first coefficient without which the others are numbers that a program may have.

    Those are binary, but for a count by which a sum is divided: in `x - sum(x) / n`, x stays as it
    is, or what is common to it and its mean would be lost in the roundings of n x.
    """
    found = [item.coefficient for item in read]
    return min(found, key=lambda c: sum(_is_long((other / c).denominator) for other in found))


def _is_long(number: int) -> bool:
    """Whether a number is more than a count of powers of two."""
    return number // (number & -number) > COUNT


def _moderate(c: Fraction) -> Fraction:
    """A coefficient less the power of two that is its size, if that is far from one."""
    size = log2(c)
    return c if abs(size) <= READ else c / Fraction(2) ** round(size)


def _joined(heads: Sequence[HeadSpec], apart: int) -> HeadSpec:
    """One head for several that differ in one part at most."""
    head = heads[0]
    if len(heads) == 1:
        return head
    if apart == 2:
        return replace(head, values=added(tuple(x for h in heads for x in h.values)))
    if apart == 0:
        return replace(head, query=collect(tuple(x for h in heads for x in h.query)))
    return replace(head, key=collect(tuple(x for h in heads for x in h.key)))


def _linear(layer: LayerSpec, allocation: Allocation) -> list[HeadSpec]:
    """All linear updates as one head, (I, I, H W) or (H W, I, I), whichever is narrower."""
    updates: dict[Key, Read] = {}
    first: dict[str, Key] = {}  # the values that share a block over time share its updates
    for spec in layer.linear:
        dest = first.setdefault(allocation.where[spec.dest], spec.dest)
        updates[dest] = collect((*updates.get(dest, ()), *spec.read))
    updates = {dest: read for dest, read in updates.items() if read}
    if not updates:
        return []
    rows = max(allocation.slot(dest).rows for dest in updates)
    cols = sum(allocation.slot(dest).cols for dest in updates)
    if cols > rows:
        eye = (Item(ONE, None, identity(rows)),)
        put = tuple((dest, item) for dest, read in updates.items() for item in read)
        return [HeadSpec(eye, eye, put)]
    query, values, at = list[Item](), list[Placed](), 0
    for dest, read in updates.items():
        width = allocation.slot(dest).cols
        move = select(cols, at, at + width)
        query += [_moved(item, move.T) for item in read]
        values.append((dest, Item(ONE, None, move)))
        at += width
    return [HeadSpec(tuple(query), (Item(ONE, None, identity(cols)),), tuple(values))]


def _moved(item: Item, move: Constant) -> Item:
    """An item whose columns go where `move` (cols x total) puts them."""
    c, both = (ONE, move) if item.constant is None else product(item.constant, move)
    return Item(item.coefficient * c, item.key, both, item.diagonal)
